"""`planner solve set-ups`, and list prices in `planner compare`."""

import json

import pytest

from planner.app.cli import main
from planner.solve.price_list import list_prices


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """No saved prices."""
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path))


def test_setups_answers_on_the_command_line(capsys):
    """2 x 4 = 8 beside 6 x 0.5 = 3: the cheapest first, in the user's currency."""
    words = "solve set-ups Qwen/Qwen3-32B --gpus H200 A40 --prompt-tokens 32000"
    given = "--output-tokens 768 --requests 20 --price H200=4 A40=0.5 --currency EUR"
    status = main([*words.split(), *given.split(), "--order", "cheapest"])
    out = capsys.readouterr().out

    assert 0 == status
    assert "Fewest: 2 x H200. Cheapest: 6 x A40 (3.00 EUR per hour)" in out
    assert out.index("\n6 x A40") < out.index("\n2 x H200")
    assert "--tensor-parallel-size 2 --pipeline-parallel-size 3" in out


def test_formats_are_asked_for_by_what_they_cost(capsys):
    """With little loss: 8 bits."""
    words = "solve set-ups Qwen/Qwen3-32B --gpus H100 --prompt-tokens 32000 --json"
    status = main([*words.split(), "--requests", "20", "--quality", "little loss"])
    found = json.loads(capsys.readouterr().out)

    assert 0 == status
    assert {"no loss", "little loss"} == {one["cost_class"] for one in found["set_ups"]}


def test_setups_that_nothing_serves_are_an_answer_too(capsys):
    """Status 1, and what is missing, as JSON."""
    words = "solve setups Qwen/Qwen3-32B --gpus L4 --prompt-tokens 32000 --json"
    status = main([*words.split(), "--requests", "20"])
    found = json.loads(capsys.readouterr().out)

    assert 1 == status
    assert [] == found["set_ups"]
    assert ["L4"] == [miss["gpu"] for miss in found["misses"]]


def test_a_price_that_is_none_is_refused(capsys):
    """As by `planner compare`."""
    words = "solve setups Qwen/Qwen3-8B --prompt-tokens 100 --price H100"

    assert 2 == main(words.split())
    assert "write GPU=PRICE" in capsys.readouterr().err


def test_list_prices_are_used_where_a_comparison_asks_for_them(capsys):
    """The H100's is given, the L4's is the list's; without the flag it has none."""
    words = "compare Qwen/Qwen3-0.6B --gpus H100,L4 --price H100=9 --json"
    listed = list_prices().prices["L4"].per_hour

    assert 0 == main([*words.split(), "--prices"])
    found = json.loads(capsys.readouterr().out)
    assert "USD" == found["currency"]
    assert {"H100": 9.0, "L4": listed} == {
        one["gpu"]: one["price_per_gpu_hour"] for one in found["gpus"]
    }

    assert 0 == main(words.split())
    plain = json.loads(capsys.readouterr().out)
    assert {"H100": 9.0, "L4": None} == {
        one["gpu"]: one["price_per_gpu_hour"] for one in plain["gpus"]
    }


def test_prices_compare_gpus_not_models(capsys):
    """Two models have no prices."""
    assert 2 == main(["compare", "Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B", "--prices"])
    assert "give one model" in capsys.readouterr().err


def test_models_are_found_from_the_gpu(capsys):
    """Of 8 billion parameters at most, and none of another name."""
    words = "solve models --gpu L4 --search qwen3 --at-most-parameters 4B --json"

    assert 0 == main([*words.split(), "--prompt-tokens", "1000", "--requests", "4"])
    found = json.loads(capsys.readouterr().out)

    assert ("L4", 1, 4) == (found["gpu"], found["gpus"], found["load"]["requests"])
    assert all(one["num_parameters"] <= 4e9 for one in found["models"])
    assert "Qwen/Qwen3-0.6B" in {one["name"] for one in found["models"]}
