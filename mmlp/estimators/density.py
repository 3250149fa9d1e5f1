"""`MatrixVAE`: a density over vectors, and a map to a few latent variables and back."""

import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, DensityMixin, TransformerMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import validate_data

from mmlp.argument_checks import check_size
from mmlp.estimators.base import NetworkEstimator, guarded
from mmlp.estimators.chunks import predictions
from mmlp.estimators.covariance import form_for
from mmlp.estimators.cross_fitting import Scaling, check_alike, fit_folds
from mmlp.estimators.low_rank_covariance import chosen_rank, evenly, fitted_rank
from mmlp.estimators.target_columns import is_constant, name_columns
from mmlp.networks import CholeskyMLP, JointMatrixMLP, LowRank
from mmlp.networks.calibration import calibrate
from mmlp.vae import MODELS, VAE, paper_vae

WARM_UP = 0.2  # of training, in which the KL term gains its weight: without it the VAE collapses
DRAWN = 2**14  # rows that `sample` draws at once


@dataclasses.dataclass(eq=False, repr=False)
class MatrixVAE(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, DensityMixin, NetworkEstimator
):
    """A VAE with dense covariances, one of the paper's six models: `model` = "NfNf" and so on.

    Shapes: X (n, p), latent variables S (n, k) with k = `n_components`. `n_samples` draws of the
    latent variables a row estimate the density, and the draws are the same for every row. The KL
    term gains its weight over the first fifth of `max_epochs`. A share `validation_fraction` of
    the rows is kept from training, which stops when they have not improved for `patience` epochs
    more than that (`None`: never). With `warm_start` another `fit` goes on from the VAE that was
    fitted, with the whole KL term from the beginning; `n_iter_` are its epochs.

    `covariance="low_rank"` makes that of x given s the sum of a diagonal and `rank` loadings, by
    default as many as X has correlations beyond chance, up to 64: time and memory then grow like p
    in place of p^2. "auto" does so with a `rank`, or for more than 30 columns. The diagonal ones
    of "NdNd" and "NdNf" take neither. `rank_` are the loadings of the fitted one, or None.

    >>> X = np.random.default_rng(0).standard_normal((40, 3))
    >>> sizes = {"n_components": 1, "hidden_dims": (4,), "n_samples": 10}
    >>> vae = MatrixVAE(**sizes, max_epochs=5, random_state=0).fit(X)
    >>> vae.transform(X).shape, vae.score_samples(X).shape, vae.sample(5, random_state=1).shape
    ((40, 1), (40,), (5, 3))
    """

    kind = "vae"
    targets = None
    _numbers = ("input_", "history_")

    n_components: int = 2
    _: dataclasses.KW_ONLY
    model: str = "NfNf"
    covariance: str = "auto"
    rank: int | None = None
    hidden_dims: tuple[int, ...] = (20, 20)
    n_samples: int = 100
    max_epochs: int = 300
    validation_fraction: float = 0.15

    @guarded
    def fit(
        self, X, y=None, sample_weight=None, *, X_val=None, checkpoint=None
    ) -> "MatrixVAE":
        """Learn from X (n, p); `y` is ignored; `checkpoint`: a folder, to go on from.

        With rows `X_val` training stops by these, and all rows of X are learnt from.
        """
        seed = self._checked_seed(checkpoint)
        self._size("n_samples")
        self._one_of("model", MODELS)
        share = self.validation_fraction
        if not 0 < share < 1:
            raise ValueError(
                f"`MatrixVAE(validation_fraction=...)` must lie between 0 and 1, got {share!r}."
            )
        latent, widths = self._size("n_components"), self._sizes("hidden_dims")
        self._check_decoder()
        rules: Any = {
            "dtype": np.float64,
            "ensure_min_samples": 2,
            "reset": not self._warm,
        }
        X = np.asarray(validate_data(self, X, **rules))
        rows, weight, X = self._weighted(sample_weight, X)
        self._check_cells(rows, X)
        self._check_columns_vary(X)
        self._warn_of_few_rows(len(X))

        warm = self._warm
        self.input_ = self.input_ if warm else Scaling.of(X, weight)
        order = np.random.default_rng(seed).permutation(len(X))
        held = (
            0 if X_val is not None else min(max(1, round(share * len(X))), len(X) - 1)
        )
        parts = [(order[held:], order[:held])]
        z, rank = self.input_.forward(X), None
        if form_for(self, X.shape[1]) == "low_rank" and self.model[1] == "f":
            rank = chosen_rank(self._asked_rank, z, weight)
        build = _Build(self.model, X.shape[1], latent, widths, rank)
        how: Any = {
            "training": self,
            "seed": seed,
            "checkpoint": checkpoint,
            "start": evenly(z),
        }
        if warm:
            check_alike(
                "MatrixVAE", self.models_, build, 1, z.astype(self.dtype), how["start"]
            )
            how["models"] = self.models_
        how["judges"] = None if X_val is None else (self._standard(X_val),)
        loss = _minus_bound if warm else _minus_elbo
        fitted = fit_folds(build, loss, (z,), weight, parts, **how)
        self.models_, self.history_ = fitted
        return self

    def score_samples(self, X) -> np.ndarray:
        """log p(x) of each row, (n,): the importance-weighted bound, the same draws for all."""
        log_density = self._predict(_Evidence(self.n_samples), X)[
            :, 0
        ]  # of the only model
        return log_density.astype(np.float64) - np.sum(np.log(self.input_.scale))

    def score(self, X, y=None) -> float:
        """The mean of `score_samples`."""
        return float(np.mean(self.score_samples(X)))

    def scores(self, X, y: Any = None) -> dict[str, float]:
        """The mean log density (larger is better)."""
        return {"log_density": self.score(X)}

    def transform(self, X) -> np.ndarray:
        """The mean of the latent variables given each row, (n, k)."""
        return self._predict(_encoded, X)[:, 0].astype(np.float64)

    def inverse_transform(self, S) -> np.ndarray:
        """The mean of x given latent variables S (n, k), (n, p)."""
        self._check_ready()
        S = np.asarray(check_array(S, estimator=self, input_name="S"), np.float64)
        if S.shape[1] != self._n_features_out:
            shapes = f"(n, {self._n_features_out}), got shape {S.shape}"
            raise ValueError(
                f"`MatrixVAE.inverse_transform(S=...)` must have shape {shapes}."
            )
        return self.input_.back(
            predictions(_decoded, self.models_, self._cast(S, "S"))[:, 0]
        )

    def sample(self, n: int = 1, random_state=None) -> np.ndarray:
        """n draws of x, (n, p)."""
        self._check_ready()
        key = jax.random.key(int(check_random_state(random_state).randint(2**31 - 1)))
        n = check_size(n, "MatrixVAE.sample(n=...)")
        if n <= DRAWN:
            return self.input_.back(_sampled(self.models_, key, n))
        rows = np.empty((n, self.n_features_in_))
        for i, start in enumerate(range(0, n, DRAWN)):
            drawn = _sampled(self.models_, jax.random.fold_in(key, i), DRAWN)[
                : n - start
            ]
            rows[start : start + DRAWN] = self.input_.back(drawn)
        return rows

    results: ClassVar = {"log_density": score_samples, "latent": transform}

    @property
    def _n_features_out(self) -> int:
        return self.models_.latent

    @property
    def full_patience(self) -> int | None:
        return self.patience and self.patience + round(WARM_UP * self.max_epochs)

    @property
    def rank_(self) -> int | None:
        """Loadings of the covariance of x given s; None if it has none."""
        latent = np.zeros((1, self.models_.latent), self.dtype)
        return fitted_rank(_covariance, self.models_, latent)

    def _check_decoder(self) -> None:
        """Refuse loadings of a covariance that is diagonal."""
        name = "rank" if self.rank is not None else "covariance"
        if self.model[1] == "d" and (name == "rank" or self.covariance == "low_rank"):
            raise ValueError(
                f"`MatrixVAE({name}={getattr(self, name)!r})` needs a decoder with loadings, but "
                f'with model="{self.model}" its covariances are diagonal; use model="NfNf", or '
                f"leave out {name}."
            )

    def _check_columns_vary(self, X: np.ndarray) -> None:
        """Refuse columns that are constant: there is no density along them."""
        constant = np.flatnonzero(is_constant(X))
        if len(constant):
            names = getattr(self, "feature_names_in_", getattr(self, "names", None))
            listed = name_columns(constant, names, "column")
            verb = "is" if len(constant) == 1 else "are"
            raise ValueError(
                f"`MatrixVAE.fit`: {listed} {verb} constant over the {len(X)} rows that are used, "
                "so that rows have no density; leave out what is constant."
            )

    def _check_fitted(self) -> None:
        self._size("n_samples")
        p, k = self.n_features_in_, check_size(self.models_.latent, "VAE(latent=...)")
        self._check_outputs("encoder", _encoded, self.models_, (k,))
        self._check_outputs("decoder", _decoded, self.models_, (p,), inputs=k)
        self._check_outputs("sampler", _drawn, self.models_, (p,), inputs=k)


@dataclasses.dataclass(frozen=True)
class _Build:
    model: str
    features: int
    latent: int
    widths: tuple[int, ...]
    rank: int | None  # of the decoder's covariance; None is full

    def __call__(self, key, X, start) -> VAE:
        keys = jax.random.split(key)
        outputs: Any = None if self.rank is None else {"decoder": LowRank(self.rank)}
        sizes = (self.features, self.latent, self.widths)
        # what is left of it without hidden layers is a linear map to a vector and a triangle
        network = JointMatrixMLP if self.widths else CholeskyMLP
        vae = paper_vae(
            self.model, *sizes, network=network, outputs=outputs, key=keys[0]
        )
        return calibrate(vae, X, key=keys[1], targets=start)


def _minus_elbo(vae: VAE, key, t, x):
    """With the KL term's weight rising over the warm-up; t = 1 is the bound itself."""
    likelihood, divergence = vae.terms(x, key)
    return jnp.minimum(1, t / WARM_UP) * divergence - likelihood


def _minus_bound(vae: VAE, key, t, x):
    """From the beginning, of a VAE that has learnt before."""
    return _minus_elbo(vae, key, 1.0, x)


@dataclasses.dataclass(frozen=True)
class _Evidence:
    samples: int

    def __call__(self, vae: VAE, x):
        return vae.log_evidence(x, jax.random.key(0), self.samples)


@eqx.filter_jit
def _sampled(models, key, n: int):
    return jax.tree.map(lambda x: x[0], models).sample(key, n)


def _encoded(vae: VAE, x):
    return vae.encode(x).mean


def _decoded(vae: VAE, s):
    return vae.decode(s).mean


def _covariance(vae: VAE, s):
    return vae.decode(s).covariance


def _drawn(vae: VAE, s):
    return vae.decode(s).sample(jax.random.key(0))
