"""Decompositions with derivative rules, on which the SPD values are built."""

from jaxlib import version

from mmlp._version import warn_if_it_can_hang

warn_if_it_can_hang(version.__version__)
