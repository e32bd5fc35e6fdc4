"""What is taken for a log: a line that vLLM, or what runs it, has written."""

from __future__ import annotations

import pytest

import planner
from planner import PlannerError
from planner.reading.reading import Reading
from tests.rows import each_row

NO_LOGS = (
    # Words of people: no line of a log is in them, whatever they name.
    "We moved from Ollama to vLLM last week. Memory use went up, latency went down.",
    "Closed: it was the driver, vLLM and its memory are fine. Thanks to all!",
    "Protokoll: vLLM läuft wieder, Error-Budget eingehalten, nächste Sitzung Freitag.",
    "# KV cache\n\nvLLM reserves memory for the KV cache before it serves requests.",
    "If you see `torch.OutOfMemoryError: CUDA out of memory`, lower max_num_seqs.\n"
    "When a pod of vLLM shows OOMKilled, raise its memory limit.",
    "Wenn `CUDA error: out of memory` erscheint, braucht vLLM mehr Speicher.",
    "如果 vLLM 出现 CUDA error: out of memory, 请减小 max_model_len。",
    "A 70B model needs 140 GB in 16 bits, so our 24 GB card has 8 GB remaining.",
    # Output of other programs, and their errors.
    "npm ERR! code ELIFECYCLE\nError: Cannot find module 'express'",
    'Traceback (most recent call last):\n  File "manage.py", line 3\nKeyError: 1',
    "2026-06-18 07:21:09 UTC [1] LOG:  database system is ready",
    "File sglang/srt/managers/scheduler.py\ntorch.OutOfMemoryError: CUDA out of memory",
    "llama_model_load: loaded\nggml_cuda: CUDA error: out of memory",
    # A text of another kind that quotes an error.
    '{"apiVersion": "v1",\n "kind": "Pod",\n "status": {"reason": "OOMKilled"}}',
)
LOGS = (
    ('  File "/x/vllm/config.py", line 3, in f\nKeyError: "rope"', "KeyError"),
    ("I ran vLLM and got torch.OutOfMemoryError: CUDA out of memory.", "CUDA out of"),
    ("When I start it: CUDA out of memory. Tried to allocate 2.00 GiB.", "Tried to"),
    (
        "# Bug\n\n### It says\n(EngineCore pid=1) ERROR 11-20 20:04:03 [core.py:7] "
        "ValueError: x",
        "ValueError",
    ),
    ("pod/vllm-0  0/1  OOMKilled  3 (41s ago)", "OOMKilled"),
)


def read(text: str) -> Reading | None:
    """Return what is read of a text; None where it is refused."""
    try:
        return planner.read(text)
    except PlannerError:
        return None


@each_row("text", NO_LOGS)
def test_a_text_without_a_line_of_vllm_is_no_log(text: str) -> None:
    """Nor does it have figures, or an outcome."""
    found = read(text)
    assert found is None or (found.kind not in ("log", "error") and found.log is None)


@each_row("row", LOGS)
def test_a_line_that_somebody_got_is_one(row: tuple[str, str]) -> None:
    """In a traceback, behind words, or below a heading of Markdown."""
    found = read(row[0])
    assert found is not None
    assert found.log is not None
    assert row[1] in (found.log.error or "")


def test_a_refusal_says_what_was_recognised() -> None:
    """And what to give: nothing is dropped without a word."""
    with pytest.raises(PlannerError, match=r"It names LiteLLM.*`vllm serve"):
        planner.read("LiteLLM routes to our server, and the fans are silent.")
