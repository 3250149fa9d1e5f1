import pytest

from mmlp.training import runs


@pytest.fixture
def each_epoch(monkeypatch):
    """A checkpoint after every epoch, however long writing takes."""
    monkeypatch.setattr(runs, "SHARE", 0)
