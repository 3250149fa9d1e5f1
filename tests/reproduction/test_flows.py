"""The neural spline flow beside the VAEs: the same splits, raw units, chosen by validation."""

import dataclasses
import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from optax.contrib import muon

from reproduction import frey
from reproduction.searches import flows as search_flows
from reproduction.vaes import flows
from reproduction.vaes.flows import FlowRecipe

DATA = {"images": "digits", "components": 4, "train": 150, "validation": 50}
SETTINGS = frey.Settings(**DATA, seeds=2, epochs=2, hidden=(6, 6))
SMALL = FlowRecipe(transforms=2, width=6, epochs=2)


def test_without_flowjax_the_row_is_left_out_and_a_note_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "flowjax", None)
    assert not flows.is_available()
    assert frey.train_flow(SETTINGS) == {}
    (note,) = (line for line in frey.make_notes(SETTINGS, []) if flows.NAME in line)
    assert "left out" in note
    assert flows.INSTALL_COMMAND in note
    monkeypatch.setattr(flows, "is_available", lambda: True)
    assert f"{flows.N_TRIALS} settings" in frey.make_notes(SETTINGS, [])[-1]


def test_the_flow_is_the_one_that_validation_chose_on_splits_that_the_table_does_not_use():
    table = {seed for *_, seeds in frey.list_rows(frey.Settings()) for seed in seeds}
    assert not set(range(100, 110)) & table
    assert search_flows.FIRST_SEEDS[0] >= 100
    root = Path(__file__).parents[2]
    assert root / "results" / "search" / "flows.json" == search_flows.OUT
    tried = json.loads(search_flows.OUT.read_text())["tried"]
    counts = [entry["seeds"] for entry in tried]
    assert counts.count(3) == flows.N_TRIALS
    assert counts.count(6) >= search_flows.N_FINALISTS
    finals = [entry for entry in tried if entry["seeds"] == 6]
    assert flows.tuned_recipe() == search_flows.recipe_from_entry(
        max(finals, key=search_flows.mean_validation)
    )
    cells = [
        search_flows.list_recipes(search_flows.Settings(), *trial)
        for trial in search_flows.TRIALS
    ]
    assert sum(map(len, cells)) == flows.N_TRIALS


class Flat:
    """In place of a flow: its log-density is minus the mean of x squared."""

    def log_prob(self, x):
        return -jnp.mean(x**2, axis=1)


def test_noise_is_added_in_training_and_not_in_validation():
    x, noise = jnp.zeros((400, 50)), jnp.full(400, 2.0)
    for t, expected in ((0.0, 4.0), (0.9, 4.0), (1.0, 0.0)):
        value = flows.negative_log_density(
            Flat(), (x, noise), jax.random.key(0), jnp.array(t)
        )
        np.testing.assert_allclose(value, expected, rtol=0.03)


def test_a_flow_is_changed_and_has_an_optimizer_by_its_settings():
    assert SMALL.with_sizes(None, None) == SMALL
    changed = SMALL.with_sizes(7, (5, 5, 5))
    assert (changed.epochs, changed.width, changed.depth) == (7, 5, 3)
    for name in ("adam", "muon"):
        flow = dataclasses.replace(SMALL, optimizer=name)
        assert flow.make_optimizer(100) == flow.make_optimizer(99)  # as many batches
        assert flow.make_optimizer(100) != flow.make_optimizer(101)


def test_muon_treats_the_matrix_of_each_transform_by_itself():
    W, gradient = jax.random.normal(jax.random.key(0), (2, 3, 5, 4))

    def update(optimizer, params, gradient):
        return optimizer.update(
            {"W": gradient}, optimizer.init({"W": params}), {"W": params}
        )[0]

    ours = update(flows.stacked_muon(0.1, 10, 0.2), W, gradient)["W"]
    alone = muon(optax.cosine_decay_schedule(0.1, 10), weight_decay=0.2)
    for U, w, g in zip(ours, W, gradient, strict=True):
        np.testing.assert_allclose(
            U, update(alone, w.T, g.T)["W"].T, rtol=1e-4, atol=1e-6
        )


def test_a_flow_is_the_standard_normal_beyond_its_splines_and_trains_all_its_arrays():
    paramax = pytest.importorskip("paramax")
    flow = SMALL.make_flow(4, jax.random.key(0))

    def frozen(x):
        return isinstance(x, paramax.NonTrainable)

    assert not any(map(frozen, jax.tree.leaves(flow, is_leaf=frozen)))
    x = 100 * jnp.ones((1, 4))  # beyond the splines
    np.testing.assert_allclose(
        flow.log_prob(x), -0.5 * 4 * (1e4 + np.log(2 * np.pi)), rtol=1e-6
    )


@pytest.mark.slow
def test_flows_are_trained_together_as_alone_and_scored_in_raw_units(tmp_path):
    pytest.importorskip("flowjax")
    splits, other = (
        SETTINGS.make_splits(range(2)),
        dataclasses.replace(SMALL, rate=0.001, noise=0.2),
    )
    both, alone = (
        flows.fit_flows(cells, splits) for cells in ([SMALL, other], [SMALL])
    )
    assert both.history["loss"].shape == (2, 4)
    np.testing.assert_allclose(
        both.history["loss"][0, 0], alone.history["loss"][0, 0], rtol=0.01
    )
    kept = dataclasses.replace(SETTINGS, keep=tmp_path)
    first = frey.train_flow(kept)
    assert first == frey.train_flow(kept)  # with its seconds: it was kept
    (scores,) = first.values()
    assert len(scores["IW"]) == len(scores["validation IW"]) == 2
    values = flows.score_flows(alone.model, splits, part="validation")
    assert values.shape == (2,)
    jacobian = [split.components.log_jacobian for split in splits]
    best = -alone.history["validation"].min(axis=0) + jacobian
    np.testing.assert_allclose(values, best, rtol=1e-5)


@pytest.mark.slow
def test_the_search_writes_what_it_tried_and_gives_the_best(tmp_path, monkeypatch):
    pytest.importorskip("flowjax")
    trials = (({"transforms": 2, "width": 6}, (0.001, 0.01), (0.1,)),)
    monkeypatch.setattr(search_flows, "TRIALS", trials)
    monkeypatch.setattr(search_flows, "N_FINALISTS", 1)
    out = tmp_path / "flows.json"
    chosen = search_flows.search(
        search_flows.Settings(**DATA, epochs=2, jobs=1, out=out)
    )
    tried = json.loads(out.read_text())["tried"]
    assert [entry["seeds"] for entry in tried] == [3, 3, 6]
    best = max(tried[:2], key=lambda entry: np.mean(entry["validation"]))
    assert (chosen.rate, chosen.epochs) == (best["rate"], 2)
