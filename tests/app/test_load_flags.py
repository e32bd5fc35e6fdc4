"""The load on the command line: lengths, what is shared, means, turns, a rate."""

import json

import pytest

from planner import Load, PlannerError
from planner.app import cli
from planner.app.cli.shared import load_of, load_parts

MODEL = "Qwen/Qwen3-8B"


@pytest.mark.parametrize(
    ("flags", "load"),
    [
        (
            {"prompt_tokens": 900, "shared_prefix_tokens": 600, "requests": 4},
            Load(
                prompt_tokens=900,
                output_tokens=0,
                requests=4,
                shared_prefix_tokens=600,
            ),
        ),
        (
            {"prompt_tokens": 900, "output_tokens": 100, "turns": 3},
            Load.conversation(turns=3, prompt_tokens=900, output_tokens=100),
        ),
        (
            {"prompt_tokens": 9, "requests_per_second": 2.0, "seconds_per_request": 8},
            Load(prompt_tokens=9, output_tokens=0, requests=23),
        ),
        ({}, None),
    ],
)
def test_flags_make_a_load(flags, load):
    """And nothing of them is left in the options."""
    options = {"model": MODEL, **flags}

    assert load == load_of(options)
    assert {"model": MODEL} == options


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"prompt_tokens": 9, "requests_per_second": 2.0}, "belong together"),
        ({"prompt_tokens": 9, "seconds_per_request": 2.0}, "belong together"),
        (
            {
                "prompt_tokens": 9,
                "requests": 1,
                "requests_per_second": 2.0,
                "seconds_per_request": 1.0,
            },
            "not both",
        ),
        ({"turns": 3}, "--turns needs --prompt-tokens"),
        ({"turns": 2, "prompt_tokens": 9, "mean_prompt_tokens": 5}, "leave out --mean"),
        ({"turns": 0, "prompt_tokens": 9}, "turns=0"),
    ],
)
def test_flags_that_make_no_load_are_refused(flags, words):
    """In one sentence, before anything is planned."""
    with pytest.raises(PlannerError, match=words):
        load_of(dict(flags))


def test_flags_replace_parts_of_the_load_of_a_file():
    """Turns too; the number of requests is the file's."""
    given = Load(prompt_tokens=900, output_tokens=100, requests=7)

    assert load_of({"shared_prefix_tokens": 600}, given).shared_prefix_tokens == 600
    assert 7 == load_of({"turns": 3}, given).requests


def test_how_many_is_left_open_where_it_is_asked():
    """`planner solve requests` takes no number of them."""
    assert "requests" not in load_parts({"prompt_tokens": 9, "turns": 2})


def test_a_plan_on_the_command_line_stores_a_prefix_once(capsys):
    """625 of 1,000 tokens are 39 blocks, of 16 tokens each."""
    words = ["plan", MODEL, "--prompt-tokens", "1000", "--requests", "8", "--json"]

    assert 0 == cli.main([*words, "--shared-prefix-tokens", "625"])
    found = json.loads(capsys.readouterr().out)

    assert 625 == found["load"]["shared_prefix_tokens"]
    assert 625 // 16 == found["serves"]["shared_blocks"]
