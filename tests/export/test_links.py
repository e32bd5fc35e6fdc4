"""Every link of the documentation and the lessons leads somewhere."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import ROOT

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "notebooks" / "src").rglob("*.py")),
]
LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)")
HTML = re.compile(r"<[^>]* (?:src|srcset|href)=\"([^\"]+)\"")


@cache
def _anchors(page: Path) -> frozenset[str]:
    """Return the names of a page's headings, as GitHub makes them."""
    text = re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M
    )
    names: list[str] = re.findall(r'<a (?:id|name)="([^"]+)"', text)
    seen: Counter[str] = Counter()
    for title in re.findall(r"^#{1,6} (.+?)\s*$", text, re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title)
        name = re.sub(r"[^\w -]", "", plain).lower().replace(" ", "-")
        names.append(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return frozenset(names)


def _links(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".py":
        text = "\n".join(
            line[1:].strip() for line in text.splitlines() if line.startswith("#")
        )
    without_code = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    plain = re.sub(r"`[^`\n]+`(?!\])", "", without_code)
    return [*LINK.findall(plain), *HTML.findall(plain)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    """Relative paths exist inside the repository; `#name` is a heading there.

    Those of a notebook's source are read beside the notebook that is built from it.
    """
    source = ROOT / "notebooks" / "src"
    folder = page.parent
    if page.is_relative_to(source):
        folder = ROOT / "notebooks" / folder.relative_to(source)
    for link in _links(page):
        if re.match(r"[a-z]+:", link):
            assert link.startswith("https://"), link
            continue
        path, _, anchor = link.partition("#")
        target = (folder / path).resolve() if path else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if anchor and target.suffix == ".md":
            assert anchor in _anchors(target), link


def test_links_are_found() -> None:
    """Without any, nothing above would look at anything."""
    assert sum(len(_links(page)) for page in PAGES) >= 100


def test_paths_that_lessons_name_exist() -> None:
    """Lessons name files in code quotes, for whoever has the repository open."""
    texts = [page.read_text(encoding="utf-8") for page in PAGES if page.suffix == ".py"]
    named = {
        path
        for text in texts
        for path in re.findall(r"`((?:docs|notebooks)/[\w./-]+\.\w+)`", text)
    }

    assert named
    assert [] == [path for path in sorted(named) if not (ROOT / path).exists()]


def test_two_headings_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """As GitHub numbers them."""
    page = tmp_path / "page.md"
    page.write_text("# A b\n\n## Same\n\n## Same\n\n```sh\n# no heading\n```\n")

    assert {"a-b", "same", "same-1"} == _anchors(page)
