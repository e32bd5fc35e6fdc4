"""What rooms above do for values: each finds its own, and no room names one above."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

import planner
from planner.registries import provided, registry
from planner.views import Charts, Views, charts_of, views_of
from tests import plans

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "planner"
TOP = PACKAGE / "__init__.py"
FILES = sorted(PACKAGE.rglob("*.py"))
_NAME = re.compile(r"planner(?:\.\w+)+\Z")
_FINDERS = {"views_of": Views, "charts_of": Charts}
_ASKING = ("Viewed", "Framed", "Charted", "ShownAsPage")

SHOWN_ALONE = """
import sys, planner
plan = planner.plan("Qwen/Qwen3-8B", gpu="H100")
str(plan), plan._repr_mimebundle_()
print("\\n".join(sorted(sys.modules)))
"""


@cache
def tree_of(path: Path) -> ast.Module:
    """A module of the planner, parsed."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def heights() -> dict[str, int]:
    """How far up each room is, by the contract that `make check` holds."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    (rooms,) = (one["layers"] for one in contracts if one["id"] == "rooms")
    return {
        room: at
        for at, layer in enumerate(reversed(rooms))
        for room in layer.split(" | ")
    }


def room_of(name: str) -> str:
    """The room of a module, such as "show" of planner.show.page."""
    return name.split(".")[1]


def module_in(text: str) -> str:
    """The module that a text names, alone or with what is in it; empty: none."""
    name = text.replace(":", ".").strip(".")
    while _NAME.match(name):
        if room_of(name) in heights() and _exists(name):
            return name
        name = name.rpartition(".")[0]
    return ""


@cache
def _exists(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """Each text in a module but its docstrings, and the parts of those put together."""
    documented = {
        id(node.value) for node in ast.walk(tree_of(path)) if isinstance(node, ast.Expr)
    }
    for node in ast.walk(tree_of(path)):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in documented:
            yield node.lineno, node.value


def test_no_room_names_one_above_it() -> None:
    """Not as text either, but for the public names of the top.

    A text names a module where it is the module's whole dotted name, alone, with the
    name of something in it, or before what an f-string puts in. Other texts, such as a
    command line in a sentence, are for people.
    """
    assert "planner.show.page" == module_in("planner.show.page:mimebundle")
    assert "planner.app.cli" == module_in("planner.app.cli.")
    assert "" == module_in("planner.plain")
    assert [] == [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in FILES
        if path != TOP
        for line, text in texts_of(path)
        if (named := module_in(text))
        and heights()[room_of(named)] > heights()[path.relative_to(ROOT).parts[1]]
    ]


@cache
def asked() -> dict[tuple[str, str], set[str]]:
    """What classes ask for: type and class, as a registry writes it -> its fields."""
    found: dict[tuple[str, str], set[str]] = {}
    for path in FILES:
        for owner in ast.walk(tree_of(path)):
            if isinstance(owner, ast.ClassDef) and owner.name not in _bases():
                for kind, field, named in _asked_in(owner, *_bases_of(owner)):
                    own = owner.name if kind in ("Views", "Charts") else ""
                    of = named or own
                    is_both = kind == "Views" and field == "mimebundle"
                    fields = {"text", "html"} if is_both else {field}
                    found.setdefault((kind, of), set()).update(fields)
    return found


@cache
def _bases() -> dict[str, ast.ClassDef]:
    """The classes that ask for those derived from them."""
    files = (PACKAGE / "views.py", PACKAGE / "learn" / "display.py")
    return {
        node.name: node
        for path in files
        for node in tree_of(path).body
        if isinstance(node, ast.ClassDef) and node.name in _ASKING
    }


def _bases_of(owner: ast.ClassDef) -> Iterator[ast.ClassDef]:
    """The classes that ask for this one, and those that they are derived from."""
    for base in owner.bases:
        if (found := _bases().get(ast.unparse(base))) is not None:
            yield found
            yield from _bases_of(found)


def _asked_in(*owners: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    """Yield what classes ask for, and the name of another class that they give."""
    for node in (node for owner in owners for node in ast.walk(owner)):
        match node:
            case ast.Attribute(value=ast.Call(func=ast.Name(name)), attr=field) if (
                name in _FINDERS
            ):
                yield _FINDERS[name].__name__, field, ""
            case ast.Attribute(
                value=ast.Call(func=ast.Name("provided"), args=[ast.Name(kind)]),
                attr=field,
            ):
                yield kind, field, ""
            case ast.Attribute(
                value=ast.Call(
                    func=ast.Name("provided"),
                    args=[ast.Name(kind), ast.Constant(str(named))],
                ),
                attr=field,
            ):
                yield kind, field, named


def entries() -> dict[str, object]:
    """What all rooms provide."""
    return {
        name: maker() for one in planner._registries() for name, maker in one.items()
    }


def test_each_value_finds_what_it_asks_for() -> None:
    """Each method that a room above does, by the class of its value."""
    found = entries()
    assert len(asked()) > 25  # the methods were found in the source

    for (kind, of), fields in asked().items():
        shown = found[f"{kind}[{of}]" if of else kind]
        assert type(shown).__name__ == kind
        for field in fields:
            assert callable(getattr(shown, field))
            assert getattr(shown, field) is not getattr(Views(), field, None)
            assert getattr(shown, field) is not getattr(Charts(), field, None)


def test_nothing_is_provided_that_nobody_asks_for() -> None:
    """An entry without a method that uses it goes away with the method."""
    names = {f"{kind}[{of}]" if of else kind for kind, of in asked()}

    assert names == set(entries())


def test_no_two_rooms_provide_the_same() -> None:
    """The first would hide the other."""
    names = [name for one in planner._registries() for name in one]

    assert sorted(set(names)) == sorted(names)


def test_what_nobody_provides_is_named() -> None:
    """A mistake of the code: no input leads here."""
    with pytest.raises(LookupError, match=r"No room provides Views\[int\]"):
        views_of(3)
    with pytest.raises(LookupError, match=r"No room provides Charts\[int\]"):
        charts_of(3)
    with pytest.raises(TypeError, match="not shown so"):
        views_of(plans.fitting()).page(plans.fitting())
    with pytest.raises(LookupError, match="No room provides int"):
        provided(int)


def test_an_entry_is_found_by_the_type_that_it_returns() -> None:
    """The annotation, which mypy compares with what is returned."""

    def three() -> int:
        return 3

    assert {"int": three} == registry(three)


def test_a_plan_is_shown_without_what_shows_other_results() -> None:
    """Neither Ray, nor a comparison, nor a chart."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", SHOWN_ALONE],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())

    assert "planner.show.page" in loaded
    others = {"planner.ray", "planner.solve", "planner.show.ray", "planner.app.widgets"}
    assert set() == loaded & {*others, "planner.show.charts.memory_bars"}
