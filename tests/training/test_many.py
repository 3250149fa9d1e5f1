"""`fit_many`: each model as `fit` trains it alone, with reports that name the models."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from fits import KEY, X, Y, loss, stacked, weights

import mmlp

SGD = {"batch_size": 8, "optimizer": optax.sgd(0.1), "progress": False}


def test_fit_many_trains_each_model_as_fit_does_alone_and_stops_it_alone():
    keys = jax.random.split(KEY, 3)
    models = stacked(keys)
    options = {
        "epochs": 12,
        "batch_size": 8,
        "optimizer": optax.adam(0.3),
        "patience": 2,
    }
    options["validation"] = (X[:9], Y[:9])
    many = mmlp.fit_many(models, loss, (X, Y), keys=keys, progress=False, **options)
    lengths = []
    for i in range(3):
        pick = functools.partial(
            jax.tree.map, lambda x, i=i: x[i] if eqx.is_array(x) else x
        )
        one = mmlp.fit(
            pick(models), loss, (X, Y), key=keys[i], progress=False, **options
        )
        lengths.append(len(one.history["loss"]))
        for a, b in zip(weights(pick(many.model)), weights(one.model), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8)
        for name, values in one.history.items():
            np.testing.assert_allclose(
                many.history[name][: lengths[-1], i], values, rtol=1e-8
            )
            assert np.isnan(many.history["loss"][lengths[-1] :, i]).all()
    assert len(set(lengths)) > 1  # they did stop apart
    assert len(many.history["loss"]) == max(lengths)


def test_fit_many_lets_a_failed_model_rest_while_the_others_go_on():
    def sick(model, batch, key, t):
        return jnp.where(model[0] < 0, jnp.nan, jnp.mean((model[1] - batch) ** 2))

    models, keys = jnp.array([[1.0, 0.0], [-1.0, 0.0]]), jax.random.split(KEY, 2)
    with pytest.warns(RuntimeWarning, match="of model 1"):
        result = mmlp.fit_many(models, sick, X, keys=keys, epochs=30, **SGD)
    np.testing.assert_allclose(result.model[0, 1], X.mean(), atol=0.2)
    assert np.array_equal(result.model[1], models[1])
    assert result.history["loss"].shape == (30, 2)
    assert np.isfinite(result.history["loss"][:, 0]).all()


def test_fit_many_names_all_models_in_trouble():
    def sick(model, batch, key, t):
        bad = (model[0] < 0) | ((model[0] > 1) & (t == 1))
        return jnp.where(bad, jnp.nan, jnp.mean((model[1] - batch) ** 2))

    models = jnp.array([[1.0, 0.0], [-1.0, 0.0], [2.0, 0.0], [-1.0, 0.0]])
    keys = jax.random.split(KEY, 4)
    with pytest.warns() as caught:
        mmlp.fit_many(models, sick, X, keys=keys, epochs=20, validation=X, **SGD)
    texts = [str(warning.message) for warning in caught]
    assert all(
        "the loss of models 1, 3 was not finite in 5 steps" in text
        for text in texts[:-1]
    )
    assert "they keep their last good weights" in texts[-2]
    assert "not finite in any epoch for models 1, 2, 3; the models have" in texts[-1]

    text = "none was applied for models 1, 3; the models have their initial"
    with pytest.warns(UserWarning, match=text):
        mmlp.fit_many(models, sick, X, keys=keys, epochs=1, **SGD)


@pytest.mark.slow
def test_many_models_with_data_and_rates_of_their_own():
    """Each is trained as `fit` trains it on its own data with its own rate."""
    keys = jax.random.split(jax.random.key(5), 2)
    X = jax.random.normal(jax.random.key(6), (2, 12, 2))
    y = X @ jnp.array([1.0, -2.0]) + jnp.array([[0.0], [1.0]])
    models = eqx.filter_vmap(lambda key: eqx.nn.Linear(2, 1, key=key))(keys)

    def loss(model, batch, key, t):
        return jnp.mean((jax.vmap(model)(batch[0])[:, 0] - batch[1]) ** 2)

    options = {"epochs": 3, "batch_size": 4, "progress": False}
    data, held_out = (X[:, :8], y[:, :8]), (X[:, 8:], y[:, 8:])
    many = {"keys": keys, "own_data": True, **options}
    rates, sgd = (1.0, 0.5), optax.sgd(0.1)
    together = mmlp.fit_many(
        models, loss, data, rates=rates, validation=held_out, optimizer=sgd, **many
    )
    for i, rate in enumerate((0.1, 0.05)):
        model, own, held = jax.tree.map(
            lambda x, i=i: x[i] if eqx.is_array(x) else x, (models, data, held_out)
        )
        alone = mmlp.fit(
            model,
            loss,
            own,
            key=keys[i],
            validation=held,
            optimizer=optax.sgd(rate),
            **options,
        )
        np.testing.assert_allclose(
            together.history["validation"][:, i], alone.history["validation"], rtol=1e-6
        )
        np.testing.assert_allclose(
            together.model.weight[i], alone.model.weight, rtol=1e-6
        )
    with pytest.raises(ValueError, match=r"rates.*2 positive"):
        mmlp.fit_many(models, loss, data, rates=(1.0, -1.0), **many)
    with pytest.raises(ValueError, match=r"\(2, n, ...\)"):
        mmlp.fit_many(models, loss, (X[0], y[0]), **many)
    with pytest.raises(
        ValueError, match=r"got nan in row 5 of model 1 \(index \(1, 5, 0\)\)"
    ):
        mmlp.fit_many(models, loss, (X.at[1, 5, 0].set(jnp.nan), y), **many)


def test_models_that_have_all_stopped_end_the_run_and_keep_their_reports():
    keys = jax.random.split(jax.random.key(8), 2)
    far = (
        X,
        -Y,
    )  # what is learnt makes this worse: no epoch is better than the first or second
    options = SGD | {
        "batch_size": 11,
        "optimizer": optax.sgd(0.05),
        "epochs": 30,
        "patience": 1,
    }
    result = mmlp.fit_many(
        stacked(keys), loss, (X, Y), keys=keys, validation=far, **options
    )
    assert len(result.history["loss"]) < 30
    assert np.all(np.isfinite(result.history["loss"][-1]).any())


def test_a_run_with_other_rates_is_another_run(tmp_path):
    keys = jax.random.split(jax.random.key(8), 2)
    models, options = stacked(keys), {"keys": keys, "epochs": 1, **SGD}
    mmlp.fit_many(
        models, loss, (X, Y), rates=(0.5, 0.2), checkpoint=tmp_path, **options
    )
    with pytest.raises(ValueError, match="differs in rates"):
        mmlp.fit_many(models, loss, (X, Y), checkpoint=tmp_path, **options)


def test_rows_of_common_data_train_like_copies_of_them(tmp_path):
    """In two parts, which take turns; a batch is a whole part, in which the order is no matter."""
    rng, keys = np.random.default_rng(0), jax.random.split(KEY, 2)
    models, options = stacked(keys), SGD | {"keys": keys}
    rows = np.stack([rng.permutation(len(X))[:16].reshape(2, 8) for _ in range(2)])
    shared = mmlp.fit_many(models, loss, (X, Y), rows=rows, epochs=3, **options)
    for i in (0, 1, 0):
        own = (X[rows[:, i]], Y[rows[:, i]])
        models = mmlp.fit_many(
            models, loss, own, own_data=True, epochs=1, **options
        ).model
    for a, b in zip(weights(shared.model), weights(models), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    run = options | {"rows": rows, "epochs": 3, "checkpoint": tmp_path / "run"}
    again = mmlp.fit_many(stacked(keys), loss, (X, Y), **run)
    for a, b in zip(weights(again.model), weights(shared.model), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="data"):
        mmlp.fit_many(stacked(keys), loss, (X, Y), **run | {"rows": rows[:, ::-1]})


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            np.zeros((2, 8), int),
            r"of shape \(2, parts, m\).* got dtype int64 and shape \(2, 8\)",
        ),
        (np.zeros((3, 1, 8), int), r"got dtype int64 and shape \(3, 1, 8\)"),
        (np.zeros((2, 1, 8)), "got dtype float64"),
        (
            np.full((2, 1, 8), 10**6),
            "must be from 0 to .*, the rows of the data, got 1000000",
        ),
        (np.full((2, 1, 8), -1), "got -1 to -1"),
    ],
)
def test_rows_that_cannot_be_are_refused(rows, message):
    keys = jax.random.split(KEY, 2)
    with pytest.raises(ValueError, match=message):
        mmlp.fit_many(
            stacked(keys), loss, (X, Y), keys=keys, rows=rows, epochs=1, **SGD
        )


ROWS = np.zeros((2, 1, 8), int)
HELD = (np.stack([X, X]), np.stack([Y, Y]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"validation": HELD[0]},
            r"`fit_many\(validation=...\)` must have the structure",
        ),
        ({"validation": list(HELD)}, "must have the structure.*PyTreeDef"),
        (
            {"validation": (HELD[0][..., :2], HELD[1])},
            r"row shapes.*\(\(2,\), 'float64'\)",
        ),
        (
            {"validation": (HELD[0].astype("float32"), HELD[1])},
            "dtypes of the data.*float32",
        ),
        (
            {"validation": (X, Y)},
            r"`fit_many\(validation=...\)\[0\]` must have shape \(2, n, ...\) with rows=...,",
        ),
        (
            {"own_data": True},
            r"`fit_many\(own_data=True\)` and `rows` exclude each other",
        ),
        (
            {"rows": [[[0, 1]], [[0]]]},
            r"of shape \(2, parts, m\), got lists of several lengths",
        ),
    ],
)
def test_with_rows_what_does_not_go_with_the_data_is_refused(change, message):
    keys = jax.random.split(KEY, 2)
    options = SGD | {"keys": keys, "rows": ROWS, "epochs": 1} | change
    with pytest.raises(ValueError, match=message):
        mmlp.fit_many(stacked(keys), loss, (X, Y), **options)
