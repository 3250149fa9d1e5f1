"""The gallery: each program of examples/ is run and gets a page: text, output, pictures, code.

A program writes its pictures into the working directory. It is run again only when it or the
library has changed.
"""

import ast
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from docstrings import to_rst
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parent.parent.parent
EXAMPLES, PAGES = ROOT / "examples", ROOT / "docs" / "gallery"
logger = logging.getLogger(__name__)


def programs() -> list[Path]:
    """The files of examples/."""
    return sorted(EXAMPLES.glob("*.py"))


def describe(path: Path) -> tuple[str, str, int]:
    """(title, text, line): the first line of the docstring, the rest, and where the code begins."""
    tree = ast.parse(path.read_text())
    title, _, text = (ast.get_docstring(tree) or "").partition("\n")
    return title.removesuffix("."), text.strip("\n"), tree.body[1].lineno


def run(path: Path, folder: Path) -> None:
    """Run a program in its folder and keep what it prints, unless these sources have run before."""
    library = sorted((ROOT / "mmlp").rglob("*.py"))
    sources = hashlib.sha256(
        b"".join(file.read_bytes() for file in [path, *library])
    ).hexdigest()
    stamp = folder / "sources"
    if stamp.exists() and stamp.read_text() == sources:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    logger.info("running %s", path.name)
    environment = os.environ | {
        "MPLBACKEND": "agg",
        "PYTHONPATH": str(ROOT),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    done = subprocess.run(
        [sys.executable, path],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    if done.returncode:
        raise ExtensionError(f"{path.name} failed:\n{done.stderr}")
    (folder / "output.txt").write_text(done.stdout)
    stamp.write_text(sources)


def page(path: Path, folder: Path) -> str:
    title, text, line = describe(path)
    pictures = "\n\n".join(
        f"![{picture.stem}]({folder.name}/{picture.name})"
        for picture in sorted(folder.glob("*.png"))
    )
    return f"""# {title}

```{{eval-rst}}
{chr(10).join(to_rst(text.splitlines()))}
```

{pictures}

`python examples/{path.name}` prints

```text
{(folder / "output.txt").read_text()}
```

{{download}}`{path.name} <../../examples/{path.name}>`

```{{literalinclude}} ../../examples/{path.name}
:language: python
:lines: {line}-
```
"""


def build(app) -> None:
    for path in programs():
        folder, target = PAGES / path.stem, PAGES / f"{path.stem}.md"
        run(path, folder)
        text = page(path, folder)
        if not target.exists() or target.read_text() != text:
            target.write_text(text)


class Cards(SphinxDirective):
    """`{cards} name ...`: picture, title and link of each example, and their table of contents."""

    has_content = True

    def run(self):
        self.env.note_reread()  # titles and pictures may have changed
        text = "".join(self.card(name) for name in self.content)
        toctree = "\n".join(f"gallery/{name}" for name in self.content)
        return self.parse_text_to_nodes(
            f"::::{{container}} gallery\n{text}::::\n\n```{{toctree}}\n:hidden:\n\n{toctree}\n```"
        )

    def card(self, name: str) -> str:
        title, *_ = describe(EXAMPLES / f"{name}.py")
        pictures = sorted((PAGES / name).glob("*.png"))
        picture = (
            f"[![{title}](gallery/{name}/{pictures[0].name})](gallery/{name}.md)\n\n"
            if pictures
            else ""
        )
        return f":::{{container}} card\n{picture}[{title}](gallery/{name}.md)\n:::\n"


def setup(app):
    app.connect("builder-inited", build)
    app.add_directive("cards", Cards)
    return {"parallel_read_safe": True}
