"""`planner advise`: text or JSON, and an exit status that a script can use."""

import json

import pytest

import planner
from planner.app.cli import BAD_INPUT, DOES_NOT_FIT, FITS, main

_LARGE = ["advise", "Qwen/Qwen3-32B", "--gpu", "H100"]


def test_a_change_that_starts_the_plan_is_success(capsys):
    """The plan itself does not fit, and a flag is told that makes it."""
    assert main(_LARGE) == FITS
    said = capsys.readouterr().out
    assert "Does not fit" in said
    assert "--gpu-memory-utilization" in said
    assert "Cost:" in said


def test_a_plan_that_nothing_starts_is_a_failure(capsys):
    """A model that vLLM no longer serves."""
    assert main(["advise", "Qwen/Qwen-7B-Chat", "--gpu", "H100"]) == DOES_NOT_FIT
    assert "No single change helps." in capsys.readouterr().out


def test_json_holds_every_change_with_its_command(capsys):
    """For another program: changes, flags, gains as whole numbers."""
    main([*_LARGE, "--max-model-len", "32768", "--json"])
    advice = json.loads(capsys.readouterr().out)
    assert advice["request_tokens"] == 32768
    first = advice["items"][0]
    assert first["flags"] in first["command"]
    assert isinstance(first["gain_bytes"], int)


def test_a_load_is_served_or_said_to_be_missing(capsys):
    """Requests of 3,000 + 1,000 tokens; the context length follows from them."""
    load = ["--prompt-tokens", "3000", "--output-tokens", "1000", "--requests", "12"]
    assert main(["advise", "Qwen/Qwen3-8B", "--gpu", "L4", *load]) == FITS
    said = capsys.readouterr().out
    served = planner.plan(
        "Qwen/Qwen3-8B",
        gpu="L4",
        load=planner.Load(prompt_tokens=3000, output_tokens=1000, requests=12),
    ).serving.requests_served
    assert 0 < served < 12
    assert f"Serves {served} of 12 requests of 4,000 tokens at once before" in said
    assert "serves 12 of 12 at once" in said


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--requests", "4"], "--prompt-tokens"),
        (["--prompt-tokens", "0"], "prompt_tokens=0"),
        (["--max-model-length", "4096"], "--max-model-len"),
    ],
)
def test_bad_input_says_what_is_needed(words, hint, capsys):
    """A load without prompts, an impossible one, a flag that vLLM does not have."""
    assert main([*_LARGE, *words]) == BAD_INPUT
    assert hint in capsys.readouterr().err
