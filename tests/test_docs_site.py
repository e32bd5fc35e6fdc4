"""The documentation site: whole, linked, of one piece with the package, offline."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from docutils import nodes

import planner
from planner.app import cli
from planner.engine.arguments import ARGUMENTS, Memory
from planner.show.glossary import entries
from tests import docs_site
from tests.docs_site import DOCS
from tools import notebooks
from tools.docs_site import command_line, docstrings, lessons, links, mending

PACKAGES = ("export", "learn", "ray", "solve")
# Of these the site has another form.
INSTEAD = {
    f"workshop/{name}.md": f"workshop/{name}.html" for name in ("slides", "handout")
}


@pytest.fixture(scope="module")
def site() -> docs_site.Site:
    """Return the site as `make docs` builds it."""
    return docs_site.built()


@pytest.mark.server
def test_the_site_is_built_without_warnings_or_network(site: docs_site.Site) -> None:
    """A warning would be an error, and so would a connection."""
    assert "imported:" == site.said.strip().splitlines()[-1]
    assert "WARNING" not in site.said
    assert 0 == site.status, site.said


@pytest.mark.server
def test_each_page_of_the_documentation_is_in_the_site(site: docs_site.Site) -> None:
    """Built, and reached from the list of some other page."""
    names = [path.relative_to(DOCS).as_posix() for path in sorted(DOCS.rglob("*.md"))]
    pages = [
        site.folder / INSTEAD.get(name, f"{name.removesuffix('.md')}.html")
        for name in names
    ]
    reached = {
        target
        for page in site.pages
        for link in docs_site.parts(page).links
        if (target := _target(page, link)[0]) != page
    }

    assert [] == [page.name for page in pages if not page.is_file()]
    assert [] == [
        page.name
        for page in pages
        if page.resolve() not in reached and page.name != "index.html"
    ]


@pytest.mark.server
def test_each_lesson_is_there_solved_with_its_charts(site: docs_site.Site) -> None:
    """Run while the site is built; the committed notebooks hold no outputs."""
    for place in lessons.places():
        page = (site.folder / f"{place}.html").read_text(encoding="utf-8")

        assert "lesson-output" in page
        assert "<style" in page.partition("lesson-output")[2]
        assert "Error</span>" not in page


@pytest.mark.server
def test_the_search_finds_solved_lessons_but_by_no_answer(
    site: docs_site.Site,
) -> None:
    """By the text that learners have; an answer leads to none of them."""
    index = (site.folder / "searchindex.js").read_text(encoding="utf-8")
    found = json.loads(index.partition("(")[2].rpartition(")")[0])
    places = [found["docnames"].index(place) for place in lessons.places()]
    terms = {
        word: [pages] if isinstance(pages, int) else pages
        for word, pages in found["terms"].items()
    }
    named = {place for word in ("visitor", "desk") for place in terms[word]}
    third = lessons.solved()[2]
    solution = notebooks.build(third)

    assert all("(solved)" in found["titles"][place] for place in places)
    assert named & set(places)
    assert "144 KiB" in solution
    assert "144 KiB" not in lessons.unsolved(third).astext()


@pytest.mark.server
def test_each_public_name_is_in_the_reference(site: docs_site.Site) -> None:
    """The door of the package, and what `planner.solve` and its like offer."""
    public = [
        *planner.__all__,
        *(
            f"{package}.{name}"
            for package in PACKAGES
            for name in import_module(f"planner.{package}").__all__
        ),
    ]

    known = site.names()
    assert [] == [name for name in public if f"planner.{name}" not in known]


@pytest.mark.server
def test_the_reference_begins_with_a_list_of_all_names(site: docs_site.Site) -> None:
    """Each leads to its entry."""
    listed = docs_site.parts(site.folder / "reference" / "index.html").links
    places = {link.partition("#")[2] for link in listed}

    assert [] == [
        name
        for name in planner.__all__
        if places.isdisjoint({f"planner.{name}", f"module-planner.{name}"})
    ]


@pytest.mark.server
def test_fields_and_sources_are_in_the_reference(site: docs_site.Site) -> None:
    """With what their docstrings say."""
    place = site.names()["planner.Plan.max_concurrency_low"]
    page = (site.folder / place.partition("#")[0]).read_text(encoding="utf-8")

    assert "at the low end of the estimate" in page
    assert "Source" in page
    assert "KVCacheGroupSpec" in page
    assert "Read in this order" not in page
    # A resolved argument without words of its own is explained by the glossary.
    assert "The largest number of requests that vLLM processes at once" in page


@pytest.mark.server
def test_each_word_of_the_glossary_can_be_linked_to(site: docs_site.Site) -> None:
    """Terms, and arguments that plans do not count; a search leads to terms first."""
    anchors = docs_site.parts(site.folder / "glossary.html").anchors
    index = (site.folder / "searchindex.js").read_text(encoding="utf-8").lower()
    words = [
        *(name for name, entry in entries().items() if not entry.is_argument),
        *(name for name, one in ARGUMENTS.items() if one.memory is Memory.UNKNOWN),
    ]

    assert len(words) >= 100
    assert [] == [
        name for name in words if nodes.make_id(f"word-{name}") not in anchors
    ]
    assert '"kv cache":[[' in index


@pytest.mark.server
def test_each_command_is_in_the_reference(site: docs_site.Site) -> None:
    """With what it says to --help."""
    page = (site.folder / "reference" / "command-line.html").read_text("utf-8")
    anchors = docs_site.parts(site.folder / "reference" / "command-line.html").anchors
    commands = [one.command for one in command_line.helps()]

    assert len(commands) > len(command_line._commands(cli.build_parser()))
    assert [] == [one for one in commands if one.replace(" ", "-") not in anchors]
    assert "--max-num-batched-tokens" not in page
    assert "--gpu GPU" in page


@pytest.mark.server
def test_each_engine_argument_is_in_the_reference(site: docs_site.Site) -> None:
    """With its flag, its text, and what it may be."""
    page = site.folder / "reference" / "arguments.html"
    anchors = docs_site.parts(page).anchors
    html = page.read_text("utf-8")

    assert [] == [
        name for name in ARGUMENTS if nodes.make_id(f"argument-{name}") not in anchors
    ]
    assert 1 == html.count("--max-num-batched-tokens</span>")
    assert "The peak activation grows with it" in html
    assert "since vLLM 0.13.0" in html


def _target(page: Path, link: str) -> tuple[Path, str]:
    """Return the file that a link of a page leads to, and the anchor in it."""
    parts = urlsplit(link)
    path = unquote(parts.path)
    return (page.parent / path).resolve() if path else page, unquote(parts.fragment)


@pytest.mark.server
def test_links_lead_to_pages_and_anchors(site: docs_site.Site) -> None:
    """Inside the site; what leaves it is https."""
    broken = []
    seen = 0
    for page in site.pages:
        for link in docs_site.parts(page).links:
            if urlsplit(link).scheme:
                assert link.startswith(("https://", "http://127.0.0.1:")), link
                continue
            target, anchor = _target(page, link)
            seen += 1
            if not target.is_file() or (
                anchor
                and target.suffix == ".html"
                and anchor not in docs_site.parts(target).anchors
            ):
                broken.append((page.name, link))

    assert [] == broken
    assert seen > 1000


@pytest.mark.server
def test_pages_load_nothing_from_elsewhere(site: docs_site.Site) -> None:
    """Scripts, styles, fonts and pictures lie beside the pages."""
    loaded = {
        (page, address)
        for page in site.pages
        for address in docs_site.parts(page).loaded
    }
    styles = [path.read_text("utf-8") for path in site.folder.rglob("*.css")]

    assert loaded
    assert [] == [
        address
        for page, address in loaded
        if urlsplit(address).scheme not in ("", "data")
        or (not urlsplit(address).scheme and not _target(page, address)[0].is_file())
    ]
    assert [] == [
        found
        for text in styles
        for found in re.findall(r"url\([\"']?https?:[^)]*", text)
    ]


@pytest.mark.server
def test_language_models_find_a_list_of_pages(site: docs_site.Site) -> None:
    """At the site's root; its links lead to pages."""
    text = (site.folder / links.FOR_MODELS).read_text("utf-8")
    found = re.findall(r"\]\(([^)]+)\)", text)

    assert len(found) >= 15
    assert [] == [name for name in found if not (site.folder / name).is_file()]


def test_the_list_for_language_models_leads_to_pages_here_too() -> None:
    """As a heading, a summary and sections of links, each with what it is."""
    text = (DOCS / links.FOR_MODELS).read_text("utf-8")
    found = re.findall(r"^- \[[^]]+\]\(([^)]+)\)", text, re.MULTILINE)
    written = "reference/command-line.md", "reference/arguments.md"

    assert text.startswith("# vLLM memory planner\n\n> ")
    assert "agents.md" == found[0]
    assert {*written} <= {*found}
    assert [] == [name for name in found if not (DOCS / name).is_file()]


def test_files_of_the_repository_have_a_place_or_none() -> None:
    """Pictures where they lie, pages that stand for others, folders nowhere."""
    assert "images/confirm.png" == links.place_of(DOCS / "images" / "confirm.png")
    assert "changelog.html" == links.place_of(links.ROOT / "CHANGELOG.md")
    assert links.place_of(DOCS / "app.md") is None
    assert links.place_of(links.ROOT / "deploy" / "nginx.conf") is None
    assert links.place_of(links.ROOT / "tests" / "security") is None


@pytest.mark.server
def test_links_out_of_the_site_are_readable(site: docs_site.Site) -> None:
    """A page is called by its title, a folder by its path, another file comes along."""
    kit = (site.folder / "workshop" / "README.html").read_text(encoding="utf-8")
    publishing = site.folder / "publishing.html"
    shown = publishing.read_text(encoding="utf-8")

    assert ">Slides<" in kit
    assert ".md<" not in kit
    assert "notebooks/workshop/</span>" in kit
    assert "tests/security/</span>" in shown
    assert "nginx.conf" in {
        link.rpartition("/")[2] for link in docs_site.parts(publishing).links
    }


def test_a_docstring_becomes_fields() -> None:
    """Google's sections and our sources; a colon in a sentence is no type."""
    said = docstrings.as_rest(
        "None: nothing serves.\n\nArgs:\n    plan: `Plan`s of one's own.\n\n"
        "Source: vLLM 0.33.0 `a.py` one,\n`b.py` two.\n"
    )

    assert "None: nothing serves." == said[0]
    assert ":param plan: `Plan`\\ s of one's own." in said
    assert ":Source: vLLM 0.33.0 `a.py` one, `b.py` two." in said


def test_a_parameter_a_line_is_no_list() -> None:
    """And the empty corner of a table is no head."""
    parameters = (
        '<dl>\n<dd><em class="sig-param">a</em>,</dd>\n'
        '<dd><em class="sig-param">b</em>,</dd>\n</dl>'
    )

    assert (
        '<span class="sig-line"><em class="sig-param">a</em>,</span>\n'
        '<span class="sig-line"><em class="sig-param">b</em>,</span>\n'
    ) == mending.mended(parameters)
    assert "<td></td>" == mending.mended('<th class="head"><p></p></th>')
    assert "<th>a</th>" == mending.mended("<th>a</th>")
