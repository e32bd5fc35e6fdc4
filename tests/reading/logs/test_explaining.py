"""Explanations: which check failed, its arithmetic, and changes in the user's text."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner import PlannerError, plan
from planner.confirming.log import LogReading, allocation_in
from planner.reading.logs.beside_plan import differences
from planner.reading.logs.checks import Check, StartStage
from planner.reading.logs.explaining import Explanation
from planner.reading.logs.failing import failure_of
from planner.reading.logs.fixing import Answer, fix_of
from planner.reading.logs.logs import reading_of_log
from planner.reading.reading import Kind, Reading
from planner.reading.recognising import read
from planner.show.verdict import verdict
from planner.solve.advice.situation import Burden
from tests.rows import each_row

TEXTS = Path(__file__).parents[2] / "data/texts"
GIB = 1 << 30


def explained(name: str, gpu: str | None = None, **changes: Any) -> Explanation:
    """Return the explanation of a file of tests/data/texts."""
    reading = reading_of_log((TEXTS / name).read_text(encoding="utf-8"))
    found = reading.explain(gpu, **changes)
    assert isinstance(found, Explanation)
    return found


FAILED: dict[str, tuple[Check, StartStage, str]] = {
    # 5.62 GiB / 40,960 tokens = 143.9 KiB; 4.92 GiB of them: 35,858.
    "log-docker-too-long.txt": (
        Check.MAX_MODEL_LEN,
        StartStage.SIZING,
        "needs 5.62 GiB. Available: 4.92 GiB. Short: 0.70 GiB",
    ),
    # 0.95 x 79.19 = 75.23; 75.23 - 52.81 = 22.42.
    "log-compose-other-program.txt": (
        Check.FREE_MEMORY,
        StartStage.BEFORE,
        "Budget: 0.95 x 79.19 GiB = 75.23 GiB. Free: 52.81 GiB. Short of it: 22.42",
    ),
    # 150.00 - 146.44 MiB.
    "log-kubectl-capture.txt": (
        Check.GRAPHS,
        StartStage.CAPTURE,
        "tried to allocate 150.0 MiB; 146.4 MiB of 23.52 GiB were free. Short: 3.6 MiB",
    ),
    "log-two-gpus-no-cache.txt": (
        Check.NO_KV,
        StartStage.SIZING,
        "Taken: weights 30.59 GiB. Left for the KV cache: -2.13 GiB",
    ),
    # 43.81 - 39.90 - 2.91 = 1.00 GiB.
    "log-stopped-while-serving.txt": (
        Check.ALLOCATION,
        StartStage.SERVING,
        "2.91 GiB reserved by PyTorch but unallocated",
    ),
    "log-old-0.9.txt": (Check.MAX_MODEL_LEN, StartStage.SIZING, "needs 1.75 GiB"),
    "error-torch-old.txt": (
        Check.ALLOCATION,
        StartStage.UNKNOWN,
        "tried to allocate 2.00 GiB; 1.13 GiB of 79.19 GiB were free",
    ),
    "error-sampler.txt": (Check.WARM_UP, StartStage.CAPTURE, ""),
    "error-nccl.txt": (Check.NCCL, StartStage.UNKNOWN, "/dev/shm, is full"),
    "error-oomkilled.txt": (Check.KILLED, StartStage.UNKNOWN, ""),
    "error-more-than-derived.txt": (
        Check.TOO_LONG,
        StartStage.BEFORE,
        "Asked for: 65,536 tokens. Derived: 40,960.",
    ),
    "error-too-many-gpus.txt": (
        Check.GPUS,
        StartStage.BEFORE,
        "Asked for: 8 GPUs. There are: 4.",
    ),
}


@pytest.mark.parametrize("name", FAILED)
def test_the_check_that_failed(name: str) -> None:
    """Which, at which stage, and its arithmetic with the text's own figures."""
    check, stage, arithmetic = FAILED[name]
    failure = explained(name).failure

    assert failure is not None
    assert (failure.check, failure.stage) == (check, stage)
    assert arithmetic in " ".join(failure.arithmetic)


def test_what_else_was_on_the_gpu() -> None:
    """Free memory below the total at the start, and processes that PyTorch names."""
    taken = explained("log-compose-other-program.txt").failure
    other = explained("log-kubectl-capture.txt").failure

    assert taken is not None
    assert "26.38 GiB of 79.19 GiB were taken" in taken.others[0]  # 79.19 - 52.81
    assert other is not None
    assert other.others == ("Process 4410, which is not this one, held 500.0 MiB.",)


def test_fragments_are_named() -> None:
    """2.91 GiB were reserved but unallocated, and 1.36 GiB asked for."""
    failure = explained("log-stopped-while-serving.txt").failure

    assert failure is not None
    assert any("expandable_segments" in hint for hint in failure.hints)


def test_changes_are_planned_and_in_the_own_text() -> None:
    """Every one fits, and changes its own place of the command only."""
    found = explained("log-docker-too-long.txt", gpu="RTX4090")
    own = (TEXTS / "log-docker-too-long.txt").read_text(encoding="utf-8")
    command = own[len("$ ") : own.index("hermes\n") + len("hermes")]

    assert found.fixes
    for fix in found.fixes:
        assert fix.starts
        assert fix.plan is not None
        again = read(fix.text)
        assert again.kind is Kind.CONTAINER
        assert again.kept["tool_call_parser"] == "hermes"
        assert again.vllm_version == "0.27.1"
    titles = {fix.title: fix for fix in found.fixes}
    shorter = titles["Serve at most 35,072 tokens a request"]  # 35,824 x 0.98
    assert shorter.text == f"{command} \\\n    --max-model-len 35072"
    burdens = [fix.burden for fix in found.fixes[1:]]
    assert found.fixes[0] == shorter  # what people change first
    assert burdens == sorted(burdens)


def test_changes_are_counted_from_what_the_start_had() -> None:
    """A plan of 2 x A40 has 10 GiB more than the start: a larger share is not enough.

    -2.13 GiB were left, 5.00 GiB are needed for one request of 40,960 tokens (256 KiB x
    40,960 / 2 GPUs): 0.90 to 0.97 of 44.4 GiB adds 3.1 GiB.
    """
    found = explained("log-two-gpus-no-cache.txt", gpu="A40")

    assert found.plan is not None
    assert found.plan.fits
    assert found.fixes
    assert all("gpu_memory_utilization" not in fix.changes for fix in found.fixes)
    assert "--port 8080 --enable-prefix-caching" in found.fixes[0].text


def test_a_change_says_the_verdict_that_its_own_plan_will_show() -> None:
    """The plan made of it does not know the log: both verdicts are said where apart."""
    error = plan("Qwen/Qwen3-32B", gpu="H100", max_model_len=40_960).error
    assert error is not None
    text = f"$ vllm serve Qwen/Qwen3-32B\nValueError: {error.message}"
    found = read(text).explain("H100")
    assert isinstance(found, Explanation)
    apart = [fix for fix in found.fixes if fix.plan and not fix.plan.fits]
    alike = [fix for fix in found.fixes if fix.plan and fix.plan.fits]

    assert apart
    assert alike
    for fix in apart:
        assert fix.plan is not None
        assert fix.result.startswith(
            "\u2714 Fits, counted from what the log measured; "
            "Apply shows the estimate without the log: "
            f"{verdict(fix.plan).headline}. KV cache "
        )
    assert all(fix.result.startswith("\u2714 Fits. KV cache ") for fix in alike)


def test_a_plan_that_fits_is_not_enough_where_the_start_had_less() -> None:
    """The planned A40 have 10 GiB more than the start: the change says so."""
    reading = reading_of_log(
        (TEXTS / "log-two-gpus-no-cache.txt").read_text(encoding="utf-8")
    )
    more = Answer(
        title="More",
        changes={"gpu_memory_utilization": 0.95},
        cost="",
        burden=Burden.NOTHING,
    )
    fix = fix_of(reading, "A40", {}, more, shift_bytes=-30 * GIB)

    assert fix is not None
    assert fix.plan is not None
    assert fix.plan.fits
    assert not fix.starts
    assert fix.result == (
        "\u2718 Does not fit, counted from what the log measured; "
        f"Apply shows the estimate without the log: {verdict(fix.plan).headline}"
    )


def test_without_a_plan_the_text_still_tells() -> None:
    """No GPU is named: vLLM's own figures give the arithmetic and a change."""
    found = explained("log-docker-too-long.txt")

    assert found.plan is None
    assert "GPU" in found.not_planned
    assert found.failure is not None
    assert found.failure.arithmetic
    assert found.fixes[0].changes == {"max_model_len": 35072}
    assert "--max-model-len 35072" in found.fixes[0].text


def test_an_unknown_model_is_explained_too() -> None:
    """Its configuration is nowhere; the error's arithmetic holds."""
    text = (TEXTS / "log-compose-other-program.txt").read_text(encoding="utf-8")
    reading = reading_of_log(text.replace("Qwen/Qwen3-14B", "/models/own-model"))

    found = reading.explain("H100")

    assert found.plan is None
    assert found.failure.check is Check.FREE_MEMORY
    # 52.81 / 79.19 = 0.666.
    assert found.fixes[0].changes == {"gpu_memory_utilization": 0.66}
    assert found.fixes[0].text.startswith("vllm serve /models/own-model ")


def test_the_server_s_flags_of_a_log_stay() -> None:
    """Of a log without a command, the command is written from its arguments."""
    found = explained("log-compose-other-program.txt")

    words = found.fixes[0].text.split()

    assert words[:3] == ["vllm", "serve", "Qwen/Qwen3-14B"]
    assert words[words.index("--host") + 1] == "0.0.0.0"
    # 52.81 / 79.19 = 0.667, and room outside of the budget.
    assert float(words[words.index("--gpu-memory-utilization") + 1]) < 0.667


def test_what_contradicts_the_plan_is_said_first() -> None:
    """A log of one start beside the plan of another."""
    log = reading_of_log((TEXTS / "log-two-gpus-no-cache.txt").read_text("utf-8"))
    plan = read("vllm serve Qwen/Qwen3-8B --max-model-len 8192").plan("H100")
    log = replace(log, engine_args={**log.engine_args, "max_model_len": 40960})

    assert differences(log, plan) == (
        "The text is of Qwen/Qwen3-32B, the plan of Qwen/Qwen3-8B.",
        "The log's weights take 30.59 GiB of a GPU, the planned 15.27 GiB: another "
        "model, format or number of GPUs.",
        "The log is of vLLM 0.11.0, the plan of 0.33.0.",
        "The text has max_model_len 40,960, the plan 8,192.",
        "The text has 2 GPUs, the plan 1.",
    )


def test_a_log_that_no_such_gpu_can_write_says_so() -> None:
    """Another total, or a cache and weights that are more than the card has."""
    log = reading_of_log((TEXTS / "log-started-4090.txt").read_text("utf-8"))
    made = read("vllm serve Qwen/Qwen3-8B").plan("H100")
    small = plan("Qwen/Qwen3-8B", gpu="L4", vllm_version="0.27.1")
    quoted = "INFO 01-01 10:00:00 [g.py:1] Available KV cache memory: 51.38 GiB"

    assert differences(log, made)[0] == (
        "The log's GPU has 23.52 GiB, the planned H100 79.19 GiB: another GPU."
    )
    assert differences(reading_of_log(quoted), small) == (
        "The log's weights and KV cache take 51.38 GiB of a GPU; the planned L4 has "
        "22.03 GiB: another GPU.",
    )


def test_the_same_start_has_no_difference() -> None:
    """A folder and the model of its name are the same."""
    assert explained("log-started-4090.txt").first == ()
    assert explained("log-kubectl-capture.txt").first == ()


def test_a_start_that_came_up() -> None:
    """Measured beside planned, unused memory, the cache that vLLM calls safe."""
    found = explained("log-started-4090.txt")

    assert found.failure is None
    assert found.headline == "vLLM started"
    assert found.confirmation is not None
    assert "KV cache" in [row.name for row in found.confirmation.rows]
    assert found.kv_cache_memory_bytes == 4525652992
    # 23.52 - 0.92 x 23.52 = 1.88.
    assert any("1.88 GiB of 23.52 GiB" in sentence for sentence in found.findings)
    assert found.fixes, "what would serve more"


def test_a_safe_cache_is_computed_where_vllm_does_not_say_it() -> None:
    """4.92 - 0.56 (graphs, not charged) - 0.15 (vLLM's margin), in whole MiB."""
    text = (TEXTS / "log-started-4090.txt").read_text(encoding="utf-8")
    without = re.sub(r"Replace gpu_memory.*?gpu memory\. ", "", text)

    found = reading_of_log(without).explain()

    expected = round(4.92 * GIB) - round(0.56 * GIB) - 150 * (1 << 20)
    assert found.kv_cache_memory_bytes == expected // (1 << 20) * (1 << 20)


def test_a_hint_that_takes_the_graphs_off_twice_is_corrected() -> None:
    """vLLM's issue 57936: the peak contains the estimate, here 0.56 - 0.005 GiB."""
    text = (TEXTS / "log-started-4090.txt").read_text(encoding="utf-8")
    known = text.replace(
        "[gpu_worker.py:511]", "[x.py:1] Estimated CUDA graph memory: 0.56 GiB total\n"
    )

    found = reading_of_log(known).explain()

    assert found.kv_cache_memory_bytes == 4525652992 + round(0.555 * GIB)
    assert any("takes the graphs off twice" in said for said in found.findings)


CHECKS = (
    (
        "Model loading took 15.3 GiB\nAvailable KV cache memory: 8.56 GiB\n"
        "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (856). "
        "Each decode sequence requires one Mamba cache block",
        Check.MAMBA,
        # 8.56 x (1024 / 856 - 1) = 1.68.
        "Sequences at once: 1,024. Blocks: 856, 168 too few. That many more take 1.68",
    ),
    (
        "File gpu_model_runner.py, line 1, in capture_model\ntorch.OutOfMemoryError: "
        "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity "
        "of 23.52 GiB of which 4.44 MiB is free.",
        Check.GRAPHS,
        "It tried to allocate 20.0 MiB; 4.4 MiB of 23.52 GiB were free",
    ),
    (
        "File gpu_model_runner.py, line 1, in _dummy_sampler_run\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 148.00 MiB. ",
        Check.WARM_UP,
        "It tried to allocate 148.0 MiB.",
    ),
    (
        "AssertionError: Error in memory profiling. Initial free memory 10.2 GiB, "
        "current free memory 18.73 GiB. This happens when other processes",
        Check.NEIGHBOUR,
        "Free with it: 18.73 GiB, 8.53 GiB more",
    ),
)


@each_row("row", CHECKS)
def test_refusals_of_newer_releases(row: tuple[str, Check, str]) -> None:
    """The Mamba cache, graphs and sampler after the sizing, a neighbour."""
    text, check, arithmetic = row
    log = reading_of_log(text).log
    assert log is not None
    failure = failure_of(log, text)
    assert failure is not None
    assert (failure.check, arithmetic in failure.arithmetic[0]) == (check, True)


def test_fewer_sequences_answer_a_full_mamba_cache() -> None:
    """One for each block, or a larger share for more blocks."""
    text = f"vllm serve Qwen/Qwen3-8B\n{CHECKS[0][0]}"
    found = read(text).explain("H100")

    assert found.fixes[0].changes == {"max_num_seqs": 856}
    assert found.fixes[0].text == "vllm serve Qwen/Qwen3-8B --max-num-seqs 856"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("31.20 GiB for non-torch memory", "Non-torch memory of 31.20 GiB is more"),
        ("-2.10 GiB for non-torch memory", "another program freed memory"),
    ],
)
def test_the_figure_that_shows_a_neighbour_is_named(line: str, said: str) -> None:
    """Memory of the whole GPU is measured: others' changes are counted as vLLM's."""
    text = f"Actual usage is 5.0 GiB for weight, {line}\nNo KV cache room"
    log = reading_of_log(text).log
    failure = None if log is None else failure_of(log, text)

    assert failure is not None
    assert said in failure.others[0]
    assert "--kv-cache-memory-bytes" in failure.others[0]


def test_a_command_that_was_never_started() -> None:
    """Its verdict, vLLM's words, and changes."""
    given = "vllm serve Qwen/Qwen3-8B --max-model-len 40960 --port 9000  # chat"

    found = read(given).explain("RTX3080")

    assert found.failure is None
    assert "Does not fit" in found.headline
    assert any("vLLM would say" in sentence for sentence in found.findings)
    assert found.fixes
    assert all(fix.text.endswith("# chat") for fix in found.fixes)


def test_a_command_without_a_gpu_asks_for_it() -> None:
    """Nothing could be said of it."""
    with pytest.raises(PlannerError, match="on which GPU"):
        read("vllm serve Qwen/Qwen3-8B").explain()


def server(**figures: float) -> Reading:
    """Return the reading of a server with these figures."""
    return Reading(
        kind=Kind.SERVER,
        given="localhost:8000",
        model="Qwen/Qwen3-8B",
        gpu="RTX4090",
        vllm_version="0.33.0",
        engine_args={"max_model_len": 8192},
        log=LogReading(figures=figures, started=True, is_vllm=True),
    )


def test_a_server_that_is_too_small() -> None:
    """418 preemptions of 3,000 requests: 13.9 %."""
    found = server(
        kv_tokens=37_296,
        num_gpu_blocks=2331,
        kv_cache_usage=0.97,
        num_requests_running=12,
        num_requests_waiting=7,
        num_preemptions=418,
        num_requests_finished=3000,
        mean_prompt_tokens=2000.0,
        mean_generation_tokens=500.0,
    ).explain()
    told = " ".join(found.findings)

    assert "too small" in found.headline
    assert "418 preemptions, 13.9% of those that finished" in told
    assert "2,000 tokens of prompt and 500 of answer" in told
    assert "about 14 of them at once" in told  # 37,296 / 2,500
    assert found.fixes


def test_a_server_that_has_enough() -> None:
    """Nothing was preempted, and most is free."""
    found = server(
        kv_cache_usage=0.03,
        num_requests_running=1,
        num_requests_waiting=0,
        num_preemptions=0,
        num_requests_finished=90,
    ).explain()

    assert "most of its KV cache is free" in found.headline
    assert any("never ran out" in sentence for sentence in found.findings)


@pytest.mark.parametrize(
    "text",
    [
        "Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 23.52 GiB",
        "Tried to allocate ",
        "Tried to allocate 1.2.3 GiB. GPU 0 has a total capacity of .. GiB",
    ],
)
def test_a_cut_account_of_pytorch(text: str) -> None:
    """What is missing is None; nothing is guessed."""
    found = allocation_in(text)

    assert found is not None
    assert found.free_bytes is None
    failure = failure_of(LogReading(started=False, error=text), text)
    assert failure is not None
    assert failure.missing_bytes is None


def test_a_start_that_came_up_has_no_failure() -> None:
    """Nor has a text that ends before the outcome."""
    assert failure_of(LogReading(started=True), "") is None
    assert failure_of(LogReading(), "") is None


def test_values_for_other_programs() -> None:
    """to_dict has everything, sizes in whole bytes."""
    values = explained("log-docker-too-long.txt", gpu="RTX4090").to_dict()

    assert values["failure"]["check"] == "max_model_len"
    assert values["failure"]["missing_bytes"] == round(5.62 * GIB) - round(4.92 * GIB)
    assert values["fixes"][0]["text"].startswith("docker run")
    assert values["reading"]["kind"] == "log"


def test_a_gpu_without_memory_divides_nothing() -> None:
    """A message may say 0 of 0 GiB."""
    found = read(
        "ValueError: Free memory on device cuda:0 (0/0 GiB) on startup is less than "
        "desired GPU memory utilization (0.9, 0 GiB)."
    ).explain("H100")

    assert found.failure is not None
    assert Check.FREE_MEMORY is found.failure.check
    assert () == found.failure.arithmetic


def test_a_length_that_vllm_refuses_is_answered_by_the_model_s_own() -> None:
    """Nothing else helps: the checkpoint is not made for more."""
    (fix,) = (
        read("vllm serve Qwen/Qwen3-8B --max-model-len 131072").explain("H100").fixes
    )

    assert {"max_model_len": 40_960} == fix.changes
    assert "--max-model-len 40960" in fix.text


def test_the_shorter_length_is_first_though_the_plan_is_gloomier() -> None:
    """By the plan not even the weights fit: the start itself came further."""
    found = read(
        "vllm serve Qwen/Qwen3-14B --max-model-len 32768\n"
        "ValueError: To serve at least one request with the models's max seq len "
        "(32768), (5.0 GiB KV cache is needed, which is larger than the available KV "
        "cache memory (2.07 GiB). Based on the available memory, the estimated maximum "
        "model length is 13568."
    ).explain("RTX4090")

    assert found.plan is not None
    assert found.plan.error is not None
    assert "weights" == found.plan.error.kind
    assert {"max_model_len": 13_056} == found.fixes[0].changes  # 13,568 x 0.98
    assert "not planned" in found.fixes[0].result
