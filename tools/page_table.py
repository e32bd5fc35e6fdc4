"""A table of a page that tools write, a row at a time: rows of other runs stay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Row = Sequence[str]


def table(head: Row, rows: Iterable[Row]) -> str:
    """Return rows as a table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def with_rows(page: str, name: str, rows: Iterable[Row], names: Iterable[str]) -> str:
    """Return a page with rows in its table, which has a head already.

    Args:
        page: its text, the table between `<!-- NAME: begin -->` and the end of it.
        name: NAME.
        rows: the new ones; each takes the place of the row of the same first cell.
        names: first cells in their order; a row of another name goes.
    """
    begin, end = (f"<!-- {name}: {part} -->\n" for part in ("begin", "end"))
    before, rest = page.split(begin)
    old, after = rest.split(end)
    head, _line, *kept = (
        [cell.strip() for cell in line[1:-1].split("|")] for line in old.splitlines()
    )
    found = {row[0]: row for row in (*kept, *rows)}
    known = [found[one] for one in names if one in found]
    return f"{before}{begin}{table(head, known)}{end}{after}"
