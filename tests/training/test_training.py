"""`fit` and `fit_many`: what is trained, in what order, and what happens when numbers are not finite."""

import functools
import io
import json
import os
import subprocess
import sys
import threading

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import mmlp
from mmlp.training import NonFiniteError, loop
from mmlp.training.epoch import run_epoch

KEY = jax.random.key(0)
X = np.asarray(jax.random.normal(KEY, (22, 3)))
Y = X @ np.array([[1.0], [-2.0], [0.5]]) + 0.1
ADAM = optax.adam(0.05)


def model(key=jax.random.key(1)):
    return eqx.nn.Linear(3, 1, key=key)


def loss(model, batch, key, t):
    return jnp.mean((jax.vmap(model)(batch[0]) - batch[1]) ** 2)


def spd_loss(model, batch, key, t):
    return jnp.mean(mmlp.von_neumann(jax.vmap(model)(batch[0]), batch[1]))


fit = functools.partial(mmlp.fit, key=KEY, epochs=3, batch_size=8, optimizer=ADAM, progress=False)


def weights(tree):
    return [np.asarray(x) for x in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]


def equal(a, b):
    return all(
        np.array_equal(x, y, equal_nan=True) for x, y in zip(weights(a), weights(b), strict=True)
    )


# -- what is trained --------------------------------------------------------------------------------------------------


def test_a_matrix_mlp_learns_covariances_held_as_grams():
    inputs = jax.random.normal(KEY, (40, 2))
    turn = jnp.stack(
        [
            jnp.cos(inputs[:, 0]),
            -jnp.sin(inputs[:, 0]),
            jnp.sin(inputs[:, 0]),
            jnp.cos(inputs[:, 0]),
        ],
        -1,
    )
    target = mmlp.Gram.trace_one(jnp.array([[1.0], [0.3]]) * turn.reshape(-1, 2, 2))
    start = mmlp.calibrate(mmlp.MatrixMLP(2, 2, (8, 8), key=KEY), inputs, key=KEY)
    before = spd_loss(start, (inputs, target), KEY, 1.0)
    result = mmlp.fit(
        start, spd_loss, (inputs, target), key=KEY, epochs=60, batch_size=20, progress=False
    )
    assert spd_loss(result.model, (inputs, target), KEY, 1.0) < 0.5 * before
    assert result.history["loss"].shape == (60,)
    assert not result.history["skipped"].any()


def test_an_epoch_sees_each_row_once_and_its_tail_in_a_step_of_its_own_size():
    """With weights that stay put, the mean loss of an epoch is the mean over all rows, however they are batched."""
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
    for a, b in zip(weights(fit(model(), loss, (X, Y)).model), weights(params), strict=True):
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
        assert all(np.array_equal(a, b) for a, b in zip(before, weights(start), strict=True))
        assert not equal(result.model, start)
    assert np.array_equal(result.model.index, odd.index)


def test_a_second_fit_of_the_same_shapes_does_not_compile_again():
    traces = []

    def counted(*arguments):
        traces.append(arguments)
        return loss(*arguments)

    fit(model(), counted, (X, Y), optimizer=None)
    number = len(traces)
    fit(model(jax.random.key(5)), counted, (X + 1, Y), optimizer=None, key=jax.random.key(6))
    assert len(traces) == number > 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtype_follows_the_model(dtype):
    start = jax.tree.map(lambda x: x.astype(dtype), model())
    result = fit(start, loss, (X.astype(dtype), Y.astype(dtype)))
    assert {str(x.dtype) for x in weights(result.model)} == {dtype}
    assert result.history["loss"].dtype == dtype


# -- validation, patience, history ------------------------------------------------------------------------------------


def test_the_best_weights_are_restored_and_patience_ends_the_run():
    """A huge step overshoots at once: the first epoch stays the best."""
    kept = []
    result = fit(
        *(model(), loss, (X, Y)),
        optimizer=optax.sgd(3.0),
        epochs=50,
        validation=(X, Y),
        patience=4,
        on_epoch=(lambda info: kept.append(info.model()),),
    )
    values = result.history["validation"]
    best = int(np.argmin(values))
    assert len(values) == best + 1 + 4 < 50
    assert equal(result.model, kept[best])


def test_on_epoch_is_told_of_each_epoch_in_turn():
    infos = []
    history = fit(model(), loss, (X, Y), validation=(X, Y), on_epoch=[infos.append]).history
    assert [(i.epoch, i.epochs) for i in infos] == [(1, 3), (2, 3), (3, 3)]
    assert [i.loss for i in infos] == history["loss"].tolist()
    assert [i.validation for i in infos] == history["validation"].tolist()


def test_history_lies_beside_the_checkpoint_as_json_lines_without_clock_times(tmp_path):
    history = fit(model(), loss, (X, Y), validation=(X, Y), checkpoint=tmp_path).history
    lines = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert [line.pop("epoch") for line in lines] == [1, 2, 3]
    assert {name: [line[name] for line in lines] for name in lines[0]} == {
        k: v.tolist() for k, v in history.items()
    }
    assert set(history) == {"loss", "validation", "skipped", "step_scale"}


def test_progress_is_silent_for_short_runs_and_lines_where_there_is_no_terminal(
    capsys, monkeypatch
):
    monkeypatch.setattr(loop, "FIRST", 1e9)  # seconds; every run is short
    fit(model(), loss, (X, Y), progress=True)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(loop, "FIRST", 0.0)  # none is
    fit(model(), loss, (X, Y), progress=True)
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith("epoch 1/3: loss ")
    assert last.startswith("epoch 3/3: loss ")
    assert last.endswith("epochs/s")
    fit(model(), loss, (X, Y), progress=False)
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_progress_is_a_bar(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(loop, "FIRST", 0.0)
    fit(model(), loss, (X, Y), validation=(X, Y), progress=True)
    assert "3/3" in terminal.getvalue()
    assert "validation" in terminal.getvalue()


def test_fit_works_outside_the_main_thread(tmp_path):
    results = []
    thread = threading.Thread(
        target=lambda: results.append(fit(model(), loss, (X, Y), checkpoint=tmp_path))
    )
    thread.start()
    thread.join()
    assert equal(results[0].model, fit(model(), loss, (X, Y)).model)


def test_import_needs_only_jax_equinox_and_optax():
    code = (
        "import sys\n"
        "for name in ('safetensors', 'tqdm', 'sklearn', 'matplotlib', 'tyro', 'pooch'): sys.modules[name] = None\n"
        "import mmlp"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        timeout=120,
    )


# -- steps that are not finite ----------------------------------------------------------------------------------------


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
    """Weights beyond a cliff, where the loss is not finite: only a smaller step from this side of it can go on."""

    def cliff(model, batch, key, t):
        return jnp.where(model > 1.0, jnp.nan, (model - 0.9) ** 2) + 0 * jnp.mean(batch)

    with pytest.warns(
        RuntimeWarning, match="the loss was not finite in 5 steps in a row in epoch 2; went back"
    ):
        result = fit(jnp.array(0.0), cliff, X, optimizer=optax.sgd(0.8), epochs=20, batch_size=5)
    assert abs(result.model - 0.9) < 0.01
    assert result.history["skipped"].sum() == 5
    assert result.history["step_scale"][-1] == 0.5


def test_lasting_trouble_ends_in_an_error_that_says_what_where_and_what_to_try():
    with (
        pytest.warns(RuntimeWarning, match="went back"),
        pytest.raises(
            NonFiniteError,
            match=r"the gradient or step of linear.weight was not finite .* in epoch \d+, .*learning rate",
        ) as info,
    ):
        fit(Poisoned(model(), jnp.arange(3, 9)), infinite_gradient, (X, Y), epochs=30)
    assert all(np.isfinite(w).all() for w in weights(info.value.result.model))
    assert info.value.result.history["skipped"].sum() >= 30


def test_a_run_without_a_single_step_is_reported_and_its_progress_line_is_tidy(capsys, monkeypatch):
    monkeypatch.setattr(loop, "FIRST", 0.0)
    with pytest.warns(
        UserWarning,
        match="no step at all was finite, and none was applied; the model is as it began",
    ):
        fit(Poisoned(model(), jnp.arange(9)), not_a_number, (X, Y), epochs=1, progress=True)
    assert capsys.readouterr().err == "epoch 1/1: 3 steps left out\n"


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
    return jnp.where((model[0] < 0) | (t == 1), jnp.nan, jnp.mean((model[1] - batch) ** 2))


@pytest.mark.parametrize("many", [False, True])
def test_warnings_point_to_the_line_that_called(many, tmp_path):
    """Of models that go back or rest, of validation that is never finite, of a damaged file."""
    options = {"epochs": 8, "batch_size": 4, "optimizer": optax.sgd(0.1), "progress": False}
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
    assert ("it rests at" in str(first[-2].message)) if many else len(first) == 1
    assert "not finite in any epoch" in str(first[-1].message)
    assert "begins anew" in str(second[0].message)
    assert {warning.filename for warning in (*first, *second)} == {__file__}


# -- many models ------------------------------------------------------------------------------------------------------


def test_fit_many_trains_each_model_as_fit_does_alone_and_stops_it_alone():
    keys = jax.random.split(KEY, 3)
    models = eqx.filter_vmap(lambda k: eqx.nn.Linear(3, 1, key=k))(keys)
    options = {
        "epochs": 12,
        "batch_size": 8,
        "optimizer": optax.adam(0.3),
        "validation": (X[:9], Y[:9]),
        "patience": 2,
    }
    many = mmlp.fit_many(models, loss, (X, Y), keys=keys, progress=False, **options)
    lengths = []
    for i in range(3):
        pick = functools.partial(jax.tree.map, lambda x: x[i] if eqx.is_array(x) else x)  # noqa: B023
        one = mmlp.fit(pick(models), loss, (X, Y), key=keys[i], progress=False, **options)
        lengths.append(len(one.history["loss"]))
        for a, b in zip(weights(pick(many.model)), weights(one.model), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8)
        for name, values in one.history.items():
            np.testing.assert_allclose(many.history[name][: lengths[-1], i], values, rtol=1e-8)
            assert np.isnan(many.history["loss"][lengths[-1] :, i]).all()
    assert len(set(lengths)) > 1  # they did stop apart
    assert len(many.history["loss"]) == max(lengths)


def test_fit_many_lets_a_failed_model_rest_while_the_others_go_on():
    def sick(model, batch, key, t):
        return jnp.where(model[0] < 0, jnp.nan, jnp.mean((model[1] - batch) ** 2))

    models, keys = jnp.array([[1.0, 0.0], [-1.0, 0.0]]), jax.random.split(KEY, 2)
    with pytest.warns(RuntimeWarning, match="of model 1"):
        result = mmlp.fit_many(
            models,
            sick,
            X,
            keys=keys,
            epochs=30,
            batch_size=8,
            optimizer=optax.sgd(0.1),
            progress=False,
        )
    np.testing.assert_allclose(result.model[0, 1], X.mean(), atol=0.2)
    assert np.array_equal(result.model[1], models[1])
    assert result.history["loss"].shape == (30, 2)
    assert np.isfinite(result.history["loss"][:, 0]).all()


def test_fit_many_names_all_models_in_trouble():
    def sick(model, batch, key, t):
        return jnp.where(
            (model[0] < 0) | ((model[0] > 1) & (t == 1)), jnp.nan, jnp.mean((model[1] - batch) ** 2)
        )

    models, keys = (
        jnp.array([[1.0, 0.0], [-1.0, 0.0], [2.0, 0.0], [-1.0, 0.0]]),
        jax.random.split(KEY, 4),
    )
    with pytest.warns() as caught:
        mmlp.fit_many(
            *(models, sick, X),
            keys=keys,
            epochs=20,
            batch_size=8,
            optimizer=optax.sgd(0.1),
            validation=X,
            progress=False,
        )
    texts = [str(warning.message) for warning in caught]
    assert all("the loss of models 1, 3 was not finite in 5 steps" in text for text in texts[:-1])
    assert "they rest at their last good weights" in texts[-2]
    assert "not finite in any epoch for models 1, 2, 3; the models are" in texts[-1]

    with pytest.warns(
        UserWarning, match="none was applied for models 1, 3; the models are as they began"
    ):
        mmlp.fit_many(
            models,
            sick,
            X,
            keys=keys,
            epochs=1,
            batch_size=8,
            optimizer=optax.sgd(0.1),
            progress=False,
        )


# -- arguments --------------------------------------------------------------------------------------------------------


def holed(row):
    bad = X.copy()
    bad[row, 1] = np.nan
    return bad


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_size": 0}, r"`fit\(batch_size=...\)` must be a whole number of at least 1, got 0"),
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
        ({"data": (X, np.zeros(22, "datetime64[s]"))}, "must hold numbers, got dtype datetime64"),
        ({"data": (X, jax.random.split(KEY, 22))}, "must hold numbers, got dtype key"),
        ({"data": (X, Y[:-1])}, r"as many rows .*22.*21"),
        ({"data": (holed(17), Y)}, r"`fit\(data=...\)\[0\]` must be finite, got nan in row 17"),
        (
            {"validation": (X, Y + np.inf)},
            r"`fit\(validation=...\)\[1\]` must be finite, got inf in row 0",
        ),
        ({"validation": X}, r"`fit\(validation=...\)` must have the structure"),
        ({"key": 3}, r"`fit\(key=...\)` must be made by `jax.random.key`"),
        ({"key": jax.random.split(KEY, 2)}, "single key"),
        ({"loss": None}, r"`fit\(loss=...\)`"),
        ({"optimizer": 1e-3}, r"`fit\(optimizer=...\)` must be an Optax optimiser"),
        ({"on_epoch": print}, r"`fit\(on_epoch=...\)` must be a tuple"),
        ({"model": jnp.arange(3)}, "no floating-point array"),
        ({"model": jnp.array([1.0, np.nan])}, "finite weights"),
    ],
)
def test_bad_arguments_are_named_before_anything_is_compiled(change, message):
    compiled = run_epoch.kept.cache_info()
    arguments = {"model": model(), "loss": loss, "data": (X, Y), **change}
    with pytest.raises(ValueError, match=message):
        fit(arguments.pop("model"), arguments.pop("loss"), arguments.pop("data"), **arguments)
    assert run_epoch.kept.cache_info() == compiled


def test_a_loss_that_is_not_one_number_is_refused():
    with pytest.raises(
        ValueError, match=r"`fit\(loss=...\)` must return one real number, .*float64\[8,1\]"
    ):
        fit(model(), lambda model, batch, key, t: jax.vmap(model)(batch[0]), (X, Y))
    for value, name in ((None, "NoneType"), ((0.0, 1.0), "tuple")):
        with pytest.raises(ValueError, match=f"must return one real number, .*returned {name}"):
            fit(model(), lambda model, batch, key, t, value=value: value, (X, Y))


def test_fit_many_names_the_array_that_is_not_stacked():
    with pytest.raises(ValueError, match=r"leading axis of 2 models.*weight has shape \(1, 3\)"):
        mmlp.fit_many(model(), loss, (X, Y), keys=jax.random.split(KEY, 2), epochs=1, batch_size=4)
    with pytest.raises(ValueError, match=r"`fit_many\(keys=...\)` must be one axis of keys"):
        mmlp.fit_many(model(), loss, (X, Y), keys=KEY, epochs=1, batch_size=4)


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
    together = mmlp.fit_many(
        models,
        loss,
        data,
        keys=keys,
        rates=(1.0, 0.5),
        own_data=True,
        validation=held_out,
        optimizer=optax.sgd(0.1),
        **options,
    )
    for i, rate in enumerate((0.1, 0.05)):
        model, own, held = jax.tree.map(
            lambda x, i=i: x[i] if eqx.is_array(x) else x, (models, data, held_out)
        )
        alone = mmlp.fit(
            model, loss, own, key=keys[i], validation=held, optimizer=optax.sgd(rate), **options
        )
        np.testing.assert_allclose(
            together.history["validation"][:, i], alone.history["validation"], rtol=1e-6
        )
        np.testing.assert_allclose(together.model.weight[i], alone.model.weight, rtol=1e-6)
    with pytest.raises(ValueError, match=r"rates.*2 positive"):
        mmlp.fit_many(models, loss, data, keys=keys, rates=(1.0, -1.0), own_data=True, **options)
    with pytest.raises(ValueError, match=r"\(2, n, ...\)"):
        mmlp.fit_many(models, loss, (X[0], y[0]), keys=keys, own_data=True, **options)
    with pytest.raises(ValueError, match=r"got nan in row 5 of model 1 \(index \(1, 5, 0\)\)"):
        mmlp.fit_many(
            models, loss, (X.at[1, 5, 0].set(jnp.nan), y), keys=keys, own_data=True, **options
        )


def test_models_that_have_all_stopped_end_the_run_and_keep_their_reports():
    keys = jax.random.split(jax.random.key(8), 2)
    models = eqx.filter_vmap(lambda key: eqx.nn.Linear(3, 1, key=key))(keys)

    def loss(model, batch, key, t):
        return jnp.mean((jax.vmap(model)(batch[0]) - batch[1]) ** 2)

    far = (X, -Y)  # what is learnt makes this worse: no epoch is better than the first or second
    options = {
        "epochs": 30,
        "batch_size": 11,
        "optimizer": optax.sgd(0.05),
        "progress": False,
        "patience": 1,
    }
    result = mmlp.fit_many(models, loss, (X, Y), keys=keys, validation=far, **options)
    assert len(result.history["loss"]) < 30
    assert np.all(np.isfinite(result.history["loss"][-1]).any())


def test_a_run_with_other_rates_is_another_run(tmp_path):
    keys = jax.random.split(jax.random.key(8), 2)
    models = eqx.filter_vmap(lambda key: eqx.nn.Linear(3, 1, key=key))(keys)
    options = {
        "keys": keys,
        "epochs": 1,
        "batch_size": 11,
        "optimizer": optax.sgd(0.05),
        "progress": False,
    }

    def loss(model, batch, key, t):
        return jnp.mean((jax.vmap(model)(batch[0]) - batch[1]) ** 2)

    mmlp.fit_many(models, loss, (X, Y), rates=(0.5, 0.2), checkpoint=tmp_path, **options)
    with pytest.raises(ValueError, match="differs in rates"):
        mmlp.fit_many(models, loss, (X, Y), checkpoint=tmp_path, **options)
