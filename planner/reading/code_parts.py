"""Commands that code puts together: strings with `+`, lists that grow.

What is put in is open. Of a command that is read in part, the rest is changed by hand.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from planner.engine.server import flag_named
from planner.errors import PlannerError
from planner.reading.passage import Edit, Passage, line_at
from planner.reading.sites import Start

_GROWS = ("append", "extend", "insert")
_Edits = Callable[..., list[Edit]]


def terms_of(node: ast.BinOp) -> tuple[list[ast.expr], list[ast.expr]]:
    """Return the sums in a sum, and what they add up; of `%` the text before it."""
    if isinstance(node.op, ast.Mod):
        return [node], [node.left]
    sums, terms = list[ast.expr](), list[ast.expr]()
    left: ast.expr = node
    while isinstance(left, ast.BinOp) and isinstance(left.op, ast.Add):
        sums.append(left)
        terms.append(left.right)
        left = left.left
    return sums, [left, *reversed(terms)]


def joined(parts: Sequence[Passage | str]) -> Passage | None:
    """Return strings with the code between them; None where an end is code.

    Writing in the place of code also takes out the quotes and the `+` beside it.
    """
    first, last = parts[0], parts[-1]
    if isinstance(first, str) or isinstance(last, str):
        return None
    pieces, places, end = list[str](), list[int](), 0
    for part in parts:
        if isinstance(part, str):  # a shell's command in backticks: one word, and open
            pieces.append("`" + part.replace("`", "'") + "`")
            places += [end] * len(pieces[-1])
        else:
            pieces.append(part.text)
            places += part.places[:-1]
            end = part.places[-1]
    return replace(first, text="".join(pieces), places=[*places, end])


def later_flags(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the arguments whose flags are put into lists that are there already."""
    for part in (part for node in nodes for part in _put_in(node)):
        for one in part.elts if isinstance(part, ast.List | ast.Tuple) else (part,):
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                found = flag_named(one.value.partition("=")[0])
                if found is not None and one.value.startswith("-"):
                    yield found[0], one


def _put_in(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.AugAssign):
        yield node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield from node.args if node.func.attr in _GROWS else ()
    elif isinstance(node, ast.BinOp):
        yield from (node.left, node.right)


def why_by_hand(text: str, at: int) -> str:
    """Say where a command is put together."""
    return (
        "The command is put together from parts, so what is written into one of them "
        f"may not be what runs. Change it by hand, {line_at(text, at)}."
    )


def by_hand(start: Start, why: Callable[[str], str]) -> Start:
    """Return a start of which some arguments are changed by hand.

    Args:
        start: the start.
        why: returns the reason by the name of an argument; empty where there is none.
    """

    def checked(name: str, edits: _Edits) -> _Edits:
        def made(*change: object) -> list[Edit]:
            if why(name):
                raise PlannerError(why(name))
            return edits(*change)

        return made

    sites = (
        replace(
            site,
            replace=checked(site.name, site.replace),
            remove=checked(site.name, site.remove),
        )
        for site in start.sites
    )
    return replace(
        start,
        sites=tuple(sites),
        add=lambda name, value: checked(name, start.add)(name, value),
    )
