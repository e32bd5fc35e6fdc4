"""`@frozen`: what a value can do, and that it does it as a frozen dataclass does."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import get_type_hints

import pytest

from planner.values import frozen


@frozen
class Load:
    """A value of all kinds of fields."""

    tokens: int
    requests: int = 1
    env: dict[str, str] = field(default_factory=dict, compare=False)
    name: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standard:
    """The same, made by the standard library."""

    tokens: int
    requests: int = 1
    env: dict[str, str] = field(default_factory=dict, compare=False)
    name: str = field(default="", repr=False)


@frozen
class Longer(Load):
    """A value with the fields of another."""

    answer: int = 0


@frozen
class Empty:
    """A value without fields."""


@frozen(kw_only=False)
class Pair:
    """A value whose arguments have positions."""

    low: int
    high: int = 8


@frozen(eq=False, repr=False)
class Thing:
    """A value that is equal to itself alone."""

    size: int


@frozen
class Checked:
    """A value that checks itself, and has methods of its own."""

    size: int

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("negative")

    def __repr__(self) -> str:
        return "checked"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checked)

    def __hash__(self) -> int:
        return 7


@frozen
class Node:
    """A value that can hold itself."""

    inside: list[Node] = field(default_factory=list)


def test_fields_and_their_options_are_those_of_a_dataclass() -> None:
    """Names, types, defaults and what each field is used for."""
    options = ("name", "type", "default", "default_factory", "compare", "repr")

    for ours, standard in zip(fields(Load), fields(Standard), strict=True):
        for option in (*options, "kw_only", "init"):
            assert getattr(standard, option) == getattr(ours, option)
    assert Standard.__slots__ == Load.__slots__
    assert Standard.__match_args__ == Load.__match_args__


def test_it_is_shown_as_a_dataclass_is() -> None:
    """Fields with `repr=False` are left out; a value in itself ends in dots."""
    node = Node()
    node.inside.append(node)

    standard = repr(Standard(tokens=5, name="a"))
    assert standard.replace("Standard", "Load") == repr(Load(tokens=5, name="a"))
    assert "Empty()" == repr(Empty())
    assert "Node(inside=[...])" == repr(node)
    assert repr(Thing(size=1)).startswith("<")


def test_equal_is_of_one_class_with_equal_fields() -> None:
    """A field with `compare=False` does not count, in the hash neither."""
    load = Load(tokens=5, env={"A": "1"})

    assert Load(tokens=5) == load
    assert hash(Load(tokens=5)) == hash(load)
    assert Load(tokens=6) != load
    assert Longer(tokens=5) != Load(tokens=5)
    assert load != 5
    assert {Empty()} == {Empty(), Empty()}
    assert Thing(size=1) != Thing(size=1)


@pytest.mark.parametrize("name", ["tokens", "unknown"])
def test_nothing_can_be_assigned_or_deleted(name: str) -> None:
    """Neither a field nor a new attribute."""
    load = Load(tokens=5)

    with pytest.raises(FrozenInstanceError, match=f"assign to field '{name}'"):
        setattr(load, name, 6)
    with pytest.raises(FrozenInstanceError, match=f"delete field '{name}'"):
        delattr(load, name)


def test_arguments_are_keywords_unless_said() -> None:
    """The error names the class, as Python's own does."""
    assert Pair(1, 8) == Pair(low=1)
    assert (1, 8) == (Pair(1).low, Pair(1).high)
    with pytest.raises(TypeError, match=r"Load\.__init__\(\) takes 1 positional"):
        Load(5)  # type: ignore[call-arg, misc]
    with pytest.raises(TypeError, match="required keyword-only argument: 'tokens'"):
        Load()  # type: ignore[call-arg]


def test_each_value_has_a_default_of_its_own() -> None:
    """A `default_factory` is called for each value, after the base's fields too."""
    assert Load(tokens=1).env is not Load(tokens=1).env
    assert {} == Longer(tokens=1, answer=2).env


def test_a_value_is_replaced_copied_and_pickled() -> None:
    """By the functions of the standard library."""
    load = Longer(tokens=5, env={"A": "1"}, answer=3)

    assert Longer(tokens=6, env={"A": "1"}, answer=3) == replace(load, tokens=6)
    assert {"tokens": 5, "requests": 1, "env": {"A": "1"}, "name": "", "answer": 3} == (
        asdict(load)
    )
    for copied in (copy.deepcopy(load), pickle.loads(pickle.dumps(load))):
        assert load == copied
        assert load.env == copied.env
        assert load.env is not copied.env


def test_methods_of_the_class_are_kept() -> None:
    """And `__post_init__` is called, by `replace` too."""
    one = Checked(size=1)

    assert ("checked", 7) == (repr(one), hash(one))
    assert Checked(size=2) == one
    with pytest.raises(ValueError, match="negative"):
        replace(one, size=-1)


def test_an_editor_sees_arguments_and_types() -> None:
    """The signature has each argument; types that are texts can be resolved."""
    parameters = inspect.signature(Load).parameters

    assert [one.name for one in fields(Load)] == list(parameters)
    assert 1 == parameters["requests"].default
    assert get_type_hints(Load.__init__) == get_type_hints(Standard.__init__)


def test_a_value_matches_a_pattern() -> None:
    """By the names of its fields."""
    match Load(tokens=5):
        case Load(tokens=tokens):
            assert 5 == tokens


def test_init_is_compiled_when_it_is_often_used() -> None:
    """The first values are filled field by field, and checked as any others are."""

    @frozen(kw_only=False)
    class Late:
        """A class of which no value was made."""

        size: int
        names: list[str] = field(default_factory=list)

    assert 3 == Late(size=3).size == Late(3).size
    assert Late(1).names is not Late(1).names
    assert not inspect.isfunction(vars(Late)["__init__"])
    for _ in range(9):
        Late(size=3)
    assert inspect.isfunction(vars(Late)["__init__"])
    assert Late.__init__ is vars(Late)["__init__"]


@pytest.mark.parametrize(
    ("given", "named", "message"),
    [
        ((), {}, "missing 1 required positional argument: 'low'"),
        ((1, 2, 3), {}, "takes from 2 to 3 positional arguments but 4 were given"),
        ((1,), {"low": 2}, "multiple values for argument 'low'"),
        ((1,), {"size": 2}, "unexpected keyword argument 'size'"),
    ],
)
def test_wrong_arguments_of_a_first_value_are_refused(
    given: tuple[int, ...], named: dict[str, int], message: str
) -> None:
    """In Python's own words."""

    @frozen(kw_only=False)
    class First:
        """A class of which no value was made."""

        low: int
        high: int = 8

    with pytest.raises(TypeError, match=message):
        First(*given, **named)


def test_a_value_without_slots_keeps_what_it_has_computed() -> None:
    """In a `cached_property`, which is no field: a copy computes it again."""

    @frozen(slots=False)
    class Table:
        """A value that computes a figure once."""

        rows: tuple[int, ...] = ()

        @cached_property
        def total(self) -> list[int]:
            return [sum(self.rows)]

    table = Table(rows=(1, 2))

    assert [3] == table.total
    assert table.total is table.total
    assert Table(rows=(1, 2)) == table
    assert [0] == replace(table, rows=()).total
    with pytest.raises(FrozenInstanceError):
        table.rows = ()  # type: ignore[misc]
