"""Whatever is given: a plan, a refusal or a sentence, never a traceback."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import planner
from planner.errors import PlannerError, Refused
from planner.models import catalogue
from planner.models.families import read
from planner.models.files import ModelFiles
from planner.planning.planning import plan
from tests.fuzz.entries import ENTRIES
from tests.fuzz.running import LEAST_CASES, batch, bounded, described, following

SEEDS_FILE = Path(__file__).parent / "fuzz/seeds.txt"

MODELS = tuple(row.name for row in catalogue.entries())
WRONG = st.sampled_from(
    [None, True, "x", "", -1, 0, 1, 1.5, 10**12, 10**30, [], [1], {}, {"a": 1}, [None]]
)


def config_of(name: str) -> dict[str, Any]:
    """A bundled model's config, free to be spoilt."""
    files = catalogue.find(name)
    assert files is not None
    return copy.deepcopy(dict(files.config))


def outcome(config: dict[str, Any]) -> object:
    """Plan a config as a file would be planned."""
    try:
        model = read(ModelFiles(name="fuzzed", config=config, source="test"))
        return plan(model, gpu="H100")
    except (PlannerError, Refused) as error:
        return error


def paths(value: object, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a config, however deep."""
    found = [before] if before else []
    items: list[tuple[Any, object]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))[:3]
    for key, inner in items:
        found += paths(inner, (*before, key))
    return found


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_spoilt_config_never_ends_in_a_traceback(data: st.DataObject) -> None:
    """Fields dropped, retyped or nested, up to three at once."""
    config = config_of(data.draw(st.sampled_from(MODELS)))
    for _ in range(data.draw(st.integers(1, 3))):
        places = paths(config)
        if not places:
            break
        *way, last = data.draw(st.sampled_from(places))
        holder: Any = config
        for step in way:
            holder = holder[step]
        action = data.draw(st.sampled_from(["drop", "retype", "nest"]))
        if action == "drop":
            del holder[last]
        elif action == "retype":
            holder[last] = copy.deepcopy(data.draw(WRONG))
        else:
            holder[last] = {str(last): holder[last]}
    result = outcome(config)
    assert isinstance(result, planner.Plan | PlannerError | Refused)
    assert str(result)


NEW_CASES = 15
"""Of each entry, the same at each run: `make fuzz` looks for new ones."""

HANGS_AFTER_SECONDS = 20
"""A shared machine is slow at times: `make fuzz` holds a case to two seconds."""


def cases(entry: str) -> list[str]:
    """Return the numbers of what `make fuzz` once found, and of some more."""
    lines = (line.split() for line in SEEDS_FILE.read_text("utf-8").splitlines())
    seeds = [number for name, number in lines if name == entry]
    return seeds + [str(number) for number in range(1, NEW_CASES + 1)]


@pytest.mark.parametrize("entry", ENTRIES)
def test_nothing_escapes_from_an_entry_point(entry: str) -> None:
    """Each case within its memory, in a process that holds nothing else."""
    seconds = f"--seconds={HANGS_AFTER_SECONDS}"
    last, found = batch(entry, [seconds, *cases(entry)])

    assert found == []
    assert last == NEW_CASES


def test_seeds_are_of_entries_that_exist() -> None:
    """A renamed entry would leave its seeds behind, unread."""
    names = {line.split()[0] for line in SEEDS_FILE.read_text("utf-8").splitlines()}
    assert names <= set(ENTRIES)


def test_a_batch_tells_what_escaped() -> None:
    """An entry that is not there: what the process said is kept."""
    last, (found,) = batch("nowhere", ["1"])

    assert (last, found["error"]) == (-1, "Ended with 1")
    assert "KeyError: 'nowhere'" in found["words"]


def test_a_case_that_escapes_is_described() -> None:
    """What `make fuzz` writes down suffices to repeat it."""

    def broken(_random: Random) -> None:
        raise ZeroDivisionError("x")

    with patch.dict(ENTRIES, broken=broken):  # type: ignore[call-overload]
        error = bounded("broken", 7)
    assert isinstance(error, ZeroDivisionError)
    found = described("broken", 7, error)
    assert ("broken", 7, "ZeroDivisionError") == tuple(
        found[name] for name in ("entry", "number", "error")
    )


def test_slow_entries_get_more_time_until_they_have_enough_cases() -> None:
    """A text takes a hundred times as long as an argument."""
    names, counts = ("quick", "slow"), {"quick": LEAST_CASES, "slow": 40}

    assert [following(names, {}, turn) for turn in range(2)] == ["quick", "slow"]
    assert [following(names, counts, turn) for turn in (2, 3)] == ["slow", "slow"]
    counts["slow"] = LEAST_CASES
    assert [following(names, counts, turn) for turn in (4, 5)] == ["quick", "slow"]


def test_a_missing_field_is_named() -> None:
    """Llama without its number of heads."""
    config = config_of("meta-llama/Llama-3.1-8B-Instruct")
    del config["num_attention_heads"]
    config["model_type"] = "mimo"
    with pytest.raises(PlannerError, match="num_attention_heads"):
        read(ModelFiles(name="broken", config=config, source="test"))


def test_a_negative_number_of_layers_is_named() -> None:
    """num_hidden_layers = -1."""
    config = config_of("meta-llama/Llama-3.1-8B-Instruct") | {"num_hidden_layers": -1}
    with pytest.raises(PlannerError, match="num_hidden_layers is -1"):
        read(ModelFiles(name="broken", config=config, source="test"))


def test_an_unknown_quantisation_method_is_named() -> None:
    """A method that vLLM has never had."""
    config = config_of("meta-llama/Llama-3.1-8B-Instruct")
    config["quantization_config"] = {"quant_method": "magic"}
    model = read(ModelFiles(name="broken", config=config, source="test"))
    error = plan(model, gpu="H100").error
    assert error is not None
    assert "Unknown quantization method: magic" in error.message


def test_three_megabytes_of_config_still_name_the_field(tmp_path: Any) -> None:
    """A config full of foreign keys, wrong where it matters."""
    config = config_of("meta-llama/Llama-3.1-8B-Instruct")
    config["num_hidden_layers"] = -1
    config |= {f"foreign_{i}": "x" * 100 for i in range(28_000)}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert path.stat().st_size > 3_000_000
    with pytest.raises(PlannerError, match="num_hidden_layers"):
        planner.plan(path, gpu="H100")
