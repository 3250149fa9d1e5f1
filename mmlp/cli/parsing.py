"""From words to one of the classes of `arguments`; whatever is wrong with them in one line."""

import contextlib
import dataclasses
import difflib
import inspect
import io
import itertools
import re
import sys
import typing
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Union

import tyro
from tyro.conf import (
    FlagCreatePairsOff,
    OmitArgPrefixes,
    OmitSubcommandPrefixes,
    Positional,
    subcommand,
)

from mmlp._version import __version__
from mmlp.cli import fit_arguments
from mmlp.cli.arguments import COMMANDS, KINDS, Group

CONFIG = (OmitArgPrefixes, OmitSubcommandPrefixes, FlagCreatePairsOff)
MOVED = (
    "the paper's experiments are no longer part of this command; in a clone of the repository run "
    "`make reproduce`, or `python -m reproduction example1` for one of them."
)
(POSITIONAL,) = typing.get_args(Positional[int])[1:]


def parse(argv: Sequence[str], group: Group = COMMANDS, program: str = "mmlp"):
    """The arguments; a `ValueError` says what is wrong with them, help ends the program."""
    first, rest = (argv[0], argv[1:]) if argv else ("", [])
    chosen = group.commands.get(first) or _added(first, group)
    if isinstance(chosen, Group):
        return parse(rest, chosen, f"{program} {first}")
    if chosen is not None:
        return _parsed(chosen, rest, f"{program} {first}")
    if first == "help":
        return parse([*rest, "--help"], group, program)
    if first in ("--version", "-V"):
        print(f"{program} {__version__}")
        raise SystemExit(0)
    if first == "reproduce" and group is COMMANDS:
        raise ValueError(MOVED)
    if first not in ("--help", "-h"):
        raise ValueError(_no_command(first, group, program))
    menu: Any = Union[*itertools.starmap(_entry, group.commands.items())]
    return tyro.cli(
        menu, prog=program, description=group.about, args=argv, config=CONFIG
    )


def near(word: str, known: Iterable[str]) -> str:
    """ "; did you mean ...?", if anything is like it.

    >>> near("predikt", ["fit", "predict"])
    '; did you mean predict?'
    """
    found = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {found[0]}?" if found else ""


def listed(words: Sequence[str], last: str = "or") -> str:
    """
    >>> listed(["full", "low_rank", "auto"])
    'full, low_rank or auto'
    """
    return f" {last} ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _added(word: str, group: Group) -> type | None:
    """The arguments of an estimator that another package has added to the kinds."""
    known = sys.modules.get(
        "mmlp.estimators.model_files"
    )  # where it has entered itself
    kinds = known.kinds() if known and group is KINDS else {}
    return fit_arguments.for_estimator(kinds[word]) if word in kinds else None


def _no_command(word: str, group: Group, program: str) -> str:
    what, names = "kind" if group is KINDS else "command", list(group.commands)
    if not word:
        example = next(
            line[2:] for line in group.about.split("\n") if line.startswith("$")
        )
        return f"`{program}` needs a {what}: {listed(names)}; such as `{example}`."
    hint = (
        near(word, [*names, "--help", "--version"])
        or f"; use {listed(names)}, such as `{program} {names[0]}`."
    )
    return f"`{program}` has no {what} {word}{hint}"


def _parsed(chosen: type, words: Sequence[str], program: str):
    """By tyro, whose page of text about an error becomes a line."""
    with contextlib.redirect_stderr(io.StringIO()) as text:
        try:
            return tyro.cli(chosen, prog=program, args=words, config=CONFIG)
        except SystemExit as end:
            if end.code in (0, None):
                raise
    raise ValueError(_in_one_line(text.getvalue(), chosen, program))


def _in_one_line(page: str, chosen: type, program: str) -> str:
    title, *lines = (
        re.sub("[│╭╮╰╯]", " ", page).strip().split("\n")
    )  # without the frame
    parts = itertools.groupby(
        lines, key=lambda line: bool(line.strip(" ─-"))
    )  # by rules
    about = next((list(part) for is_text, part in parts if is_text), [])
    text, more = " ".join(" ".join(about).split()), f"`{program} --help` says more."
    if "Unrecognized" in title:
        wrong = text.partition(": ")[2].split(", ")
        option = next((word for word in wrong if word.startswith("-")), "")
        if not option:
            return f"`{program}` has no place for {wrong[0]}; {more}"
        others = [
            f"; it is one of `mmlp fit {kind}`."
            for kind, other in KINDS.commands.items()
            if chosen in KINDS.commands.values()
            and option in _options(typing.cast(type, other))
        ]
        hint = next(iter(others), near(option, _options(chosen)) or f"; {more}")
        return f"`{program}` has no option {option}{hint}"
    if "Required" in title:
        lines = [line for line in about[1:] if re.match(r" {6}\S", line)]
        needed = [line.partition(",")[0].strip() for line in lines]
        return f"`{program}` needs {listed(needed, 'and')}; {more}"
    if match := re.fullmatch(r"Error parsing (\S+): (.*?)\.?", text):
        reason = re.sub(
            "could not .* to float: '(.*)'", r"it must be a number, got \1", match[2]
        )
        return f"{match[1]}: {reason}."
    if match := re.match("Missing value for argument '(.*?)'", text):
        return f"{match[1]} needs a value; {more}"
    if match := re.match(
        r"invalid choice '(.*?)' for argument '(.*?)'.*\((.*)\)", text
    ):
        choices, what = (
            re.findall("'(.*?)'", match[3]),
            match[2].replace("targets", "TARGET"),
        )
        return f"{what} must be {listed(choices)}, got {match[1]}{near(match[1], choices) or '.'}"
    return text


def _options(chosen: type) -> list[str]:
    """The options of a command, as they are written."""
    hints, found = typing.get_type_hints(chosen, include_extras=True), ["--help"]
    for field in dataclasses.fields(chosen):
        about = getattr(hints[field.name], "__metadata__", ())
        if POSITIONAL not in about:
            found.append(f"--{field.name.replace('_', '-')}")
            found += [
                name
                for entry in about
                for name in getattr(entry, "aliases", None) or ()
            ]
    return found


def _entry(name: str, command: "type | Group"):
    """A command in the list of commands: its name and the first line of its help."""
    is_group = isinstance(command, Group)
    about = (command.about if is_group else inspect.getdoc(command) or "").partition(
        "\n"
    )[0]
    shown = dataclasses.make_dataclass(name, []) if is_group else command
    return Annotated[shown, subcommand(name, description=about)]
