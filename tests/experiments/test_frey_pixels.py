"""The dense covariance of all pixels: the same density of the same numbers for all models."""

import dataclasses

import numpy as np
import pytest
import scipy.stats

from mmlp.datasets import Components
from mmlp.experiments import frey_pixels
from mmlp.experiments.harness.run import main
from mmlp.experiments.vaes import data, recipes

PIXELS = frey_pixels.Settings(train=60, validation=20, components=4, images="digits")


def fake_images(n=100, p=12):
    rng = np.random.default_rng(0)
    return np.clip(rng.normal(100, 20, (n, 3)) @ rng.random((3, p)), 0, 255).astype(np.uint8)


def test_pixels_are_dequantised_alike_for_all_models():
    images = fake_images()
    parts = PIXELS.dequantised(images, 0)
    assert [len(part) for part in parts] == [40, 20, 40]
    together = np.concatenate(parts)
    noise = together - np.floor(together)
    assert 0.4 < noise.mean() < 0.6
    assert sorted(map(tuple, np.floor(together))) == sorted(map(tuple, images.astype(float)))
    split = data.encoded(parts, data.single_pixels(parts[0]))
    np.testing.assert_allclose(split.train.std(axis=0), 1, rtol=1e-12)
    np.testing.assert_allclose(split.components.decode(split.test), parts[2], rtol=1e-12)
    np.testing.assert_allclose(split.components.log_jacobian, -np.log(parts[0].std(axis=0)).sum())


def test_components_and_other_directions_are_a_density_of_all_pixels(monkeypatch):
    parts = PIXELS.dequantised(fake_images(), 0)
    monkeypatch.setattr(data, "SHRINKAGES", (0.0,))
    first = Components.fit(parts[0], 4)
    S = first.encode(parts[2])
    Gaussian = scipy.stats.norm.logpdf(S).sum(axis=1) + first.log_jacobian
    mean, covariance = parts[0].mean(axis=0), np.cov(parts[0].T, bias=True)
    exact = scipy.stats.multivariate_normal(mean, covariance).logpdf(parts[2])
    others, whole = (data.principal_directions(parts, first)[0] for first in (4, 0))
    np.testing.assert_allclose(Gaussian + data.gaussian(others, parts[2]), exact, rtol=1e-9)
    np.testing.assert_allclose(data.gaussian(whole, parts[2]), exact, rtol=1e-9)


def test_variances_are_shrunk_as_validation_has_it_best(monkeypatch):
    white = np.random.default_rng(0).standard_normal((120, 12))
    # 14 images of 12 pixels: the smallest variances are far too small
    parts = (white[:14], white[14:], white[14:])
    components, shrinkage = data.principal_directions(parts)
    assert shrinkage >= 0.3
    best = data.gaussian(components, parts[1]).mean()
    for other in data.SHRINKAGES:
        monkeypatch.setattr(data, "SHRINKAGES", (other,))
        one, _ = data.principal_directions(parts)
        assert best >= data.gaussian(one, parts[1]).mean()
    np.testing.assert_allclose(one.scale, one.scale[0])  # the last is 1: all are equal


def test_each_model_of_the_pixels_is_kept_by_itself(tmp_path, monkeypatch):
    """Two of them have one recipe, in other coordinates."""
    monkeypatch.setattr(data.Data, "read", lambda settings: (fake_images(), (3, 4)))

    def stub(recipe, splits, latent, samples, most):
        scores = np.full((3, 1, len(splits[0].test)), splits[0].test.std())
        return {"scores": scores.tolist(), "costs": {"steps": 6, "skipped steps": 0}, "images": ""}

    monkeypatch.setattr(frey_pixels, "trained_and_scored", stub)
    settings = dataclasses.replace(PIXELS, keep=tmp_path, seeds=1)
    first = frey_pixels.run(settings)
    assert len(list(tmp_path.iterdir())) == 4
    monkeypatch.setattr(frey_pixels, "trained_and_scored", lambda: None)
    assert frey_pixels.run(dataclasses.replace(settings, data=tmp_path)) == first


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_the_coordinates_of_the_dense_model_are_those_of_all_pixels(power):
    parts = PIXELS.dequantised(fake_images(), 0)
    white, _ = data.principal_directions(parts)
    components = data.tempered(white, power)
    split = data.encoded(parts, components)
    np.testing.assert_allclose(components.decode(split.test), parts[2], atol=1e-9)
    # of scales: c times the standard deviation to the power of `power` - 1
    ratio = white.encode(parts[2]) / split.test * white.scale ** (1 - power)
    np.testing.assert_allclose(ratio, np.mean(ratio), rtol=1e-9)
    np.testing.assert_allclose(np.mean((white.scale / components.scale) ** 2), 1, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("network", ["matrix", "cholesky"])
def test_the_dense_covariance_of_all_pixels_is_trained_and_compared(network, tmp_path, monkeypatch):
    monkeypatch.setattr(data.Data, "read", lambda settings: (fake_images(), (3, 4)))
    flags = f"--quick --network {network} --hidden 4 --components 4 --epochs 6".split()
    result = main("frey-pixels", [*flags, "--out", str(tmp_path)])["result"]
    assert result["costs"]["dense"]["steps"] == 6
    assert result["costs"]["dense"]["skipped steps"] == 0
    assert result["costs"]["dense"]["peak memory (GiB)"] > 0
    assert {len(by["IW"][0]) for by in result["scores"].values()} == {5}
    assert np.isfinite([np.mean(by["IW"]) for by in result["scores"].values()]).all()
    assert (tmp_path / "frey-pixels.png").exists()


def test_the_recipes_of_the_pixels_are_those_of_the_results():
    """results/frey-pixels.json: 6,000 steps of 50 images, of 850."""
    found = frey_pixels.recipes(frey_pixels.Settings())
    dense, latent = found[frey_pixels.DENSE]
    assert (dense.network, dense.epochs * 17, latent) == ("direct", 6001, 20)
    assert found[frey_pixels.ROTATED] == found[frey_pixels.DIAGONAL]
    assert found[frey_pixels.DIAGONAL][0].model == "NdNd"
    assert found[frey_pixels.PIPELINE] == (recipes.tuned("joint", "NfNf"), 5)
