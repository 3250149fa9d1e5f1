"""Covariances of daily share returns, forecast: the experiment `shares`."""

from reproduction.shares.study import Settings, draw, run

__all__ = ["Settings", "draw", "run"]
