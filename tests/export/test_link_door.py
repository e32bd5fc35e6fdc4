"""A link sets what links carry, and nothing else: every flag of every release."""

from __future__ import annotations

import json
from itertools import product
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner import PlannerError
from planner.engine.arguments import ARGUMENTS
from planner.engine.foreign import questions
from planner.engine.server import SERVER_FLAGS
from planner.export import link, read_link
from planner.export.links import TRUST, is_carried
from tests.engine.test_foreign import HARMFUL
from tests.recorded_parser import RELEASES, recorded

ELSEWHERE = "nobody/a-model"
"""A model that opening a link does not read, so that nothing else is left out."""
PROBES = ("1", "true", "0.5", "a", "[1]", '["a"]', "auto", "/tmp/x.py")
BATCH = 100
"""Names in one link, which takes 200."""


def _texts(name: str) -> tuple[str, ...]:
    """Return values, among them one that the argument takes."""
    argument = ARGUMENTS.get(name)
    if argument is None:
        return PROBES
    tables = [json.dumps({key: 1}) for key in argument.safe_keys[:1]]
    return (*tables, *map(str, argument.choices[:1]), *PROBES)[: len(PROBES)]


def _set_by(names: list[str], release: str) -> set[str]:
    """Return the arguments that links with these names set, with any of the values."""
    found: set[str] = set()
    for some, place in product(batched(names), range(len(PROBES))):
        given_ = {name: _texts(name)[place] for name in some}
        pairs = {"model": ELSEWHERE, "vllm_version": release, **given_}
        found |= read_link("?" + urlencode(pairs)).inputs.engine_args.keys()
    return found


def batched(names: list[str]) -> list[list[str]]:
    """Split names into what one link takes."""
    return [names[at : at + BATCH] for at in range(0, len(names), BATCH)]


@pytest.mark.parametrize("release", RELEASES)
def test_a_link_sets_exactly_what_links_carry(release, monkeypatch) -> None:
    """Each flag under its name; under no other spelling, which a command line has."""
    # A thousand times the nearest known name takes a minute.
    monkeypatch.setattr("difflib.get_close_matches", lambda *_given, **_more: [])
    flags = recorded(release)["flags"]
    names = {flag["dest"] for flag in flags} | {*recorded(release)["engine_arguments"]}
    names = (names | {*SERVER_FLAGS}) - {"help", "model", "model_tag"}
    words = {word for flag in flags for word in flag.get("flags", ())}
    others = {name.upper() for name in names} | words | {w.lstrip("-") for w in words}

    assert set(filter(is_carried, names)) == _set_by(sorted(names | others), release)


@pytest.mark.parametrize("release", RELEASES)
def test_what_may_run_code_is_in_no_link(release) -> None:
    """Neither read nor written; as JSON in a text too, and under a key given twice."""
    for name, value in HARMFUL.items():
        texts = [json.dumps(value), json.dumps(json.dumps(value)), str(value)]
        for text in texts:
            read = read_link(
                "?"
                + urlencode({"model": ELSEWHERE, "vllm_version": release, name: text})
            )
            assert questions(read.inputs.engine_args, {}) == (), (name, text)
            assert read.ignored, (name, text)
    twice = '{"mode": 3, "backend": "a.b", "mode": 2, "backend": "c.d"}'
    read = read_link("?" + urlencode({"model": ELSEWHERE, "compilation_config": twice}))

    assert {"compilation_config": {"mode": 2}} == read.inputs.engine_args
    assert ("compilation_config: no link sets its 'backend'.",) == read.ignored


@given(st.sets(st.sampled_from(sorted(HARMFUL)), max_size=4))
def test_a_page_s_address_has_no_more_than_links_carry(names) -> None:
    """Whatever its plan holds: what is written is what is read again."""
    given_ = {name: HARMFUL[name] for name in names}
    try:
        planned = planner.plan("Qwen/Qwen3-8B", max_model_len=4096, **given_)
    except PlannerError:
        return
    text = link(planned)
    read = read_link(text)

    assert {"max_model_len": 4096} == read.inputs.engine_args
    assert () == questions(read.inputs.engine_args, read.inputs.env)
    told = {sentence.partition(" ")[0] for sentence in read.ignored}
    assert {TRUST} & names == told
    assert "a.b" not in text


def test_a_safe_part_of_a_table_is_written_without_the_rest() -> None:
    """The memory that it decides is the same."""
    config = {"cudagraph_mode": "NONE", "cache_dir": "/tmp/x", "backend": "a.b"}
    planned = planner.plan("Qwen/Qwen3-8B", compilation_config=config)
    opened = read_link(link(planned))

    assert {
        "compilation_config": {"cudagraph_mode": "NONE"}
    } == opened.inputs.engine_args
    assert () == opened.ignored
    assert planned.ranks == opened.inputs.plan().ranks
