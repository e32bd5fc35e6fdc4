"""Dockerfiles and quadlets: what the container starts."""

from __future__ import annotations

import pytest

import planner
from planner.reading.recognising import all_in
from tests.rows import each_row

_VLLM = "FROM vllm/vllm-openai:v0.10.0\n"
ROWS: dict[str, tuple[str, str | None, int | None]] = {
    _VLLM + 'CMD ["--model", "org/m", \\\n  "--max-model-len", "7"]': (
        "org/m",
        "0.10.0",
        7,
    ),
    "ARG V=v0.9.1\nFROM vllm/vllm-openai:${V}\nARG M=org/m\n"
    "ENV LEN 7\nCMD cd / && exec vllm serve $M --max-model-len $LEN": (
        "org/m",
        "0.9.1",
        7,
    ),
    _VLLM + "ENV M=org/m\n"
    'ENTRYPOINT ["sh", "-c", "vllm serve $M \\"$@\\"", "--"]\n'
    'CMD ["--max-model-len", "7"]': ("org/m", "0.10.0", 7),
    'FROM python:3 AS build\nENTRYPOINT ["python"]\n' + _VLLM + 'CMD ["org/m"]': (
        "org/m",
        "0.10.0",
        None,
    ),
    "[Container]\nImage=docker.io/vllm/vllm-openai:v0.10.0\n"
    "Environment=LEN=7\nExec=--model org/m \\\n  --max-model-len 7\n": (
        "org/m",
        "0.10.0",
        7,
    ),
}


@each_row("text", ROWS)
def test_a_container_starts_this(text: str) -> None:
    """By the last stage, in each form of its instructions."""
    (found,) = all_in(text)
    length = found.engine_args.get("max_model_len")

    assert (found.model, found.vllm_version, length) == ROWS[text]


@pytest.mark.parametrize(
    "end",
    [
        'ENTRYPOINT ["python3", "-u", "/srv/handler.py"]',
        'ENTRYPOINT ["/entry.sh"]\nCMD ["--model", "org/m"]',
        'CMD ["/usr/bin/serve"]',
        'CMD ["bash"]',
        "RUN vllm --version",
    ],
)
def test_a_program_of_its_own_is_no_model(end: str) -> None:
    """A script may start vLLM, and the file does not tell how."""
    try:
        found = planner.read(_VLLM + end)
    except planner.PlannerError:
        return
    assert found.start is None
    assert found.model is None
