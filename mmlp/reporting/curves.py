"""How training went: the curves of each stage, and what ended it."""

import numpy as np

from mmlp.plotting import plot_history
from mmlp.reporting.content import GOOD, NEUTRAL, Figure, Section
from mmlp.reporting.drawing import panel

STAGES = {"history_": "training", "covariance_history_": "covariance"}


def curves(model) -> Section:
    """A panel a stage."""
    histories = {name: getattr(model, name, None) for name in STAGES}
    stages = {STAGES[name]: history for name, history in histories.items() if history}
    if len(stages) > 1:
        stages = {"mean": stages["training"], "covariance": stages["covariance"]}
    section = Section("training", "Training")
    section.about = (
        "The loss over epochs, on rows that train and on rows held out, which decide "
    )
    section.about += "when it ends."
    if any(np.ndim(history["loss"]) > 1 for history in stages.values()):
        section.about += (
            " Thin lines are single networks, thick ones their mean until one stops."
        )
    count, of = model.count_unfinished()
    if count:
        told = f"{count} of {of} networks were still improving at the limit of {model.epochs}"
        section.claim(NEUTRAL, "cut short", f"{told} epochs: train longer.")
    else:
        section.claim(
            GOOD, "complete", "No network was still improving when its training ended."
        )
    panels = []
    for number, (name, history) in enumerate(stages.items(), 1):
        title = f"{number}/{len(stages)} {name}" if len(stages) > 1 else name

        def draw(ax, history=history, title=title):
            plot_history(history, ax=ax)
            _limit(ax, history)
            ax.set_title(title)

        ended = what_ended(history, model.epochs)
        panels.append(panel(draw, f"Loss over epochs, {title}: {ended}"))
        section.notes.append(f"{title.capitalize()}: {ended}.")
    section.parts.append(Figure(panels))
    return section


def what_ended(history: dict, epochs: int) -> str:
    """In words, for the networks of a stage.

    >>> what_ended({"loss": np.array([[3.0, 3.0], [2.0, np.nan]])}, 2)
    '1 network ended at the limit of 2 epochs; 1 network ended after 1 epoch, without a gain since'
    """
    loss = np.asarray(history["loss"], float)
    loss = loss.reshape(len(loss), -1)
    last = np.max(
        np.where(np.isnan(loss), 0, np.arange(1, len(loss) + 1)[:, None]), axis=0
    )
    early = last[last < epochs]
    words = []
    if full := int(np.sum(last >= epochs)):
        words.append(
            f"{_count(full, 'network')} ended at the limit of {_count(epochs, 'epoch')}"
        )
    if len(early):
        low, high = early.min(), early.max()
        span = _count(low, "epoch") if low == high else f"{low} to {high} epochs"
        words.append(
            f"{_count(len(early), 'network')} ended after {span}, without a gain since"
        )
    return "; ".join(words)


def _count(n: int, word: str) -> str:
    return f"{n:,} {word}{'' if n == 1 else 's'}"


def _limit(ax, history) -> None:
    """The first epochs may be far above the rest: show what came after them."""
    shown = [
        np.asarray(history[name], float)
        for name in ("loss", "validation")
        if name in history
    ]
    later = np.concatenate([values[len(values) // 20 :].ravel() for values in shown])
    later = later[np.isfinite(later)]
    if len(later) and np.quantile(later, 0.98) > later.min():
        low, high = later.min(), np.quantile(later, 0.98)
        ax.set_ylim(low - 0.08 * (high - low), high + 0.08 * (high - low))
