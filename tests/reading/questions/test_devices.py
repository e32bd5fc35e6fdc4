"""The machines of a question: several numbers, several kinds, a part of one."""

from __future__ import annotations

import pytest

import planner
from planner.units import GIB

PLACES = {
    "Qwen3-8B on 1 or 2 L40S?": ["1 x L40S", "2 x L40S"],
    "2-4 L40S for Qwen3-8B?": ["2 x L40S", "4 x L40S"],
    "2 to 4 L40S for Qwen3-8B?": ["2 x L40S", "4 x L40S"],
    "gpu=a100 40g n=2 model=Qwen3-8B": ["2 x A100-40GB"],
    "if I add a second L40S, does Qwen3-32B fit?": ["2 x L40S"],
    "one 4090 and one 3060 tp 2, Qwen3-8B": ["2 x RTX3060"],
    "2 different GPUs, a 3090 24GB and a 3060 12GB, for Qwen3-8B?": ["2 x RTX3060"],
    "Qwen3-8B on a T4 or two L4?": ["1 x T4", "2 x L4"],
    "8 A100s, Qwen3-8B?": ["8 x A100-80GB"],
    "4 V100 32GB for Qwen3-8B?": ["4 x V100-32GB"],
    "A100-80G for Qwen3-8B?": ["A100-80GB"],
    "2 A100 80 — Qwen3-8B?": ["2 x A100-80GB"],
    "RTX 6000 Pro x2 Qwen3-8B": ["2 x RTXPRO6000"],
    "Qwen3-8B 3090 ctx 4096": ["RTX3090"],
    # The number behind a name counts, not the article before it.
    "is an L40S 48GB * 2 enough for Qwen3-8B": ["2 x L40S"],
    "Does Qwen3-8B fit on L4/L40S?": ["L4", "L40S"],
    # A sum of GPUs is one machine.
    "3x3090 + 1x4090 for Qwen3-32B, doable?": ["4 x RTX4090"],
    # Of the memory that is in use, the card's own is the card.
    "It eats 20 GB on my 24 GB card with Qwen3-4B, why?": ["L4"],
}


@pytest.mark.parametrize("text", PLACES)
def test_each_number_and_kind(text) -> None:
    """Alternatives are starts; kinds that run one model together are one place."""
    first = planner.read(text)
    starts = [planner.read(text, start=at + 1) for at in range(first.num_starts)]
    names = [getattr(one.gpu, "name", one.gpu) for one in starts]
    shown = [
        f"{one.gpus} x {name}" if one.gpus else name
        for one, name in zip(starts, names, strict=True)
    ]
    assert shown == PLACES[text]


def test_each_model_has_the_gpu_behind_it() -> None:
    """A on X and then B on Y are two starts, not four; so it is with lengths."""
    text = "Qwen3-14B on 2 L4 now, Qwen3-8B on an L40S then: which holds more?"
    found = [planner.read(text, start=at) for at in (1, 2)]
    assert found[0].num_starts == 2
    assert [(x.model, x.gpu.name) for x in found] == [
        ("Qwen/Qwen3-14B", "L4"),
        ("Qwen/Qwen3-8B", "L40S"),
    ]
    text = "Which run out of memory on an A10G?\na) Qwen3-8B, 32k\nb) Qwen3-4B, 8k"
    found = [planner.read(text, start=at) for at in (1, 2)]
    assert [x.engine_args["max_model_len"] for x in found] == [32_768, 8192]


def test_what_others_hold_of_a_gpu_is_not_free() -> None:
    """vLLM checks it before it loads; what another GPU holds is not this one's."""
    found = planner.read("another process uses 10GB of my A100 40GB. Qwen3-14B at 8k?")
    assert found.gpu.total_memory_bytes - 10 * GIB == found.gpu.free_memory_bytes
    assert found.explain().headline.startswith("No: Does not start: too little memory")

    row = "|   {0}  NVIDIA A100-SXM4-80GB  On  | 0000:0{0}:00.0 Off |  0 |\n| N/A 31C"
    table = "\n".join(
        f"{row.format(at)} P0 62W / 400W |  {used}MiB / 81920MiB |  0%  Default |"
        for at, used in enumerate((11_234, 4))
    )
    asked = "Qwen3-32B on GPU 1 while another job runs on GPU 0?"
    found = planner.read(f"{asked}\n\n{table}")
    assert (found.gpus, found.engine_args) == (1, {})
    assert found.gpu.total_memory_bytes - found.gpu.free_memory_bytes < GIB


COPIES = {
    "Can I fit two copies of Qwen3-8B on one A100 80GB?": (1, 0.46),
    "three replicas of Qwen3-8B on 3 L4?": (1, None),
    "2 replicas of Qwen3-8B, each on 1 A100 80GB?": (1, None),
    "zwei Instanzen von Qwen3-32B auf 4 A100?": (2, None),
}


@pytest.mark.parametrize("text", COPIES)
def test_one_of_several_copies_is_planned(text) -> None:
    """On its own GPUs, or with its own share of one; a note says so."""
    found = planner.read(text)
    gpus, share = COPIES[text]
    assert (found.gpus, found.engine_args.get("gpu_memory_utilization")) == (
        gpus,
        share,
    )
    assert "pipeline_parallel_size" not in found.engine_args
    assert any(" copies is planned" in note for note in found.notes)
