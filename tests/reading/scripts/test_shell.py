"""The words of a shell text, as a POSIX shell would pass them on."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.reading.passage import Passage, edited
from planner.reading.scripts.shell import commands_of


def words(text: str) -> list[list[str]]:
    """Return the words of each command."""
    return [[w.value for w in c.words] for c in commands_of(Passage.whole(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b  c", [["a", "b", "c"]]),
        ("a 'b c' \"d 'e'\" f\\ g", [["a", "b c", "d 'e'", "f g"]]),
        ("a \\\n  b \\\r\n c", [["a", "b", "c"]]),
        ("a 'b'\"c\"d", [["a", "bcd"]]),
        ("a # b\nc", [["a"], ["c"]]),
        ("a b#c", [["a", "b#c"]]),
        ("a && b || c; d | e &", [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ("a > out.log 2>&1 b", [["a", "b"]]),
        ('a "x \\" \\$ \\n"', [["a", 'x " $ \\n']]),
        ("a ''", [["a", ""]]),
        ("(a; b)", [["a"], ["b"]]),
    ],
)
def test_words(text: str, expected: list[list[str]]) -> None:
    """Quotes, escapes, continued lines, comments, several commands, redirections."""
    assert words(text) == expected


def test_a_line_of_flags_goes_on_where_the_backslash_was_forgotten() -> None:
    """What a shell would refuse; people paste it."""
    assert words("a\n  --b 1\n# why\n  --c 2\nd") == [
        ["a", "--b", "1", "--c", "2"],
        ["d"],
    ]


def test_variables_of_the_text_are_put_in() -> None:
    """Assigned before, exported, or with a default; others are named."""
    text = 'A=1\nexport B="x y"\nC=2 run $A "$B" ${D:-8} $E ${F} $(date) `id`'
    (command,) = commands_of(Passage.whole(text))

    assert [w.value for w in command.words[1:5]] == ["1", "x y", "8", "$E"]
    assert [w.variables for w in command.words[4:]] == [
        ("$E",),
        ("${F}",),
        ("$(date)",),
        ("`id`",),
    ]
    assert {n: w.value for n, w in command.assigned.items()} == {
        "A": "1",
        "B": "x y",
        "C": "2",
    }


def test_a_variable_set_for_one_command_is_not_known_to_the_next() -> None:
    """As in a shell."""
    first, second = commands_of(Passage.whole("A=1 one\ntwo $A"))

    assert "A" in first.assigned
    assert second.words[1].variables == ("$A",)
    assert "A" not in second.assigned


@pytest.mark.parametrize(
    "outer", ["one 'two three'", 'one "two three"', "one two\\ three"]
)
def test_an_edit_inside_a_word_is_written_as_that_word_is_quoted(outer: str) -> None:
    """As its place is quoted: single quotes, double quotes, a backslash."""
    (command,) = commands_of(Passage.whole(outer))
    inner = command.words[1].passage
    text = edited(outer, [inner.edit(4, 9, 'it\'s $5 or "6"')])

    assert words(text) == [["one", 'two it\'s $5 or "6"']]


_LETTERS = st.text(alphabet="ab '\"\\\n#=-", max_size=12)


@settings(max_examples=60, deadline=None)
@given(st.lists(_LETTERS, min_size=1, max_size=3))
def test_words_written_by_a_shell_are_read_back(values: list[str]) -> None:
    """Whatever a word holds, `Word.write` writes it so that a shell passes it on."""
    (command,) = commands_of(Passage.whole("printf x"))
    written = "printf '%s|' " + " ".join(command.words[1].write(v) for v in values)
    printed = subprocess.run(
        ["/bin/sh", "-c", written], capture_output=True, text=True, check=True
    ).stdout

    assert printed == "".join(value + "|" for value in values)
    assert words(written) == [["printf", "%s|", *values]]


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab '\"\\\n#=-$`{}();&|<>", max_size=40))
def test_any_text_has_words_whose_places_are_in_it(text: str) -> None:
    """Places never leave the text, and words do not overlap."""
    done = 0
    for command in commands_of(Passage.whole(text)):
        for word in command.words:
            assert done <= word.start <= word.end <= len(text)
            assert len(word.passage.places) == len(word.value) + 1
            done = word.start
