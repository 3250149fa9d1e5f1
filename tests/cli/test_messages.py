"""What the library says becomes the words of the command: no names of Python are left."""

import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from command import run

from mmlp import Gram, estimators, fit
from mmlp.argument_checks import check_size
from mmlp.cli import commands
from mmlp.cli.messages import in_words
from mmlp.estimators import chunks, covariance
from mmlp.estimators.spd import factored
from mmlp.serialization import files

PYTHON = re.compile(
    r"fit_many|from_dense|predict_|log_density|max_epochs|n_models|random_state|batch_size|dtype=|"
    r"resume=|like=|estimators?\b|`\w+[_.(]|=\.\.\.|jax\.|Regressor|VAE|Gram|directory"
)


def raised(function, *arguments, **named) -> str:
    with pytest.raises((ValueError, FloatingPointError)) as caught:
        function(*arguments, **named)
    return str(caught.value)


def small():
    return estimators.MultivariateRegressor()


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


MESSAGES = [
    (
        lambda: raised(factored, np.array([np.eye(2), -np.eye(2)])),
        "Y, scaled to trace one, must be positive definite, but that of row 1 (from 0) has",
    ),
    (
        lambda: raised(small()._cast, np.full((1, 2), 1e30), "X"),
        "X in row 0, column 0 (from 0) is 1e+30 in standard units, too large for float32",
    ),
    (lambda: raised(check_size, 0, "MatrixVAE(max_epochs=...)"), "--epochs must be a whole num"),
    (lambda: raised(check_size, 0, "MatrixVAE(n_components=...)"), "--latent must be a whole"),
    (lambda: raised(chunks.check_memory, "SPDRegressor.predict", 10**6, 100), "give fewer rows."),
    (
        lambda: raised(covariance.check_range, "MultivariateRegressor.predict_distribution",
                       "float32", np.array([1e-60]), np.ones(1), np.ones(1)),
        "the model needs numbers (means, scales) from 1e-60 to 1, which float32 cannot hold; fit "
        "targets in other units.",
    ),
    (
        lambda: raised(covariance.check_rounding, "MultivariateRegressor.predict_distribution",
                       "float32", np.full((1, 1), 1e9), np.ones((1, 1))),
        "subtract an offset from the targets before `mmlp fit`.",
    ),
    (of_training, "times. Give columns with very large or very small numbers other units, or try"),
    (
        lambda: "`fit(checkpoint=...)`: a.checkpoint is in use by another run. Wait for it, or use "
        "another directory.",
        "a.checkpoint is in use by another run. Wait for it, or choose another -o.",
    ),
    (
        lambda: "`fit_many(checkpoint=...)`: the checkpoint in a has no x of this run's shape; "
        "another version of Optax may have written it. Give this run a directory of its own.",
        "may have written it. Choose another -o.",
    ),
    (
        lambda: "Stopped. The same call goes on from a.checkpoint.",
        "Stopped. The same command goes on from a.checkpoint.",
    ),
    (
        lambda: raised(small().fit, np.ones((1, 2)), np.ones((1, 2))),
        "it has too few rows, 1; at least 2 are needed.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("message", "words"), MESSAGES, ids=[words for _, words in MESSAGES]
)
def test_a_message_of_the_library_is_told_in_words_of_the_command(message, words):
    told = in_words(" ".join(message().split()))
    assert words in told
    assert not PYTHON.search(told), told


@pytest.mark.parametrize(
    "message",
    [
        "a.npz has no array 'Y'; write it by `numpy.savez('a.npz', X=X, Y=Y)`.",
        "only those of `mmlp fit vae` can be sampled.",
        "a.arff ends without `@data`; is it whole?",
        "a.csv, line 3, column 'max wind': 'fit' is not a number",
        "--rank 3 is for a covariance of low rank; leave out --covariance full, or --rank.",
    ],
)
def test_what_is_in_words_already_stays(message):
    assert in_words(message) == message


def test_errors_and_warnings_pass_through_it(here, capsys, monkeypatch):
    def fail(command):
        raise ValueError("`fit_many(epochs=...)`: too much")

    monkeypatch.setattr(commands, "execute", fail)
    assert run(capsys, "fit", "vae", "X.npy") == (1, "", "mmlp: too much\n")


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
