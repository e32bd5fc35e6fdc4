"""Links that mean a file of the repository which is no page of the site.

The Markdown files are read in the repository too, where a link may lead anywhere. Here

- a picture or a table in docs/ lies at the same place beside the pages,
- the README, the changelog and the like have a page that stands for them,
- any other file can be downloaded, which Sphinx does,
- a folder is named: there is no page to open.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.osutil import relative_uri

from tools.docs_site import lessons

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

FOR_MODELS = "llms.txt"
"""The list of pages for language models, at the root of docs/ and of the site."""

STANDING_FOR = {
    "README.md": ("index.html", "the first page"),
    "CHANGELOG.md": ("changelog.html", "Changelog"),
    "CONTRIBUTING.md": ("contributing.html", "Contributing"),
    "docs/workshop/slides.md": ("workshop/slides.html", "Slides"),
    "docs/workshop/handout.md": ("workshop/handout.html", "Handout"),
    "notebooks/workshop/solutions": (f"{lessons.places()[0]}.html", "Solved lessons"),
    **{
        f"notebooks/workshop/solutions/{Path(place).name}.ipynb": (
            f"{place}.html",
            "Solved lesson",
        )
        for place in lessons.places()
    },
}
"""Where in the site a file of the repository is, and its title there: those that are
no source of a page."""


def place_of(target: Path) -> str | None:
    """Return where in the site a file of the repository lies, None: nowhere."""
    name = target.relative_to(ROOT).as_posix()
    if name in STANDING_FOR:
        return STANDING_FOR[name][0]
    if target.is_file() and target.is_relative_to(DOCS) and target.suffix != ".md":
        return target.relative_to(DOCS).as_posix()
    return None


def _on_read(app: Sphinx, page: nodes.document) -> None:
    """Lead the links of one page to where they mean in the site."""
    name = app.env.current_document.docname
    links = [
        *page.findall(addnodes.download_reference),
        *page.findall(addnodes.pending_xref),
    ]
    for link in links:
        if link.get("reftype") != "myst":
            continue
        if link.get("refdomain") == "doc" and link.astext().endswith(".md"):
            link["refexplicit"] = False  # a page is called by its title here
        path = link["reftarget"].partition("#")[0]
        if link.get("refdomain") == "doc":
            path = f"/{path}.md"
        target = Path(app.env.relfn2path(path, name)[1]).resolve()
        if not target.is_relative_to(ROOT):
            continue
        place = place_of(target)
        if place is not None:
            link.replace_self(_reference(app, name, place, link))
            _wanted(app).add(place)
        elif target.is_dir() and path:
            link.replace_self(_folder(target))


def _reference(
    app: Sphinx, page: str, place: str, link: nodes.Element
) -> nodes.reference:
    address = relative_uri(app.builder.get_target_uri(page), place)
    said = nodes.inline("", "", *(child.deepcopy() for child in link.children))
    titles = dict(STANDING_FOR.values())
    if place in titles and said.astext().endswith(".md"):
        said = nodes.inline("", titles[place])
    return nodes.reference("", "", said, refuri=address, internal=True)


def _folder(folder: Path) -> nodes.literal:
    name = f"{folder.relative_to(ROOT).as_posix()}/"
    return nodes.literal(name, name)


def _wanted(app: Sphinx) -> set[str]:
    """Return the files that pages link to, which Sphinx does not bring."""
    found: set[str] = app.env.__dict__.setdefault("planner_files", set())
    return found


def _on_finished(app: Sphinx, error: Exception | None) -> None:
    """Put those files beside the pages."""
    if error is not None:
        return
    for place in sorted(_wanted(app)):
        if (DOCS / place).is_file():
            target = Path(app.outdir) / place
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(DOCS / place, target)
    index = Path(app.outdir, FOR_MODELS)
    index.write_text(as_in_the_site(index.read_text("utf-8")), encoding="utf-8")


def as_in_the_site(text: str) -> str:
    """Lead the links of a Markdown text, which is no page, to pages.

    >>> as_in_the_site("[Guides](guides.md), [one](guides.md#one)")
    '[Guides](guides.html), [one](guides.html#one)'
    """
    return re.sub(r"(\]\([^):]+)\.md(?=[)#])", r"\1.html", text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx when to ask."""
    app.connect("doctree-read", _on_read)
    app.connect("build-finished", _on_finished)
    return {"parallel_read_safe": False}
