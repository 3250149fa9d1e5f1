"""What experiments on VAEs share: seeds at once, raw units, recipes that are what they say."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from paper_weights import paper_constants, weights
from sweeps import sweep

import mmlp
from reproduction import frey, frey_pixels
from reproduction.vaes.fit_and_score import (
    NegativeBound,
    fit_recipes,
    score_models,
    score_rows,
)
from reproduction.vaes.images import ImageSettings
from reproduction.vaes.recipes import TUNED, Recipe, direct_matrix_mlp, tuned_recipe

DATA = ImageSettings(components=4, train=150, validation=50, images="digits")


@pytest.fixture(scope="module")
def splits():
    return DATA.make_splits(range(2))


def test_a_split_keeps_the_parts_apart_and_standardises_by_the_training_images(splits):
    split = splits[0]
    assert [len(part) for part in split[:3]] == [100, 50, 1797 - 150]
    together = np.concatenate([split.train, split.validation])
    np.testing.assert_allclose(together.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(together.std(axis=0), 1, rtol=1e-12)


def test_splits_of_one_seed_are_equal():
    small = dataclasses.replace(DATA, train=100, validation=20, components=3)
    a, b, c = (split.train for split in small.make_splits((1, 1, 2)))
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


def test_the_papers_recipe_is_the_papers():
    rows = frey.list_rows(frey.Settings())
    recipe = next(recipe for _, group, recipe, _ in rows if group == frey.PAPER_RECIPE)
    assert recipe.literal
    paper = ((30, 30, 30), 10, 1e-3, "adam")
    assert (recipe.hidden, recipe.batch, recipe.rate, recipe.optimizer) == paper
    ours = recipe.calibrated, recipe.warm_up, recipe.stopping, recipe.noise
    assert ours == (0, 0, False, 0)
    with pytest.raises(ValueError, match="images"):
        frey.Settings(images="faces").read_images()


def test_the_settings_file_holds_a_choice_for_each_group():
    groups = {"matrix", "joint", "cholesky", "cholesky wide"}
    assert set(TUNED) == groups | {f"pixels, {name}" for name in frey_pixels.VAES}
    assert all(isinstance(tuned_recipe(group, "NfNf"), Recipe) for group in groups)
    assert all(
        recipe.epochs == 7
        for _, _, recipe, _ in frey.list_rows(frey.Settings(epochs=7))
    )


class Flat:
    """In place of a VAE: its likelihood is the mean of x squared, its divergence one."""

    def terms(self, x, key, *, kl):
        return jnp.mean(x**2), jnp.ones(())


def test_noise_goes_to_its_end_and_the_kl_term_to_its_weight_over_training():
    recipe, x = Recipe(noise=2.0, noise_end=1.0, warm_up=0.5), jnp.zeros((400, 50))
    assert Recipe(noise=2.0).loss_levels() == (2.0, 2.0, 0.0)
    loss = NegativeBound("exact")
    assert NegativeBound("exact") == loss
    assert hash(NegativeBound("exact")) == hash(loss)
    levels = jnp.tile(jnp.array(recipe.loss_levels()), (400, 1))

    def value(t):
        return float(loss(Flat(), (x, levels), jax.random.key(0), jnp.array(t)))

    for t, noise, weight in [
        (0.0, 2.0, 0.0),
        (0.25, 1.75, 0.5),
        (0.8, 1.2, 1.0),
        (1.0, 0.0, 1.0),
    ]:
        np.testing.assert_allclose(value(t), weight - noise**2, rtol=0.03, atol=1e-12)


def test_equal_recipes_have_equal_optimizers():
    recipe = Recipe(optimizer="muon", cosine=True)
    assert recipe.make_optimizer(9) == recipe.make_optimizer(9)
    assert recipe.make_optimizer(9) != recipe.make_optimizer(8)


@sweep("network", ["matrix", "direct", "joint", "cholesky"])
def test_a_decoder_can_start_with_unit_variance(network):
    recipe, X = Recipe("EfNf", network, hidden=(4,)), jnp.zeros((0, 6))
    recipes = recipe, dataclasses.replace(recipe, unit=True)
    before, after = (
        one.make_vae(X, 2, jax.random.key(0)).decode(jnp.ones(2)) for one in recipes
    )
    np.testing.assert_allclose(after.eta, 6 * before.eta, rtol=1e-6)
    np.testing.assert_allclose(after.loc, before.loc)
    np.testing.assert_allclose(after.beta, before.beta)


def test_the_papers_constants_change_the_start_alone():
    """At the literal start a weight is d or sqrt(d) times less, see docs/maths, "The constants"."""
    ours, literal = (
        Recipe(hidden=(4, 3), literal=literal).make_vae(
            jnp.zeros((0, 5)), 2, jax.random.key(0)
        )
        for literal in (False, True)
    )
    for part in ("encoder", "decoder"):
        a, b = getattr(ours, part).network, getattr(literal, part).network
        for W, V, constants in zip(
            weights(a), weights(b), paper_constants(b), strict=True
        ):
            for (
                letter,
                constant,
            ) in constants.items():  # the paper's V is as large as W here
                np.testing.assert_allclose(constant * V[letter], W[letter], rtol=1e-6)


@pytest.mark.slow
def test_the_direct_network_is_the_joint_one_without_its_standard_mlp(tmp_path):
    options = {"out_features": 4, "hidden_features": (7, 6), "key": jax.random.key(0)}
    direct, joint = (
        make(3, 2, (5, 4), **options)
        for make in (direct_matrix_mlp, mmlp.JointMatrixMLP)
    )
    assert direct.matrices[-1].V is None
    assert all(layer.D is None for layer in direct.vectors)
    nothing = jax.tree.map(
        jnp.zeros_like, [joint.matrices[-1].V, *(v.D for v in joint.vectors)]
    )
    without = eqx.tree_at(
        lambda m: [m.matrices[-1].V, *(v.D for v in m.vectors)], joint, nothing
    )
    X = jax.random.normal(jax.random.key(1), (20, 3))
    for model in (direct, mmlp.calibrate(direct, X, key=jax.random.key(2))):
        mmlp.save(model, tmp_path / "direct.safetensors")
        again = mmlp.load(tmp_path / "direct.safetensors")
        for a, b in zip(
            jax.tree.leaves(model(X[0])), jax.tree.leaves(again(X[0])), strict=True
        ):
            np.testing.assert_array_equal(a, b)
    for a, b in zip(
        jax.tree.leaves(direct(X[0])), jax.tree.leaves(without(X[0])), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.slow
def test_recipes_are_trained_together_as_alone_and_scored_in_raw_units(splits):
    small = {"hidden": (4,), "features": None, "epochs": 2, "batch": 50}
    recipe = dataclasses.replace(
        tuned_recipe("matrix", "NfNf"), **small, rate=0.01, noise=0.0
    )
    other = dataclasses.replace(recipe, rate=0.005, noise=0.1, noise_end=0.0)
    both = fit_recipes([recipe, other], splits[:1], 2)
    alone = fit_recipes([recipe], splits[:1], 2)
    np.testing.assert_allclose(
        both.history["loss"][0, 0], alone.history["loss"][0, 0], rtol=1e-4
    )
    assert both.history["loss"].shape == (2, 2)
    assert score_models(both.model, splits[:1], 8)["IW"].shape == (2,)
    scores = score_models(alone.model, splits[:1], 64)
    np.testing.assert_allclose(scores["ELBO"], scores["LL"] - scores["KLD"], rtol=1e-12)
    assert (
        scores["IW"] > scores["ELBO"] - 0.1
    )  # the KLD of the latter is exact, of no draws
    vae, X = (
        jax.tree.map(lambda x: x[0], alone.model),
        splits[0].test[None, :70].astype(np.float32),
    )
    rows = score_rows(alone.model, X, 64)  # more rows than are scored together
    assert rows.shape == (1, 70, 4)
    likelihoods = [
        np.mean(vae.draws(x, jax.random.key(0), 200)[2]) for x in X[0, 60:64]
    ]
    np.testing.assert_allclose(rows[0, 60:64, 0], likelihoods, rtol=0.1)
    second = jax.tree.map(lambda x: x[1:], both.model)
    together = score_rows(both.model, np.repeat(X, 2, axis=0), 8)
    np.testing.assert_allclose(
        together[1:], score_rows(second, X, 8), rtol=1e-4, atol=1e-4
    )
