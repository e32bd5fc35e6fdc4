"""The page's picture: its values, and the laws of the script that writes its words."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import planner
from planner.app.widgets.static_files import STATIC
from planner.show.charts.frame import bars
from planner.show.charts.parts import parts_of, spoken
from planner.show.charts.picture import HERO_PIXELS, page_spec
from planner.units import GIB, format_gib
from tests import plans

ROOT = Path(__file__).parents[2]
LETTER = 7
"""Pixels of a letter, in these tests."""
MODELS = (
    plans.LLAMA_8B,
    plans.LLAMA_70B,
    "Qwen/Qwen2.5-VL-7B-Instruct",
    "Qwen/Qwen3-30B-A3B",
)
_DRIVER = """
import { createInterface } from "node:readline";
const [labels, legend, ghost] = await Promise.all(
  ["labels", "legend", "ghost"].map((one) => import(`${process.argv[1]}/${one}.js`)));
const measure = (text) => text.length * 7;
const calls = {
  labelled: (parts, scale, room, leaders) =>
    labels.labelled(parts, (gib) => gib * scale, room, leaders, measure),
  needed: (parts) => labels.neededWidth(parts, measure),
  legend: (group) => legend.legend(group),
  difference: (now, before) => ghost.difference(now, before),
};
for await (const line of createInterface({ input: process.stdin })) {
  const [name, ...given] = JSON.parse(line);
  console.log(JSON.stringify(calls[name](...given)));
}
"""


def node() -> str | None:
    """Find Node.js as the checks of the scripts do."""
    found = subprocess.run(
        ["sh", str(ROOT / "tools" / "system.sh"), "node", str(ROOT / ".venv")],
        capture_output=True,
        text=True,
        check=False,
    )
    program = Path(found.stdout.strip()) / "node"
    return str(program) if found.returncode == 0 and program.is_file() else None


@pytest.fixture(scope="module")
def script() -> Iterator[Callable[..., Any]]:
    """Calls a function of the page's scripts, which run in Node.js."""
    program = node()
    if program is None:
        pytest.skip("Node.js is not installed: it runs the page's scripts")
    with subprocess.Popen(
        [program, "--input-type=module", "-e", _DRIVER, STATIC.as_uri()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        asked, answered = running.stdin, running.stdout
        assert asked is not None
        assert answered is not None

        def call(*given: object) -> Any:
            asked.write(json.dumps(given) + "\n")
            asked.flush()
            return json.loads(answered.readline())

        yield call
        asked.close()


SETTINGS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODELS),
        "gpu": st.sampled_from(["L4", "RTX4090", "H100", "H200"]),
        "gpu_memory_utilization": st.integers(20, 98).map(lambda share: share / 100),
        "max_model_len": st.sampled_from([1024, 8192, 32_768]),
        "tensor_parallel_size": st.sampled_from([1, 2, 4]),
        "pipeline_parallel_size": st.integers(1, 3),
    },
    optional={"enable_lora": st.just(True), "kv_cache_dtype": st.just("fp8")},
)
"""Of plans that may fit, with what adds segments."""


@settings(max_examples=60, deadline=None)
@given(chosen=SETTINGS, room=st.integers(240, 1880))
def test_labels_never_overlap(script, chosen, room) -> None:
    """In the segments or below them, whatever the plan and the width."""
    plan = planner.plan(**chosen)
    for group in page_spec(plan)["picture"]["groups"]:
        scale = room / group["end"]
        for row in group["rows"]:
            names = [part[0] for part in row["parts"]]
            fits = script("needed", row["parts"]) <= room
            found = script("labelled", row["parts"], scale, room, fits)
            ends = {
                part[0]: (part[2] * scale, part[3] * scale) for part in row["parts"]
            }
            for label in found:
                start, end = (
                    label["x"] - label["width"] / 2,
                    label["x"] + label["width"] / 2,
                )
                if label["inside"]:
                    assert ends[label["name"]][0] <= start
                    assert end <= ends[label["name"]][1]
                else:
                    assert start >= -1e-6
                    assert end <= room + 1e-6
            below = sorted(
                (label for label in found if not label["inside"]),
                key=lambda label: label["x"],
            )
            assert all(
                one["x"] + one["width"] / 2 < other["x"] - other["width"] / 2
                for one, other in pairwise(below)
            )
            if fits:
                assert {label["name"] for label in found} == set(names)


def test_the_name_of_what_is_missing_keeps_off_lines_and_parts() -> None:
    """70B on an H100: between the GPU's total and the lines beyond the budget."""
    plan = planner.plan(plans.LLAMA_70B, "H100")
    (group,) = page_spec(plan)["picture"]["groups"]
    total = group["edges"][0]["at"]
    (row,) = group["rows"]
    *others, (name, _, start, end, _, _, first, last) = row["parts"]

    assert "missing" == name
    assert start < total == first < last < end
    assert all(part[3] <= first or last <= part[2] for part in others)


@settings(max_examples=30, deadline=None)
@given(chosen=SETTINGS)
def test_a_legend_names_every_part(script, chosen) -> None:
    """Where the names have no room, with sizes as they are in the bars."""
    plan = planner.plan(**chosen)
    for group in page_spec(plan)["picture"]["groups"]:
        sizes: dict[str, set[str]] = {}
        for row in group["rows"]:
            for name, size, *_ in row["parts"]:
                sizes.setdefault(name, set()).add(size)
        found = {one["name"]: one["size"] for one in script("legend", group)}

        assert set(sizes) == set(found)
        for name, written in sizes.items():
            assert set(found[name].split(" to ")) <= written


@settings(max_examples=30, deadline=None)
@given(ours=SETTINGS, theirs=SETTINGS)
def test_the_ghost_says_by_how_much_two_plans_differ(script, ours, theirs) -> None:
    """In GiB of KV cache per GPU and in requests of all engines."""
    one, other = planner.plan(**ours), planner.plan(**theirs)
    assume(one.limiting_rank is not None and other.limiting_rank is not None)
    said = script(
        "difference",
        page_spec(one)["picture"]["plan"],
        page_spec(other)["picture"]["plan"],
    )
    size = (
        one.limiting_rank.available_kv_cache_bytes
        - other.limiting_rank.available_kv_cache_bytes
    )
    requests = one.all_engines.max_concurrency - other.all_engines.max_concurrency
    if not size and abs(requests) < 0.001:
        assert said == ""
        return
    gib, count = said.removeprefix("KV cache ").split(" GiB, ")

    assert float(gib.replace(",", "")) == pytest.approx(size / GIB, abs=0.0051)
    number = float(count.removesuffix(" requests at once").replace(",", ""))
    assert number == pytest.approx(requests, abs=0.0061)


def test_a_refused_plan_has_nothing_to_compare(script) -> None:
    """Neither GiB nor requests."""
    refused = page_spec(plans.refused())["picture"]["plan"]
    fitting = page_spec(plans.fitting())["picture"]["plan"]

    assert script("difference", fitting, refused) == ""
    assert script("difference", fitting, fitting) == ""


def test_only_a_plan_of_the_same_model_and_gpus_is_compared() -> None:
    """Else the ghost goes."""
    kinds = {
        page_spec(plan())["picture"]["plan"]["of"]
        for plan in (plans.fitting, plans.too_long, plans.too_large, plans.in_stages)
    }

    assert len(kinds) == 4


@settings(max_examples=40, deadline=None)
@given(chosen=SETTINGS)
def test_the_parts_are_the_account(chosen) -> None:
    """They add up to the budget where nothing is missing, and overlap nowhere."""
    plan = planner.plan(**chosen)
    for bar in bars(plan):
        parts = parts_of(plan, bar)
        names = [part.name for part in parts]
        assert len(set(names)) == len(names)
        if "missing" in names:
            continue
        assert sum(part.size_bytes for part in parts) == plan.gpu.total_memory_bytes
        assert all(
            one.end_bytes <= other.start_bytes or other.end_bytes <= one.start_bytes
            for one, other in combinations(parts, 2)
        )


@pytest.mark.parametrize("plan", plans.ALL)
def test_the_bars_are_twice_as_tall_as_before(plan) -> None:
    """84 pixels, where they were 42, at each place that the words are written for."""
    spec = page_spec(plan())
    picture = spec["picture"]
    mode = picture["modes"][-1]

    for number, group in enumerate(mode["groups"]):
        rows = len(picture["groups"][number]["rows"])
        axis = spec["layout"]["yaxis" if not number else f"yaxis{number + 1}"]
        low, high = axis["domain"]
        pixels = (high - low) * mode["height"] / (axis["range"][0] - axis["range"][1])
        assert pixels * spec["data"][number]["width"] == pytest.approx(group["bar"])
        assert rows == pytest.approx(axis["range"][0] - axis["range"][1])
        # Row 0 is at the middle of the first bar.
        middle = group["start"] + mode["title"] + group["bar"] / 2
        drawn = (1 - high) * mode["height"] - axis["range"][1] * pixels
        assert drawn == pytest.approx(middle)
    assert mode["groups"][0]["bar"] == HERO_PIXELS == 2 * 42


def test_many_different_bars_are_lower_and_have_a_legend() -> None:
    """Five stages of which none is alike: 56 pixels, and no leader lines."""
    plan = planner.plan("Qwen/Qwen3-8B", gpu="H100", pipeline_parallel_size=8)
    picture = page_spec(plan)["picture"]

    assert len(picture["groups"][0]["rows"]) == 4
    assert [(one["leaders"], one["groups"][0]["bar"]) for one in picture["modes"]] == [
        (False, 56)
    ]


def test_the_page_gets_no_text_from_plotly() -> None:
    """Axes, texts and notes are the script's: a redraw takes half the time."""
    spec = page_spec(plans.fitting())
    (trace,) = spec["data"]

    assert not [name for name in trace if "text" in name]
    assert "annotations" not in spec["layout"]
    assert not spec["layout"]["xaxis"]["visible"]
    assert not spec["layout"]["yaxis"]["visible"]


@pytest.mark.parametrize("plan", plans.ALL)
def test_a_screen_reader_gets_every_part_of_every_bar(plan) -> None:
    """Name and size of each, how many GPUs, the soft edge, and the verdict."""
    said = spoken(plan())

    for bar in bars(plan()):
        for part in parts_of(plan(), bar):
            assert f"{part.name} {format_gib(part.size_bytes)}" in said
    if len(bars(plan())) > 1:
        assert all(bar.label in said for bar in bars(plan()))
    if plan() is plans.fitting():
        assert "the KV cache may be" in said
