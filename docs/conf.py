"""Sphinx: `make docs` builds docs/_build/html; warnings are errors, and no network is needed."""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).parent / "_ext")]
sys.path.append(str(ROOT / "benchmarks"))

import mmlp  # noqa: E402, after the path

project, author, release = "matrix-mlp", "the matrix-mlp authors", mmlp.__version__
project_copyright = author
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "docstrings",
    "gallery",
    "mathml",
    "measured",
    "results",
]
exclude_patterns = ["_build"]
nitpicky = True
# types of other projects: no inventory of theirs is fetched
nitpick_ignore_regex = [
    ("py:.*", r"(?!mmlp).*"),
    (
        "py:.*",
        r"mmlp\.(\w+\.)*(ColumnTable|Kernel|Network|NetworkEstimator|Options|Output|Radius|registry\.T)",
    ),
]

myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 3

# metadata routing of scikit-learn adds methods to each class
ROUTED = ("fit", "score", "predict", "transform", "inverse_transform")
ROUTING = ", ".join(f"set_{name}_request" for name in ROUTED)
autodoc_default_options = {
    "members": True,
    "member-order": "bysource",
    "exclude-members": ROUTING,
}
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
maximum_signature_line_length = 90
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "matrix-mlp"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_math_renderer = "mathml"
html_show_sphinx = False
html_theme_options = {"top_of_page_buttons": []}
smartquotes = False  # T'T is a product
