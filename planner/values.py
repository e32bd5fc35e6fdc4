"""`@frozen`: the one kind of class for values, cheap to define.

`dataclasses.dataclass(frozen=True)` writes six methods as source text and compiles each
when a class is defined. A cold `planner plan` defines 190 classes, and half of its time
went there. Here `__init__` alone is compiled, once it is used often, the others are
functions over the names of the fields, and the fields are found without a search for
the types that they have as text. The rest is the standard library's: `field`, `fields`,
`replace`, `asdict`, pickling and patterns take a value as any dataclass.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, field, fields
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform, overload

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Class = TypeVar("_Class")
_Method = Callable[..., Any]
_Fields = tuple[Field[Any], ...]
_FIELD = vars(dataclasses)["_FIELD"]
"""What `fields` takes for a field, and not for a variable of the class."""
_FILLED = 8
"""Values of a class that are filled before its `__init__` is compiled."""


@overload
def frozen(cls: type[_Class], /) -> type[_Class]: ...
@overload
def frozen(
    *, kw_only: bool = True, eq: bool = True, repr: bool = True, slots: bool = True
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
    slots: bool = True,
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
        slots: False: it may have a `cached_property`.
    """

    def made(cls: type[Any]) -> type[Any]:
        cls = _with_fields(cls, kw_only=kw_only, has_slots=slots)
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


def _with_fields(cls: type[Any], *, kw_only: bool, has_slots: bool) -> type[Any]:
    """Return the class with slots for its fields, which follow those of its bases."""
    inside = dict(vars(cls))
    known: dict[str, Field[Any]] = {}
    slots: set[str] = set()
    for base in reversed(cls.__mro__[1:]):
        known |= vars(base).get("__dataclass_fields__", {})
        slots.update(vars(base).get("__slots__", ()))
    for name, kind in inside.get("__annotations__", {}).items():
        if kind.startswith("ClassVar"):
            continue
        if kind == "KW_ONLY":
            kw_only = True
            continue
        default = inside.pop(name, MISSING)
        one: Any = default if isinstance(default, Field) else field(default=default)
        one.name, one.type, one._field_type = name, kind, _FIELD
        one.kw_only = kw_only
        known[name] = one
    inside["__dataclass_fields__"] = known
    if has_slots:
        inside["__slots__"] = tuple(name for name in known if name not in slots)
    inside["__match_args__"] = tuple(n for n, one in known.items() if not one.kw_only)
    for of_instances in ("__dict__", "__weakref__"):
        inside.pop(of_instances, None)
    meta: Any = type(cls)
    made: type[Any] = meta(cls.__name__, cls.__bases__, inside)
    made.__qualname__ = cls.__qualname__
    return made


class _Init:
    """Stands for `__init__`: a command makes one value of most classes it defines.

    To compile takes as long as to fill fifty values field by field.
    """

    def __init__(self, cls: type[Any]) -> None:
        self._cls = cls
        self._left = _FILLED

    def __get__(self, value: object, cls: type[Any] | None = None) -> _Method:
        """Return what fills a value; compile it where that is worth it."""
        self._left -= 1
        if value is None or self._left < 0:
            return self._compiled(value)
        return partial(self._fill, value)

    def _compiled(self, value: object) -> _Method:
        """Compile it, put it in its place, and return it."""
        init = _init_of(self._cls)
        self._cls.__init__ = init
        bound: _Method = init.__get__(value, self._cls)
        return bound

    def _fill(self, value: object, /, *args: object, **named: object) -> None:
        given = dict(zip(self._cls.__match_args__, args, strict=False)) | named
        known = fields(self._cls)
        values = {}
        for one in known:
            if one.name in given:
                values[one.name] = given[one.name]
            elif one.default is not MISSING:
                values[one.name] = one.default
            elif one.default_factory is not MISSING:
                values[one.name] = one.default_factory()
        is_told_once = len(given) == len(args) + len(named)
        if not is_told_once or given.keys() - values or len(values) < len(known):
            self._compiled(value)(*args, **named)  # which says what is wrong
        for name, filled in values.items():
            object.__setattr__(value, name, filled)
        if hasattr(self._cls, "__post_init__"):
            self._cls.__post_init__(value)


def _init_of(cls: type[Any]) -> _Method:
    """Compile `__init__`: for values that are made often, a loop is too slow."""
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
