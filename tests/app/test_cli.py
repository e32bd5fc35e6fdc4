"""The command line: what it prints, and its exit status."""

import json
import re
import subprocess
import sys

import pytest

import planner
from planner.app import cli

MODEL = "meta-llama/Llama-3.1-8B-Instruct"


def test_a_plan_that_fits_ends_with_zero(capsys):
    """Verdict, lines and command on standard output."""
    assert cli.FITS == cli.main(["plan", MODEL, "--gpu", "H100"])
    out = capsys.readouterr().out
    assert "Fits" in out
    assert f"vllm serve {MODEL}" in out


def test_a_plan_that_does_not_fit_ends_with_one(capsys):
    """10 GiB for 15 GiB of weights."""
    assert cli.DOES_NOT_FIT == cli.main(["plan", MODEL, "--gpu", "RTX3080"])
    assert "Does not fit" in capsys.readouterr().out


def test_what_vllm_refuses_ends_with_one(capsys):
    """32 heads on three GPUs."""
    arguments = ["plan", MODEL, "--tensor-parallel-size", "3"]
    assert cli.DOES_NOT_FIT == cli.main(arguments)
    assert "must be divisible by tensor parallel size (3)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", MODEL, "--gpu", "H101"], "H100"),
        (["plan", MODEL, "--max-modle-len", "1000"], "max_model_len"),
        (["plan", MODEL, "--vllm-version", "0.1"], "vllm_version"),
        (["plan", "./no/such/folder"], "no/such/folder"),
        (["plan", MODEL, "stray"], "stray"),
    ],
)
def test_bad_input_ends_with_two(arguments, message, capsys):
    """The sentence stands on standard error and names what was given."""
    assert cli.BAD_INPUT == cli.main(arguments)
    assert message in capsys.readouterr().err


def test_an_unknown_architecture_is_named(tmp_path, capsys):
    """What no reader understands is bad input, and not a traceback."""
    config = {"architectures": ["VaultGemmaForCausalLM"], "model_type": "llama"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert cli.BAD_INPUT == cli.main(["plan", str(tmp_path)])
    assert "VaultGemmaForCausalLM" in capsys.readouterr().err


def test_flags_are_those_of_vllm_serve(capsys):
    """Sizes with suffixes, switches, lists."""
    arguments = [
        "plan",
        MODEL,
        "--max-model-len=32k",
        "--max-num-batched-tokens",
        "4K",
        "--enforce-eager",
        "--kv-cache-dtype",
        "fp8",
        "--served-model-name",
        "mine",
        "--json",
    ]
    assert cli.FITS == cli.main(arguments)
    resolved = json.loads(capsys.readouterr().out)["resolved"]
    assert 32000 == resolved["max_model_len"]
    assert 4096 == resolved["max_num_batched_tokens"]
    assert resolved["enforce_eager"]
    assert "fp8" == resolved["kv_cache_dtype"]


def test_catalogues_are_listed_and_searched(capsys):
    """One line each, or JSON."""
    assert cli.FITS == cli.main(["models", "qwen3-8b"])
    assert "Qwen/Qwen3-8B" in capsys.readouterr().out
    assert cli.FITS == cli.main(["gpus", "h100", "--json"])
    assert "H100" in [row["name"] for row in json.loads(capsys.readouterr().out)]
    assert cli.DOES_NOT_FIT == cli.main(["gpus", "no such card"])


def test_the_module_is_the_command():
    """python -m planner."""
    ran = subprocess.run(
        [sys.executable, "-m", "planner", "gpus", "H200"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == ran.returncode
    assert "H200" in ran.stdout


def test_the_attached_gpus_are_listed_or_said_to_be_missing(capsys):
    """One line each with its free memory; without a driver the reason."""
    status = cli.main(["gpus", "--attached"])
    out = capsys.readouterr().out
    assert out.strip()
    assert (cli.FITS if " free" in out else cli.DOES_NOT_FIT) == status


def test_arguments_that_hold_names_and_values_are_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As `vllm serve` takes them: limits by modality, settings of the processor."""
    words = ["plan", "Qwen/Qwen2.5-VL-7B-Instruct", "--gpu", "H100", "--json"]
    status = cli.main([*words, "--limit-mm-per-prompt", '{"image": 1, "video": 0}'])
    assert cli.FITS == status
    assert '--limit-mm-per-prompt \'{\\"image\\": 1' in capsys.readouterr().out
    assert cli.FITS == cli.main(
        [*words, "--mm-processor-kwargs", '{"max_pixels": 1003520}']
    )


def test_a_list_of_layers_holds_names(capsys: pytest.CaptureFixture[str]) -> None:
    """Indices, or sliding_window."""
    words = ["plan", "openai/gpt-oss-20b", "--gpu", "H100", "--kv-cache-dtype", "fp8"]
    assert cli.FITS == cli.main(
        [*words, "--kv-cache-dtype-skip-layers", "sliding_window"]
    )
    assert "sliding_window" in capsys.readouterr().out


def test_a_plan_that_does_not_fit_says_what_to_try(capsys) -> None:
    """The first changes of `planner advise`, with their flags; none where it fits."""
    model = "meta-llama/Llama-3.1-8B-Instruct"
    status = cli.main(["plan", model, "--gpu", "L4"])
    told = capsys.readouterr().out
    best = planner.advise(planner.plan(model, gpu="L4")).items[0]
    cli.main(["plan", model, "--gpu", "H100"])

    assert cli.DOES_NOT_FIT == status
    assert f"Try: {best.title} ({best.flags})" in told
    assert "Try:" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flag", "metavar"),
    [
        ("--cpu-offload-gb", "GIB"),
        ("--gpu-memory-utilization", "SHARE"),
        ("--kv-cache-dtype-skip-layers", "LAYER [LAYER ...]"),
        ("--kv-cache-memory-bytes", "BYTES"),
        ("--kv-offloading-size", "GIB"),
        ("--lora-target-modules", "NAME [NAME ...]"),
        ("--max-model-len", "N|auto"),
        ("--mm-shm-cache-max-object-size-mb", "MIB"),
        ("--node-memory-gib", "GIB"),
        ("--pcie-gb-per-second", "GB_PER_SECOND"),
        ("--cudagraph-capture-sizes", "N [N ...]"),
    ],
)
def test_the_help_says_in_what_a_value_is_given(flag, metavar, capsys) -> None:
    """Only one of the numbers with decimals is a share."""
    with pytest.raises(SystemExit):
        cli.main(["plan", "--help"])
    line = rf"^ +{re.escape(f'{flag} {metavar}')}\s"
    assert re.search(line, capsys.readouterr().out, re.MULTILINE)
