import pytest

from mmlp.training import checkpoints


@pytest.fixture
def each_epoch(monkeypatch):
    """A checkpoint after every epoch, however long writing takes."""
    monkeypatch.setattr(checkpoints, "MAX_SHARE_OF_TIME", float("inf"))
