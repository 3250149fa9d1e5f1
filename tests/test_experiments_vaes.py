"""The experiments on VAEs, on the embedded digits: seeds at once, scores in raw units, a page at the end."""

import dataclasses
import json

import jax
import numpy as np
import pytest

from mmlp.experiments import _run, collapse, frey, frey_tune
from mmlp.experiments._vaes import Recipe, make_split, score, take, train

SMALL = {"hidden": (4,), "features": None, "epochs": 2, "batch": 50}
SETTINGS = frey.Settings(
    latents=(2,),
    models=("NdNd",),
    compared=("NfNf",),
    seeds=2,
    components=4,
    train=150,
    validation=50,
    samples=8,
    images="digits",
)


@pytest.fixture(scope="module")
def splits():
    return frey.splits_of(SETTINGS, frey.load_images(SETTINGS))


def test_a_split_keeps_the_parts_apart_and_standardises_by_the_training_images(splits):
    split = splits[0]
    assert [len(part) for part in split[:3]] == [100, 50, 1797 - 150]
    together = np.concatenate([split.train, split.validation])
    np.testing.assert_allclose(together.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(together.std(axis=0), 1, rtol=1e-12)


@pytest.mark.slow
def test_cells_are_trained_as_alone_and_scored_in_raw_units(splits):
    recipe = dataclasses.replace(frey.recipe("matrix", "NfNf"), **SMALL)
    cells = [{"rate": 0.01, "noise": 0.0}, {"rate": 0.005, "noise": 0.1}]
    both = train(recipe, splits[:1], 2, cells=cells)
    alone = train(dataclasses.replace(recipe, rate=0.01, noise=0.0), splits[:1], 2)
    np.testing.assert_allclose(both.history["loss"][0, 0], alone.history["loss"][0, 0], rtol=1e-4)
    assert both.history["loss"].shape == (2, 2)
    scores = score(alone.model, splits[:1], 64)
    np.testing.assert_allclose(scores["ELBO"], scores["LL"] - scores["KLD"], rtol=1e-12)
    assert scores["IW"] > scores["ELBO"] - 0.1  # the KLD of the latter is exact, not of the same draws
    vae, x = take(alone.model, 0), splits[0].test[0].astype(np.float32)
    q = vae.encode(x)
    s = q.sample(jax.random.key(0))
    raw = vae.decode(s).log_prob(x) + splits[0].components.log_jacobian
    assert abs(raw - scores["LL"][0]) < 30


@pytest.mark.slow
def test_the_table_has_every_row_and_a_verdict_for_each_claim(tmp_path, monkeypatch):
    monkeypatch.setattr(frey, "TUNED", {name: {**values, **SMALL} for name, values in frey.TUNED.items()})
    flags = ["--images", "digits", "--latents", "2", "--models", "NdNd,NfNf", "--compared", "NfNf", "--seeds", "2"]
    flags += ["--components", "4", "--train", "150", "--validation", "50", "--samples", "8", "--epochs", "1"]
    record = _run.main("frey", frey.Settings, frey.run, frey.draw, [*flags, "--out", str(tmp_path)])
    groups = [row["group"] for row in record["result"]["trained"]]
    assert groups.count(frey.PAPERS) == groups.count(frey.OURS) == 2
    assert {frey.BEST, frey.NARROW, frey.WIDE, "von Neumann objective"} <= set(groups)
    names = [row.get("name", row.get("group")) for row in record["result"]["tables"][0]["rows"]]
    assert {"one Gaussian", "Gaussian mixture", "NdNd", "NfNf"} <= set(names)
    assert {"frey.json", "frey-2.png", "frey-train.png", "index.html"} <= {path.name for path in tmp_path.iterdir()}
    assert all(claim["verdict"].startswith(("holds", "does not", "depends")) for claim in record["result"]["claims"])
    json.loads((tmp_path / "frey.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "module"), [("collapse", collapse), ("frey-tune", frey_tune)])
def test_the_other_experiments_run(name, module, tmp_path):
    record = _run.main(
        name,
        module.Settings,
        module.run,
        module.draw,
        ["--quick", "--images", "digits", "--epochs", "1", "--out", str(tmp_path)],
    )
    assert record["result"]["tables"]


def test_the_papers_recipe_is_the_papers():
    recipe = Recipe("NfNf")
    assert (recipe.hidden, recipe.batch, recipe.rate, recipe.optimizer) == ((30, 30, 30), 10, 1e-3, "adam")
    assert (recipe.calibrated, recipe.warm_up, recipe.stopping, recipe.noise) == (False, 0, False, 0)
    with pytest.raises(ValueError, match="images"):
        frey.load_images(frey.Settings(images="faces"))


def test_splits_of_one_seed_are_equal():
    images = frey.load_images(SETTINGS)
    sizes = {"train": 100, "validation": 20, "count": 3}
    a, b, c = (make_split(images, seed, **sizes).train for seed in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)
