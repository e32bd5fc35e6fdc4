"""What rooms above do for a value: show it, plan it again, start vLLM for it.

A room imports only those below it, but `Plan.figure` is drawn above its own. So a class
describes the functions that it needs, such as `Views`, and a registry has them: each
room has one in its `views.py`, and the top, `planner/__init__.py`, makes them known. An
entry is a function that imports what it returns, so that a plan is shown without
importing how Ray is.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, whose import takes half of `import planner`

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TypeAlias, TypeVar

    _Kind = TypeVar("_Kind")
    Registry: TypeAlias = Mapping[str, Callable[[], object]]
    """Functions by the type that each returns, as it is written: "Views[Plan]"."""

_known: list[Callable[[], Iterable[Registry]]] = []


def registry(*functions: Callable[[], object]) -> Registry:
    """Return functions by the type that each says it returns.

    >>> def words() -> str:
    ...     return "as shown"
    >>> sorted(registry(words))
    ['str']
    """
    return {str(one.__annotations__["return"]): one for one in functions}


def know(registries: Callable[[], Iterable[Registry]]) -> None:
    """Take the registries of all rooms, which are imported one after the other."""
    _known[:] = [registries]


def provided(kind: type[_Kind], of: str = "") -> _Kind:
    """Return the functions that a class describes, from the room that has them.

    Args:
        kind: the class.
        of: the name of another for which it is made: "Plan" of `Views[Plan]`.

    Raises:
        LookupError: where no room has them.
    """
    name = f"{kind.__name__}[{of}]" if of else kind.__name__
    for one in (one for registries in _known for one in registries()):
        if name in one:
            found: Any = one[name]()
            assert isinstance(found, kind)
            return found
    raise LookupError(f"No room provides {name}.")
