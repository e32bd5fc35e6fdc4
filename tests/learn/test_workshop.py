"""The instructor's kit says what the lessons, the programs and the planner say."""

from __future__ import annotations

import asyncio
import re
import shlex
from html import unescape

import pytest
from huggingface_hub import constants
from jupyter_server.services.kernels.kernelmanager import MappingKernelManager
from traitlets.config import Config

from benchmarks import classroom
from benchmarks.app.processes import Process
from planner import learn
from planner.app import cli
from planner.learn.catalogue import LESSONS, question
from planner.units import format_gib, format_size
from tests.conftest import ROOT
from tests.lesson_length import WORDS_A_MINUTE, minutes_of
from tests.lesson_runs import LEARNERS
from tools import misconceptions, slides

KIT = ROOT / "docs" / "workshop"
PAGES = sorted(KIT.glob("*.md"))
README = (KIT / "README.md").read_text(encoding="utf-8")
PLANS = {
    "Two and a half hours": (150, ["Welcome", "Break", "Break"], "123456"),
    "An hour and a half": (90, ["Welcome", "Break"], "136"),
}
"""A heading of the kit: minutes, what is no lesson before the slack, the lessons."""

# What these are called was read off JupyterHub 6.1, which the tests do not install.
HUB_NAMES = {
    *("Spawner.default_url", "Spawner.environment"),
    *("Spawner.http_timeout", "Spawner.start_timeout"),
    *("JupyterHub.concurrent_spawn_limit", "JupyterHub.active_server_limit"),
}


def _blocks(language: str) -> list[str]:
    found = [
        block
        for page in PAGES
        for block in re.findall(
            rf"^[ ]*```{language}\n(.*?)^[ ]*```$",
            page.read_text(encoding="utf-8"),
            flags=re.DOTALL | re.MULTILINE,
        )
    ]
    assert found
    return found


@pytest.fixture(scope="module")
def built() -> str:
    """Return the slides, as `make slides` writes them."""
    return slides.build()


def test_settings_are_read_and_are_called_so() -> None:
    """JupyterHub's by name, Jupyter Server's as it declares them."""
    set_names = set()
    for block in _blocks("python"):
        if "get_config()" in block:  # others are run by tests/test_samples.py
            config = Config()
            exec(block, {"get_config": lambda config=config: config})
            set_names |= {f"{owner}.{name}" for owner in config for name in
                          config[owner]}  # fmt: skip
    culling = {f"MappingKernelManager.{name}" for name in
               MappingKernelManager.class_traits(config=True)}  # fmt: skip

    assert set_names >= HUB_NAMES
    assert set_names <= HUB_NAMES | culling
    assert len(set_names - HUB_NAMES) == 3


def _commands() -> list[list[str]]:
    return [
        shlex.split(line, comments=True)
        for block in _blocks("sh")
        for line in block.splitlines()
        if line.strip()
    ]


def _is_doctor(words: list[str]) -> bool:
    return words[0].endswith("planner") and words[1] == "doctor"


def test_every_doctor_of_the_kit_says_that_the_lessons_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the tests run in is what lessons need."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    asked = {tuple(words[1:]) for words in _commands() if _is_doctor(words)}

    assert 1 == len(asked)
    for words in asked:
        assert cli.FITS == cli.main(list(words))
        told = capsys.readouterr().out
        assert told.endswith("All that is needed works: python, app, memory, disk.\n")


def test_what_is_needed_and_lacking_is_said_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last line names it, and leaves out what works."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)

    assert cli.DOES_NOT_FIT == cli.main(
        ["doctor", "--need", "app", "--need", "hub"]
    )  # fmt: skip
    assert capsys.readouterr().out.endswith("✘ Needed, and not working: hub.\n")


@pytest.mark.parametrize("heading", PLANS)
def test_a_plan_takes_what_it_says(heading: str) -> None:
    """Each lesson its length less the exercises for home; begins follow lengths."""
    all_minutes, others_first, numbers = PLANS[heading]
    section = README.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = re.findall(r"^\| \d:\d\d .*\|$", section, re.MULTILINE)
    lengths = {one.path.stem[0]: minutes_of(one) for one in LEARNERS}
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    minutes = {one.name: one.minutes for one in learn.exercises()}
    at = 0
    for begun, length, what, done, home in rows:
        hours, past = begun.split(":")
        assert at == 60 * int(hours) + int(past), what
        at += int(length)
        left = home.split(", ") if home else []
        if what[0].isdigit():
            number = int(what[0])
            names = [one.name for one in learn.exercises(number)]
            home_minutes = sum(minutes[one] for one in left)
            assert lengths[what[0]] - home_minutes == int(length), what
            assert names == sorted([*done.split(", "), *left])

    assert all_minutes == at
    named = [what for _begun, _length, what, _done, _home in rows]
    lessons = [what for what in named if what[0].isdigit()]
    assert numbers == "".join(what[0] for what in lessons)
    others = [what.split(":")[0] for what in named if what not in lessons]
    assert [*others_first, "Slack", "Key points, questions, survey, cards"] == others


def test_what_is_cut_takes_the_minutes_that_are_said() -> None:
    """An exercise with its minutes, wherever the kit names both."""
    said = re.findall(r"(\d\.\d) \((\d) minutes?\)", README)

    assert len(said) >= 6
    for name, minutes in said:
        assert int(minutes) == learn.exercise(name).minutes


def test_the_kit_says_how_a_length_is_computed() -> None:
    """The words a minute that the tests assume."""
    assert f"{WORDS_A_MINUTE} words a minute read aloud" in README


def test_the_handout_is_for_paper_and_its_figures_are_computed() -> None:
    """A cheat sheet of two sheets, a survey and a card; no braces are left."""
    page = slides.build(slides.HANDOUT)
    text = _text(page)

    assert 4 == page.count("<section")
    assert "{{" not in page
    assert format_gib(learn.checkpoint(1).limiting_rank.requested_memory_bytes) in text
    assert f"in fp8: {learn.exercise('6.1').solution().text.split('= ')[-1]}" in text
    for message in ("No available memory", "To serve at least one request"):
        assert message in text


def test_the_expert_s_explanations_are_in_the_answers() -> None:
    """One for each lesson, with what to listen for."""
    page = misconceptions.PAGE.read_text(encoding="utf-8")

    for lesson in LESSONS:
        asked = question(lesson)
        assert f"**Explain** {asked.asked}" in page
        assert asked.expert() in page
        assert all(f"- {point}\n" in page for point in asked.points)


def test_the_closing_questions_are_those_of_the_lessons() -> None:
    """The last sentence of each notebook."""
    cards = (KIT / "minute-cards.md").read_text(encoding="utf-8")
    asked = re.findall(r"^\| (\d) \| (.+?) \|", cards, re.MULTILINE)

    assert len(LESSONS) == len(asked)
    for number, closing in asked:
        (path,) = misconceptions.TEXTS.glob(f"{number}_*.py")
        last = path.read_text(encoding="utf-8").strip().splitlines()[-1]
        assert last.endswith(f": {closing[0].lower()}{closing[1:]}")


def test_the_misconceptions_are_those_of_the_exercises() -> None:
    """`make misconceptions` has been run; each mistake has its row."""
    page = misconceptions.PAGE.read_text(encoding="utf-8")

    assert misconceptions.written(page) == page
    assert page.count("\n- ") >= 80


def test_no_right_answer_is_listed_as_a_misconception() -> None:
    """3.3 and 4.3 have one set of replies for parts with different right letters."""
    page = misconceptions.PAGE.read_text(encoding="utf-8")
    lists = re.findall(r"^\*\*(\d\.\d)\*\* (.+)\n\n((?:- .+\n)+)", page, re.MULTILINE)
    parts = {(one.name, part.name) for one in learn.exercises() for part in one.parts}
    several = set()

    assert len(lists) >= 30
    for name, head, rows in lists:
        rights = dict(re.findall(r"`(\w+)`: (`\w`|[^`,]+(?:,\d+)*)", head))
        assert {(name, part) for part in rights} <= parts
        several |= {name} if len(rights) > 1 else set()
        for wrong, excepted in re.findall(
            r"^- (`\w`|[^:]+?)(?: \(except (.+?)\))?(?:, .+?)?: ", rows, re.MULTILINE
        ):
            is_right = {part for part, right in rights.items() if right == wrong}
            assert is_right == set(re.findall(r"\w+", excepted)), (name, wrong)
    assert {"3.3", "4.3"} == several


def _text(html: str) -> str:
    return unescape(re.sub(r"<[^>]+>", " ", html))


def test_slides_hold_the_planner_s_figures(built: str) -> None:
    """Asked of the planner again, apart from the program that builds them."""
    desk = learn.checkpoint(1)
    rank, text = desk.limiting_rank, _text(built)
    short = desk.changed(max_model_len=2048)
    rows = {row.name: row for row in learn.recorded().compare().rows}
    group = desk.kv_groups[0]
    token = rank.bytes_per_block // group.block_size

    for line in rank.lines:
        assert re.search(rf"{line.name}\s+{format_gib(line.size_bytes)}", text)
    assert f"{desk.kv_cache_size_tokens:,} tokens" in text
    assert re.search(rf"2,048\s+{short.max_concurrency:.2f}", text)
    assert f"in bfloat16:  {format_size(token)}" in text
    assert f"in fp8:  {format_size(token // 2)}" in text
    assert f"{rows['kv_cache_size_tokens'].measured:,}" in text
    assert learn.recorded().label in text
    assert desk.changed(model="Qwen/Qwen3-14B").error.message in text


def test_slides_are_one_file_with_notes_and_one_title(built: str) -> None:
    """Nothing is loaded; no braces are left; each slide has one heading."""
    each = re.findall(r"<section.*?</section>", built, re.DOTALL)

    assert 21 == len(each)
    assert "{{" not in built
    assert not re.findall(r"(?:src|href)=|url\(|@import", built)
    assert ["h1", *["h2"] * 20] == re.findall(r"<(h\d)", "".join(each))
    assert sum("class='notes'" in one for one in each) >= 12


def test_slides_are_the_same_each_time(built: str) -> None:
    """The same planner gives the same bytes."""
    assert built == slides.build()


@pytest.mark.server
def test_a_class_is_measured() -> None:
    """One learner, lesson 1, as everybody's Run All: every cell timed, one kernel."""
    found = asyncio.run(classroom._round(1, 0.0, 1))

    assert 1 == len(found.kernels)
    assert len(found.cells) >= 8
    assert found.row.startswith("| 1, all | ")
    assert classroom._HEAD.count("|") == found.row.count("|")


def test_a_row_adds_the_kernels_up() -> None:
    """Two kernels of 100 and 140 MB: 120 in the middle, 240 in all."""
    kernels = tuple(
        Process(pid=1, parent=0, command="", pss_bytes=size * 10**6, cpu_seconds=2.0,
                num_files=3)
        for size in (100, 140)
    )  # fmt: skip
    row = classroom.Round(
        lesson=3, pause_seconds=10, ready_seconds=1, all_seconds=61.04,
        cells=[0.1, 0.3, 2.0], kernels=kernels,
    ).row  # fmt: skip

    assert (
        "| 3, a cell every 10 s | 1.0 s | 61.0 s | 0.30 s | 2.0 s | 120 MB | 140 MB "
        "| 240 MB | 2.0 s |"
    ) == row


def test_the_kit_has_a_place_for_the_measurement() -> None:
    """Where `make bench-classroom` writes."""
    page = classroom.PAGE.read_text(encoding="utf-8")

    assert 1 == page.count("<!-- classroom: measured -->")
    assert 1 == page.count("<!-- classroom: end -->")
