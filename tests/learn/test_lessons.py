"""What lessons hold: sections, exercises with their mistakes, vLLM's messages."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import nbformat
import pytest

import planner
from planner import learn
from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.learn import catalogue as learn_catalogue
from planner.learn.account import recorded
from planner.learn.catalogue import LESSONS, lesson_name
from planner.learn.exercise import Exercise
from planner.learn.lessons import at_night, capacity_plan
from planner.learn.parts import AnswerState, Choice, MadePart, Number, Part, Size
from planner.planning.result import Plan
from planner.units import GIB, format_gib
from tests import lesson_prose
from tests.lesson_length import minutes_of
from tests.lesson_runs import LEARNERS
from tests.wrong_answers import wrong_answers
from tools.notebooks import Edition

ROOT = Path(__file__).parents[2]
SECTIONS = (
    *("The story", "Predict", "Run", "Investigate", "Modify", "Explain", "Make"),
    *("What could go wrong", "Key points", "On your own", "In practice"),
    *("Further reading", "Next"),
)


def _name(edition: Edition) -> str:
    return edition.path.stem


every_lesson = pytest.mark.parametrize("edition", LEARNERS, ids=_name)
every_exercise = pytest.mark.parametrize(
    "exercise", learn.exercises(), ids=[one.name for one in learn.exercises()]
)


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what is learnt in a folder of the test's own."""
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path))


def _number(edition: Edition) -> int:
    return int(edition.path.stem.split("_")[0])


@cache
def _text(edition: Edition) -> str:
    cells = nbformat.read(edition.path, as_version=4).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def _section(edition: Edition, title: str) -> str:
    return _text(edition).split(f"## {title}")[1].split("\n## ")[0]


def _bullets(text: str) -> list[str]:
    return [line[2:] for line in text.splitlines() if line.startswith("- ")]


def _right(part: Part) -> object:
    if isinstance(part, Choice):
        return part.expected
    return part.example() if isinstance(part, MadePart) else part.expected()


@every_exercise
def test_the_right_answers_are_right(exercise: Exercise) -> None:
    """What the planner computes is accepted, part for part."""
    outcome = exercise.check(*[_right(part) for part in exercise.parts])

    assert AnswerState.RIGHT is outcome.state


@every_exercise
def test_every_listed_mistake_is_told_apart(exercise: Exercise) -> None:
    """The other parts right: which is off, with the words written for this mistake."""
    right = {part.name: _right(part) for part in exercise.parts}
    for part in exercise.parts:
        for answer, says in wrong_answers(part).items():
            outcome = exercise.check(**{**right, part.name: answer})
            off = [name for name, one in outcome.judgements.items()
                   if one.state is not AnswerState.RIGHT]  # fmt: skip

            assert AnswerState.NOT_YET is outcome.state, (part.name, answer)
            assert [part.name] == off, (part.name, answer)
            assert says == outcome.judgements[part.name].remark, (part.name, answer)
            assert says in str(outcome)


def _written(size_bytes: int) -> dict[str, str]:
    """Return ways to write a size, each with what has to be said to it."""
    gib, decimal = size_bytes / GIB, size_bytes / 10**9
    return {
        f"{size_bytes:,} bytes": "",
        f"{size_bytes}": "",
        f"{gib:.9f} GiB": "",
        f"{gib * 1024:.9f} MiB": "",
        f"{decimal:.9f} GB": "",
        f"{gib:.9f}": "Read as GiB.",
        f"{gib:.9f} GB": "You wrote GB; the number is right in GiB.",
    }


@every_exercise
def test_a_size_may_have_any_unit_and_hears_which_was_meant(exercise: Exercise) -> None:
    """The right figure of each exercise, written in seven ways."""
    for part in exercise.parts:
        if isinstance(part, Size):
            for answer, remark in _written(part.expected()).items():
                judgement = part.judge(answer)
                is_refused = part.needs_its_unit and remark.startswith("You wrote")
                state = AnswerState.NOT_YET if is_refused else AnswerState.RIGHT

                assert state is judgement.state, (part.name, answer)
                assert judgement.remark.startswith(remark), (part.name, answer)
                assert is_refused or remark == judgement.remark, (part.name, answer)


@every_exercise
def test_an_exercise_untouched_is_not_attempted(exercise: Exercise) -> None:
    """Dots for every part, or nothing at all."""
    assert AnswerState.NOT_ATTEMPTED is exercise.check().state
    assert (
        AnswerState.NOT_ATTEMPTED is exercise.check(*[...] * len(exercise.parts)).state
    )


@every_exercise
def test_an_exercise_has_mistakes_hints_and_a_solution(exercise: Exercise) -> None:
    """Three hints; every part but a plan of one's own knows a wrong answer."""
    assert 3 == len(exercise.hints)
    assert all(
        wrong_answers(part) for part in exercise.parts if not isinstance(part, MadePart)
    )
    assert "Solution" in str(exercise.solution()) or exercise.solution().code


@every_exercise
def test_what_is_said_to_a_mistake_does_not_give_the_answer_away(
    exercise: Exercise,
) -> None:
    """Neither the bytes nor the GiB nor the number that is expected."""
    for part in exercise.parts:
        if isinstance(part, Size | Number):
            expected = part.expected()
            told = {format_gib(int(expected))} if expected > GIB // 100 else set()
            told |= {f"{expected:,}", f"{expected:.0f}"}
            words = {word.strip(".,:") for one in part.mistakes for word in
                     one.says.split()}  # fmt: skip
            assert not told & words, part.name


def _plans_that_are_not_it(part: MadePart) -> list[object]:
    # Lesson 7 goes on with what 6.3 made.
    starts = [learn.checkpoint(number) for number in range(1, len(LESSONS))]
    return [*starts, "a plan", 3] if part.kind is Plan else [*starts, "a pipeline"]


def test_a_plan_that_lacks_something_is_told_what() -> None:
    """The plans that lessons start from are no answers; what is no plan neither."""
    for exercise in learn.exercises():
        for part in exercise.parts:
            if isinstance(part, MadePart):
                for answer in _plans_that_are_not_it(part):
                    judgement = part.judge(answer)

                    assert AnswerState.NOT_YET is judgement.state, exercise.name
                    assert judgement.remark, exercise.name


def test_a_plan_that_does_not_start_is_no_answer() -> None:
    """One that vLLM refuses has neither ranks nor settings, and is told so too."""
    refused = learn.checkpoint(1).changed(tensor_parallel_size=3)
    parts = [one for exercise in learn.exercises() for one in exercise.parts]
    made = [one for one in parts if isinstance(one, MadePart) and one.kind is Plan]

    remarks = [one.judge(refused).remark for one in made]

    assert 7 == len(remarks)
    assert all("start" in remark for remark in remarks)


@pytest.mark.parametrize("number", range(1, len(LESSONS) + 1))
def test_a_lesson_has_three_to_five_exercises_within_its_time(number: int) -> None:
    """Ten minutes of exercises at most, less than half of the time of a lesson."""
    exercises = learn.exercises(number)

    assert 3 <= len(exercises) <= 5
    assert [f"{number}.{place}" for place in range(1, len(exercises) + 1)] == [
        one.name for one in exercises
    ]
    assert sum(one.minutes for one in exercises) <= 10


@every_lesson
def test_a_lesson_says_goals_needs_time_and_questions(edition: Edition) -> None:
    """The head: what you do, learn and need, the minutes, one to three questions."""
    head = _text(edition).split("\n## ")[0]
    minutes = sum(one.minutes for one in learn.exercises(_number(edition)))
    goals = head.split("**What you will learn**")[1].split("**What you need**")[0]
    questions = _bullets(head.split("**Questions**")[1])

    assert head.startswith(f"# {_number(edition)}. ")
    assert "**What you will do**: " in head
    assert 3 <= len(_bullets(goals)) <= 5
    said = f"**Time**: about {minutes_of(edition)} minutes, {minutes} of them for"
    assert f"{said} exercises." in head
    assert 1 <= len(questions) <= 3
    assert all(one.startswith('"') and one.endswith('"') for one in questions)


def test_the_front_page_and_the_kit_say_the_same_length() -> None:
    """The six lessons from the shortest to the longest; the seventh is optional."""
    lengths = [minutes_of(one) for one in LEARNERS[:-1]]
    said = f"{min(lengths)} to {max(lengths)} minutes"
    pages = (
        *("README.md", "docs/index.md", "docs/notebooks.md", "docs/workshop/README.md"),
        *("CHANGELOG.md", "tools/lite/app/page.html"),
    )

    for page in pages:
        assert said in (ROOT / page).read_text(encoding="utf-8"), page


@every_lesson
def test_a_lesson_goes_from_predict_to_make(edition: Edition) -> None:
    """The sections, in their order; a lesson may have others between them."""
    titles = re.findall(r"^## (.+)$", _text(edition), flags=re.MULTILINE)
    known = [
        section
        for title in titles
        for section in SECTIONS
        if title.split(":")[0] == section
    ]

    assert list(SECTIONS) == known


@every_lesson
def test_a_lesson_ends_with_three_to_five_key_points(edition: Edition) -> None:
    """And with a question that is asked before the next lesson."""
    assert 3 <= len(_bullets(_section(edition, "Key points"))) <= 5
    assert _section(edition, "Next").rstrip().endswith("?")


@every_lesson
def test_exercises_stand_in_the_text_as_they_are_checked(edition: Edition) -> None:
    """Name, title, minutes and the letters with their statements."""
    exercises = learn.exercises(_number(edition))
    heads = re.findall(r"^### (Exercise .+)$", _text(edition), flags=re.MULTILINE)
    wanted = [
        f"Exercise {one.name}: {one.title} ({one.minutes} minutes)" for one in exercises
    ]
    options = {
        f"- `{letter}`: {text}"
        for one in exercises
        for part in one.parts
        if isinstance(part, Choice)
        for letter, text in part.options.items()
    }

    assert wanted == heads
    assert options <= set(_text(edition).splitlines())


@every_lesson
def test_a_lesson_has_one_slider_and_asks_for_words_once(edition: Edition) -> None:
    """Predict, drag, explain; the question is the one whose expert answers."""
    number = _number(edition)
    source = edition.path.read_text(encoding="utf-8")
    asked = learn_catalogue.question(number)
    words = " ".join(_section(edition, "Explain").split())

    assert 1 == source.count("learn.slide(")
    assert 1 == source.count(f"learn.explain({number}, ...)")
    assert source.index("learn.slide(") < source.index("learn.explain(")
    assert asked.asked in words
    assert 2 <= len(asked.points) <= 4
    assert re.search(r"\d", asked.expert())


@every_lesson
def test_a_slip_of_a_prediction_is_told_apart_from_the_figure(edition: Edition) -> None:
    """No two of a lesson are the same, and none is near what is calculated."""
    found = [slip.value() for slip in learn.slips(_number(edition))]

    assert 3 <= len(found)
    assert all(value > 0 for value in found)
    for place, value in enumerate(found):
        for other in found[:place]:
            assert abs(value / other - 1) > 0.01, (value, other)
    assert "learn.slips(" in edition.path.read_text(encoding="utf-8")


@every_lesson
def test_a_lesson_starts_from_its_checkpoint(edition: Edition) -> None:
    """Who comes late runs this lesson alone."""
    number = _number(edition)

    assert f"learn.checkpoint({number})" in edition.path.read_text(encoding="utf-8")
    assert learn.checkpoint(number) == learn.checkpoint(lesson_name(number))


def test_what_the_words_tell_to_type_is_there() -> None:
    """Every `planner.name(` and `learn.name(` of texts and hints."""
    words = "\n".join(lesson_prose.places().values())
    named = set(re.findall(r"\b((?:planner|learn|solve)(?:\.\w+)+)\(", words))

    assert len(named) >= 10
    for name in sorted(named):
        found = planner
        for part in name.removeprefix("planner.").split("."):
            found = getattr(found, part)
        assert callable(found), name


@every_lesson
def test_further_reading_is_there(edition: Edition) -> None:
    """Each page with its section, where one is named."""
    named = re.findall(r"\[(docs/[^],]+)(?:, ([^]]+))?\]\(([^)#]+)(#?)", _text(edition))

    assert named
    for page, title, address, mark in named:
        text = (edition.path.parent / address).read_text(encoding="utf-8")
        assert address.endswith(page)
        assert bool(title) is bool(mark)
        assert not title or f"## {title}\n" in text


@every_lesson
def test_a_lesson_leads_to_the_next_one(edition: Edition) -> None:
    """By a link to its notebook; the last one to the explorer."""
    (address,) = re.findall(r"\]\(([\w./]+\.ipynb)\)", _section(edition, "Next"))
    following = _number(edition) + 1

    assert (edition.path.parent / address).is_file()
    assert address.startswith(f"{following}_" if following <= 7 else "../explorer")


def _messages() -> str:
    """Return what vLLM says in the lessons' cases, one after the other."""
    desk = learn.checkpoint(1)
    small = learn.checkpoint(5)
    full = GPU(name="CPU", total_memory_bytes=8 * GIB, free_memory_bytes=GIB)
    plans = (
        desk.changed(max_model_len=None),
        desk.changed(max_model_len=50_000),
        desk.changed(model="Qwen/Qwen3-14B"),
        desk.changed(tensor_parallel_size=3),
        desk.changed(gpu_memory_utilization=0.7),
        desk.changed(gpu_memory_utilization=1.0),
        small.changed(gpu=full),
    )
    return "\n".join(plan.error.message for plan in plans if plan.error)


@every_lesson
def test_messages_are_those_of_vllm(edition: Edition) -> None:
    """Word for word; what differs from start to start is left out as "…"."""
    rows = re.findall(
        r"^- `([^`]+)`$", _section(edition, "What could go wrong"), re.MULTILINE
    )

    assert len(rows) >= 2
    for row in rows:
        pattern = r"[^\n]+?".join(re.escape(piece) for piece in row.split("…"))
        # vLLM's own backticks cannot stand within ours.
        assert re.search(pattern, _messages().replace("`", "")), row


def test_the_story_of_the_last_lessons_is_the_one_that_is_checked() -> None:
    """The loads and the prices of the notebooks are those of their exercises."""
    text, night = (
        one.path.read_text(encoding="utf-8").replace('\\"', '"')
        for one in LEARNERS[-2:]
    )
    load, letter = capacity_plan.VISITORS, at_night.LETTER
    low, high = at_night.REPLICAS

    assert (
        f"prompt_tokens={load.prompt_tokens}, output_tokens={load.output_tokens}, "
        f"requests={load.requests}"
    ) in text
    assert str(dict(capacity_plan.PRICES)).replace("'", '"') in text
    assert f"concurrency=({low}, {high})" in night
    assert f"num_rows={at_night.ROWS:_}" in night
    assert (
        f"prompt_tokens={letter.prompt_tokens}, output_tokens={letter.output_tokens}"
        in night
    )


def test_a_recorded_run_says_that_it_is_one() -> None:
    """On top, in text and in HTML: what ran, when, and that it was not here."""
    run = recorded()

    assert str(run).startswith("A recorded run of 2026-11-22, not one on your machine")
    assert "not one on your machine" in run._repr_html_()
    assert "vLLM's CPU build 0.32.0" in run.label


def test_a_recorded_run_is_compared_anew() -> None:
    """Nothing but the log and the question is kept: 95 blocks of 128 tokens."""
    compared = {row.name: row for row in recorded().compare().rows}

    assert 95 * 128 == compared["kv_cache_size_tokens"].measured
    assert recorded().plan.kv_cache_size_tokens == (
        compared["kv_cache_size_tokens"].estimated
    )
    assert round(2.61 * GIB) == compared["KV cache"].measured


def test_a_recorded_run_names_no_folder_of_its_machine() -> None:
    """Neither home nor temporary folders, nor an address but its own."""
    assert not re.search(r"/(home|root|tmp|work|usr)/", recorded().log_text)


def test_a_lesson_that_is_not_there_is_named() -> None:
    """With those that are."""
    with pytest.raises(PlannerError, match="1 to 7: where_memory"):
        learn.checkpoint(8)
