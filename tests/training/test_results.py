"""Steps that are not finite: left out, counted, reported, and at last an error."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from fits import KEY, X, Y, equal, fit, loss, model, weights

import mmlp
from mmlp.training import NonFiniteError, progress


class Poisoned(eqx.Module):
    """A model with the numbers of the steps, of nine, at which its loss is not finite."""

    linear: eqx.nn.Linear
    steps: jax.Array


def not_a_number(model, batch, key, t):
    hit = jnp.isin(jnp.round(8 * t), model.steps)
    return jnp.where(hit, jnp.nan, 1.0) * loss(model.linear, batch, key, t)


def infinite_gradient(model, batch, key, t):
    """The derivative of sqrt is infinite at zero; the value is not."""
    hit = jnp.isin(jnp.round(8 * t), model.steps)
    return loss(model.linear, batch, key, t) + 1e-9 * jnp.sqrt(
        jnp.where(hit, 0.0, 1.0) * model.linear.weight[0, 0] ** 2
    )


@pytest.mark.parametrize("bad_loss", [not_a_number, infinite_gradient])
@pytest.mark.parametrize("where", [[0, -1, -1], [8, -1, -1], [2, 3, 5]])
def test_a_step_that_is_not_finite_is_not_applied_but_counted(bad_loss, where):
    result = fit(Poisoned(model(), jnp.array(where)), bad_loss, (X, Y))
    assert result.history["skipped"].sum() == sum(step >= 0 for step in where)
    assert all(np.isfinite(w).all() for w in weights(result.model))
    assert np.isfinite(result.history["loss"]).all()
    assert (result.history["step_scale"] == 1).all()
    assert not equal(result.model.linear, model())


def test_after_several_in_a_row_training_goes_back_with_a_smaller_step_and_recovers():
    """Weights beyond a cliff, where no loss is finite: a smaller step from this side goes on."""

    def cliff(model, batch, key, t):
        return jnp.where(model > 1.0, jnp.nan, (model - 0.9) ** 2) + 0 * jnp.mean(batch)

    with pytest.warns(
        RuntimeWarning,
        match="the loss was not finite in 5 steps in a row in epoch 2; training returns",
    ):
        result = fit(
            jnp.array(0.0), cliff, X, optimizer=optax.sgd(0.8), epochs=20, batch_size=5
        )
    assert abs(result.model - 0.9) < 0.01
    assert result.history["skipped"].sum() == 5
    assert result.history["step_scale"][-1] == 0.5


def test_lasting_trouble_ends_in_an_error_that_says_what_where_and_what_to_try():
    text = r"the gradient or step of linear.weight was not finite .* in epoch \d+, .*learning rate"
    with (
        pytest.warns(RuntimeWarning, match="training returns to the last good weights"),
        pytest.raises(NonFiniteError, match=text) as info,
    ):
        fit(Poisoned(model(), jnp.arange(3, 9)), infinite_gradient, (X, Y), epochs=30)
    assert all(np.isfinite(w).all() for w in weights(info.value.result.model))
    assert info.value.result.history["skipped"].sum() >= 30


def test_a_run_without_a_single_step_is_reported_and_its_progress_line_is_tidy(
    capsys, monkeypatch
):
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.0)
    monkeypatch.setattr(progress, "SECONDS_BEFORE_COMPILING_IS_SHOWN", 1e9)
    with pytest.warns(
        UserWarning,
        match="no step was finite, and none was applied; the model has its initial weights",
    ):
        fit(
            Poisoned(model(), jnp.arange(9)),
            not_a_number,
            (X, Y),
            epochs=1,
            progress=True,
        )
    assert capsys.readouterr().err.startswith("all 1 epoch: 3 steps skipped, 0:")


def test_metrics_of_half_precision_are_counted_in_single():
    start = jax.tree.map(lambda x: x.astype("bfloat16"), model())
    result = fit(start, lambda model, batch, key, t: jnp.mean(model.weight**2), X)
    assert {str(x.dtype) for x in weights(result.model)} == {"bfloat16"}
    assert result.history["loss"].dtype == "float32"


def test_a_validation_loss_that_is_never_finite_is_reported():
    def nan_at_one(model, batch, key, t):
        return jnp.where(t == 1, jnp.nan, loss(model, batch, key, t))

    with pytest.warns(UserWarning, match="not finite in any epoch"):
        result = fit(model(), nan_at_one, (X, Y), validation=(X, Y), epochs=2)
    assert equal(result.model, model())


def quietly_sick(model, batch, key, t):
    """Not finite for models whose first number is negative, and where it is validated."""
    return jnp.where(
        (model[0] < 0) | (t == 1), jnp.nan, jnp.mean((model[1] - batch) ** 2)
    )


@pytest.mark.parametrize("many", [False, True])
def test_warnings_point_to_the_line_that_called(many, tmp_path):
    """Of models that go back or rest, of validation that is never finite, of a damaged file."""
    options = {
        "epochs": 8,
        "batch_size": 4,
        "optimizer": optax.sgd(0.1),
        "progress": False,
    }
    options |= {"validation": X, "checkpoint": tmp_path}
    models, keys = jnp.array([[1.0, 0.0], [-1.0, 0.0]]), jax.random.split(KEY, 2)

    def train():
        if many:
            return mmlp.fit_many(models, quietly_sick, X, keys=keys, **options)
        return mmlp.fit(models[0], quietly_sick, X, key=KEY, **options)

    with pytest.warns() as first:
        train()
    for file in tmp_path.glob("checkpoint-*"):
        file.write_bytes(b"")
    with pytest.warns() as second:
        train()
    assert (
        ("it keeps its last good weights" in str(first[-2].message))
        if many
        else len(first) == 1
    )
    assert "not finite in any epoch" in str(first[-1].message)
    assert "training starts again" in str(second[0].message)
    assert {warning.filename for warning in (*first, *second)} == {__file__}
