"""Tables as nobody would wish them: each gives a result, or one clear answer; nothing is lost."""

import warnings

import numpy as np
import pytest
from command import run as run_command
from hostile_tables import TABLES, outcomes


def cases():
    for name, hostile in TABLES.items():
        yield pytest.param(name, marks=[] if hostile.error else [pytest.mark.slow])


@pytest.mark.parametrize("name", list(cases()))
def test_a_hostile_table(name, tmp_path, capsys):
    def run(*words):
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            status, _, err = run_command(capsys, *map(str, words))
        return status, err

    status, said, mean = outcomes(tmp_path, name, run)
    hostile = TABLES[name]
    assert (hostile.error or hostile.said) in said
    assert "Traceback" not in said
    assert "`" not in said, "no names of Python"
    if hostile.error:
        assert (status, mean) == (1, None)
    else:
        assert status == 0
        assert np.isfinite(mean).all()
        assert len(mean) == hostile.text.count("\n") - 1
