"""What the library says becomes the words of the command: no names of Python are left."""

import pickle
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from command import run

from mmlp import Gram, estimators, fit
from mmlp.cli import commands
from mmlp.cli.messages import describe
from mmlp.errors import (
    CallError,
    CallWarning,
    DirectoryInUseError,
    UnusableCheckpointError,
)
from mmlp.estimators import chunks, precision
from mmlp.estimators.arguments import check_covariance_form
from mmlp.estimators.spd import factorize
from mmlp.estimators.training_settings import check_number_of_steps
from mmlp.serialization import files

PYTHON = re.compile(
    r"fit_many|from_dense|predict_|log_density|max_epochs|n_models|random_state|batch_size|dtype=|"
    r"resume=|like=|estimators?\b|`\w+[_.(]|=\.\.\.|jax\.|Regressor|VAE|Gram|directory"
)


def raised(function, *arguments, **named) -> Exception:
    with pytest.raises((ValueError, FloatingPointError)) as caught:
        function(*arguments, **named)
    return caught.value


def small():
    return estimators.MultivariateRegressor(n_models=2, max_epochs=1)


def of_training():
    """That of a training whose loss is never finite."""

    def loss(model, batch, key, t):
        return jnp.sum(model.factor) * jnp.nan

    model, X = Gram(jnp.eye(1)), np.ones((4, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return raised(
            fit,
            model,
            loss,
            X,
            key=jax.random.key(0),
            epochs=9,
            batch_size=1,
            progress=False,
        )


ERRORS = {
    "a matrix": (
        lambda: raised(factorize, np.array([np.eye(2), -np.eye(2)])),
        ["Y must be positive definite", "row 1 (from 0)", "-0.5"],
    ),
    "a cell": (
        lambda: raised(small()._cast, np.full((1, 2), 1e30), "X"),
        ["X in row 0, column 0 (from 0)", "1e+30", "float32"],
    ),
    "a rank": (
        lambda: raised(check_covariance_form, "MultivariateRegressor", "auto", 3, 2),
        ["--rank must be at most 2", "got 3"],
    ),
    "epochs": (
        lambda: raised(check_number_of_steps, 2**31, 1000, 1),
        ["--epochs must be at most", f"got {2**31}"],
    ),
    "memory": (
        lambda: raised(chunks.check_memory, "SPDRegressor.predict", 10**6, 100),
        ["give fewer rows."],
    ),
    "range": (
        lambda: raised(
            precision.check_range,
            "MultivariateRegressor.predict_distribution",
            "float32",
            np.array([1e-60]),
            np.ones(1),
            np.ones(1),
        ),
        ["from 1e-60 to 1", "float32", "fit targets in other units."],
    ),
    "rounding": (
        lambda: raised(
            precision.check_rounding,
            "MultivariateRegressor.predict_distribution",
            "float32",
            np.full((1, 1), 1e9),
            np.ones((1, 1)),
        ),
        ["target 0 in row 0", "subtract an offset"],
    ),
    "training": (of_training, ["the loss was not finite", "--seed"]),
    "a locked folder": (
        lambda: DirectoryInUseError("a.checkpoint", "is in use", call="fit"),
        ["a.checkpoint is in use", "-o"],
    ),
    "a checkpoint": (
        lambda: UnusableCheckpointError("a.checkpoint", "is no checkpoint"),
        ["a.checkpoint is no checkpoint", "--overwrite", "-o"],
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_of_the_library_are_described_by_options_and_without_python(name):
    make_error, facts = ERRORS[name]
    text = describe(make_error())
    assert all(fact in text for fact in facts), text
    assert not PYTHON.search(text), text


@pytest.mark.parametrize("name", ERRORS)
def test_errors_with_facts_survive_pickling(name):
    error = ERRORS[name][0]()
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert describe(copy) == describe(error)


@pytest.mark.filterwarnings("default")
def test_warnings_are_described_like_errors(here, capsys, monkeypatch):
    def warn(command):
        warnings.warn(CallWarning("3 rows are few", call="MatrixVAE.fit"), stacklevel=1)
        return 0

    monkeypatch.setattr(commands, "execute", warn)
    err = run(capsys, "fit", "vae", "X.npy")[2]
    assert err == "mmlp: warning: 3 rows are few.\n"


def test_errors_pass_through_it(here, capsys, monkeypatch):
    def fail(command):
        raise CallError("too much", call="fit_many")

    monkeypatch.setattr(commands, "execute", fail)
    assert run(capsys, "fit", "vae", "X.npy") == (1, "", "mmlp: too much.\n")


def test_a_model_in_float64_says_how_to_use_it(here, capsys, monkeypatch):
    arrays, metadata = files.read(here / "spd.safetensors")
    double = {name: array.astype("float64") for name, array in arrays.items()}
    files.write(here / "double.safetensors", double, metadata)
    monkeypatch.setattr(
        "jax.dtypes.canonicalize_dtype", lambda dtype: np.dtype("float32")
    )
    err = run(capsys, "predict", "double.safetensors", "X.npy")[2]
    assert (
        "which JAX would cut to 32 bits here; put JAX_ENABLE_X64=1 before the command."
        in err
    )
    assert not PYTHON.search(err)


def test_a_file_with_a_name_like_it_is_named(here, capsys):
    err = run(capsys, "predict", "regresion.safetensors", "wind.csv")[2]
    assert err == (
        "mmlp: regresion.safetensors: no such file or directory; did you mean "
        "regression.safetensors?\n"
    )
    err = run(capsys, "predict", "regression.safetensors", here / "wnd.csv")[2]
    assert err.endswith(
        f"no such file or directory; did you mean {here / 'wind.csv'}?\n"
    )


def test_settings_are_named_as_options(here, capsys):
    out = run(capsys, "info", "regression.safetensors")[1]
    assert "epochs=2, " in out
    assert not PYTHON.search(out.replace("dtype=", ""))
