"""A command line made from dataclasses.

Each command is a dataclass: its docstring is the help of the command, and each field is
an option. A field may be declared by `option` or `positional`, which hold its help; a
plain field becomes an option with a name, a type and a default. Parsing returns an
instance.

    @dataclass(frozen=True, kw_only=True)
    class Sample:
        '''Draw new rows from a model.'''

        model: Path = positional("MODEL", "A file that `mmlp fit` wrote.")
        rows: int = option(help="The number of rows.", metavar="N", short="-n")
        seed: int = option(0, help="The same seed gives the same rows.")

A wrong argument raises a `ValueError` whose message fits in one line.
"""

import argparse
import dataclasses
import difflib
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from mmlp.cli.column_names import parse_names

REQUIRED = dataclasses.MISSING
T = TypeVar("T")


def option(
    default: Any = REQUIRED,
    *,
    help: str = "",
    metavar: str | None = None,
    short: str | None = None,
    default_text: str | None = None,
    choices: Sequence[str] = (),
    lowest: int | None = None,
    highest: int | None = None,
    value_if_bare: Any = None,
    parameter: str | None = None,
) -> Any:
    """Declare a field that is an option.

    Parameters
    ----------
    default : optional
        The value without the option, which is required if there is none.
    help : str, optional
        What the option does.
    metavar : str, optional
        What stands for the value in the help; by default the name of its type.
    short : str, optional
        A short name, such as "-o".
    default_text : str, optional
        What the help says about the default, where the value does not say it.
    choices : sequence of str, optional
        The only values. Those of a `Literal` need not be repeated.
    lowest, highest : int, optional
        The bounds of a number.
    value_if_bare : optional
        The value of the option without a word after it.
    parameter : str, optional
        The parameter of an estimator that the option sets.
    """
    metadata = {
        "help": help,
        "metavar": metavar,
        "short": short,
        "default_text": default_text,
        "choices": choices,
        "bounds": (lowest, highest),
        "value_if_bare": value_if_bare,
        "parameter": parameter,
    }
    return dataclasses.field(default=default, metadata=metadata)


def positional(metavar: str, help: str = "") -> Any:
    """Declare a field that is given by its place among the words, not by a name."""
    metadata = {"help": help, "metavar": metavar, "is_positional": True}
    return dataclasses.field(metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Group:
    """Commands that are chosen by a word.

    Parameters
    ----------
    description : str
        The help, with examples in lines that begin with "$".
    commands : dict
        Dataclasses or further groups, by name.
    word : str
        What one of them is called: "command" or "kind".
    """

    description: str
    commands: "dict[str, type | Group]"
    word: str = "command"


def parse_command(argv: Sequence[str], group: Group, program: str) -> Any:
    """Parse the words after the name of a program.

    Parameters
    ----------
    argv : sequence of str
        The words.
    group : Group
        The commands of the program.
    program : str
        The name of the program.

    Returns
    -------
    object
        An instance of one of the dataclasses in `group`.

    Raises
    ------
    ValueError
        If a word is wrong or missing.
    SystemExit
        After the help was printed.
    """
    name = argv[0] if argv else ""
    words = argv[1:]
    if name == "help":
        return parse_command([*words, "--help"], group, program)
    if name in ("--help", "-h"):
        _print_group_help(group, program)
        raise SystemExit(0)

    command = group.commands.get(name)
    if command is None:
        raise ValueError(_describe_unknown_command(name, group, program))
    if isinstance(command, Group):
        return parse_command(words, command, f"{program} {name}")
    values = parse_fields(words, [command], f"{program} {name}", siblings=group)
    return command(**values)


def parse_fields(
    argv: Sequence[str],
    classes: Sequence[type],
    program: str,
    *,
    siblings: Group | None = None,
) -> dict[str, Any]:
    """Parse options and positional arguments.

    Parameters
    ----------
    argv : sequence of str
        The words.
    classes : sequence of dataclasses
        Their fields are what may be given. The first has the description.
    program : str
        The name of the program, for help and errors.
    siblings : Group, optional
        Other commands, one of which may have an option that this one lacks.

    Returns
    -------
    dict
        The values that were given, by the name of the field.

    Raises
    ------
    ValueError
        If a word is wrong or missing.
    SystemExit
        After the help was printed.
    """
    parser = _make_parser(classes, program)
    try:
        values, unknown = parser.parse_known_args(argv)
    except argparse.ArgumentError as error:
        end = "" if error.message.endswith("?") else "."
        raise ValueError(f"{error.argument_name} {error.message}{end}") from None
    if not unknown:
        return vars(values)

    more = f"; `{program} --help` says more."
    names = [word.partition("=")[0] for word in unknown if word.startswith("-")]
    if not names:
        raise ValueError(f"`{program}` has no place for {unknown[0]}{more}")
    hint = suggest(names[0], list_options(classes)) or more
    if siblings is not None:
        parent = program.rpartition(" ")[0]
        for name, command in siblings.commands.items():
            if isinstance(command, type) and names[0] in list_options([command]):
                hint = f"; it is one of `{parent} {name}`."
                break
    raise ValueError(f"`{program}` has no option {names[0]}{hint}")


def parse_or_exit(cls: type[T], program: str, argv: Sequence[str] | None = None) -> T:
    """Parse the options of a script; a wrong one ends it with a line and status 2.

    Parameters
    ----------
    cls : dataclass
        Its fields are the options.
    program : str
        How the script is started, for help and errors.
    argv : sequence of str, optional
        The words; by default those of this process.

    Returns
    -------
    cls
    """
    words = sys.argv[1:] if argv is None else argv
    try:
        values = parse_fields(words, [cls], program)
    except ValueError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    return cls(**values)


def list_options(classes: Iterable[type]) -> list[str]:
    """Return the options of a command as they are written, with short names.

    Examples
    --------
    >>> @dataclasses.dataclass
    ... class Settings:
    ...     batch_size: int = option(64, short="-b")
    >>> list_options([Settings])
    ['--help', '-b', '--batch-size']
    """
    names = ["--help"]
    for field in _list_fields(classes):
        if not field.metadata.get("is_positional"):
            names += _flags(field)
    return names


def suggest(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean ...?" if a known word is similar, else an empty text.

    Examples
    --------
    >>> suggest("predikt", ["fit", "predict"])
    '; did you mean predict?'
    """
    similar = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {similar[0]}?" if similar else ""


def join_words(words: Sequence[str]) -> str:
    """Write alternatives.

    Examples
    --------
    >>> join_words(["full", "low_rank", "auto"])
    'full, low_rank or auto'
    """
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} or {words[-1]}"


class _Parser(argparse.ArgumentParser):
    """A parser that raises what it has to say about missing arguments."""

    def error(self, message: str) -> typing.NoReturn:
        raise ValueError(f"`{self.prog}`: {message}; `{self.prog} --help` says more.")


def _make_parser(classes: Sequence[type], program: str) -> _Parser:
    """Make a parser that returns what was given and leaves out the defaults."""
    fields = _list_fields(classes)
    required = [
        _flags(field)[0] + " " + (field.metadata.get("metavar") or "VALUE")
        for field in fields
        if _is_required(field) and not field.metadata.get("is_positional")
    ]
    places = [
        field.metadata["metavar"]
        for field in fields
        if field.metadata.get("is_positional")
    ]
    parser = _Parser(
        prog=program,
        usage=" ".join([program, *places, *required, "[options]"]),
        description=inspect.getdoc(classes[0]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
        exit_on_error=False,
    )
    hints: dict[str, Any] = {}
    for cls in classes:
        hints |= typing.get_type_hints(cls)
    for field in fields:
        _add_argument(parser, field, hints[field.name])
    return parser


def _add_argument(parser: _Parser, field: dataclasses.Field, hint: Any) -> None:
    """Add a field to the parser."""
    about = field.metadata
    if about.get("is_positional"):
        parser.add_argument(
            field.name,
            metavar=about["metavar"],
            help=about["help"],
            type=_find_converter(hint),
        )
        return

    text = " ".join([about.get("help", ""), _describe_default(field)]).strip()
    # argparse formats help by the % operator.
    text = text.replace("%", "%%")
    if hint is bool:
        on_and_off = field.default is True
        action = argparse.BooleanOptionalAction if on_and_off else "store_true"
        parser.add_argument(*_flags(field), dest=field.name, action=action, help=text)
        return

    hint = _without_none(hint)
    choices = about.get("choices") or _list_choices(hint)
    value_if_bare = about.get("value_if_bare")
    parser.add_argument(
        *_flags(field),
        dest=field.name,
        required=_is_required(field),
        metavar=about.get("metavar") or _find_metavar(hint, choices),
        nargs=None if value_if_bare is None else "?",
        const=value_if_bare,
        type=_find_converter(hint, choices, about.get("bounds", (None, None))),
        help=text,
    )


def _find_converter(
    hint: Any,
    choices: Sequence[str] = (),
    bounds: tuple[int | None, int | None] = (None, None),
) -> Callable[[str], Any]:
    """Return the function that makes a value of a word, or explains why it cannot."""
    hint = _without_none(hint)
    if choices:
        return lambda word: _check_choice(word, choices)
    if hint is int:
        return lambda word: _check_bounds(
            _convert(int, word, "a whole number"), *bounds
        )
    if hint is float:
        return lambda word: _convert(float, word, "a number")
    if typing.get_origin(hint) is tuple:
        item = typing.get_args(hint)[0]
        if item is str:
            return _parse_names
        convert_item = _find_converter(item)
        return lambda word: tuple(convert_item(part) for part in word.split(","))
    return hint


def _convert(kind: Callable[[str], Any], word: str, description: str) -> Any:
    try:
        return kind(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be {description}, got {word}") from None


def _check_bounds(number: int, lowest: int | None, highest: int | None) -> int:
    if lowest is not None and number < lowest:
        raise argparse.ArgumentTypeError(f"must be at least {lowest}, got {number}")
    if highest is not None and number > highest:
        raise argparse.ArgumentTypeError(f"must be at most {highest}, got {number}")
    return number


def _parse_names(word: str) -> tuple[str, ...]:
    try:
        return parse_names(word)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _check_choice(word: str, choices: Sequence[str]) -> str:
    if word in choices:
        return word
    are_words = all(len(choice) > 1 for choice in choices)
    known = join_words(choices if are_words else [*map(repr, choices)])
    hint = suggest(word, choices) if are_words else ""
    raise argparse.ArgumentTypeError(f"must be {known}, got {word!r:.40}{hint}")


def _without_none(hint: Any) -> Any:
    """Return the type of the values that are not None."""
    if not isinstance(hint, types.UnionType):
        return hint
    return next(part for part in typing.get_args(hint) if part is not types.NoneType)


def _list_choices(hint: Any) -> Sequence[str]:
    return typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else ()


def _find_metavar(hint: Any, choices: Sequence[str]) -> str:
    if choices:
        return f"{{{','.join(choices)}}}"
    if typing.get_origin(hint) is tuple:
        return "NAMES" if typing.get_args(hint)[0] is str else "NUMBERS"
    return {int: "N", float: "NUMBER", Path: "PATH"}.get(hint, "TEXT")


def _describe_default(field: dataclasses.Field) -> str:
    text = field.metadata.get("default_text")
    default = field.default
    if text is None:
        if default is REQUIRED or default is None or isinstance(default, bool):
            return ""
        is_tuple = isinstance(default, tuple)
        text = ",".join(map(str, default)) if is_tuple else str(default)
    return f"(default: {text})"


def _is_required(field: dataclasses.Field) -> bool:
    return field.default is REQUIRED and field.default_factory is REQUIRED


def _flags(field: dataclasses.Field) -> list[str]:
    """Return the names of an option, the short one first."""
    long_name = "--" + field.name.replace("_", "-")
    short_name = field.metadata.get("short")
    return [long_name] if short_name is None else [short_name, long_name]


def _list_fields(classes: Iterable[type]) -> list[dataclasses.Field]:
    return [field for cls in classes for field in dataclasses.fields(cls)]


def _print_group_help(group: Group, program: str) -> None:
    """Print the description of a group and the first line about each command."""
    parser = argparse.ArgumentParser(
        prog=program,
        description=group.description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    choices = parser.add_subparsers(title=f"{group.word}s", metavar=group.word.upper())
    for name, command in group.commands.items():
        is_group = isinstance(command, Group)
        text = command.description if is_group else inspect.getdoc(command) or ""
        choices.add_parser(name, help=text.partition("\n")[0].replace("%", "%%"))
    parser.print_help(sys.stdout)


def _describe_unknown_command(name: str, group: Group, program: str) -> str:
    names = list(group.commands)
    if not name:
        lines = group.description.splitlines()
        example = next(line[2:] for line in lines if line.startswith("$ "))
        known = join_words(names)
        return f"`{program}` needs a {group.word}: {known}; such as `{example}`."
    hint = suggest(name, [*names, "--help", "--version"])
    if not hint:
        hint = f"; use {join_words(names)}, such as `{program} {names[0]}`."
    return f"`{program}` has no {group.word} {name}{hint}"
