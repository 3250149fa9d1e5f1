"""Public names have NumPy docstrings that `numpydoc` finds complete.

Public are the names exported from `mmlp`, what the pages of docs/api list, and the
public methods and properties of these classes.
"""

import importlib
import inspect
import re
from pathlib import Path

import numpydoc.validate
import pytest

import mmlp

API_PAGES = sorted((Path(__file__).parents[2] / "docs" / "api").glob("*.md"))
DIRECTIVE = re.compile(r"\.\. auto(?:class|function|method|exception):: (\S+)")

# The errors of numpydoc that fail this test.
CHECKED = {
    "GL03",  # blank lines: more than one between sections
    "GL07",  # sections in the wrong order
    "GL08",  # no docstring
    "SS01",  # no summary
    "SS02",  # the summary does not start with a capital letter
    "SS03",  # the summary does not end with a period
    "SS05",  # the summary starts in the third person
    "SS06",  # the summary takes more than one line
    "PR01",  # parameters are not documented
    "PR02",  # documented parameters do not exist
    "PR03",  # parameters in the wrong order
    "PR04",  # a parameter has no type
    "PR10",  # a parameter's colon needs a space before it
    "RT01",  # no section Returns
    "YD01",  # no section Yields
}
# Names exported from `mmlp` also have examples.
NO_EXAMPLES = "EX01"

# A method that overrides another may say in one sentence how it computes. Its
# parameters are documented where the method is introduced. Users do not construct
# exceptions.
SECTIONS = {"PR01", "RT01"}

# Names, and modules with all their names, that are not converted yet. Whoever converts
# one removes it here.
NOT_YET: set[str] = set()


def find_object(path):
    """Import the longest module of a dotted path and look up the other names."""
    parts = path.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for name in parts[n:]:
            found = getattr(found, name)
        return found
    raise ModuleNotFoundError(path)


def is_ours(found):
    return str(getattr(found, "__module__", "")).partition(".")[0] == "mmlp"


def list_members(cls):
    """List the public methods and properties with a docstring to check.

    A method without a docstring inherits that of the method which it overrides.
    """
    for owner in inspect.getmro(cls):
        if not is_ours(owner) or owner.__name__.startswith("_"):
            continue
        for name, member in vars(owner).items():
            is_member = isinstance(member, property | classmethod | staticmethod)
            is_member = is_member or inspect.isfunction(getattr(owner, name, None))
            if name.startswith("_") or not is_member:
                continue
            inherits = not member.__doc__ and inspect.getdoc(getattr(owner, name))
            if not inherits:
                yield f"{owner.__module__}.{owner.__qualname__}.{name}"


EXPORTED = sorted(
    f"mmlp.{name}" for words in mmlp._NAMES.values() for name in words.split()
)
LISTED = sorted(
    {name for page in API_PAGES for name in DIRECTIVE.findall(page.read_text())}
)


def list_public_names():
    names = dict.fromkeys([*EXPORTED, *LISTED])
    for name in list(names):
        found = find_object(name)
        if inspect.isclass(found):
            names.update(dict.fromkeys(list_members(found)))
    return list(names)


def overrides_documented_method(name):
    owner = find_object(name.rpartition(".")[0])
    if not inspect.isclass(owner):
        return False
    method = name.rpartition(".")[2]
    bases = [base for base in inspect.getmro(owner)[1:] if is_ours(base)]
    return any(getattr(vars(base).get(method), "__doc__", None) for base in bases)


def list_problems(name):
    codes = CHECKED
    found = find_object(name)
    is_exception = inspect.isclass(found) and issubclass(found, BaseException)
    if is_exception or overrides_documented_method(name):
        codes = CHECKED - SECTIONS
    elif name in EXPORTED:
        codes = CHECKED | {NO_EXAMPLES}
    errors = numpydoc.validate.validate(name)["errors"]
    return [f"{code} {text}" for code, text in errors if code in codes]


def is_not_yet_converted(name):
    return any(f"{name}.".startswith(f"{entry}.") for entry in NOT_YET)


def test_public_names_have_complete_docstrings():
    wrong = []
    for name in list_public_names():
        problems = [] if is_not_yet_converted(name) else list_problems(name)
        if problems:
            wrong.append(f"{name}: {'; '.join(problems)}")
    assert not wrong, "\n".join(wrong)


def test_converted_names_are_not_listed_as_missing():
    missing = [
        name
        for name in list_public_names()
        if is_not_yet_converted(name) and list_problems(name)
    ]
    converted = {
        entry
        for entry in NOT_YET
        if not any(f"{name}.".startswith(f"{entry}.") for name in missing)
    }
    assert not converted, f"remove from NOT_YET: {sorted(converted)}"


@pytest.mark.parametrize("name", ["Gram", "JointMatrixMLP"])
def test_help_lists_every_parameter_with_type_and_meaning(name):
    cls = getattr(mmlp, name)
    text = inspect.getdoc(cls)
    for parameter in list(inspect.signature(cls.__init__).parameters.values())[1:]:
        (entry,) = re.findall(rf"^{parameter.name} : (.+)\n    \S", text, re.M)
        has_default = parameter.default is not inspect.Parameter.empty
        assert has_default == ("default=" in entry or "optional" in entry)
