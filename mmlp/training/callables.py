"""The functions that `fit` is given, checked before anything is compiled."""

import inspect
from collections.abc import Callable, Sequence

import optax

CALLED = "loss(model, batch, key, t)"
MEANING = (
    f"is called as `{CALLED}`: `key` is a random key for this batch, of use to losses that draw, "
    "and `t`, from 0 to 1, is how far training is, of use to weights that change meanwhile"
)


def check_callables(name: str, loss, optimizer, on_epoch) -> None:
    optax_s = optimizer is None or isinstance(optimizer, optax.GradientTransformation)
    functions = isinstance(on_epoch, tuple | list) and all(
        callable(f) for f in on_epoch
    )
    watched = callable(on_epoch) or functions
    for fits, argument, value, wanted in (
        (callable(loss), "loss", loss, "a function of (model, batch, key, t)"),
        (
            optax_s,
            "optimizer",
            optimizer,
            "an Optax optimiser such as `optax.adam(1e-3)`",
        ),
        (
            watched,
            "on_epoch",
            on_epoch,
            "a function of one EpochInfo, or a tuple of them",
        ),
    ):
        if not fits:
            raise ValueError(
                f"`{name}({argument}=...)` must be {wanted}, got {value!r:.80}."
            )
    try:
        hash(loss)
    except TypeError:
        kind = type(loss).__name__
        raise ValueError(
            f"`{name}(loss=...)` must be hashable, got {kind}; wrap it in a function."
        ) from None
    _check_signature(name, loss)


def as_sequence(on_epoch: Callable | Sequence[Callable]) -> Sequence[Callable]:
    return (on_epoch,) if callable(on_epoch) else on_epoch


def _check_signature(name: str, loss: Callable) -> None:
    """Refuse a loss that cannot be called with four arguments, where it says what it takes."""
    try:
        signature = inspect.signature(loss)
    except (TypeError, ValueError):  # of some functions that are not written in Python
        return
    try:
        signature.bind(None, None, None, None)
    except TypeError as error:
        takes = f"{getattr(loss, '__name__', type(loss).__name__)}{signature}"
        raise ValueError(
            f"`{name}(loss=...)` {MEANING}; got `{takes:.80}` ({error}). Give it these four "
            "arguments, whether it needs them or not."
        ) from None
