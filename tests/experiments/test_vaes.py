"""The experiments on VAEs: seeds at once, raw units, verdicts that follow the numbers, records that suffice to draw."""

import dataclasses
import json
import time
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pooch
import pytest
import scipy.stats
from paper_weights import paper_constants, weights

from mmlp.datasets import images as datasets_images
from mmlp.experiments import collapse, frey, frey_pixels, frey_tune
from mmlp.experiments.harness import jobs
from mmlp.experiments.harness.run import main, reproduce
from mmlp.experiments.vaes import frey_claims, mosaics
from mmlp.experiments.vaes.core import (
    Recipe,
    loss_of,
    make_split,
    score,
    scores_of_rows,
    take,
    train,
    with_unit_variance,
)

SMALL = {"hidden": (4,), "features": None, "epochs": 1, "batch": 50}
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
    return frey.splits_of(SETTINGS, frey.load_images(SETTINGS)[0])


# -- data and recipes -------------------------------------------------------------------------------------------------


def test_a_split_keeps_the_parts_apart_and_standardises_by_the_training_images(splits):
    split = splits[0]
    assert [len(part) for part in split[:3]] == [100, 50, 1797 - 150]
    together = np.concatenate([split.train, split.validation])
    np.testing.assert_allclose(together.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(together.std(axis=0), 1, rtol=1e-12)


def test_splits_of_one_seed_are_equal():
    images = frey.load_images(SETTINGS)[0]
    sizes = {"train": 100, "validation": 20, "count": 3}
    a, b, c = (make_split(images, seed, **sizes).train for seed in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


def test_the_papers_recipe_is_the_papers():
    recipe = next(
        recipe for _, group, recipe, _ in frey.recipes(frey.Settings()) if group == frey.PAPERS
    )
    assert recipe.literal
    assert (recipe.hidden, recipe.batch, recipe.rate, recipe.optimizer) == (
        (30, 30, 30),
        10,
        1e-3,
        "adam",
    )
    assert (recipe.calibrated, recipe.warm_up, recipe.stopping, recipe.noise) == (
        False,
        0,
        False,
        0,
    )
    with pytest.raises(ValueError, match="images"):
        frey.load_images(frey.Settings(images="faces"))


def test_the_settings_file_holds_a_choice_for_each_group():
    known = json.loads(frey.FILE.read_text())
    assert set(known) == {"note", "chosen", "tried"}
    assert set(known["chosen"]) == {"matrix", "joint", "cholesky", "cholesky wide"}
    assert all(isinstance(frey.recipe(group, "NfNf"), Recipe) for group in known["chosen"])
    assert all(recipe.epochs == 7 for _, _, recipe, _ in frey.recipes(frey.Settings(epochs=7)))


class Flat:
    """In place of a VAE: its likelihood is the mean of x squared, its divergence one."""

    def terms(self, x, key, samples, *, kl):
        return jnp.mean(x**2), jnp.ones(())


def test_noise_goes_to_its_end_and_the_kl_term_to_its_weight_over_training():
    recipe, x = Recipe(noise=2.0, noise_end=1.0, warm_up=0.5), jnp.zeros((400, 50))
    assert Recipe(noise=2.0).levels() == (2.0, 2.0, 0.0)
    loss = loss_of("exact", 1)
    assert loss_of("exact", 1) is loss
    levels = jnp.tile(jnp.array(recipe.levels()), (400, 1))

    def value(t):
        return float(loss(Flat(), (x, levels), jax.random.key(0), jnp.array(t)))

    for t, noise, weight in [(0.0, 2.0, 0.0), (0.25, 1.75, 0.5), (0.8, 1.2, 1.0), (1.0, 0.0, 1.0)]:
        np.testing.assert_allclose(value(t), weight - noise**2, rtol=0.03, atol=1e-12)


@pytest.mark.parametrize("network", ["matrix", "cholesky"])
def test_a_decoder_can_start_with_unit_variance(network):
    vae = Recipe("EfNf", network, hidden=(4,)).make(6, 2, jax.random.key(0))
    before, after = (one.decode(jnp.ones(2)) for one in (vae, with_unit_variance(vae)))
    np.testing.assert_allclose(after.eta, 6 * before.eta, rtol=1e-6)
    np.testing.assert_allclose(after.loc, before.loc)
    np.testing.assert_allclose(after.beta, before.beta)


# -- verdicts ---------------------------------------------------------------------------------------------------------


def row(group, model, IW, k=5, validation=None, **scores):
    base = dict.fromkeys(("LL", "KLD", "ELBO", "train ELBO"), IW)
    return {
        "k": k,
        "group": group,
        "model": model,
        "IW": IW,
        "validation IW": validation or IW,
        **base,
        **scores,
    }


def verdicts(trained, simple=None):
    return {claim["claim"]: claim for claim in frey_claims.claims(trained, simple or {})}


def test_one_seed_decides_nothing():
    seeds = [-57.0]
    rows = [row(frey_claims.OURS, "NfNf", seeds), row(frey_claims.OURS, "NdNd", [-60.0])]
    found = verdicts([*rows, row(frey_claims.WIDE, "NfNf", [-70.0])])
    assert found
    assert all(claim["verdict"] == "does not hold" for claim in found.values())
    assert "one seed" in found["Full covariances beat diagonal ones in LL."]["evidence"]


def test_the_best_are_chosen_by_validation_and_compared_on_the_test_images():
    trained = [
        row(
            frey_claims.OURS, "NfNf", [-50.0, -50.1], validation=[-59.0, -59.0]
        ),  # lucky on the test images
        row(frey_claims.BEST, "NfNf", [-57.5, -57.7], validation=[-57.0, -57.0]),
        row(frey_claims.WIDE, "NfNf", [-58.0, -58.4], validation=[-58.0, -58.0]),
    ]
    simple = {"Gaussian mixture": {"IW": [-50.0, -50.0], "validation IW": [-60.0, -60.0]}}
    claim = next(
        claim for text, claim in verdicts(trained, simple).items() if "best matrix MLP" in text
    )
    assert claim["verdict"] == "holds"
    assert (
        "matrix MLP, joint NfNf against Cholesky MLP, 2 x 100 NfNf, 2 splits: +0.60 ± 0.10"
        in claim["evidence"]
    )
    trained[1]["IW"] = [-58.2, -58.6]
    claim = next(
        claim for text, claim in verdicts(trained, simple).items() if "best matrix MLP" in text
    )
    assert claim["verdict"] == "does not hold"


@pytest.mark.parametrize(("gap", "verdict"), [(0.2, "holds"), (0.6, "does not hold")])
def test_overfitting_is_judged_by_the_threshold_that_the_claim_states(gap, verdict):
    elbo = [-60.0, -60.1, -59.9]
    fitted = [value + gap + extra for value, extra in zip(elbo, (0.01, 0, -0.01), strict=True)]
    found = verdicts([row(frey_claims.OURS, "EfNf", elbo, **{"train ELBO": fitted})])
    text = next(text for text in found if "overfit" in text)
    assert f"{frey_claims.GAP} nats" in text
    assert found[text]["verdict"] == verdict


def test_a_model_must_beat_the_papers_likelihood_without_having_collapsed():
    good, collapsed = [-60.0, -60.1], [0.0, 0.0]
    found = verdicts(
        [
            row(frey_claims.OURS, "NfNf", good, KLD=[5.0, 5.1]),
            row(frey_claims.OURS, "EfNf", good, KLD=collapsed),
        ]
    )
    claim = next(claim for text, claim in found.items() if "higher test LL" in text)
    assert claim["verdict"] == "depends on the model: holds for NfNf, not for EfNf"


def test_collapse_is_judged_over_splits():
    names = ["LL", "KLD", "ELBO", "IW"]
    scores = {
        collapse.LITERAL: {name: [0.0, 0.01] for name in names},
        "+ a": {name: [1.0, 1.1] for name in names},
        "- a": {name: [1.0, 1.1] for name in names},
    }
    found = collapse.claims(scores, [collapse.LITERAL, "+ a"], ["- a"])
    assert [claim["verdict"] for claim in found] == ["holds", "holds", "does not hold"]
    single = {name: {key: values[:1] for key, values in by.items()} for name, by in scores.items()}
    assert {
        claim["verdict"] for claim in collapse.claims(single, [collapse.LITERAL, "+ a"], [])
    } == {"does not hold"}


# -- the search -------------------------------------------------------------------------------------------------------


def entry(group, rate, *bounds, **changes):
    values = {
        "group": group,
        "model": "NfNf",
        "latent": 5,
        "seeds": 2,
        "samples": 20,
        "hidden": [4],
        "batch": 50,
    }
    values |= {"epochs": 1}
    values |= {
        "optimizer": "muon",
        "decay": 0.0,
        "rate": rate,
        "noise": 0.1,
        "noise_end": 0.0,
        "warm_up": 0.3,
    }
    return values | changes | {"validation": list(bounds)}


def test_partial_searches_are_merged_and_the_best_by_validation_is_chosen(tmp_path):
    known = {
        "note": "n",
        "chosen": {"a": {"direct": True, "rate": 1.0}, "b": {"rate": 2.0}},
        "tried": [],
    }
    first = frey_tune.merged(known, [entry("a", 0.1, -60, -61), entry("a", 0.2, -58, -59)], ("a",))
    assert first["chosen"]["a"]["rate"] == 0.2
    assert first["chosen"]["a"]["direct"] is True  # what is not searched stays
    assert first["chosen"]["b"] == {"rate": 2.0}
    frey_tune.write(first, tmp_path / "settings.json")
    again = json.loads((tmp_path / "settings.json").read_text())
    assert again == first
    other = [entry("a", 0.2, -62, -62), entry("a", 0.3, -50, -50, model="EfNf")]
    second = frey_tune.merged(again, other, ("a",))
    assert [entry.get("run") for entry in second["tried"]] == [None, None, 2, None]
    assert (
        second["chosen"]["a"]["rate"] == 0.2
    )  # -60.25 by both runs; another model's bounds do not count
    third = frey_tune.merged(second, [entry("a", 0.2, -63, -63), entry("a", 0.2, -62, -62)], ("a",))
    assert third["tried"][-1]["run"] == 3
    assert len(third["tried"]) == 5  # what is known already is no repetition
    assert third["chosen"]["a"]["rate"] == 0.1
    diverged = frey_tune.merged(third, 2 * [entry("a", 9.0, float("nan"), -50)], ("a",))
    assert len(diverged["tried"]) == 6
    assert diverged["chosen"] == third["chosen"]


def test_the_search_uses_splits_that_the_table_does_not():
    assert frey_tune.FIRST_SEED >= 100 > frey.duels(frey.Settings())
    with pytest.raises(ValueError, match=r"--groups.*got wide"):
        frey_tune.run(frey_tune.Settings(groups=("wide",)))


# -- pictures and pixels ----------------------------------------------------------------------------------------------


def test_figures_are_drawn_from_the_record_alone(tmp_path, splits):
    S = np.round(splits[0].train[:100], 2)
    pictures = {
        "shape": (8, 8),
        "most": 16,
        "train": S.tolist(),
        "samples": [{"k": 2, "model": "NdNd", "draws": S.tolist()}],
    }
    pictures |= mosaics.components_record(splits[0].components)
    exact = splits[0].components.decode(splits[0].train[:100])
    np.testing.assert_allclose(mosaics.decode(pictures, pictures["train"]), exact, atol=1)
    record = {"settings": {"latents": [2], "data": "DIR"}, "result": {"pictures": pictures}}
    frey.draw(json.loads(json.dumps(record)), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"frey-train.png", "frey-2.png"}
    pixels = {
        "shape": (8, 8),
        "images": {"dense": mosaics.pack(exact), "diagonal": mosaics.pack(exact)},
    }
    frey_pixels.draw({"result": {"pictures": pixels}}, tmp_path)
    assert (tmp_path / "frey-pixels.png").stat().st_size > 5_000


PIXELS = frey_pixels.Settings(train=60, validation=20, components=4, images="digits")


def fake_images(n=100, p=12):
    rng = np.random.default_rng(0)
    return np.clip(rng.normal(100, 20, (n, 3)) @ rng.random((3, p)), 0, 255).astype(np.uint8)


def test_pixels_are_dequantised_alike_for_all_models():
    images = fake_images()
    parts = frey_pixels.parts_of(images, PIXELS, 0)
    assert [len(part) for part in parts] == [40, 20, 40]
    together = np.concatenate(parts)
    noise = together - np.floor(together)
    assert 0.4 < noise.mean() < 0.6
    assert sorted(map(tuple, np.floor(together))) == sorted(map(tuple, images.astype(float)))
    split = frey_pixels.encoded(parts, frey_pixels.pixel_components(parts[0]))
    np.testing.assert_allclose(split.train.std(axis=0), 1, rtol=1e-12)
    np.testing.assert_allclose(split.components.decode(split.test), parts[2], rtol=1e-12)
    np.testing.assert_allclose(split.components.log_jacobian, -np.log(parts[0].std(axis=0)).sum())


def test_components_and_other_directions_are_a_density_of_all_pixels(monkeypatch):
    parts = frey_pixels.parts_of(fake_images(), PIXELS, 0)
    monkeypatch.setattr(frey_pixels, "SHRINKAGES", (0.0,))
    first = frey_pixels.Components.fit(parts[0], 4)
    S = first.encode(parts[2])
    Gaussian = scipy.stats.norm.logpdf(S).sum(axis=1) + first.log_jacobian
    mean, covariance = parts[0].mean(axis=0), np.cov(parts[0].T, bias=True)
    exact = scipy.stats.multivariate_normal(mean, covariance).logpdf(parts[2])
    others, whole = (frey_pixels.principal_directions(parts, first)[0] for first in (4, 0))
    np.testing.assert_allclose(Gaussian + frey_pixels.gaussian(others, parts[2]), exact, rtol=1e-9)
    np.testing.assert_allclose(frey_pixels.gaussian(whole, parts[2]), exact, rtol=1e-9)


def test_variances_are_shrunk_as_validation_has_it_best(monkeypatch):
    white = np.random.default_rng(0).standard_normal((120, 12))
    parts = (
        white[:14],
        white[14:],
        white[14:],
    )  # 14 images of 12 pixels: the smallest variances are far too small
    components, shrinkage = frey_pixels.principal_directions(parts)
    assert shrinkage >= 0.3
    for other in frey_pixels.SHRINKAGES:
        monkeypatch.setattr(frey_pixels, "SHRINKAGES", (other,))
        one, _ = frey_pixels.principal_directions(parts)
        assert (
            frey_pixels.gaussian(components, parts[1]).mean()
            >= frey_pixels.gaussian(one, parts[1]).mean()
        )
    np.testing.assert_allclose(one.scale, one.scale[0])  # the last is 1: all are equal


def test_each_model_of_the_pixels_is_kept_by_itself(tmp_path, monkeypatch):
    """Two of them have one recipe, in other coordinates."""
    monkeypatch.setattr(frey, "load_images", lambda settings: (fake_images(), (3, 4)))

    def stub(recipe, splits, latent, samples, most):
        scores = np.full((3, 1, len(splits[0].test)), splits[0].test.std())
        return {"scores": scores.tolist(), "costs": {"steps": 6, "skipped steps": 0}, "images": ""}

    monkeypatch.setattr(frey_pixels, "trained_and_scored", stub)
    settings = dataclasses.replace(PIXELS, keep=tmp_path, seeds=1)
    first = frey_pixels.run(settings)
    assert len(list(tmp_path.iterdir())) == 4
    monkeypatch.setattr(frey_pixels, "trained_and_scored", None)
    assert frey_pixels.run(dataclasses.replace(settings, data=tmp_path)) == first


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_the_coordinates_of_the_dense_model_are_those_of_all_pixels(power):
    parts = frey_pixels.parts_of(fake_images(), PIXELS, 0)
    white, _ = frey_pixels.principal_directions(parts)
    components = frey_pixels.tempered(white, power)
    split = frey_pixels.encoded(parts, components)
    np.testing.assert_allclose(components.decode(split.test), parts[2], atol=1e-9)
    ratio = (
        white.encode(parts[2]) / split.test
    )  # of scales: c times the standard deviation to the power of `power` - 1
    np.testing.assert_allclose(
        ratio * white.scale ** (1 - power), np.mean(ratio * white.scale ** (1 - power)), rtol=1e-9
    )
    np.testing.assert_allclose(np.mean((white.scale / components.scale) ** 2), 1, rtol=1e-12)


def test_without_the_file_a_target_says_where_it_is_and_where_it_goes(
    tmp_path, monkeypatch, capsys
):
    def offline(self, url, output, _):
        raise OSError("no network")

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", offline)
    targets = ["frey", "frey-pixels", "collapse"]
    assert reproduce(targets, quick=True, data=tmp_path, out=tmp_path / "report") == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    for name, line in zip(targets, lines, strict=False):
        assert line.startswith(f"{name} failed: could not download {datasets_images.FREY_URL}")
        assert f"put it at {tmp_path / 'frey_rawface.mat'}" in line


def test_the_papers_constants_change_the_start_alone():
    """At the literal start a weight is d or sqrt(d) times less, see docs/maths.md, "The constants"."""
    ours, literal = (
        Recipe(hidden=(4, 3), literal=literal).make(5, 2, jax.random.key(0))
        for literal in (False, True)
    )
    for part in ("encoder", "decoder"):
        a, b = getattr(ours, part).network, getattr(literal, part).network
        for W, V, constants in zip(weights(a), weights(b), paper_constants(b), strict=True):
            for (
                letter,
                constant,
            ) in constants.items():  # what the paper would call V is as large as W here
                np.testing.assert_allclose(constant * V[letter], W[letter], rtol=1e-6)


def test_rows_of_the_table():
    rows = frey.recipes(frey.Settings())
    count = {(k, group): sum(row[:2] == (k, group) for row in rows) for k, group, _, _ in rows}
    assert count[5, frey.PAPERS] == count[5, frey.OURS] == count[8, frey.OURS] == 6
    assert count[5, frey.BEST] == count[8, frey.BEST] == count[8, frey.WIDE] == 1
    assert count[5, frey.NARROW] == count[5, frey.WIDE] == 2
    assert {
        seeds
        for k, group, _, seeds in rows
        if k == 5 and group in (frey.BEST, frey.NARROW, frey.WIDE)
    } == {10}


def test_the_best_are_chosen_on_the_same_splits_and_compared_on_all_they_share():
    rows = [
        row(frey_claims.OURS, "NfNf", [-60.0, -60.0], validation=[-60.0, -60.0]),
        row(frey_claims.BEST, "EfNf", [-57.0, -57.2, -57.4], validation=[-57.0, -57.0, -90.0]),
        row(frey_claims.WIDE, "EfNf", [-58.0, -58.0, -58.0], validation=[-58.0, -58.0, -58.0]),
    ]
    claim = next(claim for text, claim in verdicts(rows).items() if "beats the best of all" in text)
    assert (
        "joint EfNf against Cholesky MLP, 2 x 100 EfNf, 3 splits: +0.80 ± 0.12" in claim["evidence"]
    )


def test_the_effect_of_the_objective_has_its_sign():
    rows = [
        row(frey_claims.OURS, "NfNf", [-60.0, -60.2]),
        row(frey_claims.VON_NEUMANN, "NfNf", [-59.0, -59.1]),
    ]
    claim = next(claim for text, claim in verdicts(rows).items() if "von Neumann" in text)
    assert claim["verdict"] == "holds"
    assert claim["evidence"].startswith("IW +1.05")


class Stub(eqx.Module):
    kld: jax.Array

    def sample(self, key, count):
        return jnp.zeros((count, 4))


@pytest.mark.parametrize("literal", [False, True])
def test_what_has_collapsed_is_trained_once_again(literal, monkeypatch):
    def stub_train(recipe, splits, latent, start=0):
        assert start == 0 or len(splits) == 1
        return types.SimpleNamespace(
            model=Stub(jnp.array([3.0]) if start else jnp.array([5.0, 0.01]))
        )

    def stub_score(models, splits, samples, part="test"):
        return {name: np.asarray(models.kld) for name in ("LL", "KLD", "ELBO", "IW", "IW error")}

    monkeypatch.setattr(frey, "train", stub_train)
    monkeypatch.setattr(frey, "score", stub_score)
    found = frey.trained_row(SETTINGS, 2, "a group", Recipe(literal=literal), 2)
    assert found["trained again"] == ([] if literal else [1])
    np.testing.assert_allclose(found["IW"], [5.0, 0.01] if literal else [5.0, 3.0])
    assert ("a group NfNf, k = 2: 1 of 2" in frey.notes(SETTINGS, [found])[0]) != literal


def square(x):
    return x * x


def wait_or_fail(seconds):
    time.sleep(seconds if seconds > 0 else 1 / 0)


def test_work_is_done_in_order():
    assert jobs.each(square, [(i,) for i in range(5)], "squares") == [0, 1, 4, 9, 16]


@pytest.mark.slow
def test_processes_share_the_work_and_pass_errors_on():
    assert jobs.each(square, [(i,) for i in range(5)], "squares", 2) == [0, 1, 4, 9, 16]
    with pytest.raises(TypeError, match="multiply"):
        jobs.each(square, [(1,), ("a",)], "squares", 2)
    start = time.perf_counter()
    with pytest.raises(ZeroDivisionError):  # of the second, while the first is at work
        jobs.each(wait_or_fail, [(600,), (0,)], "waits", 2)
    assert time.perf_counter() - start < 300


# -- whole runs -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_cells_are_trained_as_alone_and_scored_in_raw_units(splits):
    recipe = dataclasses.replace(frey.recipe("matrix", "NfNf"), **SMALL | {"epochs": 2})
    cells = [{"rate": 0.01, "noise": 0.0}, {"rate": 0.005, "noise": 0.1, "noise_end": 0.0}]
    both = train(recipe, splits[:1], 2, cells=cells)
    alone = train(dataclasses.replace(recipe, rate=0.01, noise=0.0), splits[:1], 2)
    np.testing.assert_allclose(both.history["loss"][0, 0], alone.history["loss"][0, 0], rtol=1e-4)
    assert both.history["loss"].shape == (2, 2)
    scores = score(alone.model, splits[:1], 64)
    np.testing.assert_allclose(scores["ELBO"], scores["LL"] - scores["KLD"], rtol=1e-12)
    assert (
        scores["IW"] > scores["ELBO"] - 0.1
    )  # the KLD of the latter is exact, not of the same draws
    vae, X = take(alone.model, 0), splits[0].test[None, :70].astype(np.float32)
    rows = scores_of_rows(alone.model, X, 64)  # more rows than are scored together
    assert rows.shape == (1, 70, 4)
    likelihoods = [np.mean(vae.draws(x, jax.random.key(0), 200)[2]) for x in X[0, 60:64]]
    np.testing.assert_allclose(rows[0, 60:64, 0], likelihoods, rtol=0.1)
    second = jax.tree.map(lambda x: x[1:] if eqx.is_array(x) else x, both.model)
    together = scores_of_rows(both.model, np.repeat(X, 2, axis=0), 8)
    np.testing.assert_allclose(together[1:], scores_of_rows(second, X, 8), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_the_table_has_every_row_and_a_verdict_for_each_claim(tmp_path):
    flags = [
        "--images",
        "digits",
        "--latents",
        "2",
        "--models",
        "NdNd,NfNf",
        "--compared",
        "NfNf",
        "--seeds",
        "2",
        "--jobs",
        "1",
    ]
    flags += [
        "--components",
        "4",
        "--train",
        "150",
        "--validation",
        "50",
        "--samples",
        "8",
        "--epochs",
        "1",
        "--hidden",
        "4",
    ]
    record = main("frey", [*flags, "--out", str(tmp_path)])
    groups = [row["group"] for row in record["result"]["trained"]]
    assert groups.count(frey.PAPERS) == groups.count(frey.OURS) == 2
    assert {frey.BEST, frey.NARROW, frey.WIDE, frey_claims.VON_NEUMANN} <= set(groups)
    names = [row.get("name", row.get("group")) for row in record["result"]["tables"][0]["rows"]]
    assert {"one Gaussian", "Gaussian mixture", "NdNd", "NfNf"} <= set(names)
    assert {"frey.json", "frey-2.png", "frey-train.png", "index.html"} <= {
        path.name for path in tmp_path.iterdir()
    }
    assert all(
        claim["verdict"].startswith(("holds", "does not", "depends"))
        for claim in record["result"]["claims"]
    )


@pytest.mark.slow
def test_collapse_runs(tmp_path):
    flags = [
        "--quick",
        "--jobs",
        "1",
        "--images",
        "digits",
        "--added",
        "2",
        "--back",
        "--out",
        str(tmp_path),
    ]
    record = main("collapse", flags)
    assert len(record["result"]["tables"]) == 3


@pytest.mark.slow
def test_the_search_writes_its_choice(tmp_path, monkeypatch):
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(json.loads(frey.FILE.read_text()) | {"tried": []}))
    monkeypatch.setattr(frey, "FILE", path)
    flags = [
        "--quick",
        "--write",
        "--images",
        "digits",
        "--hidden",
        "4,4",
        "--rates",
        "0.001,0.01",
        "--out",
        str(tmp_path),
    ]
    record = main("frey-tune", flags)
    assert "test" not in json.dumps(record["result"])
    known = json.loads(path.read_text())
    assert len(known["tried"]) == 4
    best = max(known["tried"], key=lambda entry: np.mean(entry["validation"]))
    assert known["chosen"]["joint"]["rate"] == best["rate"]
    assert known["chosen"]["joint"]["hidden"] == [4, 4]


@pytest.mark.slow
@pytest.mark.parametrize("network", ["matrix", "cholesky"])
def test_the_dense_covariance_of_all_pixels_is_trained_and_compared(network, tmp_path, monkeypatch):
    monkeypatch.setattr(frey, "load_images", lambda settings: (fake_images(), (3, 4)))
    small = {name: {**values, **SMALL} for name, values in frey.TUNED.items()}
    monkeypatch.setattr(frey, "TUNED", small)
    flags = [
        "--quick",
        "--network",
        network,
        "--hidden",
        "4",
        "--features",
        "4",
        "--components",
        "4",
        "--out",
        str(tmp_path),
    ]
    record = main("frey-pixels", flags)
    result = record["result"]
    assert result["costs"]["dense"]["steps"] == 6
    assert result["costs"]["dense"]["skipped steps"] == 0
    assert result["costs"]["dense"]["peak memory (GiB)"] > 0
    assert {len(by["IW"][0]) for by in result["scores"].values()} == {5}
    assert np.isfinite([np.mean(by["IW"]) for by in result["scores"].values()]).all()
    assert (tmp_path / "frey-pixels.png").exists()
