"""Wrong arguments of `fit` and `fit_many`: named, with the remedy, before compiling."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fits import KEY, X, Y, fit, loss, model

import mmlp
from mmlp.training.epoch import run_epoch


def holed(row):
    bad = X.copy()
    bad[row, 1] = np.nan
    return bad


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"batch_size": 0},
            r"`fit\(batch_size=...\)` must be a whole number of at least 1, got 0",
        ),
        ({"batch_size": 2.5}, "batch_size"),
        ({"epochs": 0}, r"`fit\(epochs=...\)`"),
        ({"patience": 3}, r"`fit\(patience=3\)` needs `validation`"),
        ({"patience": 0, "validation": (X, Y)}, r"`fit\(patience=...\)`"),
        (
            {"data": (X[:0], Y[:0])},
            r"`fit\(data=...\)\[0\]` must have at least one row, got shape \(0, 3\)",
        ),
        ({"data": ()}, "at least one array"),
        ({"data": (X, [1.0, 2.0])}, "must be an array"),
        (
            {"data": (X, np.array(["a"] * 22))},
            r"`fit\(data=...\)\[1\]` must hold numbers, got dtype <U1",
        ),
        (
            {"data": (X, np.zeros(22, "datetime64[s]"))},
            "must hold numbers, got dtype datetime64",
        ),
        ({"data": (X, jax.random.split(KEY, 22))}, "must hold numbers, got dtype key"),
        ({"data": (X, Y[:-1])}, r"same number of rows .*22.*21"),
        (
            {"data": (holed(17), Y)},
            r"`fit\(data=...\)\[0\]` must be finite, got nan in row 17",
        ),
        (
            {"validation": (X, Y + np.inf)},
            r"`fit\(validation=...\)\[1\]` must be finite, got inf in row 0",
        ),
        ({"validation": X}, r"`fit\(validation=...\)` must have the structure"),
        ({"key": 3}, r"`fit\(key=...\)` must be made by `jax.random.key`"),
        ({"key": jax.random.split(KEY, 2)}, "single key"),
        ({"loss": None}, r"`fit\(loss=...\)`"),
        ({"optimizer": 1e-3}, r"`fit\(optimizer=...\)` must be an Optax optimiser"),
        (
            {"on_epoch": 3},
            r"`fit\(on_epoch=...\)` must be a function of one EpochInfo, or",
        ),
        ({"on_epoch": [print, 3]}, r"`fit\(on_epoch=...\)`"),
        (
            {"loss": lambda model, batch: 0.0},
            r"`loss\(model, batch, key, t\)`: `key` is a random key .* `t`, from 0 to 1, is "
            r"the progress.*got `<lambda>\(model, batch\)` \(too many positional",
        ),
        (
            {"loss": jax.jit(lambda m, batch, key: 0.0)},
            r"got `<lambda>\(m, batch, key\)`",
        ),
        ({"loss": functools.partial(loss, None)}, "key, t"),
        (
            {"loss": lambda model, batch, key, t, extra: 0.0},
            "missing a required argument: 'extra'",
        ),
        ({"model": jnp.arange(3)}, "no floating-point array"),
        ({"model": jnp.array([1.0, np.nan])}, "finite weights"),
    ],
)
def test_bad_arguments_are_named_before_anything_is_compiled(change, message):
    compiled = run_epoch.find_program.cache_info()
    arguments = {"model": model(), "loss": loss, "data": (X, Y), **change}
    with pytest.raises(ValueError, match=message):
        fit(
            arguments.pop("model"),
            arguments.pop("loss"),
            arguments.pop("data"),
            **arguments,
        )
    assert run_epoch.find_program.cache_info() == compiled


def test_a_loss_that_is_not_one_number_is_refused():
    with pytest.raises(
        ValueError,
        match=r"`fit\(loss=...\)` must return one real number, .*float64\[8,1\]: use `jnp.me",
    ):
        fit(model(), lambda model, batch, key, t: jax.vmap(model)(batch[0]), (X, Y))
    for value, name in ((None, "NoneType"), ((0.0, 1.0), "tuple")):
        with pytest.raises(
            ValueError,
            match=f"must return one real number, .*returned {name}: return that",
        ):
            fit(model(), lambda model, batch, key, t, value=value: value, (X, Y))


def test_fit_many_names_the_array_that_is_not_stacked():
    with pytest.raises(
        ValueError, match=r"leading axis of 2 models.*weight has shape \(1, 3\)"
    ):
        mmlp.fit_many(
            model(), loss, (X, Y), keys=jax.random.split(KEY, 2), epochs=1, batch_size=4
        )
    with pytest.raises(
        ValueError, match=r"`fit_many\(keys=...\)` must be one axis of keys"
    ):
        mmlp.fit_many(model(), loss, (X, Y), keys=KEY, epochs=1, batch_size=4)
