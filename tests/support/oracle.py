"""Models that know the truth of made data, in place of fitted ones: nothing is trained."""

import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator

from mmlp import Gram, TraceOneGaussian, TraceOnePowerExponential

# of x: the mean by x0, the spread by x1, the correlation by x2, nothing by the last
INPUTS = ("level", "gust", "front", "idle")
TARGETS = ("u", "v")


class Oracle(BaseEstimator):
    """y = mean(x) + T(x)' e; what the report asks of a fitted `MultivariateRegressor`."""

    kind, targets, rank_, epochs, full_patience = "regression", "columns", None, 3, 2

    def __init__(self, d=2, beta=None, wrong=1.0, text=False):
        self.d, self.beta, self.wrong, self.text = d, beta, wrong, text
        loss = np.array([[3.0, 3.0], [2.0, 2.5], [1.5, np.nan]])
        self.history_ = {"loss": loss, "validation": loss + 0.1}
        self.covariance_history_ = {"loss": loss[:, 0]}

    def fit(self, X, y):
        raise NotImplementedError

    @property
    def n_targets(self):
        return self.d

    @property
    def varying_targets_(self):
        return np.arange(self.d)

    def count_unfinished(self):
        return 1, 4

    def _standardize(self, X):
        """Numbers; words and blanks of the second column count as gusts."""
        if not self.text:
            return np.asarray(X, float)
        X = np.asarray(X, object).copy()
        X[:, 1] = [{"calm": -1.0, "storm": 1.0}.get(cell, 0.0) for cell in X[:, 1]]
        return X.astype(float)

    def predict(self, X):
        return self._standardize(X)[:, :1] * np.arange(1, self.d + 1)

    def covariance(self, X):
        x = self._standardize(X)
        V = np.broadcast_to(np.eye(self.d), (len(x), self.d, self.d)).copy()
        if self.d > 1:
            V[:, 0, 1] = V[:, 1, 0] = np.tanh(x[:, 2])
        return V * np.exp(x[:, 1])[:, None, None]

    def _error_distribution(self, X, wrong=None):
        V = Gram.from_dense(self.covariance(X) * (wrong or self.wrong) ** 2)
        zero = jnp.zeros((len(X), self.d))
        if self.beta is None:
            return TraceOneGaussian.from_moments(zero, V)
        ones = jnp.ones(len(X))
        return TraceOnePowerExponential.from_moments(zero, V, ones, self.beta * ones)

    def log_density(self, X, y):
        law = self._error_distribution(X)
        return np.asarray(law.log_prob(y.reshape(len(X), self.d) - self.predict(X)))

    def draw(self, X, seed):
        """y of these rows, from the truth, whatever `wrong` says."""
        import jax

        law = self._error_distribution(X, wrong=1.0)
        return self.predict(X) + np.asarray(law.sample(jax.random.key(seed)))


def inputs(n, seed=0, p=4):
    return np.random.default_rng(seed).standard_normal((n, p))


class Matrices(BaseEstimator):
    """What the report asks of a fitted `SPDRegressor`: Y = e^x0 (I + x1^2 11'), exactly."""

    kind, targets, n_targets, epochs = "spd", "matrices", 0, 3
    _standardize = staticmethod(np.asarray)

    def __init__(self, d=2):
        self.d, self.history_ = d, {"loss": np.array([3.0, 2.0, 1.0])}

    def fit(self, X, y):
        raise NotImplementedError

    def count_unfinished(self):
        return 0, 1

    def predict(self, X):
        Y = np.eye(self.d) + (X[:, 1] ** 2)[:, None, None]
        return np.exp(X[:, 0])[:, None, None] * Y


class Density(Matrices):
    """What it asks of a fitted `MatrixVAE`: columns that are normal, with these correlations."""

    kind, targets = "vae", None

    def __init__(self, r=0.9, p=3):
        super().__init__()
        self.r, self.p = r, p
        self.V = np.full((p, p), r) + (1 - r) * np.eye(p)

    def score_samples(self, X):
        square = np.einsum("ni,ij,nj->n", X, np.linalg.inv(self.V), X)
        return -(square + np.linalg.slogdet(self.V)[1] + self.p * np.log(2 * np.pi)) / 2

    def sample(self, n, random_state):
        rng = np.random.default_rng(random_state)
        return rng.multivariate_normal(np.zeros(self.p), self.V, n)

    def transform(self, X):
        return X[:, :2]
