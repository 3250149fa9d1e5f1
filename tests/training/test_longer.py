"""A run that goes on as a longer one ends as the longer one would have, or says why it cannot."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from checkpoints import ADAM, KEY, StopError, X, fit, loss, same, stop_after

import mmlp
from mmlp.serialization import files
from mmlp.training import checkpoints
from mmlp.training.longer import depends_on_last
from mmlp.training.optimizers import optimizer_by_progress


@pytest.fixture
def each_epoch(monkeypatch):
    monkeypatch.setattr(checkpoints, "SHARE", 0)


def kept(folder):
    """All bits of the newest checkpoint, and of the history."""
    arrays, metadata = files.read(max(folder.glob("checkpoint-*")))
    bits = {name: (x.dtype, x.shape, x.tobytes()) for name, x in arrays.items()}
    return bits, metadata, (folder / "history.jsonl").read_bytes()


def ignored(model, batch, key, t):
    """A function in between, which is given t and does not use it."""
    return jax.jit(loss)(model, batch, key, t)


@pytest.mark.parametrize(
    "options",
    [{}, {"validation": X[:9], "patience": 50}, {"loss": eqx.filter_jit(ignored)}],
)
def test_more_epochs_go_on_from_a_finished_run_bit_for_bit(
    options, tmp_path, each_epoch
):
    fit(tmp_path / "a", epochs=3, **options)
    with pytest.raises(StopError):
        fit(tmp_path / "a", epochs=7, on_epoch=stop_after(5), **options)
    seen = []
    longer = fit(
        tmp_path / "a",
        epochs=7,
        on_epoch=lambda info: seen.append(info.epoch),
        **options,
    )
    assert seen == [6, 7]
    assert same(longer, fit(tmp_path / "b", epochs=7, **options))
    assert kept(tmp_path / "a") == kept(tmp_path / "b")
    with pytest.raises(ValueError, match=r"another run \(it differs in epochs\)"):
        fit(tmp_path / "a", epochs=3, **options)
    with pytest.raises(
        ValueError, match=r"another run \(it differs in loss, epochs, batch_size\)"
    ):
        fit(tmp_path / "a", epochs=9, batch_size=9, **options)


def weighted(model, batch, key, t):
    return (1 + t) * loss(model, batch, key, t)


def looped(model, batch, key, t):
    return jax.lax.fori_loop(0, 2, lambda i, x: x * (1 + t), loss(model, batch, key, t))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            {"loss": weighted},
            "its loss went by t, how far training was, so that it is no first",
        ),
        ({"loss": jax.jit(looped)}, "its loss went by t"),
        (
            {"optimizer": optimizer_by_progress(), "loss": weighted},
            "its loss and optimizer went",
        ),
        (
            {"optimizer": None},
            "the optimizer is made for all its steps, as the default one is",
        ),
    ],
)
def test_what_goes_by_progress_cannot_go_on_and_says_what_to_do(options, why, tmp_path):
    fit(tmp_path, epochs=2, **options)
    with pytest.raises(checkpoints.AnotherRunError) as info:
        fit(tmp_path, epochs=4, **options)
    assert "a run of 2 epochs, which cannot go on to 4: " in str(info.value)
    assert why in str(info.value)
    assert "`fit(result.model, ...)`" in str(info.value)


def test_more_patience_goes_on_from_where_a_run_had_stopped(tmp_path, each_epoch):
    """A huge step overshoots at once: the first epoch stays the best."""
    options = {"epochs": 20, "optimizer": optax.sgd(3.0), "validation": X}
    first = fit(tmp_path / "a", patience=2, **options)
    assert len(first.history["loss"]) == 3
    assert same(
        first, fit(tmp_path / "a", patience=2, **options | {"epochs": 30})
    )  # as it ended
    options["epochs"] = 30
    longer = fit(tmp_path / "a", patience=4, **options)
    assert len(longer.history["loss"]) == 5
    assert same(longer, fit(tmp_path / "b", patience=4, **options))
    assert kept(tmp_path / "a") == kept(tmp_path / "b")
    for epochs in ({"epochs": 6}, {}):
        with pytest.raises(ValueError, match=r"it differs in (epochs, )?patience"):
            fit(tmp_path / "a", patience=3, **options | epochs)
    assert len(fit(tmp_path / "a", patience=None, **options).history["loss"]) == 30


def test_of_many_models_those_that_rested_cannot_catch_up(tmp_path):
    keys = jax.random.split(KEY, 2)
    models = eqx.filter_vmap(lambda k: eqx.nn.Linear(3, 1, key=k))(keys)
    options = {
        "keys": keys,
        "batch_size": 8,
        "optimizer": optax.sgd(3.0),
        "progress": False,
    }
    options |= {"validation": X, "patience": 2, "rates": (1.0, 0.01)}

    def many(folder, **changes):
        return mmlp.fit_many(models, loss, X, checkpoint=folder, **options | changes)

    rested = np.isnan(many(tmp_path / "a", epochs=5).history["loss"]).any(axis=0)
    assert rested.tolist() == [True, False]
    longer = many(tmp_path / "a", epochs=8)
    assert same(longer, many(tmp_path / "b", epochs=8))
    assert kept(tmp_path / "a") == kept(tmp_path / "b")
    with pytest.raises(
        ValueError, match="models 0 stopped before the others, and rested"
    ):
        many(tmp_path / "a", epochs=8, patience=4)


def test_t_is_found_wherever_it_is_used():
    def inner(x, t):
        return x + 1, t

    def unused(x, t):
        return jax.jit(inner)(x, t)[0]

    def used(x, t):
        return jax.jit(inner)(x, t)[1]

    def branch(x, t):
        return jax.lax.cond(t > 0.5, jnp.sin, jnp.cos, x)

    def carried(x, t):
        return jax.lax.scan(lambda c, _: ((c[1], c[1]), None), (x, t), None, length=2)[
            0
        ][0]

    def remat(x, t):
        return jax.checkpoint(lambda x, t: x)(x, t)

    def written(x, t):
        ref = jax.new_ref(x)
        ref[...] = t
        return ref[...]

    functions = (unused, used, branch, carried, remat, written)
    found = [depends_on_last(f, 1.0, 1.0) for f in functions]
    assert found == [False, True, True, True, False, True]
    update = optax.with_extra_args_support(ADAM).update
    state = ADAM.init(1.0)
    assert not depends_on_last(lambda g, s, t: update(g, s, g, t=t), 1.0, state, 1.0)
