"""The widgets' scripts: modules that can be joined, small enough for a slow line."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from planner.app.widgets import pieces
from planner.app.widgets.static_files import STATIC, lean, script
from planner.show.html import Html

MODULES = sorted(STATIC.glob("*.js"))
_DEFAULT = "\nexport default {\n"
WIDGETS = [one.name for one in MODULES if _DEFAULT in one.read_text()]
PIECES = (
    *(
        "debug.js",
        "film.js",
        "guess.js",
        "living.js",
        "room.js",
        "screen.js",
        "slide.js",
    ),
)
"""Of lessons: written beside what they show (`planner.app.widgets.pieces`), so that no
page of the app loads them."""
MOST_PIECE_BYTES = 8_000
"""Of each piece, compressed: a notebook holds it each time that it is shown."""
MOST_GAME_BYTES = 11_500
"""Of the one that has vLLM's scheduler in it, in place of all of its steps."""
MOST_BYTES = 40_000
"""Of all scripts of the app's page, compressed as they are sent: a third of a second on
a line of 1 Mbit/s, which nobody notices beside the page itself."""
ROOT = Path(__file__).parents[2]

_IMPORT = re.compile(r'^import (?:\{([\w,\s]*)\} from )?"\./(\w+\.js)";$', re.MULTILINE)
_EXPORT = re.compile(
    r"^export (?:default \{|(?:async )?(?:function|class|const) (\w+))", re.MULTILINE
)
_TOP_LEVEL = re.compile(r"^(?:async )?(?:function|class|const|let) (\w+)", re.MULTILINE)


def _each(path: Path) -> str:
    return path.name


@pytest.mark.parametrize("path", MODULES, ids=_each)
def test_a_module_imports_and_exports_in_the_forms_that_are_joined(path: Path) -> None:
    """Names as they are, of our own modules that have them: no `as`, no `* from`."""
    code = lean(path.read_text(encoding="utf-8"))
    imports = _IMPORT.findall(code)

    assert len(imports) == len(re.findall(r"\bimport[\s({*]", code))
    assert len(_EXPORT.findall(code)) == len(re.findall(r"\bexport[\s{*]", code))
    for names, imported in imports:
        exported = _EXPORT.findall((STATIC / imported).read_text(encoding="utf-8"))
        wanted = [name.strip() for name in names.split(",") if name.strip()]
        assert " " not in "".join(wanted)
        assert set(wanted) <= set(exported)


@pytest.mark.parametrize("path", MODULES, ids=_each)
def test_no_text_goes_over_lines(path: Path) -> None:
    """A line that looks like a comment is one: `lean` takes it out."""
    code = lean(path.read_text(encoding="utf-8"))

    assert [] == [line for line in code.splitlines() if line.count("`") % 2]


@pytest.mark.parametrize("name", WIDGETS)
def test_a_widgets_script_is_one_module(name: str) -> None:
    """Nothing is imported or exported but the widget, and no name is there twice."""
    joined = script(name)
    names = _TOP_LEVEL.findall(joined)

    assert 1 == len(re.findall(r"^export default \{$", joined, re.MULTILINE))
    assert 1 == len(re.findall(r"\b(?:import|export)[\s({*]", joined))
    assert sorted(set(names)) == sorted(names)


def test_what_is_imported_comes_first() -> None:
    """A module is there once, behind all that it imports itself."""
    joined = script("controls.js")

    assert 1 == joined.count("function make(")
    assert joined.index("function make(") < joined.index("class ModelBox")
    assert joined.index("class ModelBox") < joined.index("class FieldView")
    assert joined.index("class FieldView") < joined.index("class ControlsView")


def test_all_scripts_of_the_page_come_at_once_on_a_slow_line() -> None:
    """Comments and types are for those who read the source; the page gets neither."""
    of_app = [name for name in WIDGETS if name not in PIECES]
    together = "".join(map(script, of_app)).encode()

    assert MOST_BYTES >= len(gzip.compress(together, 9))


@pytest.mark.parametrize("name", PIECES)
def test_a_piece_starts_by_itself_and_no_name_is_there_twice(name: str) -> None:
    """Its widget and what starts it are joined to one program, without exports."""
    html = pieces.piece_html(name, {"text": "</script>"}, Html(""))
    program = html.rpartition("<script>")[2].removesuffix("</script></div>")
    names = _TOP_LEVEL.findall(program)

    assert 2 == html.count("</script>")
    assert program.startswith("(() => {")
    assert not re.search(r"^(?:import|export)\b", program, re.MULTILINE)
    assert {"alone", "widget"} <= set(names)
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("name", PIECES)
def test_a_piece_of_a_lesson_is_small(name: str) -> None:
    """A lesson that shows several of them stays a page that loads at once."""
    most = MOST_GAME_BYTES if name == "living.js" else MOST_PIECE_BYTES
    assert most >= len(gzip.compress(script(name).encode(), 9))


def test_the_lock_file_names_no_registry() -> None:
    """npm takes the packages from whatever registry the machine is set to."""
    lock = json.loads((ROOT / "package-lock.json").read_text(encoding="utf-8"))
    packages = [known for path, known in lock["packages"].items() if path]

    assert packages
    assert all("integrity" in package for package in packages)
    assert not any("resolved" in package for package in packages)
