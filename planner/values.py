"""`@frozen`: the one kind of class for values, cheap to define.

`dataclasses.dataclass(frozen=True)` writes six methods as source text and compiles each
when a class is defined. A cold `planner plan` defines 170 classes, and half of its time
went there. Here `__init__` alone is compiled, when it is first used, and the others are
functions over the names of the fields. The rest is the standard library's: `field`,
`fields`, `replace`, `asdict`, pickling and patterns take a value as any dataclass.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform, overload

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Class = TypeVar("_Class")
_Method = Callable[..., Any]
_Fields = tuple[Field[Any], ...]


@overload
def frozen(cls: type[_Class], /) -> type[_Class]: ...
@overload
def frozen(
    *, kw_only: bool = True, eq: bool = True, repr: bool = True
) -> Callable[[type[_Class]], type[_Class]]: ...
@dataclass_transform(
    frozen_default=True, kw_only_default=True, field_specifiers=(field,)
)
def frozen(
    cls: type[Any] | None = None,
    /,
    *,
    kw_only: bool = True,
    eq: bool = True,
    repr: bool = True,  # noqa: A002 - as `dataclass` has it
) -> Any:
    """Make a class a dataclass that is frozen, slotted and keyword-only.

    A method that the class itself defines is kept. Its bases with fields are `@frozen`
    too. There is no `InitVar` and no `field(init=False)`.

    >>> @frozen
    ... class Range:
    ...     low: int
    ...     high: int = 8
    >>> Range(low=1)
    Range(low=1, high=8)
    >>> Range(low=1) == Range(low=1, high=8)
    True

    Args:
        cls: the class, where the decorator has no arguments.
        kw_only: False: arguments may be given by position.
        eq: False: equal is only the same object, as for `object`.
        repr: False: `repr()` is the one of the base class.
    """

    def made(cls: type[Any]) -> type[Any]:
        cls = dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)(
            cls
        )
        known = fields(cls)
        methods = _METHODS | {"__init__": _Init(cls)}
        if repr:
            methods["__repr__"] = _repr
        if eq:
            methods |= _comparison_of(known)
        for name, method in methods.items():
            if name not in vars(cls):
                setattr(cls, name, method)
        return cls

    return made if cls is None else made(cls)


class _Init:
    """Stands for `__init__` until it is looked up: a command uses half of them."""

    def __init__(self, cls: type[Any]) -> None:
        self._cls = cls

    def __get__(self, value: object, cls: type[Any] | None = None) -> _Method:
        """Compile it, put it in its place, and return it."""
        init = _init_of(self._cls)
        self._cls.__init__ = init
        bound: _Method = init.__get__(value, cls)
        return bound


def _init_of(cls: type[Any]) -> _Method:
    """Compile `__init__`, which is called too often to loop over the fields."""
    scope: dict[str, Any] = {"_store": object.__setattr__}
    parameters = {False: ["self"], True: ["*"]}
    lines = []
    for one in fields(cls):
        name = value = default = one.name
        if one.default is not MISSING:
            scope[f"_default_{name}"] = one.default
            default = f"{name}=_default_{name}"
        elif one.default_factory is not MISSING:
            scope[f"_new_{name}"] = one.default_factory
            default = f"{name}=..."  # as stubs write a default that is made
            value = f"_new_{name}() if {name} is ... else {name}"
        parameters[bool(one.kw_only)].append(default)
        lines.append(f"_store(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    if len(parameters[True]) == 1:
        parameters[True].clear()
    text = (
        f"def within({', '.join(scope)}):\n"
        f" def __init__({', '.join(parameters[False] + parameters[True])}):\n  "
        + "\n  ".join(lines or ["pass"])
        + "\n return __init__"
    )
    compiled: dict[str, _Method] = {}
    exec(text, vars(sys.modules[cls.__module__]), compiled)
    init: _Method = compiled["within"](**scope)
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    types = {one.name: one.type for one in fields(cls)}
    init.__annotations__ = types | {"return": None}
    return init


def _comparison_of(known: _Fields) -> dict[str, _Method]:
    """Return `__eq__` and `__hash__` by the fields that are compared."""
    names = [one.name for one in known if one.compare]
    values: Callable[[Any], Any] = attrgetter(*names) if names else type

    def equal(self: DataclassInstance, other: object) -> object:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    def hashed(self: DataclassInstance) -> int:
        return hash(values(self))

    return {"__eq__": equal, "__hash__": hashed}


@recursive_repr()
def _repr(self: DataclassInstance) -> str:
    shown = (
        f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr
    )
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _setattr(_self: object, name: str, _value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(_self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: DataclassInstance) -> list[Any]:
    return [getattr(self, one.name) for one in fields(self)]


def _setstate(self: DataclassInstance, state: list[Any]) -> None:
    for one, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


_METHODS: dict[str, object] = {
    "__setattr__": _setattr,
    "__delattr__": _delattr,
    "__getstate__": _getstate,
    "__setstate__": _setstate,
}
