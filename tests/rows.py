"""One test for a rule that holds for each row of a table, however many there are."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

LONGEST = 600
"""Characters of what is said of a row that differs."""


def each_row(
    name: str, rows: Iterable[Any], ids: Callable[[Any], object] = repr
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Ask a test for every row, and list all that fail in one assertion.

    Like `pytest.mark.parametrize`, for hundreds of rows: they share the test's
    fixtures, so one that a row changes, such as a folder, does not suit it.

    Args:
        name: the argument that takes the row.
        rows: what it takes.
        ids: what a row is called where it fails.
    """
    known = tuple(rows)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def whole(**fixtures: Any) -> None:
            assert known, "no row to ask"
            failed = {}
            for row in known:
                try:
                    test(**{name: row}, **fixtures)
                except Exception as error:  # noqa: BLE001 - all of them are listed
                    said = f"{type(error).__name__}: {error}"
                    failed[str(ids(row))] = said[:LONGEST]
            assert failed == {}, "\n".join(
                f"{row}: {said}" for row, said in failed.items()
            )

        signature = inspect.signature(test)
        kept = [one for one in signature.parameters.values() if one.name != name]
        whole.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        del whole.__wrapped__  # type: ignore[attr-defined] # pytest would ask it for its arguments
        return whole

    return decorate
