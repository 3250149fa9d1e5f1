"""What the values stand on: decompositions with derivative rules, and checks of arguments."""

from jaxlib import version

from mmlp._version import warn_if_it_can_hang

warn_if_it_can_hang(version.__version__)
