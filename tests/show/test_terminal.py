"""What a terminal is shown: its width, its colours, and text laid out for both."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.show.terminal import (
    NARROWEST,
    UNBOUNDED,
    WIDEST,
    Screen,
    fold,
    laid_out,
    row,
    screen_of,
    width_of,
)

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    """A stream that says it is one, without a real one behind it."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.mark.parametrize(
    ("columns", "stream", "width"),
    [
        ("100", io.StringIO(), 100),
        ("100", Terminal(), 100),
        ("20", Terminal(), NARROWEST),
        ("999", Terminal(), WIDEST),
        ("", Terminal(), 80),
        ("", io.StringIO(), UNBOUNDED),
        ("wide", io.StringIO(), UNBOUNDED),
        ("9" * 5000, io.StringIO(), UNBOUNDED),
    ],
)
def test_the_width_is_given_or_the_terminals(columns, stream, width, monkeypatch):
    """COLUMNS counts first; what is no terminal has no width of its own."""
    monkeypatch.setenv("COLUMNS", columns)

    assert width == width_of(stream)
    assert (60, 200) == (NARROWEST, WIDEST)


@pytest.mark.parametrize(
    ("color", "stream", "env", "has_color"),
    [
        ("auto", Terminal(), {}, True),
        ("auto", io.StringIO(), {}, False),
        ("auto", Terminal(), {"NO_COLOR": "1"}, False),
        ("auto", Terminal(), {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ("auto", Terminal(), {"TERM": "dumb"}, False),
        ("auto", io.StringIO(), {"FORCE_COLOR": "1"}, True),
        ("auto", io.StringIO(), {"FORCE_COLOR": "0"}, False),
        ("always", io.StringIO(), {"NO_COLOR": "1"}, True),
        ("never", Terminal(), {"FORCE_COLOR": "1"}, False),
    ],
)
def test_colours_are_for_terminals_unless_asked_otherwise(
    color, stream, env, has_color, monkeypatch
):
    """--color counts before NO_COLOR, and that before FORCE_COLOR."""
    for name, value in env.items():
        monkeypatch.setenv(name, value)

    assert has_color is screen_of(stream, color).has_color


@pytest.mark.parametrize(
    ("text", "painted"),
    [
        ("✔ Fits: +1.00 GiB left", "\x1b[1;32m✔ Fits:\x1b[0m +1.00 GiB left"),
        ("! Starts, but", "\x1b[1;33m! Starts, but\x1b[0m"),
        ("✘ Does not", "\x1b[1;31m✘ Does not\x1b[0m"),
        ("L4    ✔ serves     1", "L4    \x1b[32m✔\x1b[0m serves     1"),
        ("Try it! Now", "Try it! Now"),
    ],
)
def test_a_verdict_is_painted_by_its_symbol(text: str, painted: str) -> None:
    """At the beginning of a line and in a table; an exclamation is none."""
    assert painted == Screen(has_color=True).painted(text)
    assert text == Screen(has_color=False).painted(text)


@given(
    st.lists(st.sampled_from(["✔ fits", "  ✘ no", "a  ! b", "", "12 GiB", "x" * 70])),
    st.integers(NARROWEST, WIDEST),
)
def test_colours_and_widths_change_no_content(words: list[str], width: int) -> None:
    """Without escape sequences and line breaks the text is what it was."""
    text = "\n".join(words)
    shown = Screen(width=width, has_color=True).shown(text)

    assert text.split() == ESCAPE.sub("", shown).split()


@given(
    st.lists(
        st.sampled_from(["a", "word", "15.27 GiB", "32,000 tokens", "=", "+"]),
        min_size=1,
    ),
    st.integers(NARROWEST, WIDEST),
)
def test_no_line_parts_a_number_from_its_unit(words: list[str], width: int) -> None:
    """Lines are within the width, and figures whole."""
    lines = fold(" ".join(words), width)

    assert max(map(len, lines)) <= width
    for figure in ("15.27 GiB", "32,000 tokens"):
        assert words.count(figure) == sum(line.count(figure) for line in lines)


def test_arithmetic_stands_beside_its_figure_where_it_has_room() -> None:
    """45 columns are taken; 60 more are enough to fold beside, 35 are not."""
    why = (
        "requested 72.85 GiB - weights 15.27 GiB - persistent buffers 648.2 MiB - more"
    )
    beside = row("weights", "15.27 GiB", "exact", why, width=106)
    below = row("weights", "15.27 GiB", "exact", why, width=80)

    assert 45 == beside[0].index("requested")
    assert "      requested" == below[1][:15]
    assert "  weights               15.27 GiB  exact" == below[0]
    assert 1 == len(row("weights", "15.27 GiB", "exact", "short", width=60))


def test_a_wide_table_is_written_in_parts_with_its_first_column() -> None:
    """Three columns of 30 after a name: two parts of 80, and nothing is lost."""
    rows = [
        f"{name:<10}" + "".join(f"  {value:>28}" for value in values)
        for name, *values in (("GPU", "a", "b", "c"), ("H100", "1", "2", "3"))
    ]
    parts = laid_out("\n".join(rows), 80).split("\n\n")

    assert [["GPU", "a", "b"], ["GPU", "c"]] == [
        part.splitlines()[0].split() for part in parts
    ]
    assert [["H100", "1", "2"], ["H100", "3"]] == [
        part.splitlines()[1].split() for part in parts
    ]


def test_a_command_keeps_its_line() -> None:
    """It is there to be copied."""
    command = f"vllm serve org/model --served-model-name {'name ' * 30}".rstrip()

    assert command in laid_out(f"{'word ' * 40}\n\n{command}", 80).splitlines()


def test_text_that_fits_is_left_alone() -> None:
    """Spaces at ends included."""
    text = "✔ 14,352 tokens\n\n  a  b \n"

    assert text == laid_out(text, 80)
