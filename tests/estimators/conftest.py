"""One fitted estimator of each kind."""

import numpy as np
import pytest
from small_estimators import DENSITY, MATRICES, REGRESSION, SPD, X, Y

from mmlp.estimators import (
    MatrixVAE,
    MultivariateRegressor,
    SPDRegressor,
    cross_fitting,
)
from mmlp.training import FitResult


@pytest.fixture(scope="session")
def regressor():
    return MultivariateRegressor(**REGRESSION).fit(X, Y)


@pytest.fixture(scope="session")
def spd():
    return SPDRegressor(**SPD).fit(X, MATRICES)


@pytest.fixture(scope="session")
def density():
    """As it begins: its training takes long to compile, and few tests need it."""

    def no_training(models, *_, **__):
        return FitResult(models, {"loss": np.zeros(1), "validation": np.zeros(1)})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross_fitting, "fit_many", no_training)
        return MatrixVAE(**DENSITY).fit(X)


@pytest.fixture(scope="session")
def tailed():
    """A power exponential for each row: linear networks, which compile fast."""
    sizes = {"hidden_dims": (), "hidden_features": (), "family": "power_exponential"}
    return MultivariateRegressor(**REGRESSION | sizes).fit(X, Y)
