"""Docstrings as reStructuredText.

Their text is plain, with `code`, indented formulas and doctests, and NumPy sections such
as Parameters. Names of public objects in backticks become links. `{header} FILE` shows
the docstring of a program.
"""

import ast
import re
from pathlib import Path

from jax.typing import ArrayLike
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_refnode
from sphinx.util.typing import stringify_annotation

import mmlp

ROOT = Path(__file__).parent.parent.parent
PUBLIC = {*mmlp.__all__, *mmlp.estimators.__all__}
ARRAY_LIKE = stringify_annotation(ArrayLike, "smart")


# Sections that list entries "name : type", each with an indented description.
SECTIONS_OF_ENTRIES = {
    "Parameters",
    "Other Parameters",
    "Attributes",
    "Returns",
    "Yields",
    "Raises",
    "Warns",
    "See Also",
}


def inline(text: str) -> str:
    """Convert `Gram` to a link where it is public, and `other code` to a literal."""
    parts = re.split(r"`([^`]+)`", text.replace("``", "`"))
    for i, part in enumerate(parts):
        if i % 2 == 0:
            parts[i] = re.sub(r"([\\*|_])", r"\\\1", part)
        else:
            name = part.removeprefix("mmlp.").removesuffix("()")
            code = f":py:obj:`~mmlp.{name}`" if name in PUBLIC else f"``{part}``"
            parts[i] = code + "\\ " * parts[i + 1][:1].isalnum()
    return "".join(parts)


def to_rst(lines: list[str]) -> list[str]:
    """Convert a docstring, section by section."""
    summary, sections = split_sections(lines)
    out = convert_text(summary)
    for title, content in sections:
        out += ["", f".. rubric:: {title}", ""]
        if title in SECTIONS_OF_ENTRIES:
            out += convert_entries(content)
        else:
            out += convert_text(content)
    return [*out, ""]


def split_sections(lines: list[str]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Split a docstring at its underlined titles."""
    summary: list[str] = []
    sections: list[tuple[str, list[str]]] = []
    content = summary
    for i, line in enumerate(lines):
        following = lines[i + 1] if i + 1 < len(lines) else ""
        if re.fullmatch(r"-{3,}", following) and re.fullmatch(r"[A-Z][\w ]*", line):
            content = []
            sections.append((line, content))
        elif not (re.fullmatch(r"-{3,}", line) and sections and not content):
            content.append(line)
    return summary, sections


def convert_text(lines: list[str]) -> list[str]:
    """Convert paragraphs by `inline`, and indented blocks to literal blocks."""
    out = []
    block = None
    for line in lines:
        if not line.strip():
            block = None
        elif block is None:
            kinds = {">>>": "doctest", "    ": "literal"}
            block = next(
                (kinds[start] for start in kinds if line.startswith(start)), "text"
            )
            if block == "literal":
                out += ["::", ""]
        elif block == "text" and line.startswith("    "):
            block = "literal"
            out += ["", "::", ""]
        out.append(inline(line) if block == "text" else line)
    return out


def convert_entries(lines: list[str]) -> list[str]:
    """Convert entries "name : type", with indented descriptions, to a bullet list."""
    out = []
    for line in lines:
        if line.startswith("    "):
            out.append(f"  {inline(line.strip())}")
        elif line.strip():
            names, _, kind = line.partition(" : ")
            linked = [link_name(name) for name in names.split(", ")]
            entry = f"* {', '.join(linked)}"
            # A blank line would start a new paragraph of the entry.
            out += ["", f"{entry} : {inline(kind)}" if kind else entry, ""]
        else:
            out.append("")
    return out


def link_name(name: str) -> str:
    """Return a public name as a link, a name of a parameter in bold, others as text."""
    if name in PUBLIC:
        return f":py:obj:`~mmlp.{name}`"
    if re.fullmatch(r"\*{0,2}[\w.]+", name):
        return "**" + name.replace("*", r"\*") + "**"
    return inline(name)


def process_docstring(app, what, name, obj, options, lines):
    lines[:] = to_rst(lines)


def process_signature(app, what, name, obj, options, signature, returns):
    """Aliases of types and default functions as they are written, not as they are defined."""
    plain = (
        text and text.replace(ARRAY_LIKE, "ArrayLike") for text in (signature, returns)
    )
    return tuple(
        text and re.sub(r"<PjitFunction.*? (\w+)>>", r"jnp.\1", text) for text in plain
    )


def find_public(app, env, node, contnode):
    """A class named by the module that defines it, where it is documented as `mmlp.Name`."""
    entry = env.domains["py"].objects.get(
        f"mmlp.{node['reftarget'].rpartition('.')[2]}"
    )
    if entry and node["reftarget"].startswith("mmlp."):
        return make_refnode(
            app.builder, node["refdoc"], entry.docname, entry.node_id, contnode
        )


def drop_links_back(app, pagename, templatename, context, doctree):
    """Drop the links from source code: one prefix a file is wrong for some of its names."""
    if pagename.startswith("_modules/"):
        context["body"] = re.sub(
            r'<a class="viewcode-back".*?</a>', "", context["body"]
        )


class Header(SphinxDirective):
    """The docstring of a program, `{header} benchmarks/speed.py`."""

    required_arguments = 1

    def run(self):
        path = ROOT / self.arguments[0]
        self.env.note_dependency(str(path))
        docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
        return self.parse_text_to_nodes(
            "```{eval-rst}\n" + "\n".join(to_rst(docstring.splitlines())) + "\n```"
        )


def setup(app):
    app.connect("autodoc-process-docstring", process_docstring)
    app.connect("autodoc-process-signature", process_signature)
    app.connect("missing-reference", find_public)
    app.connect("html-page-context", drop_links_back)
    app.add_directive("header", Header)
    return {"parallel_read_safe": True}
