"""Kinds of columns as JSON, and back."""

import sys
from dataclasses import asdict, fields
from typing import Any

from mmlp.columns.kinds import RARE, Dates, Kind, LeftOut, Numbers, Words

KINDS = {"numbers": Numbers, "dates": Dates, "words": Words, "left out": LeftOut}
NAME_OF = {kind: name for name, kind in KINDS.items()}
MOST_DAYS = 4e6  # from 1970: more than there are in the years to 9999


def entry(kind: Kind) -> dict:
    return {"kind": NAME_OF[type(kind)], **asdict(kind)}


def kind(entry: dict) -> Kind:
    """The inverse of `entry`; what another hand has written is refused."""
    kind = KINDS[entry.pop("kind")]
    types = {field.name: field.type for field in fields(kind)}
    if entry.keys() != types.keys():
        raise ValueError(f"a column of it has {', '.join(map(str, entry)):.80}")
    for name, value in entry.items():
        if not _fits(types[name], value) or (name == "missing" and value < 0):
            raise ValueError(f"the {name} of a column of it is {value!r:.80}")
        entry[name] = tuple(value) if isinstance(value, list) else value
    found: Any = kind(**entry)
    ends = (found.first, found.last, found.fill) if isinstance(found, Dates) else ()
    if max(map(abs, ends), default=0) > MOST_DAYS or (
        isinstance(found, Words) and not found.levels
    ):
        raise ValueError(f"a column of it is {found!r:.200}")
    return found


def _fits(kind: Any, value) -> bool:
    """Whether a value of a file is of the type of a field; words are different ones."""
    if kind is float:
        return type(value) in (int, float) and abs(value) <= sys.float_info.max
    if kind in (bool, int, str):
        return type(value) is kind
    words = isinstance(value, list) and all(isinstance(word, str) for word in value)
    return words and len({*value, RARE}) == len(value) + 1
