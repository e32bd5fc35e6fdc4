"""Build the notebooks from their text: notebooks/src/*.py becomes notebooks/*.ipynb.

The app's own notebook ships with the package, as planner/app/voila/app.ipynb; the same
as notebooks/app.ipynb is for `voila notebooks/app.ipynb`.
A lesson, in notebooks/src/workshop/, becomes two: the learner's, without the cells
tagged `solution`, and solutions/ beside it, without those tagged `learner`.

    python tools/notebooks.py           write the notebooks
    python tools/notebooks.py --check   exit with 1 when one is not what its text says

The text (percent format, `# %%` and `# %% [markdown]`) is what people edit and review.
The same text gives the same bytes: cell ids count from 0, no outputs, and the kernel is
pinned, without which JupyterLab greets its user with a question.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jupytext
import nbformat

ROOT = Path(__file__).parent.parent
NOTEBOOKS = ROOT / "notebooks"
SOURCES = NOTEBOOKS / "src"
SHIPPED = {"app.py": ROOT / "planner" / "app" / "voila"}
LESSONS = SOURCES / "workshop"
LEARNER, SOLUTION = "learner", "solution"
_PAGE = re.compile(r'(?<!\[)`(docs/[\w/-]+\.md)`(?:, "([^"]+)")?')
"""A page of the documentation, named in text, and a section of it."""
_FROM_LESSONS = "../../"
INSTALL = "install"
"""The tag of a first cell, whose code is `INSTALLS`."""
INSTALLS = """\
# Installs the planner where it is missing, as on Colab and Kaggle.
from importlib.util import find_spec

if find_spec("planner") is None:
    %pip install --quiet --no-compile "vllm-memory-planner[notebook]"\
"""

METADATA = {
    "kernelspec": {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python"},
}


def sources() -> list[Path]:
    """Return the text of every notebook, in order."""
    return sorted(SOURCES.rglob("*.py"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Edition:
    """A notebook that a text becomes."""

    source: Path
    path: Path
    """Where it is written."""
    left_out: str = ""
    """Cells with this tag are not in it; empty: all are."""

    @property
    def is_solution(self) -> bool:
        """Whether it is a lesson with its answers filled in."""
        return self.left_out == LEARNER


def editions() -> list[Edition]:
    """Return every notebook, in order."""
    return [edition for source in sources() for edition in _editions_of(source)]


def _editions_of(source: Path) -> list[Edition]:
    relative = source.relative_to(SOURCES)
    path = NOTEBOOKS / relative.with_suffix(".ipynb")
    shipped = SHIPPED.get(str(relative))
    if shipped is not None:
        return [
            Edition(source=source, path=shipped / path.name),
            Edition(source=source, path=path),
        ]
    if source.parent != LESSONS:
        return [Edition(source=source, path=path)]
    solved = path.parent / "solutions" / path.name
    return [
        Edition(source=source, path=path, left_out=SOLUTION),
        Edition(source=source, path=solved, left_out=LEARNER),
    ]


def build(edition: Edition) -> str:
    """Return the notebook of a text, as the file holds it."""
    notebook = jupytext.read(edition.source, fmt="py:percent")
    kept = [
        cell
        for cell in notebook.cells
        if edition.left_out not in cell.metadata.get("tags", ())
    ]
    up = "../" * len(edition.path.parent.relative_to(ROOT).parts)
    cells = [_cell(number, cell, up) for number, cell in enumerate(kept)]
    built = nbformat.v4.new_notebook(cells=cells, metadata=METADATA)
    built.nbformat_minor = 5
    nbformat.validate(built)
    return f"{nbformat.writes(built)}\n"


def _cell(number: int, cell: Any, up: str) -> Any:  # noqa: ANN401 - nbformat ships no types
    """Return the cell with the id of its place, and of its metadata only the tags.

    Text that names a page of the documentation becomes a link to it.
    """
    is_code = cell.cell_type == "code"
    make: Any = nbformat.v4.new_code_cell if is_code else nbformat.v4.new_markdown_cell
    kept = {name: cell.metadata[name] for name in ("tags",) if name in cell.metadata}
    is_install = INSTALL in kept.get("tags", ())
    source = INSTALLS if is_install else _uncommented(cell.source)
    if not is_code and up.startswith(_FROM_LESSONS):
        # Solutions are a folder deeper than the lessons whose text they have.
        source = source.replace("](../", f"](../{up.removeprefix(_FROM_LESSONS)}")
    if not is_code:
        source = _PAGE.sub(partial(_link, up), source)
    return make(source=source, metadata=kept, id=str(number))


def _link(up: str, named: re.Match[str]) -> str:
    """Return a link to a page, or to the section that is named behind it.

    Bold, for Jupyter does not underline links, and colour alone tells too little.
    """
    page, section = named[1], named[2] or ""
    slug = re.sub(r"[^\w -]", "", section.lower()).replace(" ", "-")
    shown = f"{page}, {section}" if section else page
    return f"**[{shown}]({up}{page}{'#' if slug else ''}{slug})**"


def _uncommented(source: str) -> str:
    """Return a cell; a text below `%%vllm` is no Python, so a comment in the source."""
    first, *rest = source.splitlines()
    if not first.startswith("%%"):
        return source
    return "\n".join([first, *(line.removeprefix("# ") for line in rest)])


def is_current(edition: Edition) -> bool:
    """Tell whether the notebook that lies there is what its text says."""
    path = edition.path
    return path.is_file() and path.read_text(encoding="utf-8") == build(edition)


def write_all() -> None:
    """Write every notebook."""
    for edition in editions():
        edition.path.parent.mkdir(parents=True, exist_ok=True)
        edition.path.write_text(build(edition), encoding="utf-8")
        print(edition.path.relative_to(ROOT))


def main(arguments: list[str]) -> int:
    """Run the program; the result is its exit status."""
    if arguments == ["--check"]:
        stale = [edition for edition in editions() if not is_current(edition)]
        for edition in stale:
            print(f"{edition.path.relative_to(ROOT)} is not what its text says.")
        return 1 if stale else 0
    if arguments:
        print(__doc__)
        return 2
    write_all()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
