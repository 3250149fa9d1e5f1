"""Fixtures for the tests of pages."""

import pytest
from report_pages import PNG

from mmlp.reporting import figures


@pytest.fixture
def unpainted(monkeypatch):
    """Draw figures but do not paint them, which takes most of the time."""
    monkeypatch.setattr(figures, "render_png", lambda figure: PNG)
