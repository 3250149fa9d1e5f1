"""Pages: the report about a user's model, and the results of experiments."""

from mmlp.reporting.model_report import report

__all__ = ["report"]
