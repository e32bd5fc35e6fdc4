"""The box for a text: what a page may send, and the HTML of what was read."""

from __future__ import annotations

from dataclasses import replace

import pytest

import planner
from planner.app.widgets.paste_box import (
    LONGEST_PUBLISHED,
    PasteBox,
    ReadingView,
    is_address,
    model_named,
)
from planner.app.widgets.read_html import (
    own_text_html,
    reading_html,
    taken_for,
)

SERVE = "vllm serve Qwen/Qwen3-8B --max-model-len 32k --api-key sk-1  # ours"


class Given:
    """Records what a box was given."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, bool]] = []
        self.box = PasteBox(lambda text, is_whole: self.texts.append((text, is_whole)))

    def send(self, piece: str, *, first: bool = True, last: bool = True) -> None:
        """Send a piece as a page does."""
        message = {"piece": piece, "is_first": first, "is_last": last, "is_whole": True}
        self.box._handle_custom_msg(message, [])


def test_pieces_are_one_text_again() -> None:
    """A character of two units may be cut in the middle."""
    given = Given()
    given.send("vllm \ud83d", last=False)
    given.send("\ude00 serve", first=False)

    assert [("vllm \U0001f600 serve", True)] == given.texts


def test_a_first_piece_begins_anew() -> None:
    """What a page sent before and did not end is forgotten."""
    given = Given()
    given.send("old", last=False)
    given.send("new")

    assert [("new", True)] == given.texts


def test_no_more_is_kept_than_is_read(monkeypatch) -> None:
    """Whatever a page sends: one piece beyond the limit says that there is more."""
    monkeypatch.setenv("PLANNER_PUBLISHED", "1")
    given = Given()
    for number in range(20):
        given.send("x" * 40_000, first=number == 0, last=number == 19)
    (text, _) = given.texts[0]

    assert LONGEST_PUBLISHED == given.box.most == 200_000
    assert LONGEST_PUBLISHED < len(text) <= LONGEST_PUBLISHED + 40_000


@pytest.mark.parametrize(
    "sent", [None, "", {}, {"piece": 1}, {"piece": "a"}, {"press": "undo"}]
)
def test_what_is_no_piece_changes_nothing(sent, caplog) -> None:
    """A page can send anything; none of it is logged."""
    given = Given()
    given.box._handle_custom_msg(sent, [])

    assert [] == given.texts
    assert "a page sent an invalid message of the box" == caplog.messages[-1]


def test_a_page_cannot_set_the_box_s_state(caplog) -> None:
    """Nor is it logged what it tried."""
    given = Given()
    given.box.set_state({"said": "<img src=x>", "most": 10**9})

    assert "" == given.box.said
    assert "img" not in caplog.text


def test_a_press_is_passed_on_by_its_name() -> None:
    """No longer name, and nothing else."""
    pressed: list[str] = []
    view = ReadingView(pressed.append)
    for sent in ({"press": "undo"}, {"press": "x" * 41}, {"press": 1}, None):
        view._handle_custom_msg(sent, [])

    assert ["undo"] == pressed


# What a text is


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("no-such/model", "no-such/model"),
        ("qwen3-8b", "Qwen/Qwen3-8B"),
        (
            "https://huggingface.co/Qwen/Qwen3-8B",
            "https://huggingface.co/Qwen/Qwen3-8B",
        ),
        ("localhost:8000", ""),
        ("vllm serve a/b", ""),
        ("a/b\nc/d", ""),
        ("x" * 201, ""),
    ],
)
def test_a_name_alone_is_a_model(text, name) -> None:
    """With an owner as it is; without, the best match of the bundled models."""
    assert name == model_named(text)


def test_a_folder_is_a_model_here_and_no_path_is_looked_at_elsewhere(
    tmp_path, monkeypatch
) -> None:
    """A published app reads nothing of its machine."""
    here = model_named(str(tmp_path))
    monkeypatch.setenv("PLANNER_PUBLISHED", "1")

    assert str(tmp_path) == here
    assert "" == model_named(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("http://10.0.0.1:8000/metrics", True), ("localhost:8000", True)),
        *(("https://hf.co/a/b", False), ("a/b", False), ("vllm serve a:1", False)),
    ],
)
def test_an_address_is_told_from_a_page_of_a_model(text, expected) -> None:
    """Addresses are asked; pages of models name one."""
    assert expected is is_address(text)


# What is shown


def test_a_line_says_what_a_text_was_taken_for() -> None:
    """Kind, model, release, number of GPUs."""
    text = "docker run --gpus 2 vllm/vllm-openai:v0.11.0 --model Qwen/Qwen3-8B"

    assert "A container command for Qwen/Qwen3-8B, vLLM 0.11.0, 2 GPUs." == taken_for(
        planner.read(text)
    )
    assert "A command for a/b." == taken_for(planner.read("vllm serve a/b"))


def test_server_flags_are_named_without_their_values() -> None:
    """A key is nobody's business."""
    html = reading_html(planner.read(SERVE), ["model", "max_model_len"], None)

    assert "--api-key" in html
    assert "sk-1" not in html
    assert "<code>max_model_len</code>" in html


def test_what_a_text_says_is_never_markup() -> None:
    """Names, values and notes are escaped."""
    bad = "<img/src=x>"
    reading = planner.read(f"vllm serve a/b --{bad} 1 --served-model-name '{bad}'")
    html = reading_html(reading, [], None) + own_text_html(reading, {})

    assert "&lt;img" in html
    assert "<img" not in html


def test_a_long_list_is_cut() -> None:
    """And says how many there are."""
    reading = planner.read("vllm serve a/b " + " ".join(f"--no{n}" for n in range(200)))
    html = reading_html(reading, [], None)
    assert html.count("is not an argument") == 8
    assert "has 192 more names" in html

    notes = tuple(f"note {number}" for number in range(200))
    html = reading_html(replace(reading, notes=notes), [], None)
    assert "120 more" in html  # 200 - 80
    assert html.count("note ") == 80


def test_given_back_the_text_marks_what_changed() -> None:
    """The old word is drawn beside the new one, and is no part of the text."""
    html = own_text_html(planner.read(SERVE), {"max_model_len": 4096, "seed": 1})

    assert "--max-model-len <ins data-was='32k'>4096</ins> --api-key sk-1" in html
    assert "<ins> --seed 1</ins>" in html
    assert "Changed since it was pasted: max_model_len, seed." in html
    assert "# ours" in html


def test_given_back_unchanged_the_text_is_the_text() -> None:
    """Character by character."""
    html = own_text_html(planner.read(SERVE), {})

    assert f"<code>{SERVE}</code>" in html
    assert "Nothing changed." in html


def test_a_change_without_a_place_is_said() -> None:
    """The others are made."""
    changed = {"gpu": "L4", "max_model_len": 4096, "env": {"VLLM_X": "1"}}
    html = own_text_html(planner.read(SERVE), changed)

    assert "The text has no place for gpu" in html
    assert "The text does not set VLLM_X" in html
    assert ">4096</ins>" in html


def test_a_change_that_would_change_more_is_said_and_the_text_stays() -> None:
    """The sentence names the line; the text is given back as it was."""
    text = '[ -f x ] && CMD="vllm serve org/m"\nbash -c "cd /x && $CMD"\n'
    html = own_text_html(planner.read(text), {"model": "a/b"})

    assert "Change it by hand, line 2: " in html
    assert "<ins" not in html
