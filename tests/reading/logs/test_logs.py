"""Logs, errors alone and notes of them: what is taken for one, and what it tells."""

from __future__ import annotations

import json
import re
import time
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import planner
from planner import PlannerError
from planner.engine.gpu import GPU
from planner.reading.logs.command_before import command_in
from planner.reading.logs.logs import log_lines, reading_of_log
from planner.reading.logs.signs import is_log
from planner.reading.reading import Kind, Reading
from planner.reading.recognising import all_in

TEXTS = Path(__file__).parents[2] / "data/texts"
CORPUS = Path(__file__).parents[4] / "shared/corpus"
LOGS = sorted(path.name for path in TEXTS.glob("log-*.txt"))
ERRORS = sorted(path.name for path in TEXTS.glob("error-*.txt"))
NO_LOGS = sorted(
    path.name
    for path in TEXTS.iterdir()
    if path.suffix in (".sh", ".py", ".yaml", ".yml", ".json", ".toml")
)
REQUEST = (
    "(APIServer pid=1) INFO 04-22 01:48:%02d [loggers.py:127] Engine 000: Avg prompt "
    "throughput: 111.1 tokens/s, Running: 3 reqs, GPU KV cache usage: 1.2%%\n"
)


def text_of(name: str) -> str:
    """Return a file of tests/data/texts."""
    return (TEXTS / name).read_text(encoding="utf-8")


def read(name: str) -> Reading:
    """Return what is read of it."""
    return reading_of_log(text_of(name))


@pytest.mark.parametrize("name", [*LOGS, *ERRORS])
def test_what_a_program_wrote_is_a_log(name: str) -> None:
    """Whole logs with every collector's prefix, and errors alone."""
    assert is_log(text_of(name))


@pytest.mark.parametrize("name", NO_LOGS)
def test_a_command_a_manifest_and_code_are_none(name: str) -> None:
    """Every text of another kind that the tests have."""
    assert not is_log(text_of(name))


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve org/m  # was: torch.OutOfMemoryError: CUDA out of memory",
        "# ValueError: No available memory for the cache blocks\nvllm serve org/m",
        'if docker logs v | grep -q "CUDA out of memory"; then\n  vllm serve m\nfi',
        'raise ValueError("No available memory for the cache blocks")',
        "apiVersion: v1\nkind: Pod\nstatus:\n  reason: OOMKilled\n  exitCode: 137",
        "services:\n  vllm:\n    image: x  # exited with code 137\n",
        'from vllm import LLM\nllm = LLM("m")\n"""\nKilled\n"""\n',
        "meta-llama/Llama-3.1-8B-Instruct",
        "",
    ],
)
def test_a_comment_does_not_make_a_log(text: str) -> None:
    """An error that is quoted in a comment, looked for, or raised."""
    assert not is_log(text)


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: NCCL error: unhandled cuda error",
        "vllm-1 exited with code 137",
        "./run.sh: line 3:  4711 Killed                  vllm serve org/m",
        "Killed",
        "Memory cgroup out of memory: Killed process 4711 (VLLM::EngineCor)",
        '{"log": "INFO 05-14 09:13:21 [gpu_worker.py:5] Available KV cache memory"}',
        "apiVersion: v1\nkind: Pod\n---\nINFO 05-14 09:12:09 [utils.py:233] started",
    ],
)
def test_one_line_can_be_enough(text: str) -> None:
    """Of a container, the kernel, a shell, a collector, below a manifest."""
    assert is_log(text)


def test_a_crash_of_a_container() -> None:
    """The command above the log gives what is kept, the log all else."""
    found = read("log-docker-too-long.txt")

    assert found.kind is Kind.LOG
    assert (found.model, found.vllm_version) == ("Qwen/Qwen3-8B", "0.27.1")
    assert found.kept["tool_call_parser"] == "hermes"
    assert found.gpus == 1
    assert found.gpu is None
    assert found.open == ("On which GPU: gpu='H100'.",)
    figures = found.log.figures if found.log else {}
    assert figures["needed_kv_gib"] == 5.62
    assert figures["estimated_max_len"] == 35824


def test_the_gpu_is_known_by_its_memory() -> None:
    """23.52 GiB are those of several GPUs: the text says so."""
    found = read("log-started-4090.txt")

    assert isinstance(found.gpu, GPU)
    assert found.gpu.name == "RTX4090"
    assert found.gpu.total_memory_bytes == round(23.52 * 2**30)
    assert found.gpu.free_memory_bytes == round(23.1 * 2**30)
    assert any("RTX3090" in note for note in found.notes)
    assert found.log is not None
    assert found.log.started


@pytest.mark.parametrize(
    ("total", "gpu"),
    [
        ("23.64", "RTX4090"),  # an A5000 and an RTX 3090 have as much
        ("14.75", "T4"),  # and an A2
        ("22.17", "L4"),
        ("179.06", "B200"),
        ("79.18", "H100"),
    ],
)
def test_of_gpus_with_that_memory_it_is_the_one_that_is_rented(
    total: str, gpu: str
) -> None:
    """Drivers report up to 0.2 GiB more or less of the same card."""
    found = reading_of_log(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB. "
        f"GPU 0 has a total capacity of {total} GiB of which 350.69 MiB is free."
    )

    assert isinstance(found.gpu, GPU)
    assert gpu == found.gpu.name
    assert found.gpu.total_memory_bytes == round(float(total) * 2**30)


def test_a_folder_is_taken_for_the_model_of_its_name() -> None:
    """And it is said; the log itself keeps the folder."""
    found = read("log-kubectl-capture.txt")

    assert found.model == "Qwen/Qwen3-4B"
    assert found.log is not None
    assert found.log.model == "/models/Qwen3-4B"
    assert any("/models/Qwen3-4B is a folder" in note for note in found.notes)


def test_the_command_before_a_log_can_be_changed() -> None:
    """It is a text of its own."""
    command = command_in(text_of("log-two-gpus-no-cache.txt"))

    assert command is not None
    assert command.model == "Qwen/Qwen3-32B"
    assert "--gpu-memory-utilization 0.95 --port 8080" in command.text(
        gpu_memory_utilization=0.95
    )


COMPOSE = """\
services:
  vllm:
    image: vllm/vllm-openai:v0.29.0
    command: --model Qwen/Qwen3-14B --gpu-memory-utilization 0.5
"""
KILLED = "vllm-1 exited with code 137"
README = "\n## Errors\n- **torch.OutOfMemoryError: CUDA out of memory**: lower it.\n"
NO_ROOM = "ValueError: No available memory for the cache blocks."
RECORDED = f"vllm-1  | ERROR 10-01 10:00:00 [core.py:100] {NO_ROOM}"


@pytest.mark.parametrize("error", [NO_ROOM, RECORDED])
@pytest.mark.parametrize(
    "form", ["{}\n{}\n", "```yaml\n{}```\nit says\n```\n{}\n```\n"]
)
def test_a_manifest_with_its_log_below_tells_both(form: str, error: str) -> None:
    """The manifest's arguments and release, the log's error; a change is its text."""
    text = form.format(COMPOSE, error)
    found = planner.read(text)
    fixes = found.explain("H100").fixes

    assert found.log is not None
    assert "No available memory" in str(found.log.error)
    assert {"gpu_memory_utilization": 0.5} == dict(found.engine_args)
    assert ("Qwen/Qwen3-14B", "0.29.0") == (found.model, found.vllm_version)
    assert all("services:\n" in fix.text for fix in fixes if "model" not in fix.changes)
    assert fixes


def test_a_notebook_tells_the_error_that_it_printed() -> None:
    """With the code that made it, in which a change is written."""
    code = "from vllm import LLM\nLLM('Qwen/Qwen3-14B', gpu_memory_utilization=0.5)"
    output = {
        "output_type": "error",
        "ename": "E",
        "evalue": "",
        "traceback": [NO_ROOM],
    }
    empty: dict[str, Any] = {"metadata": {}, "execution_count": 1}
    cell = empty | {"cell_type": "code", "source": [code], "outputs": [output]}
    text = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4}, indent=1)
    text = text.replace(NO_ROOM, f"ERROR 10-01 10:00:00 [core.py:100] {NO_ROOM}")
    found = planner.read(text)

    assert found.log is not None
    assert "No available memory" in str(found.log.error)
    assert (Kind.PYTHON, "Qwen/Qwen3-14B") == (found.kind, found.model)
    assert '"nbformat": 4' in found.explain("H100").fixes[0].text


def test_what_documentation_says_of_errors_is_no_log() -> None:
    """Below a manifest as well; what Compose prints is one."""
    read_me, killed = (f"```yaml\n{COMPOSE}```\n{rest}" for rest in (README, KILLED))

    assert planner.read(read_me).kind is Kind.COMPOSE
    assert planner.read(killed).kind is Kind.ERROR


def test_of_several_services_the_log_names_its_own() -> None:
    """The first where it names none."""
    second = COMPOSE.partition("\n")[2].replace("vllm:\n", "b:\n").replace("14B", "8B")
    both = COMPOSE + second
    found = [
        command_in(f"{both}\n{NO_ROOM} {name}\n") for name in ("", "Qwen/Qwen3-8B")
    ]

    assert ["Qwen/Qwen3-14B", "Qwen/Qwen3-8B"] == [one and one.model for one in found]


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_alone_is_called_one(name: str) -> None:
    """No start is in it."""
    found = read(name)

    assert found.kind is Kind.ERROR
    assert found.log is not None
    assert found.log.started is False
    assert found.log.error


def test_an_error_asks_for_the_rest() -> None:
    """Model, GPU and release are not in it."""
    found = read("error-sampler.txt")

    assert found.engine_args == {"max_num_seqs": 256}
    assert [sentence.split(":")[0] for sentence in found.open] == [
        "Which model was served",
        "On which GPU",
        "Which release of vLLM",
    ]


def test_a_suggestion_is_no_argument() -> None:
    """vLLM's error names a flag that could be set."""
    found = read("error-too-many-gpus.txt")

    assert found.engine_args == {}
    assert found.gpus == 8


def test_ranks_alone_do_not_tell_how_many_there_were() -> None:
    """Of four workers two were quoted: the number stays open."""
    found = reading_of_log(
        "(Worker_TP0 pid=1) INFO 04-22 01:48:00 [g.py:1] Model loading took 5 GiB\n"
        "(Worker_TP1 pid=2) INFO 04-22 01:48:00 [g.py:1] Model loading took 5 GiB\n"
    )

    assert found.gpus is None
    assert any("up to rank 1" in sentence for sentence in found.open)


def test_a_build_from_source_tells_no_release() -> None:
    """0.1.dev1 is what a clone without tags is called."""
    line = "INFO 04-22 01:48:00 [a.py:1] vLLM API server version 0.1.dev1+gda1daf40b"

    found = reading_of_log(line)

    assert found.vllm_version is None
    assert any("built from source" in note for note in found.notes)


def big_log() -> str:
    """A start, and requests of days after it: 5 MB."""
    requests = "".join(REQUEST % (second % 60) for second in range(36_000))
    return f"{text_of('log-started-4090.txt')}{requests}"


def test_a_log_of_megabytes_is_read_at_once() -> None:
    """In 20 MB, with all figures of its start; 0.2 s, or more on a busy machine."""
    text = big_log()
    is_log(text[:1000])
    reading_of_log(text[:1000])  # compiles the patterns, once for a process
    before = time.process_time()
    is_one, found = is_log(text), reading_of_log(text)
    seconds = time.process_time() - before
    tracemalloc.start()
    reading_of_log(text)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(text) > 4_500_000
    assert is_one
    assert found.log is not None
    assert found.log.figures["kv_tokens"] == 35_792
    assert found.model == "Qwen/Qwen3-8B"
    assert seconds < 4
    assert peak_bytes < 20 << 20


def test_a_crash_after_days_is_found() -> None:
    """The start at the head, the error at the end, megabytes between."""
    crash = text_of("log-stopped-while-serving.txt").partition("Jul 21 05:44:33")
    found = reading_of_log(big_log() + "".join(crash[1:]))

    assert found.log is not None
    assert found.log.started
    assert "Tried to allocate 1.36 GiB" in (found.log.later_error or "")


def test_the_last_start_counts() -> None:
    """A server that was restarted with another model writes to the same log."""
    first = text_of("log-old-0.9.txt") + "".join(REQUEST % 7 for _ in range(2000))
    found = reading_of_log(first + big_log())

    assert found.model == "Qwen/Qwen3-8B"
    assert found.vllm_version == "0.27.1"


def test_each_start_of_a_log_can_be_read() -> None:
    """The last with an outcome is read first, and the number of them is said."""
    text = text_of("log-two-gpus-no-cache.txt") + text_of("log-started-4090.txt")
    found = [planner.read(text, start=start) for start in (1, 2)]

    assert [one.model for one in found] == ["Qwen/Qwen3-8B", "Qwen/Qwen3-32B"]
    assert [(one.number, one.num_starts) for one in found] == [(1, 2), (2, 2)]
    assert "2 starts" in found[0].notes[0]
    assert "did not start" in found[1].explain("RTX4090").headline
    assert len(all_in(text)) == 2
    with pytest.raises(PlannerError, match="count from 1"):
        planner.read(text, start=3)


def test_the_head_of_a_log_is_a_start_that_has_not_ended() -> None:
    """Neither is it a failure, nor did it come up."""
    lines = text_of("log-started-4090.txt").splitlines(keepends=True)
    found = reading_of_log("".join(lines[:3]))

    assert found.log is not None
    assert (found.log.started, found.log.error) == (None, None)
    assert "Whether it started: the text ends before that." in found.open


def test_the_total_and_the_share_are_taken_from_the_budget() -> None:
    """20.27 GiB / 0.92 = 22.03 GiB; and the share from vLLM's advice on graphs."""
    budget = "INFO 11-20 10:00:00 [g.py:1] Desired GPU memory utilization is (0.92, %s)"
    advice = "--gpu-memory-utilization=0.8200 is equivalent to --gpu-memory-utilization"
    found = reading_of_log(budget % "20.27 GiB")

    assert isinstance(found.gpu, GPU)
    assert found.gpu.total_memory_bytes == round(22.03 * 2**30)
    assert found.engine_args == {"gpu_memory_utilization": 0.92}
    assert reading_of_log(advice).engine_args == {"gpu_memory_utilization": 0.82}


def test_a_named_gpu_that_cannot_have_written_the_log_is_not_planned() -> None:
    """The log's own total counts, and the contradiction is said."""
    found = reading_of_log(
        "On my H100:\nFree memory on device (23.1/23.52 GiB) on startup is less than "
        "desired GPU memory utilization (0.99, 23.28 GiB)."
    )

    assert isinstance(found.gpu, GPU)
    assert found.gpu.name == "RTX4090"
    assert "The text names H100, but the log's GPU has 23.52 GiB." in found.notes


def test_the_places_of_a_log_are_the_lines_that_told_something() -> None:
    """Figures, arguments and the outcome; not the routes of the server."""
    text = text_of("log-started-4090.txt")
    told = [text[start:end] for start, end in log_lines(planner.read(text))]

    assert len(told) == len(text.splitlines()) - 1
    assert not any("Available routes" in line for line in told)
    assert log_lines(planner.read("x\nvllm-1 exited with code 137\n")) == ((2, 29),)


RECORDS: list[dict[str, Any]] = [
    json.loads(line)
    for name in ("vllm-logs.jsonl", "newer-logs.jsonl")
    if (CORPUS / name).is_file()
    for line in (CORPUS / name).read_text(encoding="utf-8").splitlines()
]


def is_named(quote: str, name: str, value: object) -> bool:
    """Return whether a quote names an argument with this value."""
    for form in (name, name.replace("_", "-")):
        wanted = rf"\b{form}['\"]?\s*[=: ]\s*"
        if isinstance(value, bool):
            off = "" if value else "no-"
            patterns = [rf"{wanted}{value}\b", rf"--{off}{form}\b"]
        elif isinstance(value, dict | list):
            patterns = [rf"['\"]{form}['\"]: [\[{{]"]
        else:
            text = re.escape(str(value))
            patterns = [rf"{wanted}(?:torch\.)?['\"]?{text}(?![\w.]*\w)"]
        if any(re.search(pattern, quote) for pattern in patterns):
            return True
    return False


def is_same(found: object, value: object) -> bool:
    """Return whether a value is the record's; a table is compared by its presence."""
    if isinstance(value, dict | list):
        return found is not None
    return str(found) == str(value)


def score(record: dict[str, Any], counts: Counter[str]) -> None:
    """Count what a quote names, and what is read of it."""
    quote, found = record["quote"], reading_of_log(record["quote"])
    counts["read"] += is_log(quote) or bool(found.log and found.log.figures)
    name = record["model"].split("@")[0].split("/")[-1].split(" ")[0].lower()
    if len(name) > 2 and name in quote.lower():
        counts["model named"] += 1
        base = (found.model or "").rstrip("/").split("/")[-1].lower()
        counts["model"] += base.removeprefix("meta-") == name.removeprefix("meta-")
    release = record["vllm_version"]
    if release and release in quote:
        counts["release named"] += 1
        counts["release"] += found.vllm_version == release
    if found.gpus and record["gpu_count"]:
        counts["gpus named"] += 1
        counts["gpus"] += found.gpus == record["gpu_count"]
    values = {**found.kept, **found.engine_args}
    for argument, value in record["args"].items():
        if is_named(quote, argument, value):
            counts["argument named"] += 1
            counts["argument"] += is_same(values.get(argument), value)


@pytest.mark.skipif(not RECORDS, reason="the corpus of published logs is not here")
def test_published_logs_fill_in_what_they_name() -> None:
    """334 quotes: fragments of logs, tables, notes; a dozen have no figure to read."""
    counts: Counter[str] = Counter()
    for record in RECORDS:
        score(record, counts)

    assert len(RECORDS) == 334
    assert counts["read"] >= 322
    assert counts["model named"] >= 110
    assert counts["model named"] - counts["model"] <= 1
    assert counts["release named"] - counts["release"] <= 1
    assert counts["gpus named"] - counts["gpus"] <= 2
    assert counts["argument named"] >= 368
    assert counts["argument named"] - counts["argument"] <= 2
