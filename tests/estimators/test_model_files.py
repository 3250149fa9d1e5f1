"""Files and pickles give estimators back bit for bit, and nothing that cannot predict."""

import copy
import io
import json
import pickle

import jax
import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from small_estimators import X, Y, outputs
from sweeps import sweep

import mmlp
from mmlp import estimators
from mmlp.estimators import MultivariateRegressor
from mmlp.serialization import files


@pytest.mark.parametrize(
    "name", ["regressor", "spd", pytest.param("density", marks=pytest.mark.slow)]
)
def test_files_and_pickles_give_back_the_estimator_bit_for_bit(name, request, tmp_path):
    estimator = request.getfixturevalue(name)
    estimator.save(tmp_path / "model")
    buffer = io.BytesIO()
    joblib.dump(estimator, buffer)
    buffer.seek(0)
    expected = outputs(estimator)
    assert expected
    for again in (estimators.load(tmp_path / "model"), joblib.load(buffer)):
        assert type(again) is type(estimator)
        assert again.get_params() == estimator.get_params()
        for key, value in outputs(again).items():
            np.testing.assert_array_equal(value, expected[key])
        np.testing.assert_array_equal(
            again.history_["validation"], estimator.history_["validation"]
        )


@pytest.mark.slow
def test_a_file_of_another_kind_is_refused_with_the_remedy(regressor, tmp_path):
    regressor.save(tmp_path / "estimator")
    mmlp.save(mmlp.MatrixMLP(3, 2, (4,), key=jax.random.key(0)), tmp_path / "model")
    with pytest.raises(ValueError, match=r"mmlp\.estimators\.load"):
        mmlp.load(tmp_path / "estimator")
    with pytest.raises(ValueError, match=r"holds a network.*mmlp\.load"):
        estimators.load(tmp_path / "model")
    with pytest.raises(NotFittedError):
        MultivariateRegressor().save(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def entries(node, path=()):
    """All places in a tree of dictionaries and lists."""
    yield path
    for key in (
        node
        if isinstance(node, dict)
        else range(len(node))
        if isinstance(node, list)
        else ()
    ):
        yield from entries(node[key], (*path, key))


def replaced(node, path, value):
    """A copy of the tree with another value in one place."""
    if not path:
        return value
    copied = copy.copy(node)
    copied[path[0]] = replaced(node[path[0]], path[1:], value)
    return copied


OTHERS = [
    None,
    True,
    -1,
    3,
    0.5,
    10**400,
    float("nan"),
    "text",
    [],
    [1.0],
    {},
    {"a": {}},
]
OTHERS += [
    {"array": [1]},
    {"scaling": {}},
    {"scaling": [[1.0], [1.0]]},
    {"history": {}},
]
OTHERS += [{"value": "text"}]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["regressor", "spd", "density"])
def test_whatever_a_header_holds_it_is_refused_or_the_estimator_predicts(
    name, request, tmp_path
):
    """60 headers, seed 0, each with a right checksum and another value in one place."""
    estimator, path = request.getfixturevalue(name), tmp_path / "model"
    estimator.save(path)
    arrays, whole = files.read(path)
    rng, accepted, expected = np.random.default_rng(0), [], outputs(estimator)
    beside = list(entries({key: whole[key] for key in whole if key != "architecture"}))[
        1:
    ]
    inside = [("architecture", *place) for place in entries(whole["architecture"])]
    for i in range(60):
        places = beside if i % 3 else inside
        header = replaced(
            whole, places[rng.integers(len(places))], OTHERS[rng.integers(len(OTHERS))]
        )
        files.write(path, arrays, header)
        try:
            again = estimators.load(path)
        except ValueError:
            continue
        accepted.append(again)
        json.dumps(again.get_params())
        for key, value in outputs(again.set_params(**estimator.get_params())).items():
            assert value.shape == expected[key].shape
    assert 2 < len(accepted) < 45


@pytest.mark.parametrize(
    ("place", "value", "match"),
    [
        (("estimator",), {"a": 1}, "holds a {'a': 1}, which is unknown"),
        (
            ("fitted", "input_", "scaling"),
            {"a": 1},
            "input_ is not a mean and a positive scale for each of 3",
        ),
        (("fitted", "input_", "scaling", 1), [1.0, 0.0, 1.0], "input_ is not"),
        (("fitted", "n_features_in_"), 4, "columns_ are not 4 kinds"),
        (("fitted", "target_", "scaling"), [[0.0], [1.0]], "shape_ is not a matrix"),
        (("fitted", "shape_"), [[1.0, 0.0], [0.0, 1.0]], "shape_ is not a matrix"),
        (("fitted", "share_", "array"), [0.5], "share_ is not 2 numbers from 0 to 1"),
        (
            ("fitted", "share_", "array"),
            [0.5, 2.0],
            "share_ is not 2 numbers from 0 to 1",
        ),
        (("fitted", "epochs_"), 0, "epochs_ is 0, not a number from 1"),
        (("fitted", "contrast_"), 2.0, "contrast_ is 2.0, not a number from 0 to 1"),
        (("fitted", "is_vector_"), True, "is_vector_ is True for 2 targets"),
        (("fitted", "history_", "history"), {}, "history_ does not hold the losses"),
        (("fitted",), {}, "has no columns_: another version wrote it; fit again"),
        (("params", "dict", "dtype"), {"value": "float16"}, "dtype is 'float16'"),
        (("params", "dict", "family"), {"value": "cauchy"}, "family is 'cauchy'"),
        (("params", "dict", "patience"), {"dict": {}}, "arguments {'patience': {}}"),
    ],
)
def test_a_damaged_header_is_refused_for_what_is_wrong_in_it(
    place, value, match, regressor, tmp_path
):
    regressor.save(tmp_path / "model")
    arrays, header = files.read(tmp_path / "model")
    files.write(tmp_path / "model", arrays, replaced(header, place, value))
    with pytest.raises(ValueError, match=rf"`estimators\.load`: .*model .*{match}"):
        estimators.load(tmp_path / "model")


@sweep("widths", [(np.int64(4),), [4], [np.int32(4)]])
def test_parameters_of_numpy_types_are_saved(widths, regressor, tmp_path):
    other = (
        clone(regressor)
        .set_params(hidden_dims=widths, dtype=np.float32, patience=np.int64(50))
        .fit(X, Y)
    )
    other.save(tmp_path / "model")
    again = estimators.load(tmp_path / "model")
    assert again.get_params() == {
        **regressor.get_params(),
        "hidden_dims": type(widths)([4]),
    }
    np.testing.assert_array_equal(again.predict(X), regressor.predict(X))


def test_a_pickle_in_float64_is_refused_where_jax_would_cut_it(regressor):
    double = copy.copy(regressor).set_params(dtype="float64")
    double.models_ = jax.tree.map(lambda x: x.astype("float64"), double.models_)
    content = pickle.dumps(double)
    assert pickle.loads(content).predict(X).dtype == np.float64
    with (
        jax.enable_x64(False),
        pytest.raises(
            ValueError,
            match=r"pickle of MultivariateRegressor.*float64.*jax_enable_x64",
        ),
    ):
        pickle.loads(content)
