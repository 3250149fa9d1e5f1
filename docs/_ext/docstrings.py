"""Docstrings, plain text with `code`, indented formulas and doctests, as reStructuredText.

Names of public objects in backticks become links. `{header} FILE` shows the docstring of a program.
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


def inline(text: str) -> str:
    """`Gram` becomes a link where it is public, `other code` a literal; all else stays as it is."""
    parts = re.split(r"`([^`]+)`", text)
    for i, part in enumerate(parts):
        if i % 2 == 0:
            parts[i] = re.sub(r"([\\*|_])", r"\\\1", part)
        else:
            name = part.removeprefix("mmlp.").removesuffix("()")
            code = f":py:obj:`~mmlp.{name}`" if name in PUBLIC else f"``{part}``"
            parts[i] = code + "\\ " * parts[i + 1][:1].isalnum()
    return "".join(parts)


def to_rst(lines: list[str]) -> list[str]:
    """Paragraphs by `inline`, indented blocks as literal blocks, doctests and lists unchanged."""
    out, block = [], None
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
