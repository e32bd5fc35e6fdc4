"""A confirmation as text, HTML and a table."""

from dataclasses import replace

import pytest

from planner.confirming.confirmation import ComparisonRow, Confirmed, GivenMemory
from planner.confirming.measurement import LoadFigures
from planner.show import confirmation as shown
from planner.show import confirmation_text as text
from planner.units import GIB, MIB
from tests import confirmations
from tests.show.test_presentation import Balance


@pytest.mark.parametrize("made", confirmations.ALL)
def test_the_html_is_well_formed_and_self_contained(made) -> None:
    """No script, no address, every tag closed."""
    page = made()._repr_mimebundle_()["text/html"]
    balance = Balance()
    balance.feed(page)

    assert balance.open == []
    assert "<script" not in page
    assert "src=" not in page
    assert "url(" not in page


@pytest.mark.parametrize("made", confirmations.ALL)
def test_text_and_html_say_the_same_outcome(made) -> None:
    """Symbol, headline and sentence; a terminal gets no HTML."""
    said = text.answer(made())
    bundle = made()._repr_mimebundle_()

    assert f"{said.symbol} {said.headline}: {said.sentence}" in str(made())
    assert said.headline in bundle["text/html"]
    assert bundle["text/plain"] == str(made())


@pytest.mark.parametrize(
    ("made", "symbol", "sentence"),
    [
        (confirmations.confirmed, "✔", "all 7 figures that were measured are in"),
        (confirmations.as_refused, "✔", "did not start, as planned"),
        (confirmations.off, "!", "2 of 7 figures are outside their range: persistent"),
        (confirmations.contradicted, "✘", "although the plan said that it would"),
        (confirmations.stopped, "?", "ended before it was decided"),
    ],
)
def test_the_outcome_is_a_symbol_and_a_sentence(made, symbol, sentence) -> None:
    """Never colour alone."""
    said = text.answer(made())

    assert symbol == said.symbol
    assert sentence in said.sentence


def test_a_plan_too_close_to_call_says_what_happened() -> None:
    """Open, yet vLLM told."""
    open_one = replace(confirmations.confirmed(), outcome=Confirmed.OPEN)

    assert text.answer(open_one).sentence == (
        "The plan was too close to call; vLLM started."
    )


def test_a_failure_for_another_reason_is_off() -> None:
    """It did not start, as planned, but not with the planned error."""
    other = replace(confirmations.as_refused(), outcome=Confirmed.OFF)

    assert text.answer(other).sentence.endswith("but for another reason.")


def test_what_vllm_said_is_text_whatever_it_holds() -> None:
    """Errors, answers, reasons and notes are never run by the page."""
    evil = "<img src=x onerror=alert(1)>"
    sure = confirmations.confirmed()
    told = replace(
        sure.measurement, error=evil, generated_text=evil, device_name=evil, date=evil
    )
    page = shown.sheet(
        replace(sure, measurement=told, reasons=(evil,), notes=(evil,))
    ).to_html()

    assert "<img" not in page
    assert page.count("&lt;img") == 6


def test_every_row_shows_estimate_range_measured_and_difference() -> None:
    """54.0 estimated, 53.5 measured: -0.50 GiB, inside."""
    row = ComparisonRow(
        name="KV cache",
        unit="bytes",
        estimated=54 * GIB,
        low=53 * GIB,
        high=55 * GIB,
        measured=54 * GIB - GIB // 2,
        basis="formula",
    )

    assert text.cells(row) == (
        "KV cache",
        "54.00 GiB",
        "53.00 GiB to 55.00 GiB",
        "53.50 GiB",
        "-0.50 GiB",
        "✔ inside",
        "formula",
    )


@pytest.mark.parametrize(
    ("low", "high", "measured", "word"),
    [
        (None, None, 100, "✔ equal"),
        (None, None, 101, "✘ differs"),
        (90, 110, 101, "✔ inside"),
        (90, 110, 111, "✘ outside"),
        (90, 110, None, "-"),
    ],
)
def test_inside_is_a_symbol_and_a_word(low, high, measured, word) -> None:
    """Without a range a figure is equal or it differs."""
    row = ComparisonRow(
        name="blocks",
        unit="blocks",
        estimated=100,
        low=low,
        high=high,
        measured=measured,
        basis="exact",
    )

    assert text.inside_text(row) == word


@pytest.mark.parametrize(
    ("difference", "is_rounded", "words"),
    [
        (0, False, "none"),
        (512, False, "+512 B"),
        (-3 * MIB, False, "-3.0 MiB"),
        (3 * MIB, True, "none, as logged"),  # a log says 0.01 GiB, 10.2 MiB
        (2 * GIB, True, "+2.00 GiB"),
    ],
)
def test_a_small_difference_is_not_rounded_away(difference, is_rounded, words) -> None:
    """0.00 GiB would say that there is none."""
    row = ComparisonRow(
        name="weights",
        unit="bytes",
        estimated=15 * GIB,
        measured=15 * GIB + difference,
        is_rounded=is_rounded,
    )

    assert text.difference_text(row) == words


def test_given_the_memory_the_rest_is_exact_or_the_measured_figures_are_named() -> None:
    """28,026 blocks of 16 tokens; 8,192 blocks a request."""
    sure = confirmations.confirmed()
    wrong = GivenMemory(
        available_kv_cache_bytes=GIB,
        num_gpu_blocks=512,
        kv_cache_size_tokens=8192,
        max_concurrency=0.06,
        is_exact=False,
    )

    assert text.given_text(sure.given, sure).endswith(": exactly what vLLM says.")
    assert text.given_text(wrong, sure) == (
        "Given the 1.00 GiB that vLLM measured for the KV cache, the plan says 512 "
        "blocks, 8,192 tokens and 0.06x concurrency; vLLM says 28,026 blocks, 448,416 "
        "tokens, 3.42x concurrency. They differ."
    )


def test_memory_that_is_too_little_is_said_with_vllms_words() -> None:
    """Measured, and then vLLM refuses."""
    sure = confirmations.confirmed()
    given = replace(sure.given, error=confirmations.ERROR)

    assert f"too little to start ({confirmations.ERROR}): exactly" in text.given_text(
        given, sure
    )


def test_the_proof_that_it_serves_names_the_tokens() -> None:
    """Ids always, text where there is a tokenizer."""
    served = text.served_text(confirmations.confirmed())

    assert "9 tokens (9906 11 1917 0 358 1097 264 4221 1646)" in served
    assert "Dummy weights answer without sense." in served
    assert "Hello, <b>world</b>!" in str(confirmations.confirmed())
    assert text.served_text(confirmations.stopped()) == ""


@pytest.mark.parametrize(
    ("num_requests", "waiting", "preemptions", "words"),
    [
        (3, 0, 0, "so no preemption was expected, and none came."),
        (3, 0, 1, "so no preemption was expected: it has less room."),
        (8, 5, 0, "so not all could run at once, and not all did."),
        (8, 0, 0, "these were shorter or ended sooner, so all ran at once."),
    ],
)
def test_a_load_probe_is_held_against_the_predicted_concurrency(
    num_requests, waiting, preemptions, words
) -> None:
    """Room for 3.37 requests."""
    load = LoadFigures(
        num_requests=num_requests,
        prompt_tokens=100,
        output_tokens=28,
        num_finished=num_requests,
        peak_running=3,
        peak_waiting=waiting,
        peak_kv_cache_usage=0.5,
        num_readings=40,
        preemptions=preemptions,
        seconds=1.5,
    )
    said = text.load_text(load, 3.37)

    assert said.startswith(f"Load probe: {num_requests} requests of 100 + 28 = 128")
    assert said.endswith(words)


def test_the_frame_has_one_row_per_figure() -> None:
    """As many as the table."""
    frame = confirmations.off().to_frame()

    assert list(frame["figure"]) == [row.name for row in confirmations.off().rows]
    assert list(frame["is_inside"]).count(False) == 2


def test_what_is_not_known_is_left_out_of_the_facts() -> None:
    """No empty captions."""
    assert [name for name, _ in text.facts(confirmations.stopped())] == []
    assert [name for name, _ in text.facts(confirmations.confirmed())] == [
        *("vLLM", "Device", "Weights", "Compile cache", "Ready after", "Date")
    ]


def test_the_picture_is_read_aloud() -> None:
    """Both bars; the word where there is none."""
    assert "Estimated: weights 15.00 GiB" in text.spoken(confirmations.confirmed())
    assert text.spoken(confirmations.stopped()).endswith("Measured: nothing.")
