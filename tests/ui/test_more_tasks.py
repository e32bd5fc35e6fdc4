"""Ten further questions: of searches, releases, machines, and of what went wrong.

As in `test_tasks`: at most six actions each, and the answer on the first screen.
"""

import pytest

pytest.importorskip("axe_playwright_python")

import planner
from planner.planning.machines import commands
from planner.solve.price_list import list_prices
from tests.ui.control_pages import MODEL
from tests.ui.run_pages import violations
from tests.ui.visiting import VERDICT, visit

pytestmark = pytest.mark.browser

LOG = """\
$ vllm serve Qwen/Qwen3-8B --max-model-len 16384 --max-num-seqs 64
INFO 11-29 10:11:22 [loggers.py:257] Engine 000: Avg prompt throughput: 900.1 tokens/s, Avg generation throughput: 290.9 tokens/s, Running: 4 reqs, Waiting: 16 reqs, GPU KV cache usage: 99.4%, Prefix cache hit rate: 12.1%
"""  # noqa: E501 - as vLLM 0.33.0 writes it


@pytest.fixture
def visitor(browser, app):
    """A visitor on the page as it opens."""
    with visit(browser, app) as found:
        yield found


def test_which_models_an_rtx_5090_serves(visitor) -> None:
    """Asked in words: the models stand there, and one is opened with its load."""
    visitor.paste("Which models serve 5 users at 16k on an RTX 5090?")

    visitor.sees(".ps-models .ps-answer", "RTX5090 with 5 requests of 16,384 tokens")
    visitor.sees(".ps-models tbody tr", "Qwen/Qwen3-8B", "Open")
    visitor.press("Open: Qwen/Qwen3-8B")
    visitor.reads(".pl-subject", "Qwen/Qwen3-8B on RTX5090")
    visitor.sees(VERDICT, "serves 5 of 5 at once")


def test_which_models_by_the_controls(visitor) -> None:
    """The same without a question: a GPU, a load, a tab, a kind."""
    visitor.choose("GPU", "^RTX5090,")
    visitor.fill("Prompt tokens", "15000")
    visitor.fill("Answer tokens", "1000")
    visitor.fill("Users at once", "5")
    visitor.open("Models")
    visitor.choose("For", "^code$")

    visitor.sees(".ps-models .ps-answer", "RTX5090 with 5 requests of 16,000 tokens")
    visitor.sees(".ps-models tbody tr", "Coder", "Open")
    assert [] == violations(visitor.page, ".planner-tab-models")


def test_a_server_out_of_cache(visitor) -> None:
    """A line of its log: the cache is too small, by how much, and what helps."""
    visitor.paste(LOG)
    visitor.sees(".planner-open", "GPU")
    visitor.choose("GPU", "^L4,")

    fix = planner.read(LOG).explain("L4").fixes[0]
    visitor.sees(".pl-explained .pl-headline", "its KV cache is too small for its load")
    visitor.reads(".pl-explained", "used to 99.4%: 4 requests running, 16 waiting")
    visitor.sees(".pl-fixes > li", fix.title)
    visitor.sees(".pl-fixes .pl-action", "Apply")


def test_an_upgrade(visitor) -> None:
    """From the release that runs to the newest: what changes, and by which rule."""
    visitor.paste("What changes for Qwen3-8B on an L4 from vLLM 0.19.0 to 0.33.0?")

    visitor.sees(".pl-answered", "vLLM 0.19.0 to 0.33.0: KV cache")
    visitor.reads(".planner-tab-upgrade table", "gpu_memory_utilization is 0.92")
    assert [] == violations(visitor.page, ".planner-tab-upgrade")


def test_a_model_that_nobody_knows(visitor) -> None:
    """Why it is not found, and what to give instead; no plan of another model."""
    visitor.fill("Model", "acme/private-7b")

    visitor.sees("[data-name=model]", "acme/private-7b", "config.json")
    visitor.sees(".planner-answer", "the last good plan")


def test_three_gpus_with_prices(visitor) -> None:
    """L4, L40S, H100 side by side: memory, requests, a bound of speed, the price."""
    visitor.fill("Prompt tokens", "3000")
    visitor.fill("Answer tokens", "1000")
    visitor.fill("Users at once", "16")
    visitor.open("Compare")
    visitor.press("The same on other GPUs")
    visitor.fill("GPUs", "L4, L40S, RTX4090")

    load = planner.Load(prompt_tokens=3000, output_tokens=1000, requests=16)
    prices = {n: one.per_hour for n, one in list_prices().prices.items()}
    plan = planner.plan(MODEL, gpu="H100", load=load)
    best = planner.compare_gpus(plan, ["L4", "L40S", "RTX4090"], prices).best
    answer = f"{best.gpus_total} x {best.gpu.name}, {best.price_per_hour:.2f} USD"
    visitor.sees(".planner-other-gpus .pl-headline", answer)
    for name in ("L4", "L40S", "RTX4090"):
        visitor.reads(".planner-other-gpus table", name, "USD")
    assert [] == violations(visitor.page, ".planner-other-gpus")


def test_two_machines(visitor) -> None:
    """DeepSeek-R1 in 16 GPUs: a command for each machine, to be copied."""
    visitor.press("DeepSeek-R1, 8 x H200")
    visitor.press("pipeline_parallel_size 2")

    plan = planner.plan(
        "deepseek-ai/DeepSeek-R1",
        gpu="H200",
        tensor_parallel_size=8,
        pipeline_parallel_size=2,
    )
    assert len(commands(plan)) == 2
    visitor.sees(".planner-command", "# machine 2", "--node-rank 1", "--headless")
    visitor.sees(".planner-command", "--nnodes 2 --node-rank 0 --master-addr $HEAD")


def test_four_3090_on_pcie(visitor) -> None:
    """What it costs that nothing joins them but PCIe, beside the verdict."""
    visitor.fill("Model", "Qwen/Qwen3-32B")
    visitor.choose("GPU", "^RTX3090,")
    visitor.press("tensor_parallel_size 4")

    visitor.sees(".pl-subject", "Qwen/Qwen3-32B on 4 x RTX3090")
    visitor.sees(VERDICT, "Fits")
    visitor.reads(".planner-first", "4 x RTX3090 add up their results over PCIe")


def test_a_shared_prefix(visitor) -> None:
    """20 users of 100,000 tokens, 90 % shared: 0.33 million tokens, not two."""
    visitor.fill("Prompt tokens", "99000")
    visitor.fill("Answer tokens", "1000")
    visitor.fill("Users at once", "20")
    visitor.fill("Shared tokens", "90000")

    load = planner.Load(
        prompt_tokens=99_000,
        output_tokens=1000,
        requests=20,
        shared_prefix_tokens=90_000,
    )
    served = planner.plan(MODEL, gpu="H100", load=load).serving
    assert served.is_served
    visitor.sees(VERDICT, "Starts, and serves 20 of 20 at once")


def test_a_private_model_by_its_dimensions(visitor) -> None:
    """A Llama of other sizes: no config.json is needed, nor a name."""
    visitor.unfold("By hand")
    visitor.choose("Architecture", "^LlamaForCausalLM$")
    visitor.fill("Layers", "40")
    visitor.fill("Hidden size", "5120")
    visitor.fill("Intermediate size", "13824")

    visitor.reads(".pl-subject", "my-model on H100")
    visitor.sees(".planner-bars", "weights")


def test_tokens_per_second(visitor) -> None:
    """A forecast with its range, how many measurements stand near it, and the bound."""
    visitor.fill("Prompt tokens", "3000")
    visitor.fill("Answer tokens", "1000")
    visitor.fill("Users at once", "16")
    visitor.open("Speed")

    load = planner.Load(prompt_tokens=3000, output_tokens=1000, requests=16)
    plan = planner.plan(MODEL, gpu="H100", load=load)
    found = planner.speed_forecast(plan, load)
    total = found.total_tokens_per_second
    said = f"About {total.value:,.0f} ({total.low:,.0f} to {total.high:,.0f})"
    visitor.sees(".planner-tab-speed .pl-headline", said)
    visitor.reads(".planner-tab-speed", "are near it", "at most")
