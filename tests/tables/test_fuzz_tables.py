"""Random tables: results or clear answers, and equal rows give equal numbers from all sources."""

import fuzz_tables
import pytest


def test_random_tables_are_encoded_or_refused_alike_from_all_sources():
    result = fuzz_tables.run(n_tables=40, n_fits=0, seed=1)
    assert result["violations"] == []
    assert result["outcomes"]["table: encoded and predicted"] >= 10


@pytest.mark.slow
def test_many_random_tables_and_fits():
    result = fuzz_tables.run(n_tables=300, n_fits=3, seed=2)
    assert result["violations"] == []
    assert result["outcomes"]["fit: fitted"] >= 1
