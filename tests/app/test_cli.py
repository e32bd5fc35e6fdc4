"""The command line: what it prints, and its exit status."""

import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from importlib import import_module

import pytest

import planner
from planner.app import cli
from planner.engine.arguments import ARGUMENTS, Group
from planner.engine.devices import attached
from planner.engine.releases import NEWEST
from planner.units import MIB
from tests.fake_nvml import Board, FakeDriver

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


def test_graphs_that_do_not_fit_beside_the_budget_end_with_one(capsys):
    """A published start failed at 0.92 and started at 0.85, after a compilation."""
    start = ["plan", "Qwen/Qwen3-4B", "--gpu", "RTX4090", "--max-model-len", "8192"]
    start += ["--enable-lora", "--vllm-version", "0.27.1"]
    assert cli.DOES_NOT_FIT == cli.main(start)
    assert "graph capture" in capsys.readouterr().out
    start += ["--gpu-memory-utilization", "0.85"]
    assert cli.FITS == cli.main(start)
    both = capsys.readouterr().out
    assert "First start:" in both
    assert "Later starts:" in both
    assert cli.FITS == cli.main([*start, "--compile-cache", "cold", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert [one["value"] for one in found["alternatives"] if one["is_planned"]] == [
        "cold"
    ]


def test_what_vllm_refuses_ends_with_one(capsys):
    """32 heads on three GPUs."""
    arguments = ["plan", MODEL, "--tensor-parallel-size", "3"]
    assert cli.DOES_NOT_FIT == cli.main(arguments)
    assert "must be divisible by tensor parallel size (3)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", MODEL, "--gpu", "H101"], "H100"),
        (["plan", MODEL, "--max-modle-len", "1000"], "Did you mean --max-model-len?"),
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
    name = "NanbeigeForCausalLM"
    config = {"architectures": [name], "model_type": "llama"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert cli.BAD_INPUT == cli.main(["plan", str(tmp_path)])
    assert name in capsys.readouterr().err


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


def test_whole_numbers_keep_their_last_digit(capsys):
    """2**53 + 1 is no float; a suffix counts the same way."""
    for given, taken in (
        ("9007199254740993", 2**53 + 1),
        ("3000.5g", 3_000_500_000_000),
        ("3T", 3 << 40),
    ):
        assert cli.BAD_INPUT == cli.main(["plan", MODEL, "--max-model-len", given])
        assert f"max_model_len={taken}:" in capsys.readouterr().err
    assert cli.BAD_INPUT == cli.main(["plan", MODEL, "--max-model-len", "9" * 5000])
    assert "is needed" in capsys.readouterr().err


def test_catalogues_are_listed_and_searched(capsys):
    """One line each, or JSON."""
    assert cli.FITS == cli.main(["models", "qwen3-8b"])
    assert "Qwen/Qwen3-8B" in capsys.readouterr().out
    assert cli.FITS == cli.main(["gpus", "h100", "--json"])
    assert "H100" in [row["name"] for row in json.loads(capsys.readouterr().out)]
    assert cli.DOES_NOT_FIT == cli.main(["gpus", "no such card", "--json"])
    assert cli.BAD_INPUT == cli.main(["gpus", "5080 TI"])
    assert "Nearest: RTX" in capsys.readouterr().err


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


def test_the_attached_gpus_are_values_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the processes that hold memory, and the GPU to plan with."""
    board = Board(used_mib=20_000, compute=((7, 20_000 * MIB),))
    driver = FakeDriver(boards=[board], names={7: "python"}).module()
    found = attached.survey(nvml=driver, environment={})
    monkeypatch.setattr(attached, "survey", lambda: found)

    assert cli.FITS == cli.main(["gpus", "--attached", "--json"])
    printed = json.loads(capsys.readouterr().out)
    (one,) = printed["gpus"]
    assert {"pid": 7, "name": "python", "used_memory_bytes": 20_000 * MIB} == (
        one["processes"][0]
    )
    assert "H100" == one["gpu"]["name"]
    assert one["free_memory_bytes"] == one["gpu"]["free_memory_bytes"]
    assert ("580.95.05", "") == (printed["driver_version"], printed["reason"])


def test_no_attached_gpu_is_values_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the status of the text."""
    monkeypatch.setattr(
        attached, "survey", lambda: attached.Survey(gpus=(), reason="No.")
    )

    assert cli.DOES_NOT_FIT == cli.main(["gpus", "--attached", "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert ([], "No.") == (printed["gpus"], printed["reason"])


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
    best = planner.advise(planner.plan(model, gpu="L4")).offered[0]
    cli.main(["plan", model, "--gpu", "H100"])

    assert cli.DOES_NOT_FIT == status
    flags = f" ({best.flags})" if best.flags else ""
    assert f"Try: {best.title}{flags}: " in told
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
        ("--kv-cache-dtype", "{auto,bfloat16,float16,...}"),
        ("--lora-dtype", "{auto,bfloat16,float16}"),
        ("--attention-backend", "TEXT"),
        ("--hf-overrides", "JSON"),
        ("--seed", "[N]"),
        ("--tokenizer", "[TEXT]"),
        ("--requests", "N"),
        ("--gpu", "GPU"),
    ],
)
def test_the_help_says_in_what_a_value_is_given(flag, metavar, capsys) -> None:
    """Only one of the numbers with decimals is a share."""
    line = rf"^ +{re.escape(f'{flag} {metavar}')}(\s|$)"
    assert re.search(line, _help(capsys, "plan"), re.MULTILINE)


def _help(capsys, *words: str) -> str:
    with pytest.raises(SystemExit, match="0"):
        cli.main([*words, "--help"])
    return capsys.readouterr().out


def test_every_engine_argument_has_a_line_of_help(capsys) -> None:
    """Its text, and whether it changes GPU memory, under its class of vLLM."""
    shown = _help(capsys, "plan")
    words = " ".join(shown.split())
    for argument in ARGUMENTS.values():
        if argument.has_flag and not argument.gone:
            assert f"{argument.flag} " in words or f"{argument.flag}, " in words
            assert " ".join(argument.text.split()) in words, argument.name
    for group in Group:
        assert f"{group} ({group.classes}):" in words
    assert "so that sampling can be repeated. GPU memory: no effect." in words


@pytest.mark.parametrize("command", [*cli.COMMANDS])
def test_the_help_of_a_command_has_examples_that_are_understood(command, capsys):
    """Each is a line of its own, and its words are flags of the command."""
    shown = _help(capsys, command)
    lines = shown.partition("\nExamples:\n")[2].splitlines()
    module = import_module(f"planner.app.cli.{command.replace('-', '_')}")

    assert [f"  {one}" for one in module.EXAMPLES] == lines
    assert f"usage: planner {command}" in shown
    for example in module.EXAMPLES:
        _is_understood(example)


def test_the_examples_of_the_first_help_are_understood(capsys) -> None:
    """Of `planner --help`, which names every command with a line."""
    shown = _help(capsys)
    examples = re.findall(r"^  (planner .*)$", shown, re.MULTILINE)

    assert len(examples) >= 3
    for example in examples:
        _is_understood(example)
    for name, text in cli.COMMANDS.items():
        assert f" {name} {text} " in " ".join(shown.split())


def _is_understood(example: str) -> None:
    line = re.sub(r"^.*\| | >>? .*$|-- vllm serve", "", example)
    _, *words = shlex.split(line)
    known, unknown = cli.build_parser(words[0]).parse_known_args(words)
    assert callable(known.run)
    assert [] == [word for word in unknown if word.startswith("-")]


def test_the_version_is_the_planners_and_the_newest_release(capsys) -> None:
    """As pip and vLLM write them, and how old that release is."""
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])
    first, second = capsys.readouterr().out.splitlines()
    assert f"planner {planner.__version__}, models vLLM to {NEWEST}" == first
    assert second.startswith(f"The newest release known is vLLM {NEWEST} of 20")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["plna"], "There is no command 'plna'. Did you mean plan?"),
        (["plan", MODEL, "--jsn"], "There is no flag --jsn. Did you mean --json?"),
        (["solve", "context", MODEL, "--request", "3"], "Did you mean --requests?"),
        (["plan", MODEL, "--zzz"], "'zzz' is not an engine argument of vLLM."),
        (["plan", MODEL, "--prompt-tokens", "x"], "invalid int value: 'x'."),
        (["plan", MODEL, "--requests", "3"], "A load needs --prompt-tokens"),
        (["plan", MODEL, "--tp", "2"], "vLLM has -tp, --tensor-parallel-size."),
        (["export", MODEL, "--format", "htm"], "Did you mean html?"),
        (["export", MODEL], "are required: --format, one of command, python, "),
        (["plan", MODEL, "--max-num-seqs"], "expected one argument."),
        (["sweep", MODEL], "The following arguments are required: --over."),
        (
            ["sweep", MODEL, "--over", f"max_num_seqs={'9' * 400}"],
            "a whole number from 1 is needed",
        ),
        ([], "The following arguments are required: COMMAND."),
    ],
)
def test_an_error_is_one_line_with_the_nearest_word(words, sentence, capsys) -> None:
    """Without the usage, which hundreds of flags would fill."""
    try:
        status = cli.main(words)
    except SystemExit as end:
        status = end.code
    told = capsys.readouterr().err

    assert cli.BAD_INPUT == status
    assert told.startswith("planner: ")
    assert 1 == len(told.splitlines())
    assert sentence in told


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            ["compare", MODEL, "--gpus", "L4,L40S", "--price", "L4=0.8,L40S=1.9"],
            ["compare", MODEL, "--gpus", "L4", "L40S", "--price", "L4=0.8", "L40S=1.9"],
        ),
        (
            ["sweep", MODEL, "--over", "gpu=L4,L40S", "--over", "max_num_seqs=8,16"],
            ["sweep", MODEL, "--over", "gpu=L4", "L40S", "max_num_seqs=8", "16"],
        ),
        (
            ["plan", MODEL, "--cudagraph-capture-sizes", "1,2,4"],
            ["plan", MODEL, "--cudagraph-capture-sizes", "1", "2", "4"],
        ),
        (
            ["ray", MODEL, "--gpu", "L40S", "--concurrency", "1,2"],
            ["ray", MODEL, "--gpu", "L40S", "--concurrency", "1", "2"],
        ),
        (
            ["solve", "gpus", MODEL, "--gpus", "L4,L40S", "--prompt-tokens", "100"],
            ["solve", "gpus", MODEL, "--gpus", "L4", "L40S", "--prompt-tokens", "100"],
        ),
    ],
)
def test_a_list_has_commas_or_spaces(one, other, capsys) -> None:
    """And gives the same answer, with the same status."""
    status = cli.main(one)
    shown = capsys.readouterr().out

    assert status == cli.main(other)
    assert capsys.readouterr().out == shown != ""


def test_a_load_is_served_or_the_status_says_that_it_is_not(capsys) -> None:
    """One of 20 requests of 32,000 tokens, on one GPU and on four."""
    words = ["plan", "Qwen/Qwen3-32B", "--gpu", "H100", "--prompt-tokens", "30000"]
    words += ["--output-tokens", "2000", "--requests", "20"]
    short = cli.main(words)
    first = capsys.readouterr().out
    whole = cli.main([*words, "--tensor-parallel-size", "4", "--json"])
    figures = json.loads(capsys.readouterr().out)

    assert (cli.DOES_NOT_FIT, cli.FITS) == (short, whole)
    assert "! Starts, but serves 1 of 20 at once: " in first.splitlines()[1]
    assert "Try: " in first
    load = {"prompt_tokens": 30000, "output_tokens": 2000, "requests": 20}
    assert load.items() <= figures["load"].items()
    assert 32000 == figures["resolved"]["max_model_len"]


@pytest.mark.parametrize(
    "words",
    [
        ["plan", MODEL, "--gpu", "H100"],
        ["solve", "context", MODEL, "--gpu", "L40S"],
        ["advise", MODEL, "--gpu", "L4"],
        ["sweep", MODEL, "--over", "gpu=L4,H100"],
        ["compare", MODEL, "--gpus", "L4,H100"],
        ["speed", MODEL, "--prompt-tokens", "1000"],
        ["ray", MODEL, "--gpu", "L4"],
    ],
)
def test_a_verdict_has_a_colour_where_it_is_asked_for(words, capsys) -> None:
    """The text without its escape sequences is what a pipe gets."""
    cli.main([*words, "--color", "always"])
    colored = capsys.readouterr().out
    cli.main(words)
    plain = capsys.readouterr().out

    assert "\x1b[" in colored or not re.search("^ *[✔✘!] ", plain, re.MULTILINE)
    assert plain == re.sub(r"\x1b\[[0-9;]*m", "", colored)


def test_a_terminal_is_shown_a_bar_within_its_width(monkeypatch) -> None:
    """A pseudo-terminal of 90 columns, as a shell gives one."""
    pty = pytest.importorskip("pty")
    monkeypatch.setenv("COLUMNS", "90")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    here, there = pty.openpty()
    ran = subprocess.Popen(
        [sys.executable, "-m", "planner", "plan", MODEL, "--gpu", "H100"], stdout=there
    )
    os.close(there)
    told = b""
    with suppress(OSError):  # the other end is closed
        while part := os.read(here, 65536):
            told += part
    shown = re.sub(r"\x1b\[[0-9;]*m", "", told.decode()).splitlines()

    assert 0 == ran.wait()
    assert b"\x1b[1;32m\xe2\x9c\x94 Fits:" in told
    assert 90 == max(map(len, shown))
    assert 1 == sum(line.startswith("███") for line in shown)


def test_a_command_imports_no_other(tmp_path) -> None:
    """`planner plan` and `planner --help` wait for what they need alone."""
    code = (
        "import contextlib, io, sys\n"
        "from planner.app.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), "
        "contextlib.suppress(SystemExit):\n"
        "    main({words})\n"
        "print(*sorted(m for m in sys.modules if m.startswith('planner')))"
    )
    loaded = {}
    for words in (["plan", MODEL], ["--help"]):
        ran = subprocess.run(
            [sys.executable, "-c", code.format(words=words)],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PLANNER_DATA_DIR": str(tmp_path)},
        )
        loaded[words[0]] = set(ran.stdout.split())

    assert "planner.app.cli.plan" in loaded["plan"]
    commands = {f"planner.app.cli.{one.replace('-', '_')}" for one in cli.COMMANDS}
    assert {"planner.app.cli.plan"} == loaded["plan"] & commands
    rooms = {".".join(name.split(".")[:2]) for name in loaded["plan"]}
    assert set() == rooms & {"planner.solve", "planner.export", "planner.confirming"}
    assert set() == loaded["--help"] & {*commands, "planner.engine.arguments"}
