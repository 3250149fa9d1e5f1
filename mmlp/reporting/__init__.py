"""One page about a model on its user's own rows."""

from mmlp.reporting.document import report

__all__ = ["report"]
