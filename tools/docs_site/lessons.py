"""The lessons, solved and run, as pages of the site: pictures without starting Jupyter.

The committed notebooks hold no outputs: a learner's copy would show each answer below
its question, and every change of an estimate would change them all. These pages are
what a reader of a code host looks at instead, built from the same text. The search
finds them by what a learner reads, not by the answers: who searches for a word is not
led to a solution.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from html import escape
from typing import Any, cast

import mistune
from docutils import nodes
from docutils.utils import new_document
from IPython.core.interactiveshell import InteractiveShell
from nbformat import NotebookNode, reads
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from traitlets.config import Config

from tools import notebooks

FOLDER = "workshop/lessons"
_DATA = "PLANNER_DATA_DIR"
_PAGE = re.compile(r'href="(?:\.\./)+docs/([\w/-]+)\.md(#[^"]*)?"')
_LESSON = re.compile(r'href="(\w+)\.ipynb"')
_NOTEBOOK = re.compile(r'href="(?:\.\./)+\w+\.ipynb"')
"""Another notebook: the site has a page on all of them."""


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield each lesson's page: name, context and template."""
    before = os.environ.get(_DATA)
    names = places()
    builder = cast("StandaloneHTMLBuilder", app.builder)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[_DATA] = folder  # not among the progress of who builds the site
        try:
            for number, lesson in enumerate(solved()):
                cells = reads(notebooks.build(lesson), 4).cells
                context: dict[str, Any] = {
                    "title": _title(lesson),
                    "body": "\n".join(_shown(builder, cells)),
                }
                for way, at in (("prev", number - 1), ("next", number + 1)):
                    if 0 <= at < len(names):
                        link = app.builder.get_relative_uri(names[number], names[at])
                        context[way] = {"link": link, "title": _title(solved()[at])}
                _index(builder, names[number], lesson)
                yield names[number], context, "page.html"
        finally:
            os.environ.pop(_DATA)
            if before is not None:
                os.environ[_DATA] = before


def places() -> list[str]:
    """Return where in the site the lessons are, in order."""
    return [f"{FOLDER}/{lesson.path.stem}" for lesson in solved()]


def solved() -> list[notebooks.Edition]:
    """Return the lessons with their answers, in order."""
    return [one for one in notebooks.editions() if one.is_solution]


def _index(
    builder: StandaloneHTMLBuilder, place: str, lesson: notebooks.Edition
) -> None:
    """Let the search find a page; Sphinx takes out those that it knows no source of."""
    title = f"{_title(lesson)} (solved)"
    builder.env.all_docs[place] = 0
    builder.env.titles[place] = nodes.title("", title)
    builder.index_page(place, unsolved(lesson), title)


def unsolved(lesson: notebooks.Edition) -> nodes.document:
    """Return the text of a lesson as its learners read it, for the search."""
    edition = next(
        one
        for one in notebooks.editions()
        if one.source == lesson.source and not one.is_solution
    )
    text = new_document(lesson.path.stem)
    for cell in reads(notebooks.build(edition), 4).cells:
        text += nodes.paragraph("", cell.source)
    return text


def _title(lesson: notebooks.Edition) -> str:
    first = notebooks.build(lesson).partition('"source": [')[2]
    return first.partition('"# ')[2].partition("\\n")[0]


def _shown(builder: StandaloneHTMLBuilder, cells: list[NotebookNode]) -> Iterator[str]:
    shell = _shell()
    written = mistune.create_markdown(plugins=["table"])
    for cell in cells:
        if cell.cell_type == "markdown":
            text = _PAGE.sub(r'href="../../\1.html\2"', str(written(cell.source)))
            text = _LESSON.sub(r'href="\1.html"', text)
            yield _NOTEBOOK.sub('href="../../notebooks.html"', text)
            continue
        yield str(builder.highlighter.highlight_block(cell.source, "python"))
        ran = shell.run_cell(cell.source, silent=False)
        ran.raise_error()
        if ran.result is not None:
            yield f'<div class="lesson-output">{_output(shell, ran.result)}</div>'
    shell.reset()


def _shell() -> Any:  # noqa: ANN401 - IPython's methods have no types
    """Return a Python in this process; what it would print is in the pages."""
    settings = Config()
    settings.HistoryManager.enabled = False
    shell: Any = InteractiveShell.instance(config=settings)
    shell.displayhook.write_format_data = lambda *_given: None
    shell.displayhook.write_output_prompt = lambda: None
    return shell


def _output(shell: Any, result: object) -> str:  # noqa: ANN401 - as above
    kinds = ["text/plain", "text/html"]
    data, _ = shell.display_formatter.format(result, include=kinds)
    return data.get("text/html") or f"<pre>{escape(data['text/plain'])}</pre>"


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx when to run them."""
    app.connect("html-collect-pages", pages)
    return {"parallel_read_safe": True}
