"""Exercises that check themselves: units, mistakes, progress, predictions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import PlannerError
from planner.learn.display import Shown
from planner.learn.exercise import Exercise
from planner.learn.parts import (
    AnswerState,
    Choice,
    Condition,
    MadePart,
    Mistake,
    Number,
    Size,
)
from planner.learn.prediction import predict
from planner.learn.progress import forget, keep, kept
from planner.learn.quantity import number_readings
from planner.units import GIB

EXPECTED = 15 * GIB


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep what is learnt in a folder of the test's own."""
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path))
    return tmp_path


WEIGHTS = Size(
    name="weights",
    expected=lambda: EXPECTED,
    mistakes=(Mistake(value=lambda: EXPECTED * 8, says="Bits are not bytes."),),
)
GPUS = Number(name="gpus", expected=lambda: 2)
DTYPE = Choice(
    name="dtype",
    options={"a": "float32", "b": "bfloat16"},
    expected="b",
    says={"a": "That takes 4 bytes each."},
)


def an_exercise() -> Exercise:
    """Return an exercise with a part of each simple kind."""
    return Exercise(
        name="9.1",
        title="Weights",
        minutes=3,
        parts=(WEIGHTS, GPUS, DTYPE),
        hints=("Two bytes each.", "Multiply."),
        solved=lambda: Shown(title="Solution", text="7.5 x 2 = 15"),
    )


@pytest.mark.parametrize(
    ("answer", "remark"),
    [
        (EXPECTED, ""),
        ("15 GiB", ""),
        ("15.1GiB", ""),
        ("16.1 GB", ""),
        ("15,360 MiB", ""),
        (15, "Read as GiB."),
        (16.1, "Read as GB."),
        ("15", "Read as GiB."),
        ("15 GB", "You wrote GB; the number is right in GiB."),
        ("16.1 GiB", "You wrote GiB; the number is right in GB."),
    ],
)
def test_a_size_is_right_in_any_unit_and_says_which_was_meant(answer, remark) -> None:
    """15 GiB = 15,360 MiB = 16.1 GB; a reading lies within 2 % of it."""
    judgement = WEIGHTS.judge(answer)

    assert judgement.state is AnswerState.RIGHT
    assert judgement.remark == remark


@pytest.mark.parametrize("answer", [..., None, "", "___", " ... "])
def test_an_untouched_answer_is_not_attempted(answer) -> None:
    """Run All over a fresh notebook calls nothing wrong."""
    assert WEIGHTS.judge(answer).state is AnswerState.NOT_ATTEMPTED
    assert GPUS.judge(answer).state is AnswerState.NOT_ATTEMPTED
    assert DTYPE.judge(answer).state is AnswerState.NOT_ATTEMPTED


def test_a_plausible_mistake_is_told_without_the_answer() -> None:
    """8 x 15 GiB: bits for bytes."""
    judgement = WEIGHTS.judge("120 GiB")

    assert judgement.state is AnswerState.NOT_YET
    assert judgement.remark == "Bits are not bytes."


@pytest.mark.parametrize("answer", ["22 GiB", 22, "22.1 GiB"])
def test_a_mistake_as_it_is_written_counts_before_another_unit(answer) -> None:
    """22 GiB are the whole card; that 22 GB are near the share is chance."""
    share = Size(
        name="requested",
        expected=lambda: 21_762_439_906,
        mistakes=(Mistake(value=lambda: 23_654_825_984, says="The whole card."),),
    )

    assert share.judge(answer).remark == "The whole card."
    assert share.judge("21.8 GiB").remark == (
        "You wrote GiB; the number is right in GB."
    )


@pytest.mark.parametrize("answer", ["120.9 GiB", 121.9, "121,9"])
def test_a_mistake_may_be_rounded_as_the_screen_shows_it(answer) -> None:
    """A line of 162.1 MiB is shown as 0.16 GiB; a comma may be a decimal point."""
    assert WEIGHTS.judge(answer).remark == "Bits are not bytes."


def test_a_difference_is_right_with_either_sign() -> None:
    """A table may write it as -0.91 GiB; a size has no sign."""
    off = Size(name="off", expected=lambda: GIB, is_difference=True)

    assert off.judge("-1 GiB").state is off.judge("1 GiB").state is AnswerState.RIGHT
    assert WEIGHTS.judge("-15 GiB").state is AnswerState.NOT_YET


@pytest.mark.parametrize(
    ("answer", "value"),
    [("1,024 tokens", 1024), ("22k tokens", 22_000), ("1.5 million", 1_500_000),
     ("1,5", 1.5), ("~1_000", 1000), ("12,160", 12_160), ("12 160", 12_160),
     ("four", 4), ("about 5 or so", 5), ("forty-two", 42), (6.5, 6.5)],
)  # fmt: skip
def test_a_count_is_read_as_people_write_it(answer, value) -> None:
    """Three digits after a comma are thousands, others decimals."""
    assert next(number_readings(answer)).value == value


def test_a_point_before_three_digits_may_be_of_thousands() -> None:
    """12.160 as it is written where 3,62 is a decimal number."""
    tokens = Number(name="tokens", expected=lambda: 12_160)

    assert tokens.judge("12.160").remark == "Read as 12,160."
    assert tokens.judge("12.160").state is AnswerState.RIGHT
    assert tokens.judge("12.16").state is AnswerState.NOT_YET


def test_a_figure_that_is_rounded_too_far_is_told_so() -> None:
    """0.7 for 0.66 GiB: near, and no GB; 660 MB are not 676 MiB, nor another slip."""
    gained = Size(
        name="gained",
        expected=lambda: round(0.661 * GIB),
        needs_its_unit=True,
        mistakes=(Mistake(value=lambda: 0.608 * GIB, says="Another share."),),
    )

    for answer in ("0.7 GiB", "0.7", 0.7, "1 GiB"):
        assert "one more digit" in gained.judge(answer).remark
        assert gained.judge(answer).state is AnswerState.NOT_YET
    assert gained.judge("0.66 GiB").state is AnswerState.RIGHT
    assert "thousandths of a GiB" in gained.judge("660 MB").remark
    assert gained.judge("0.608 GiB").remark == "Another share."


@pytest.mark.parametrize("answer", ["plenty", True, float("nan"), "15 parsecs", [15]])
def test_what_is_no_size_says_how_to_write_one(answer) -> None:
    """The remark names the units."""
    judgement = WEIGHTS.judge(answer)

    assert judgement.state is AnswerState.NOT_YET
    assert "GiB" in judgement.remark


def test_a_count_is_exact() -> None:
    """2 is two; 2.01 is not."""
    assert GPUS.judge("2 GPUs").state is AnswerState.RIGHT
    assert GPUS.judge(2.01).state is AnswerState.NOT_YET
    assert GPUS.judge("two").state is AnswerState.RIGHT
    assert "not understood" in GPUS.judge("a pair").remark


def test_hints_are_there_to_press_and_the_solution_after_a_try() -> None:
    """One inside the other; nothing of the solution before anything was answered."""
    untouched, wrong, right = (
        an_exercise().check(*answers)._repr_html_()
        for answers in ((), (15, 3, "b"), (15, 2, "b"))
    )

    assert untouched.index("Hint 1 of 2") < untouched.index("Hint 2 of 2")
    assert "7.5 x 2 = 15" not in untouched
    assert wrong.index("Multiply.") < wrong.index("7.5 x 2 = 15")
    assert "Hint" not in right


@pytest.mark.parametrize("answer", ["b", "B", " (b) ", "b."])
def test_a_choice_is_told_by_its_letter(answer) -> None:
    """Capitals, brackets and blanks do not matter."""
    assert DTYPE.judge(answer).state is AnswerState.RIGHT


def test_a_wrong_choice_and_one_that_is_none() -> None:
    """A wrong letter is explained, an unknown one lists those there are."""
    assert DTYPE.judge("a").remark == "That takes 4 bytes each."
    assert "a, b" in DTYPE.judge("z").remark


def test_what_a_learner_makes_is_right_however_it_meets_the_conditions() -> None:
    """Conditions are named where they are not met, not how to meet them."""
    made = MadePart(
        name="list",
        kind=list,
        conditions=(
            Condition(text="hold two things", is_met=lambda one: len(one) == 2),
            Condition(text="begin with a", is_met=lambda one: one[:1] == ["a"]),
        ),
        example=lambda: ["a", "b"],
        how="Write one in brackets.",
    )

    assert made.judge(["a", "b"]).state is AnswerState.RIGHT
    assert made.judge(["b"]).remark == (
        "The list has to hold two things and begin with a."
    )
    assert "Write one in brackets." in made.judge(3).remark


def test_an_exercise_says_which_part_is_off() -> None:
    """Two parts right, one off; the right figure is not shown."""
    outcome = an_exercise().check(15, gpus=3, dtype="b")

    assert outcome.state is AnswerState.NOT_YET
    assert [one.state for one in outcome.judgements.values()] == [
        AnswerState.RIGHT,
        AnswerState.NOT_YET,
        AnswerState.RIGHT,
    ]
    assert "gpus: not yet" in str(outcome)
    assert "2" not in str(outcome).split("gpus")[1].split("\n")[0]


def test_an_exercise_untouched_says_what_to_do() -> None:
    """Not attempted, and spoken by a screen reader."""
    outcome = an_exercise().check(..., ..., ...)

    assert outcome.state is AnswerState.NOT_ATTEMPTED
    assert "Replace the ..." in str(outcome)
    assert "role='status'" in outcome._repr_html_()


def test_an_answer_that_is_not_asked_for_is_refused() -> None:
    """A name that no part has, or more answers than parts."""
    with pytest.raises(PlannerError, match="It takes: weights, gpus, dtype"):
        an_exercise().check(weight=15)
    with pytest.raises(PlannerError, match="4 answers"):
        an_exercise().check(1, 2, 3, 4)


def test_hints_are_numbered_and_the_solution_is_worked_out() -> None:
    """From a small hint to the arithmetic."""
    exercise = an_exercise()

    assert str(exercise.hint(2)) == "Hint 2 of 2: Multiply."
    assert "7.5 x 2 = 15" in str(exercise.solution())
    with pytest.raises(PlannerError, match="hint\\(1\\) to hint\\(2\\)"):
        exercise.hint(3)


def test_progress_outlives_the_kernel_and_never_falls() -> None:
    """Right once stays right; a file is read anew each time."""
    exercise = an_exercise()
    exercise.check(15, 2, "b")
    exercise.check(..., ..., ...)

    assert kept().exercises == {"9.1": AnswerState.RIGHT}

    forget()
    assert kept().exercises == {}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"exercises": {"1": "odd"}}'])
def test_a_broken_file_begins_anew(own_data: Path, text: str) -> None:
    """Torn, empty, of another form: the workshop goes on."""
    (own_data / "workshop.json").write_text(text)

    assert kept().exercises == {}

    keep("1.1", AnswerState.NOT_YET)
    assert kept().exercises == {"1.1": AnswerState.NOT_YET}


def test_a_folder_that_cannot_be_written_keeps_nobody_waiting(
    own_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check needs no disk."""
    (own_data / "file").write_text("")
    monkeypatch.setenv("PLANNER_DATA_DIR", str(own_data / "file" / "below"))

    assert an_exercise().check(15, 2, "b").state is AnswerState.RIGHT
    assert kept().exercises == {}


def test_a_prediction_is_kept_and_laid_beside_the_figure() -> None:
    """6 GiB expected, 3 GiB calculated: twice as large."""
    predict("KV cache", "6 GiB")
    revealed = predict("KV cache", ...).reveal(3 * GIB, "20 - 17 = 3 GiB")

    assert revealed.ratio == pytest.approx(2.0)
    assert "you expected 6 GiB; calculated: 3.00 GiB" in str(revealed)
    assert "20 - 17 = 3 GiB" in str(revealed)


@pytest.mark.parametrize(
    ("guess", "said"),
    [("7", "Read as GB. Your guess is 2.2 times as large."),
     ("1.5", "Read as GiB. Your guess is 50% of it."),
     ("5,27 GiB", "Your guess is 1.8 times as large.")],
)  # fmt: skip
def test_a_guess_without_a_unit_is_read_in_the_nearest(guess, said) -> None:
    """Not as bytes, which would be 0 % of it."""
    assert said in str(predict("KV cache", guess).reveal(3 * GIB)).splitlines()


@pytest.mark.parametrize(("figure", "said"), [(22112.0, "22,112."), (2.7, "2.70.")])
def test_a_whole_figure_is_written_without_decimals(figure, said) -> None:
    """Tokens are counted; requests may be 2.70."""
    assert str(predict("tokens", ...).reveal(figure)).endswith(f"calculated: {said}")


def test_nothing_predicted_is_no_error() -> None:
    """It asks for a guess and compares nothing."""
    prediction = predict("requests", ...)

    assert "replace the ..." in str(prediction)
    assert prediction.reveal(2.7).ratio is None


@given(st.integers(1, 10**15))
def test_every_size_written_in_bytes_is_right(size_bytes: int) -> None:
    """The exact figure is right, as a number and as text."""
    part = Size(name="size", expected=lambda: size_bytes, tolerance=0.0)

    assert part.judge(size_bytes).state is AnswerState.RIGHT
    assert part.judge(f"{size_bytes:,} bytes").state is AnswerState.RIGHT


@given(st.integers(GIB, 10**13), st.floats(1.03, 1.05))
def test_a_size_beyond_the_tolerance_is_not_right(size_bytes: int, off: float) -> None:
    """3 to 5 % off is no other unit either: GB and GiB lie 7.4 % apart."""
    part = Size(name="size", expected=lambda: size_bytes)

    assert part.judge(f"{round(size_bytes * off)} bytes").state is AnswerState.NOT_YET
