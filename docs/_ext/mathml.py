"""Formulas as MathML, which browsers draw themselves: no script, no font, no network."""

import re
from itertools import pairwise
from xml.etree import ElementTree

from docutils.nodes import SkipNode
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)
APPLY = "\u2061"  # the invisible operator between a function's name and its argument
THIN = {"width": "0.17em"}


def spaced(element: ElementTree.Element) -> None:
    """Add TeX's thin spaces about names of functions, which docutils omits; do not stretch bars."""
    for child in element:
        spaced(child)
        if child.tag == "mo" and child.text in ("|", "‖"):
            child.attrib |= {"stretchy": "false", "lspace": "0", "rspace": "0"}
    children = list(element)
    names = {i - 1 for i, child in enumerate(children) if child.text == APPLY}
    element[:] = children[:1]
    for i, (left, right) in enumerate(pairwise(children), start=1):
        operand_before = i in names and (left.tag != "mo" or left.text == ")")
        if operand_before or (left.text == APPLY and right.text != "("):
            element.append(ElementTree.Element("mspace", THIN))
        element.append(right)


def to_mathml(formula: str, *, block: bool) -> str:
    markup = (
        tex2mathml(formula, as_block=block)
        .replace("&ApplyFunction;", APPLY)
        .replace(' xmlns="http://www.w3.org/1998/Math/MathML"', "")
    )
    tree = ElementTree.fromstring(re.sub(r">\s+<", "><", markup))
    spaced(tree)
    return ElementTree.tostring(tree, encoding="unicode")


def visit(translator, node, *, block: bool):
    try:
        markup = to_mathml(node.astext(), block=block)
    except MathError as error:
        logger.warning("formula %r: %s", node.astext(), error, location=node)
        markup = ""
    translator.body.append(f'<div class="math">{markup}</div>' if block else markup)
    raise SkipNode


def visit_inline(translator, node):
    visit(translator, node, block=False)


def visit_block(translator, node):
    visit(translator, node, block=True)


def setup(app):
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
