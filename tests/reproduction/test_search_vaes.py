"""The search for the settings of VAEs: what was tried is kept, the best by validation is chosen."""

import json
from pathlib import Path

import numpy as np
import pytest

from reproduction import frey
from reproduction.searches import vaes as search_vaes
from reproduction.vaes.recipes import TUNED


def entry(group, rate, *bounds, **changes):
    values = {"group": group, "model": "NfNf", "latent": 5, "seeds": 2, "samples": 20}
    values |= {
        "hidden": [4],
        "batch": 50,
        "epochs": 1,
        "optimizer": "muon",
        "decay": 0.0,
    }
    values |= {"rate": rate, "noise": 0.1, "noise_end": 0.0, "warm_up": 0.3}
    return values | changes | {"validation": list(bounds)}


def test_partial_searches_are_merged_and_the_best_by_validation_is_chosen(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(search_vaes.TUNED, "a", {"output": "linear", "rate": 1.0})

    def merged(known, tried):
        entries = search_vaes.merge_trials(known, tried)
        return entries, search_vaes.choose_best("a", entries, tried)

    first, best = merged([], [entry("a", 0.1, -60, -61), entry("a", 0.2, -58, -59)])
    assert best["rate"] == 0.2
    assert best["output"] == "linear"  # what is not searched stays
    search_vaes.write_trials(
        {"note": "n", "tried": first}, tmp_path / "search" / "vaes.json"
    )
    again = json.loads((tmp_path / "search" / "vaes.json").read_text())
    assert again == {"note": "n", "tried": first}
    other = [entry("a", 0.2, -62, -62), entry("a", 0.3, -50, -50, model="EfNf")]
    second, best = merged(first, other)
    assert [entry.get("run") for entry in second] == [None, None, 2, None]
    assert (
        best["rate"] == 0.2
    )  # -60.25 by both runs; another model's bounds do not count
    third, best = merged(second, [entry("a", 0.2, -63, -63), entry("a", 0.2, -62, -62)])
    assert third[-1]["run"] == 3
    assert len(third) == 5  # what is known already is no repetition
    assert best["rate"] == 0.1
    diverged, same = merged(third, 2 * [entry("a", 9.0, float("nan"), -50)])
    assert len(diverged) == 6
    assert same == best


def test_the_search_uses_splits_that_the_table_does_not():
    searched = range(
        search_vaes.FIRST_SEED, search_vaes.FIRST_SEED + search_vaes.Settings().seeds
    )
    assert not set(searched) & {
        seed for *_, seeds in frey.list_rows(frey.Settings()) for seed in seeds
    }
    with pytest.raises(ValueError, match=r"--groups.*got wide"):
        search_vaes.search(search_vaes.Settings(groups=("wide",)))


def test_what_was_tried_lies_with_the_results_and_not_in_the_package():
    root = Path(__file__).parents[2]
    assert root / "results" / "search" / "vaes.json" == search_vaes.OUT
    known = json.loads(search_vaes.OUT.read_text())
    assert set(known) == {"note", "tried"}
    assert (
        {entry["group"] for entry in known["tried"]}
        == set(search_vaes.GROUPS)
        <= set(TUNED)
    )


@pytest.mark.slow
def test_the_search_writes_what_it_tried_and_gives_the_best(tmp_path):
    options = {
        "groups": ("joint",),
        "optimizers": ("muon",),
        "decays": (0.0,),
        "noises": (0.1,),
    }
    options |= {
        "warm_ups": (0.05,),
        "seeds": 2,
        "epochs": 2,
        "samples": 20,
        "hidden": (4, 4),
    }
    out, before = tmp_path / "vaes.json", json.dumps(TUNED)
    small = search_vaes.Settings(
        images="digits", rates=(0.001, 0.01), out=out, jobs=1, **options
    )
    chosen = search_vaes.search(small)["joint"]
    known = json.loads(out.read_text())
    assert "test" not in out.read_text()
    assert len(known["tried"]) == 4
    best = max(known["tried"], key=lambda entry: np.mean(entry["validation"]))
    assert chosen["rate"] == best["rate"]
    assert chosen["hidden"] == [4, 4]
    assert json.dumps(TUNED) == before
