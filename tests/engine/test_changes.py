"""`Change`: one shape for what a release changed, and the only way to ask for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner.engine.releases import MODELLED, NEWEST, OLDEST, Release, number_of
from planner.engine.releases.change import Change, recorded
from tools.changes import by_release, changes

_PACKAGE = Path(planner.__file__).parent
_OWN = _PACKAGE / "engine" / "releases"
# About Ray's releases, and about a process alone in vLLM's environment.
_OTHERS = (_PACKAGE / "ray" / "releases.py",)
_MODULES = sorted(_PACKAGE.rglob("*.py"))
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_FIRST, _LAST = number_of(OLDEST), number_of(NEWEST)
numbers = st.sampled_from([number_of(one) for one in MODELLED])


@given(st.tuples(numbers, numbers), numbers)
def test_a_change_holds_from_its_release_up_to_its_end(
    ends: tuple[tuple[int, int, int], tuple[int, int, int]],
    number: tuple[int, int, int],
) -> None:
    """As the comparison of the numbers says, the end left out."""
    since, until = ends
    change = Change(since=since, until=until, what="A rule.")
    assert Release(number).has(change) is (since <= number < until)


def test_what_data_record_is_a_change_too() -> None:
    """Releases as text; the same question gets the same value."""
    one = recorded("The argument x exists.", since="0.14.1")
    assert ((0, 14, 1), None) == (one.since, one.until)
    assert one is recorded("The argument x exists.", since="0.14.1")


def _mentions_release(node: ast.expr) -> bool:
    """Whether an operand is a release, its number, or a tuple such as (0, 20)."""
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        return name.endswith(("number_of", "release_of", "resolve_version"))
    if isinstance(node, ast.Name):
        return node.id in {"release", "vllm_version"}
    if isinstance(node, ast.Attribute):
        return node.attr in {"release", "since", "until", "vllm_version"}
    return (
        isinstance(node, ast.Tuple)
        and len(node.elts) > 1
        and isinstance(node.elts[0], ast.Constant)
        and node.elts[0].value == 0
    )


def _comparisons(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Compare):
            continue
        is_order = any(isinstance(operator, _ORDERS) for operator in node.ops)
        if is_order and any(map(_mentions_release, [node.left, *node.comparators])):
            yield f"{path.relative_to(_PACKAGE)}:{node.lineno}: {ast.unparse(node)}"


def test_nothing_else_compares_releases() -> None:
    """A rule asks `release.has(CHANGE)`; its own room alone knows numbers."""
    found = [
        line
        for path in _MODULES
        if not path.is_relative_to(_OWN) and path not in _OTHERS
        for line in _comparisons(path)
    ]
    assert [] == found


@pytest.mark.parametrize(
    "code",
    [
        "release >= (0, 20)",
        "run.release < FIRST",
        "(0, 11) <= layout.release < (0, 13)",
        "number_of(version) > LAST",
        "release < row.since",
    ],
)
def test_a_comparison_is_seen(code: str) -> None:
    """Each form that rules once had; this test can fail."""
    node = ast.parse(code).body[0]
    assert isinstance(node, ast.Expr)
    assert isinstance(node.value, ast.Compare)
    assert any(map(_mentions_release, [node.value.left, *node.value.comparators]))


def _named(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[name], value=ast.Call(func=ast.Name("Change"))):
                yield ast.unparse(name)


def test_every_change_is_asked_for() -> None:
    """The list holds no rule that plans do not follow."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in _MODULES]
    named = [name for tree in trees for name in _named(tree)]
    used = {
        node.id
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    assert [] == [name for name in named if name not in used]
    assert len(named) > 200


def test_every_change_is_a_sentence_for_users_within_the_modelled_releases() -> None:
    """It begins and ends as a sentence, and one of its ends can be met."""
    wrong = [
        f"{module}: {change}"
        for module, change in changes()
        if not change.what.endswith((".", ")"))
        or change.what.startswith(("Whether", "Return", "It ", "This ", "Also "))
        or not (change.since or change.until)
        or not _FIRST < max(change.since, change.until or ()) <= _LAST
        or len(change.what) > 400
    ]
    assert [] == wrong


def test_every_change_is_listed_under_its_releases() -> None:
    """Those since 0.20.0 under 0.20.0, those until then among what ended."""
    listed = {one for _release, began, ended in by_release() for one in began + ended}
    assert {change for _module, change in changes()} == listed
    began, ended = next(
        (began, ended) for release, began, ended in by_release() if release == "0.20.0"
    )
    assert all(one.since == (0, 20) for one in began)
    assert all(one.until == (0, 20) for one in ended)
    assert len(changes()) > 200
