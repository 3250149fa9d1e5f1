"""Kinds of columns as JSON, and back."""

import sys
from dataclasses import asdict, fields
from typing import Any

from mmlp.tables.kinds import NO_VALUE, RARE, Dates, Kind, LeftOut, Numbers, Words

KINDS = {"numbers": Numbers, "dates": Dates, "words": Words, "left out": LeftOut}
NAME_OF = {kind: name for name, kind in KINDS.items()}
ADDED_FIELDS = {
    "durations": "durations",
    "binary": "0 and 1",
    "aware": "dates with a time zone",
}
MOST_DAYS = 4e6  # from 1970: more than there are in the years to 9999


def entry(kind: Kind) -> dict:
    return {"kind": NAME_OF[type(kind)], **asdict(kind)}


def kind(entry: dict) -> Kind:
    """The inverse of `entry`; what another hand has written is refused."""
    kind = KINDS[entry.pop("kind")]
    types = {field.name: field.type for field in fields(kind)}
    if absent := [name for name in ADDED_FIELDS if name in types and name not in entry]:
        raise ValueError(
            f"its columns do not tell whether they are {ADDED_FIELDS[absent[0]]}: another version "
            "wrote it; fit anew"
        )
    if entry.keys() != types.keys():
        raise ValueError(f"a column of it has {', '.join(map(str, entry)):.80}")
    for name, value in entry.items():
        if not _fits(types[name], value) or (name == "missing" and value < 0):
            raise ValueError(f"the {name} of a column of it is {value!r:.80}")
        entry[name] = tuple(value) if isinstance(value, list) else value
    found: Any = kind(**entry)
    if _is_inconsistent(found):
        raise ValueError(f"a column of it is {found!r:.200}")
    return found


def _is_inconsistent(kind: Kind) -> bool:
    """Whether the fields of a kind cannot have come from a table."""
    match kind:
        case Dates(first=first, last=last, fill=fill):
            return max(abs(first), abs(last), abs(fill)) > MOST_DAYS
        case Words(levels=levels, others=others):
            # Words that no cell is read as would never be met, and their column would be nothing.
            words = [word for word in (*levels, *others) if word != NO_VALUE]
            return not levels or any(Words.word(word) != word for word in words)
        case Numbers(commas=commas, durations=durations, binary=binary):
            return durations and (commas or binary)
    return False


def _fits(kind: Any, value) -> bool:
    """Whether a value of a file is of the type of a field; words are different ones."""
    if kind is float:
        return type(value) in (int, float) and abs(value) <= sys.float_info.max
    if kind == bool | None:
        return value is None or type(value) is bool
    if kind in (bool, int, str):
        return type(value) is kind
    words = isinstance(value, list) and all(isinstance(word, str) for word in value)
    return words and len({*value, RARE}) == len(value) + 1
