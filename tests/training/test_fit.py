"""`fit`: what is trained, in what order, and when it is compiled."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from fits import ADAM, KEY, X, Y, equal, fit, loss, model, weights

import mmlp
from mmlp.datasets import turning_factors


def spd_loss(model, batch, key, t):
    return jnp.mean(mmlp.von_neumann(jax.vmap(model)(batch[0]), batch[1]))


def test_a_matrix_mlp_learns_covariances_held_as_grams():
    inputs = jax.random.normal(KEY, (40, 2))
    factors = turning_factors(inputs[:, :1], [[[0.0, -1.0], [0.0, 0.0]]], [1.0, 0.3])
    target = mmlp.Gram.trace_one(jnp.asarray(factors))
    start = mmlp.calibrate(mmlp.MatrixMLP(2, 2, (8, 8), key=KEY), inputs, key=KEY)
    before = spd_loss(start, (inputs, target), KEY, 1.0)
    result = mmlp.fit(
        start,
        spd_loss,
        (inputs, target),
        key=KEY,
        epochs=60,
        batch_size=20,
        progress=False,
    )
    assert spd_loss(result.model, (inputs, target), KEY, 1.0) < 0.5 * before
    assert result.history["loss"].shape == (60,)
    assert not result.history["skipped"].any()


def test_an_epoch_sees_each_row_once_and_its_tail_in_a_step_of_its_own_size():
    """With weights that stay put, an epoch's loss is the mean over all rows, in any batches."""
    still = optax.sgd(0.0)
    expected = loss(model(), (X, Y), KEY, 0.0)
    for batch_size in (8, 11, 100):
        history = fit(
            model(), loss, (X, Y), optimizer=still, epochs=1, batch_size=batch_size
        ).history
        np.testing.assert_allclose(history["loss"], expected, rtol=1e-12)


def test_a_run_is_the_plain_loop_over_shuffled_batches():
    """The same shuffling and keys, step by step and without `fit`, give the same weights."""
    params, opt_state = model(), ADAM.init(model())
    for epoch in range(3):
        order = jax.random.permutation(
            jax.random.split(jax.random.fold_in(KEY, epoch + 1), 4)[-1], 22
        )
        for rows in (order[:8], order[8:16], order[16:]):
            gradient = eqx.filter_grad(loss)(params, (X[rows], Y[rows]), None, 0.0)
            updates, opt_state = ADAM.update(gradient, opt_state, params)
            params = eqx.apply_updates(params, updates)
    for a, b in zip(
        weights(fit(model(), loss, (X, Y)).model), weights(params), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_t_runs_from_zero_to_one_and_validation_is_scored_at_one_with_a_fixed_key():
    seen = []

    def watched(model, batch, key, t):
        jax.debug.callback(
            lambda t, k: seen.append((len(batch[0]), float(t), k.tolist())),
            t,
            jax.random.key_data(key),
        )
        return loss(model, batch, key, t)

    fit(model(), watched, (X, Y), validation=(X[:7], Y[:7]))
    jax.effects_barrier()
    steps, scores = [s for s in seen if s[0] != 7], [s for s in seen if s[0] == 7]
    np.testing.assert_allclose(sorted(t for _, t, _ in steps), np.arange(9) / 8)
    assert len({tuple(k) for _, _, k in steps}) == 9
    assert len(scores) == 3
    assert all(s == scores[0] for s in scores)
    assert scores[0][1] == 1.0


def test_the_callers_model_survives_and_models_may_hold_numpy_and_integer_arrays():
    class Odd(eqx.Module):
        W: np.ndarray
        index: jax.Array
        name: str

        def __call__(self, x):
            return self.W @ x[self.index]

    odd = Odd(np.ones((1, 3)), jnp.array([2, 1, 0]), "odd")
    for start in (model(), odd):
        before = [x.copy() for x in weights(start)]
        result = fit(start, loss, (X, Y))
        assert all(
            np.array_equal(a, b) for a, b in zip(before, weights(start), strict=True)
        )
        assert not equal(result.model, start)
    assert np.array_equal(result.model.index, odd.index)


def test_a_second_fit_of_the_same_shapes_does_not_compile_again():
    traces = []

    def counted(*arguments):
        traces.append(arguments)
        return loss(*arguments)

    fit(model(), counted, (X, Y), optimizer=None)
    number = len(traces)
    fit(
        model(jax.random.key(5)),
        counted,
        (X + 1, Y),
        optimizer=None,
        key=jax.random.key(6),
    )
    assert len(traces) == number > 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtype_follows_the_model(dtype):
    start = jax.tree.map(lambda x: x.astype(dtype), model())
    result = fit(start, loss, (X.astype(dtype), Y.astype(dtype)))
    assert {str(x.dtype) for x in weights(result.model)} == {dtype}
    assert result.history["loss"].dtype == dtype
