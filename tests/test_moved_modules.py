"""Modules that have moved are found under their old names for one more release, with a warning."""

import importlib

import pytest

import mmlp
from mmlp import networks, serialization
from mmlp.networks import calibration, heads, kernels

MOVED = {
    "kernels": (kernels, "MercerSigmoid"),
    "heads": (heads, "GaussianHead"),
    "initialisation": (calibration, "calibrate"),
    "checkpoint": (serialization, "save"),
}


@pytest.mark.parametrize("old", MOVED)
def test_the_old_name_gives_the_same_object_and_warns_where_it_is_used(old):
    module, name = MOVED[old]
    shim = importlib.import_module(f"mmlp.{old}")
    message = f"`mmlp.{old}` is now `{module.__name__}`"
    with pytest.warns(DeprecationWarning, match=message) as caught:
        assert getattr(shim, name) is getattr(module, name)
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=message):
        exec(f"from mmlp.{old} import {name}", {})
    assert getattr(mmlp, old) is shim
    assert name in dir(shim)
    with pytest.raises(AttributeError, match=f"'mmlp.{old}' has no attribute 'Grams'"):
        _ = shim.Grams


def test_the_new_names_do_not_warn():
    assert mmlp.MercerSigmoid is kernels.MercerSigmoid
    assert mmlp.calibrate is calibration.calibrate
    assert mmlp.save is serialization.save
    assert networks.MatrixMLP is mmlp.MatrixMLP
