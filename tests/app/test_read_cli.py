"""`planner read`, and texts in place of arguments."""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path

import pytest

from planner.app.cli import FITS, main
from planner.app.cli.shared import DOES_NOT_FIT

TEXTS = Path(__file__).parents[1] / "data/texts"
DOCKER = TEXTS / "docker-tagged.sh"
ONE_LINE = DOCKER.read_text(encoding="utf-8").replace("\\\n", " ")
TOO_LONG = (
    "ValueError: To serve at least one request with the models's max seq len (40960), "
    "(5.62 GiB KV cache is needed, which is larger than the available KV cache memory "
    "(2.77 GiB). Based on the available memory, the estimated maximum model length is "
    "20176."
)
WORDS = shlex.split(ONE_LINE, comments=True)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command and return what it prints."""
    main(words)
    return capsys.readouterr().out


def test_a_file_is_read_planned_and_explained(capsys) -> None:
    """The text's own release, and the GPU that is given."""
    text = printed(capsys, "read", str(DOCKER), "--gpu", "L40S")

    assert "Qwen/Qwen3-14B on 2 x L40S, vLLM 0.19.1" in text
    assert "container" in text


def test_what_is_open_is_said_where_it_cannot_be_planned(capsys) -> None:
    """The exit status is that of a text that was read."""
    assert main(["read", str(DOCKER)]) == 0
    assert "Not planned: The text does not say on which GPU" in capsys.readouterr().out


def test_standard_input_as_json(capsys, monkeypatch) -> None:
    """The reading in the form of the contract, and its plan."""
    monkeypatch.setattr("sys.stdin", io.StringIO("vllm serve Qwen/Qwen3-8B -tp 2"))
    found = json.loads(printed(capsys, "read", "-", "--gpu", "L4", "--json"))

    assert found["inputs"]["engine_args"] == {"tensor_parallel_size": 2}
    assert found["plan"]["gpus_total"] == 2


@pytest.mark.parametrize(
    ("words", "model"),
    [
        ("vllm serve Qwen/Qwen3-8B --max-model-len 8192", "Qwen/Qwen3-8B"),
        ("VLLM_USE_V1=1 vllm serve a/b", "a/b"),
        ("how many users does Qwen3-8B on an H100 serve?", "Qwen/Qwen3-8B"),
        ("-- vllm serve Qwen/Qwen3-8B -tp 2 --port 80", "Qwen/Qwen3-8B"),
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
    ],
)
def test_words_without_quotes_are_one_text(capsys, words, model) -> None:
    """As a shell splits them: no program is taken for a model."""
    found = json.loads(printed(capsys, "read", "--json", *words.split()))
    assert model == found["inputs"]["model"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "What should be read?"),
        ("crash.log Qwen/Qwen3-8B", "There is no file 'crash.log'."),
        ("docker run --gpus 2 vllm/vllm-openai", "Put a command into quotes"),
        ("Qwen3-8B on an MI300X", "Open: 'MI300X' is an AMD GPU"),
    ],
)
def test_what_cannot_be_read_says_what_to_do(capsys, words, told) -> None:
    """Of the shell's words, too."""
    main(["read", *words.split()])
    said = capsys.readouterr()
    assert told in said.out + said.err


ERROR = "ValueError: No available memory for the cache blocks."


@pytest.mark.parametrize(
    "beside",
    [
        ("Qwen/Qwen3-32B", "--max-model-len", "8k"),
        ("--max-model-len", "8k", "Qwen/Qwen3-32B"),
        ("--", "vllm", "serve", "Qwen/Qwen3-32B", "--max-model-len", "8k"),
        ("--", "vllm serve Qwen/Qwen3-32B --max-model-len 8k"),
    ],
)
def test_what_an_error_leaves_out_is_said_beside_it(
    beside: tuple[str, ...], capsys, monkeypatch
) -> None:
    """The model and its arguments, or the command that ran: vLLM's weights fill it."""
    monkeypatch.setattr("sys.stdin", io.StringIO(ERROR))
    text = printed(capsys, "read", "-", "--gpu", "A100-40GB", *beside)

    assert "Qwen/Qwen3-32B on A100-40GB" in text
    assert "--max-model-len 8000" in text
    assert "Does not fit" in text


def test_a_file_can_be_standard_input(capsys, monkeypatch) -> None:
    """As other programs have it."""
    monkeypatch.setattr("sys.stdin", io.StringIO("vllm serve Qwen/Qwen3-8B -tp 2"))

    assert "Qwen/Qwen3-8B on 2 x L4" in printed(
        capsys, "plan", "-f", "-", "--gpu", "L4"
    )


def test_a_command_after_two_dashes_takes_the_place_of_arguments(capsys) -> None:
    """What stands before them counts instead."""
    line = printed(
        capsys,
        *("export", "--format", "command", "--max-model-len", "4096", "--"),
        *("vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "8k", "--port", "8001"),
    )

    assert line == "vllm serve Qwen/Qwen3-8B --max-model-len 4096 --port 8001\n"


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "-f", str(DOCKER)),
        ("plan", str(DOCKER)),
        ("plan", "--", str(DOCKER)),
        ("advise", str(DOCKER)),
        ("advise", "-f", str(DOCKER)),
        ("plan", "--", *WORDS),
    ],
)
def test_a_file_of_any_form_takes_the_place_of_arguments(words, capsys) -> None:
    """With -f, in the model's place, after two dashes, or as words."""
    first = printed(capsys, words[0], "--gpu", "L40S", *words[1:]).splitlines()[0]

    assert first == "Qwen/Qwen3-14B on 2 x L40S, vLLM 0.19.1"


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("-tp 2", "--tensor-parallel-size 2"),
        ("--max_model_len 8k", "--max-model-len 8000"),
        ("-O3", "--optimization-level 3"),
        ("--no_enable_prefix_caching", "--no-enable-prefix-caching"),
        (
            "--speculative-config.method ngram "
            "--speculative-config.num_speculative_tokens=2",
            '--speculative-config \'{"method": "ngram", "num_speculative_tokens": 2}\'',
        ),
        ("--tool-call-parser hermes", "--tool-call-parser hermes"),
        ("--api-key a b", "--api-key a b"),
    ],
)
def test_arguments_are_spelled_as_vllm_takes_them(given, written, capsys) -> None:
    """Short, dotted, with underscores; the server's as well."""
    words = ("export", "Qwen/Qwen3-8B", *given.split(), "--format", "command")

    assert printed(capsys, *words) == f"vllm serve Qwen/Qwen3-8B {written}\n"


def test_variables_are_given_by_name_and_value(capsys) -> None:
    """As `docker run --env` takes them."""
    words = ("plan", "Qwen/Qwen3-8B", "--gpu", "L4", "--json")
    without = json.loads(printed(capsys, *words))
    with_it = json.loads(printed(capsys, *words, "--env", "VLLM_USE_V2_MODEL_RUNNER=0"))

    assert without["available_kv_cache_bytes"] != with_it["available_kv_cache_bytes"]


def test_a_text_that_cannot_take_their_place_is_bad_input(capsys) -> None:
    """It names no model, or a flag that no release knows."""
    assert main(["plan", "--", "vllm", "serve"]) == 2
    assert "does not name the model" in capsys.readouterr().err
    assert main(["plan", "--", "vllm", "serve", "a/b", "--max-modle-len", "5"]) == 2
    assert "--max-model-len" in capsys.readouterr().err


def test_an_exported_command_keeps_variables_and_the_servers_flags(capsys) -> None:
    """What was read comes back whole, whichever form it had."""
    line = printed(capsys, "export", "--format", "command", "-f", str(DOCKER))

    assert line == (
        "VLLM_SLEEP_WHEN_IDLE=1 vllm serve Qwen/Qwen3-14B "
        "--gpu-memory-utilization 0.85 --tensor-parallel-size 2\n"
    )


def test_a_question(capsys) -> None:
    """The answer first; then what its words were taken for, and the plan."""
    status = main(["read", "Does Qwen3 8B fit on an L4, 4 users at 8k?"])

    told = capsys.readouterr().out
    assert DOES_NOT_FIT == status
    assert told.startswith("No: 4 requests of 8,192 tokens at once need 4.50 GiB")
    assert "Read as: question Qwen/Qwen3-8B on 1 x L4" in told
    assert '"Qwen3 8B" is taken for Qwen/Qwen3-8B.' in told
    assert "vllm serve Qwen/Qwen3-8B --max-model-len 8192 --max-num-seqs 4" in told


def test_the_status_is_that_of_a_plan(capsys) -> None:
    """It fits, it does not, or it is no input; what is open is none of these."""
    statuses = {
        text: main(["read", text, "--json"])
        for text in (
            "Does Qwen3-8B fit on an H100?",
            "Does Qwen3-32B fit on an L4?",
            "Does Qwen3-8B fit on an MI300X?",
            "Does Qwen3-8B fit?",
            "Thanks, that was it.",
        )
    }

    assert [FITS, DOES_NOT_FIT, 2, FITS, 2] == list(statuses.values())
    assert '"error": "No start of vLLM' in capsys.readouterr().out


def test_an_error_without_a_model_is_explained(capsys) -> None:
    """vLLM's own figures tell the longest request: 20,176 tokens."""
    status = main(["read", TOO_LONG])

    told = capsys.readouterr().out
    assert status == FITS
    assert "vLLM did not start: max_model_len" in told
    assert "Short: 2.85 GiB." in told
    assert "Name it: model='org/name'." in told
    assert "--max-model-len 19712" in told
