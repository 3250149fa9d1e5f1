"""`MatrixVAE`: a density over vectors, and a map to a few latent variables and back."""

import dataclasses
import os
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, DensityMixin, TransformerMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import validate_data

from mmlp.argument_checks import check_size, check_sizes
from mmlp.errors import ArgumentError, CallError
from mmlp.estimators.arguments import (
    check_choice,
    check_count,
    check_covariance_form,
)
from mmlp.estimators.base import NetworkEstimator, WeightedRows, restore_on_error
from mmlp.estimators.chunks import apply_networks
from mmlp.estimators.covariance import choose_form
from mmlp.estimators.cross_fitting import (
    CrossFit,
    Fold,
    check_same_architecture,
    fit_networks,
)
from mmlp.estimators.low_rank_covariance import (
    choose_rank,
    fitted_rank,
    select_initial_rows,
)
from mmlp.estimators.scaling import Scaling
from mmlp.estimators.target_columns import describe_columns, is_constant
from mmlp.networks import CholeskyMLP, JointMatrixMLP, LowRank
from mmlp.networks.calibration import calibrate
from mmlp.vae import MODELS, VAE, paper_vae

# The share of training over which the KL term gains its weight: without this the VAE
# collapses.
WARM_UP_SHARE = 0.2

# `sample` draws this many rows at once.
ROWS_PER_DRAW = 2**14


class MatrixVAE(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, DensityMixin, NetworkEstimator
):
    """Density estimation by a variational autoencoder with full covariances.

    It is one of the six models of the paper. It gives the density of rows, new rows,
    and a map to a few latent variables and back.

    Parameters
    ----------
    n_components : int, default=2
        Number k of latent variables.
    model : {"NdNd", "NdNf", "NfNd", "NfNf", "EfNf", "EfEf"}, default="NfNf"
        Model of the paper: decoder, then encoder; N is Gaussian, E power exponential, d
        diagonal, f full.
    covariance : {"auto", "full", "low_rank"}, default="auto"
        Form of the covariance of x given the latent variables. "low_rank" is a diagonal
        plus `rank` loadings: time and memory grow like p instead of p^2. "auto" is
        "low_rank" if a `rank` is given or for more than 30 columns, and else "full".
        Diagonal decoders take neither.
    rank : int or None, default=None
        Number of loadings. None chooses as many as X has correlations beyond chance, up
        to 64.
    hidden_dims : tuple of int, default=(20, 20)
        Sizes of the hidden layers.
    n_samples : int, default=100
        Draws of the latent variables by which densities are estimated; they are the
        same for every row.
    max_epochs : int, default=300
        Limit of epochs. The KL term gains its weight over the first fifth of them.
    validation_fraction : float, default=0.15
        Share of the rows that is held out from training, to decide when to stop.
    batch_size : int, default=64
        Rows in a batch.
    learning_rate : float, default=0.02
        Learning rate.
    patience : int or None, default=50
        Training stops when held-out rows have not improved for this many epochs, and a
        fifth of `max_epochs` more; None is never.
    random_state : int, RandomState or None, default=None
        Seed of held-out rows, weights and batches.
    dtype : {"float32", "float64"}, default="float32"
        Precision of the networks.
    verbose : int, default=0
        Show progress.
    warm_start : bool, default=False
        Whether another `fit` resumes from the fitted VAE, with the whole KL term from
        the beginning.

    Attributes
    ----------
    rank_ : int or None
        Loadings of the fitted covariance of x given the latent variables, if it has
        any.
    n_features_in_, feature_names_in_
        Number and names of the columns of X, as in scikit-learn.
    n_iter_ : int
        Epochs of the last `fit`.
    history_ : dict of arrays
        Losses by epoch.
    models_ : stack of one VAE
        The fitted VAE.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((40, 3))
    >>> vae = MatrixVAE(
    ...     n_components=1, hidden_dims=(4,), n_samples=10, max_epochs=5, random_state=0
    ... )
    >>> vae.fit(X).transform(X).shape
    (40, 1)
    >>> vae.score_samples(X).shape
    (40,)
    >>> vae.sample(5, random_state=1).shape
    (5, 3)
    """

    kind = "vae"
    targets = None
    _fitted_attributes = ("input_", "history_")

    def __init__(
        self,
        n_components: int = 2,
        *,
        model: str = "NfNf",
        covariance: str = "auto",
        rank: int | None = None,
        hidden_dims: tuple[int, ...] = (20, 20),
        n_samples: int = 100,
        max_epochs: int = 300,
        validation_fraction: float = 0.15,
        batch_size: int = 64,
        learning_rate: float = 0.02,
        patience: int | None = 50,
        random_state: Any = None,
        dtype: str = "float32",
        verbose: int = 0,
        warm_start: bool = False,
    ):
        self.n_components = n_components
        self.model = model
        self.covariance = covariance
        self.rank = rank
        self.hidden_dims = hidden_dims
        self.n_samples = n_samples
        self.max_epochs = max_epochs
        self.validation_fraction = validation_fraction
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.patience = patience
        self.random_state = random_state
        self.dtype = dtype
        self.verbose = verbose
        self.warm_start = warm_start

    @restore_on_error
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        X_val: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> "MatrixVAE":
        """Fit the VAE.

        Parameters
        ----------
        X : array or data frame of shape (n, p)
            Rows of numbers.
        y : ignored
        sample_weight : array of shape (n,), optional
            Weights of the rows.
        X_val : array or data frame, optional
            Validation rows, which decide when to stop. All rows of X are then used for
            training.
        checkpoint : path, optional
            Directory from which an interrupted fit resumes.

        Returns
        -------
        self
        """
        seed = self._check_training_arguments(checkpoint)
        self._check_model_arguments()
        table = self._check_table(X, sample_weight)
        rows = table.arrays[0]
        n_rows, n_columns = rows.shape

        resumes = self._resumes
        if not resumes:
            self.input_ = Scaling.of(rows, table.weights)
        scaled = self.input_.forward(rows)
        build = VAEBuilder(
            model=self.model,
            n_columns=n_columns,
            n_latent=self.n_components,
            hidden_dims=tuple(self.hidden_dims),
            rank=self._choose_rank(scaled, table.weights),
        )
        initial_rows = select_initial_rows(scaled)
        if resumes:
            check_same_architecture(
                self.models_,
                build,
                1,
                scaled.astype(self.dtype),
                initial_rows,
                estimator="MatrixVAE",
            )

        task = CrossFit(
            build=build,
            sample_loss=negative_bound if resumes else negative_bound_with_warm_up,
            arrays=(scaled,),
            row_weights=table.weights,
            folds=[self._hold_out_rows(n_rows, seed, has_validation=X_val is not None)],
            seed=seed,
            initial_targets=initial_rows,
            validation_arrays=None if X_val is None else (self._standardize(X_val),),
            initial_networks=self.models_ if resumes else None,
        )
        self.models_, self.history_ = fit_networks(
            task, self._training_settings(), checkpoint=checkpoint
        )
        return self

    def _check_model_arguments(self) -> None:
        """Check the arguments that do not depend on the rows."""
        check_count("MatrixVAE", "n_samples", self.n_samples)
        check_choice("MatrixVAE", "model", self.model, MODELS)
        if not 0 < self.validation_fraction < 1:
            raise ArgumentError(
                f"must lie between 0 and 1, got {self.validation_fraction!r}",
                call="MatrixVAE",
                argument="validation_fraction",
            )
        check_count("MatrixVAE", "n_components", self.n_components)
        check_sizes(self.hidden_dims, "MatrixVAE(hidden_dims=...)")
        self._check_decoder()

    def _check_decoder(self) -> None:
        """Raise a ValueError if a diagonal covariance is to have loadings."""
        is_diagonal = self.model[1] == "d"
        argument = "rank" if self.rank is not None else "covariance"
        if is_diagonal and (self.rank is not None or self.covariance == "low_rank"):
            raise ValueError(
                f"`MatrixVAE({argument}={getattr(self, argument)!r})` needs a decoder "
                "with "
                f'loadings, but with model="{self.model}" its covariances are '
                f'diagonal; use model="NfNf", or leave out {argument}.'
            )

    def _check_table(self, X: Any, sample_weight: Any) -> WeightedRows:
        """Check the rows, and the form of covariance for their columns."""
        X = np.asarray(
            validate_data(
                self,
                X,
                reset=not self._resumes,
                dtype=np.float64,
                ensure_min_samples=2,
            )
        )
        used = self._select_weighted_rows(sample_weight, X)
        rows = used.arrays[0]
        # Warnings are attributed to the caller of `fit`: above this method are `fit`,
        # its decorator, and the caller.
        self._check_cells(used.indices, rows, stacklevel=4)
        self._check_columns_vary(rows)
        self._warn_of_few_rows(len(rows), stacklevel=4)
        check_covariance_form("MatrixVAE", self.covariance, self.rank, rows.shape[1])
        return used

    def _check_columns_vary(self, X: np.ndarray) -> None:
        """Raise a CallError if a column is constant: there is no density along it."""
        constant = np.flatnonzero(is_constant(X))
        if len(constant):
            names = getattr(self, "feature_names_in_", getattr(self, "names", None))
            columns = describe_columns(constant, names, "column")
            verb = "is" if len(constant) == 1 else "are"
            raise CallError(
                f"{columns} {verb} constant over the {len(X)} rows that are used, so "
                "that rows have no density",
                call="MatrixVAE.fit",
                remedy="leave out what is constant",
            )

    def _choose_rank(self, scaled: np.ndarray, row_weights: np.ndarray) -> int | None:
        """Return the number of loadings of the decoder, or None if it has none."""
        form = choose_form(self.covariance, self.rank, scaled.shape[1])
        if form == "full" or self.model[1] == "d":
            return None
        rank = self.rank
        if rank is None and self._resumes:
            rank = self.rank_
        return choose_rank(rank, scaled, row_weights)

    def _hold_out_rows(self, n_rows: int, seed: int, *, has_validation: bool) -> Fold:
        """Return a fold that holds out a share of the rows, or none of them."""
        order = np.random.default_rng(seed).permutation(n_rows)
        n_held_out = 0
        if not has_validation:
            wanted = max(1, round(self.validation_fraction * n_rows))
            n_held_out = min(wanted, n_rows - 1)
        return Fold(order[n_held_out:], order[:n_held_out])

    def score_samples(self, X: Any) -> np.ndarray:
        """Return log p(x) of each row, by the importance-weighted bound.

        Parameters
        ----------
        X : array or data frame of shape (n, p)

        Returns
        -------
        array of shape (n,)
        """
        evidence = self._apply_networks(LogEvidence(self.n_samples), X)[:, 0]
        return evidence.astype(np.float64) - np.sum(np.log(self.input_.scale))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log density of the rows; larger is better.

        Parameters
        ----------
        X : array or data frame of shape (n, p)
        y : ignored

        Returns
        -------
        float
        """
        return float(np.mean(self.score_samples(X)))

    def scores(self, X: Any, y: Any = None) -> dict[str, float]:
        """Return the mean log density as "log_density"; larger is better.

        Parameters
        ----------
        X : array or data frame of shape (n, p)
        y : ignored
        """
        return {"log_density": self.score(X)}

    def transform(self, X: Any) -> np.ndarray:
        """Return the mean of the latent variables given each row.

        Parameters
        ----------
        X : array or data frame of shape (n, p)

        Returns
        -------
        array of shape (n, k)
        """
        return self._apply_networks(encode, X)[:, 0].astype(np.float64)

    def inverse_transform(self, S: ArrayLike) -> np.ndarray:
        """Return the mean of x given latent variables.

        Parameters
        ----------
        S : array of shape (n, k)

        Returns
        -------
        array of shape (n, p)
        """
        self._check_ready()
        S = np.asarray(check_array(S, estimator=self, input_name="S"), np.float64)
        if S.shape[1] != self._n_features_out:
            raise ValueError(
                "`MatrixVAE.inverse_transform(S=...)` must have shape "
                f"(n, {self._n_features_out}), got shape {S.shape}."
            )
        decoded = apply_networks(decode, self.models_, self._cast(S, "S"))
        return self.input_.back(decoded[:, 0])

    def sample(self, n: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw new rows.

        Parameters
        ----------
        n : int, default=1
            Number of rows.
        random_state : int, RandomState or None, default=None

        Returns
        -------
        array of shape (n, p)
        """
        self._check_ready()
        random = check_random_state(random_state)
        key = jax.random.key(int(random.randint(2**31 - 1)))
        n = check_size(n, "MatrixVAE.sample(n=...)")
        if n <= ROWS_PER_DRAW:
            return self.input_.back(draw_rows(self.models_, key, n))

        rows = np.empty((n, self.n_features_in_))
        for i, start in enumerate(range(0, n, ROWS_PER_DRAW)):
            chunk_key = jax.random.fold_in(key, i)
            drawn = draw_rows(self.models_, chunk_key, ROWS_PER_DRAW)
            rows[start : start + ROWS_PER_DRAW] = self.input_.back(drawn[: n - start])
        return rows

    results: ClassVar = {"log_density": score_samples, "latent": transform}

    @property
    def _n_features_out(self) -> int:
        return self.models_.latent

    @property
    def _effective_patience(self) -> int | None:
        """The patience, and the epochs of the warm-up."""
        if self.patience is None:
            return None
        return self.patience + round(WARM_UP_SHARE * self.max_epochs)

    @property
    def rank_(self) -> int | None:
        """Loadings of the covariance of x given the latent variables, if it has any."""
        latent = np.zeros((1, self.models_.latent), self.dtype)
        return fitted_rank(decode_covariance, self.models_, latent)

    def _check_fitted(self) -> None:
        check_count("MatrixVAE", "n_samples", self.n_samples)
        p = self.n_features_in_
        k = check_size(self.models_.latent, "VAE(latent=...)")
        self._check_outputs("encoder", encode, self.models_, (k,))
        self._check_outputs("decoder", decode, self.models_, (p,), n_inputs=k)
        self._check_outputs("sampler", decode_and_draw, self.models_, (p,), n_inputs=k)


@dataclasses.dataclass(frozen=True)
class VAEBuilder:
    """Build a VAE of the paper.

    Parameters
    ----------
    model : str
    n_columns, n_latent : int
    hidden_dims : tuple of int
    rank : int or None
        Loadings of the decoder's covariance; None is full or diagonal.
    """

    model: str
    n_columns: int
    n_latent: int
    hidden_dims: tuple[int, ...]
    rank: int | None

    def __call__(self, key: Array, X: Array, initial_rows: Array) -> VAE:
        weights_key, calibration_key = jax.random.split(key)
        vae = paper_vae(
            self.model,
            self.n_columns,
            self.n_latent,
            self.hidden_dims,
            # A joint network without hidden layers is a linear map to a vector and a
            # triangle.
            network=JointMatrixMLP if self.hidden_dims else CholeskyMLP,
            outputs=None if self.rank is None else {"decoder": LowRank(self.rank)},
            key=weights_key,
        )
        return calibrate(vae, X, key=calibration_key, targets=initial_rows)


def negative_bound_with_warm_up(vae: VAE, key, t, x):
    """Return minus the evidence lower bound of one row, at time t of training.

    The weight of the KL term rises to one over the warm-up.
    """
    likelihood, divergence = vae.terms(x, key)
    return jnp.minimum(1, t / WARM_UP_SHARE) * divergence - likelihood


def negative_bound(vae: VAE, key, t, x):
    """Return minus the evidence lower bound of one row."""
    return negative_bound_with_warm_up(vae, key, 1.0, x)


@dataclasses.dataclass(frozen=True)
class LogEvidence:
    """Estimate log p(x) of one row by this many draws, the same for every row."""

    n_samples: int

    def __call__(self, vae: VAE, x):
        return vae.log_evidence(x, jax.random.key(0), self.n_samples)


@eqx.filter_jit
def draw_rows(networks, key, n: int):
    """Draw n standardized rows from the only VAE of a stack."""
    vae = jax.tree.map(lambda x: x[0], networks)
    return vae.sample(key, n)


def encode(vae: VAE, x):
    """Return the mean of the latent variables given x."""
    return vae.encode(x).mean


def decode(vae: VAE, s):
    """Return the mean of x given latent variables."""
    return vae.decode(s).mean


def decode_covariance(vae: VAE, s):
    """Return the covariance of x given latent variables."""
    return vae.decode(s).covariance


def decode_and_draw(vae: VAE, s):
    """Draw x given latent variables."""
    return vae.decode(s).sample(jax.random.key(0))
