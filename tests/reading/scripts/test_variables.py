"""Variables of many commands: one history, of which each sees its time."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from planner.reading.passage import Passage
from planner.reading.scripts.shell import commands_of
from planner.reading.scripts.variables import Made, Over, Until

SET = st.lists(st.tuples(st.sampled_from("ABC"), st.integers()), max_size=12)
TABLE = st.dictionaries(st.sampled_from("ABC"), st.integers())


@given(given_values=SET, time=st.integers(-1, 13))
def test_a_view_is_the_table_of_its_time(
    given_values: list[tuple[str, int]], time: int
) -> None:
    """Whatever is set later is not in it."""
    history: dict[str, list[tuple[int, int]]] = {}
    expected: dict[str, int] = {}
    for at, (name, value) in enumerate(given_values):
        history.setdefault(name, []).append((at, value))
        if at <= time:
            expected[name] = value
    view = Until(history, time)

    assert (expected, len(expected)) == (dict(view), len(view))
    assert [name in expected for name in "ABCD"] == [name in view for name in "ABCD"]


@given(first=TABLE, others=TABLE)
def test_the_first_of_two_tables_wins(
    first: dict[str, int], others: dict[str, int]
) -> None:
    """As `{**others, **first}`, in its order too."""
    expected = {**others, **first}
    assert list(expected.items()) == list(Over(first, others).items())
    assert len(expected) == len(Over(first, others))


def test_a_value_is_made_when_it_is_asked_for() -> None:
    """A thousand variables before a command cost nothing until they are read."""
    asked: list[str] = []

    def make(name: str, value: int) -> int:
        asked.append(name)
        return value * 2

    made = Made({f"A{n}": n for n in range(1000)}, make)

    assert (1000, []) == (len(made), asked)
    assert (14, ["A7"]) == (made["A7"], asked)


def _peak_bytes(lines: int) -> int:
    """Return the memory for a text that sets a variable before each command."""
    text = "".join(f"A{n}=b;x\n" for n in range(lines))
    tracemalloc.start()
    try:
        commands = commands_of(Passage.whole(text))
        assert len(commands[-1].assigned) == lines
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_memory_of_variables_grows_with_the_text() -> None:
    """Twice the lines need twice the memory: no command holds a table of its own."""
    assert _peak_bytes(800) < 2.5 * _peak_bytes(400)
