"""Whole numbers as vLLM's command line reads them, wherever they are written."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

import planner
from planner.app import cli
from planner.engine import human_numbers
from planner.engine.arguments import ARGUMENTS
from planner.engine.releases import resolve_version
from planner.engine.server import spellings_of
from planner.errors import PlannerError
from tests.recorded_parser import RELEASES, NotParsed, reader, recorded

_TEXTS = (
    *("8192", "0", "-1", "007", "8_192", " 8 ", "8192.7", "8192.0", "1.9", "1e3", ""),
    *("32k", "32K", "1.5k", "25.6k", "1.0005k", "1.5K", "2M", "0.5G", "2g", "8 k"),
    *("8kb", "k", ".5k", "1.k", "-1k", "auto", "+3", "two", "1,024"),
)
_TERA = ("1t", "1T", "0.5t", "0.5T")
_MODEL = "Qwen/Qwen3-8B"
_REFUSED = {
    ("max_model_len", "1.5K"): "Decimals are not allowed with binary suffixes like K. "
    "Did you mean to use 1.5k instead?",
    ("max_model_len", "8192.7"): "invalid human_readable_int_or_auto value: '8192.7'",
    ("tensor_parallel_size", "1.9"): "invalid int value: '1.9'",
    ("max_num_seqs", "2.9"): "invalid int value: '2.9'",
    ("max_num_batched_tokens", "8192.0"): "invalid human_readable_int value: '8192.0'",
}


def _whole(release: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the flags that a release's parser reads as whole numbers."""
    kinds = ("int", "human_readable_int", "human_readable_int_or_auto")
    for flag in recorded(release)["flags"]:
        is_known = flag["dest"] in ARGUMENTS and flag.get("nargs") is None
        if is_known and flag.get("type", "").removeprefix("optional:") in kinds:
            yield flag["dest"], flag


def _of_vllm(kind: str, text: str) -> int | str:
    try:
        return int(reader(kind)(text))
    except (ValueError, TypeError, argparse.ArgumentTypeError, NotParsed):
        return text


@pytest.mark.parametrize("release", RELEASES)
def test_every_whole_number_is_read_as_each_release_reads_it(release: str) -> None:
    """What its parser refuses stays text, and is refused in its words."""
    rules = resolve_version(release)[0]
    wrong = []
    for name, flag in _whole(release):
        kind = str(flag["type"]).removeprefix("optional:")
        for text in (*_TEXTS, *(_TERA if rules.number >= (0, 13) else ())):
            told = human_numbers.typed(ARGUMENTS[name], text, rules)
            known = _of_vllm(kind, text)
            is_auto = kind.endswith("auto") and text in ("auto", "-1")
            if told != known and not is_auto:
                wrong.append((name, text, told, known))
    assert not wrong


def test_the_names_in_a_refusal_are_those_of_vllm() -> None:
    """Flag and short flag, and whether None is taken, as the newest parser has them."""
    flags = dict(_whole(RELEASES[-1]))
    told = {name: list(spellings_of(ARGUMENTS[name])) for name in flags}
    optional = {
        name for name, flag in flags.items() if str(flag["type"]).startswith("optional")
    }
    answers = {
        name
        for name in flags
        if "Value 1.9" in human_numbers.refusal(ARGUMENTS[name], "1.9")
    }

    assert {name: flag["flags"] for name, flag in flags.items()} == told
    assert optional == answers


def test_t_is_a_factor_since_0_13() -> None:
    """Until then the pattern had it, and no factor for it."""
    start = {"gpu": "H100", "kv_cache_memory_bytes": "0.02t"}
    assert planner.plan(_MODEL, vllm_version="0.13.0", **start).fits
    with pytest.raises(PlannerError, match=r"Value 0\.02t cannot be converted"):
        planner.plan(_MODEL, vllm_version="0.12.0", **start)


@pytest.mark.parametrize(("name", "text"), _REFUSED)
def test_nothing_is_cut(
    name: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command, a configuration and the planner's own flag end in vLLM's answer."""
    flag, words = ARGUMENTS[name].flag, _REFUSED[name, text]
    for written in (
        f"vllm serve {_MODEL} {flag} {text}",
        f"model: {_MODEL}\n{flag[2:]}: {text}\n",
    ):
        with pytest.raises(PlannerError) as refused:
            planner.read(written).plan(gpu="H100")
        assert words in str(refused.value)

    assert cli.BAD_INPUT == cli.main(["plan", _MODEL, flag, text])
    assert words in capsys.readouterr().err


def test_a_float_of_python_is_no_whole_number() -> None:
    """vLLM's configuration classes refuse it as well."""
    code = f"from vllm import LLM\nLLM(model={_MODEL!r}, tensor_parallel_size=1.9)\n"
    with pytest.raises(PlannerError, match="whole number from 1"):
        planner.read(code).plan(gpu="H100")
