"""What a server logs while it serves: how full its KV cache was."""

import planner
from planner.confirming.log.usage import usage_in

LINES = """\
$ vllm serve Qwen/Qwen3-8B --max-model-len 16384 --max-num-seqs 64
INFO 11-29 10:11:12 [loggers.py:257] Engine 000: Avg prompt throughput: 1200.3 tokens/s, Avg generation throughput: 310.2 tokens/s, Running: 5 reqs, Waiting: 15 reqs, Preemptions: 2, GPU KV cache usage: 98.7%, Prefix cache hit rate: 12.3%
INFO 11-29 10:11:22 [loggers.py:257] Engine 000: Avg prompt throughput: 900.1 tokens/s, Avg generation throughput: 290.9 tokens/s, Running: 4 reqs, Waiting: 16 reqs, Preemptions: 1, GPU KV cache usage: 99.4%, Prefix cache hit rate: 12.1%
"""  # noqa: E501 - as vLLM 0.33.0 writes them
V0 = (
    "Running: 9 reqs, Swapped: 0 reqs, Pending: 3 reqs, GPU KV cache usage: 91.0%, "
    "CPU KV cache usage: 0.0%."
)


def test_the_fullest_moment_counts_and_preemptions_add_up() -> None:
    """99.4 % of two lines; 2 + 1 preemptions."""
    assert {
        "kv_cache_usage": 0.994,
        "num_requests_running": 4,
        "num_requests_waiting": 16,
        "num_preemptions": 3,
    } == usage_in(LINES)
    assert (0.91, 3) == (
        usage_in(V0)["kv_cache_usage"],
        usage_in(V0)["num_requests_waiting"],
    )
    assert {} == usage_in("Running: 4 people, Waiting: 2")


def test_a_full_cache_is_the_first_line_of_the_answer() -> None:
    """Requests wait; the advice is for more of it."""
    found = planner.read(LINES).explain("L4")

    assert found.headline.endswith("its KV cache is too small for its load")
    assert "used to 99.4%: 4 requests running, 16 waiting" in found.findings[0]
    assert any("3 preemptions" in one for one in found.findings)
    assert found.fixes


def test_a_server_that_ran_where_the_plan_does_not_is_said_first() -> None:
    """Qwen3-8B does not fit an L4 with 40,960 tokens; something did run."""
    text = LINES.replace("16384", "40960")

    assert planner.read(text).explain("L4").findings[0].startswith("The log is of a")


def test_an_empty_cache_is_enough() -> None:
    """Nobody waits, and most of it is free."""
    text = LINES.replace("99.4", "12.0").replace("98.7", "9.1")
    calm = text.replace("Waiting: 16", "Waiting: 0").replace(
        "Waiting: 15", "Waiting: 0"
    )

    found = planner.read(
        calm.replace("Preemptions: 1, ", "").replace("Preemptions: 2, ", "")
    ).explain("L4")
    assert found.headline.endswith("most of its KV cache is free now")
