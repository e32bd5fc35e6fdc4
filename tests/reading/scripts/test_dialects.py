"""make, just, cmd and PowerShell: what their names stand for, and where it is set."""

from __future__ import annotations

import pytest

import planner
from tests.rows import each_row

_MAKE = """\
MODEL ?= org/m
FLAGS = --max-model-len $(LEN) \\
        --seed 3
LEN = 77
FLAGS += --max-num-seqs 4
.PHONY: serve
serve: TP = 2
serve:
\t@vllm serve $(MODEL) $(FLAGS) -tp $(TP) --max-lora-rank $(RANK)
"""
_JUST = """\
org := "org"
model := org + "/m"
seqs := env("SEQS", "4")

serve len="77" *more:
    vllm serve {{model}} --max-model-len {{len}} --max-num-seqs {{seqs}} \\
      --seed 3 -tp 2 --max-lora-rank {{rank}} {{more}}
"""
_CMD = """\
@echo off
REM vllm serve org/no
set MODEL=org/m
if not "%1"=="" set MODEL=%1
set "FLAGS=--max-num-seqs 4 --seed 3"
set LEN=77
wsl vllm serve !MODEL! ^
  --max-model-len %LEN% %FLAGS% -tp 2 --max-lora-rank %RANK%
"""
_POWERSHELL = """\
param([string]$Model = "org/m", [int]$Len = 77)
$env:VLLM_USE_V1 = "1"
$tp = 2
$flags = @(
  "--max-num-seqs", 4,
  "--tensor-parallel-size", $tp
)
$flags += @("--seed", "3")
& vllm serve $Model `
  --max-model-len $Len @flags --max-lora-rank $Rank
"""
TEXTS = {"make": _MAKE, "just": _JUST, "cmd": _CMD, "PowerShell": _POWERSHELL}


@each_row("name", TEXTS)
def test_names_of_the_text_are_filled_in(name: str) -> None:
    """All but the one that it does not set."""
    found = planner.read(TEXTS[name])

    assert found.num_starts == 1
    assert found.model == "org/m"
    assert {**found.engine_args, **found.kept} == {
        "max_model_len": 77,
        "max_num_seqs": 4,
        "seed": 3,
        "tensor_parallel_size": 2,
    }
    assert any(one.startswith("--max-lora-rank is ") for one in found.open)


@each_row("name", TEXTS)
def test_a_value_is_changed_where_its_name_is_set(name: str) -> None:
    """Not where the name is used."""
    text = TEXTS[name]

    assert planner.read(text).text(max_model_len=12345) == text.replace("77", "12345")


ON_WINDOWS = (
    "vllm serve D:\\llm\\Qwen3-8B ^\n  --max-model-len 77\n",
    "PS C:\\me> vllm serve D:\\llm\\Qwen3-8B `\n  --max-model-len 77 `\n  --seed 3\n",
    "```bat\nset M=D:\\llm\\Qwen3-8B\nvllm serve %M% --max-model-len 77\n```\n",
)


@pytest.mark.parametrize("text", ON_WINDOWS)
def test_a_path_of_windows_keeps_its_backslashes_and_a_prompt_its_lines(text) -> None:
    """Where it ends and what follows it stay as they are."""
    read = planner.read(text)
    assert read.model == "D:\\llm\\Qwen3-8B"
    assert read.engine_args["max_model_len"] == 77
    assert read.text(max_model_len=88) == text.replace("77", "88")
