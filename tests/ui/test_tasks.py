"""Ten questions that people come with, answered through the controls that they see.

Each takes at most six actions, and its answer stands on the screen of 1280 x 900 at the
end. An action is what a visitor does: fill in an entry, press a button, choose from a
list, paste a text, follow a link.
"""

import pytest

pytest.importorskip("axe_playwright_python")

import planner
from planner.app.widgets.needs import RECIPES
from planner.export import link
from planner.planning.inputs import Inputs
from planner.show.verdict import verdict
from planner.units import format_gib
from tests.ui.control_pages import MODEL
from tests.ui.visiting import HEIGHT, VERDICT, WIDTH, Visitor, visit

pytestmark = pytest.mark.browser

COMMAND = "vllm serve Qwen/Qwen3-14B --tensor-parallel-size 2 --max-model-len 16384"


def part(plan, name: str) -> str:
    """Return the size of a part of the weights, as the page writes it."""
    found = {one.name: one.size_bytes for one in plan.ranks[0].weight_parts}
    return format_gib(found[name])


@pytest.fixture
def visitor(browser, app):
    """A visitor on the page as it opens."""
    with visit(browser, app) as found:
        yield found


def test_the_cheapest_set_up_for_twenty_users(visitor) -> None:
    """Qwen3-32B, 32k tokens, 20 users: named with its price, and ready to apply."""
    visitor.fill("Model", "Qwen/Qwen3-32B")
    visitor.fill("Prompt tokens", "32768")
    visitor.fill("Answer tokens", "1024")
    visitor.fill("Users at once", "20")
    visitor.open("GPUs")
    visitor.page.locator(".ps-root[aria-busy='false']").wait_for()
    visitor.press("Cheapest")

    load = planner.Load(prompt_tokens=32768, output_tokens=1024, requests=20)
    best = planner.solve.set_ups("Qwen/Qwen3-32B", load).cheapest
    name, price = f"{best.gpus_total} x {best.gpu.name}", best.price_per_hour
    visitor.sees(".ps-answer", f"Cheapest: {name} ({price:.2f} USD per hour)")
    visitor.sees(".ps-table tbody tr:first-child", name, f"{price:.2f}", "Apply")
    visitor.sees(".pl-bar-words", "serves 1 of 20 at once")


def test_seventy_billion_on_two_cards_of_forty(visitor) -> None:
    """Llama 3.3 70B in 16 bits: the weights are too large; the first advice starts."""
    model = "meta-llama/Llama-3.3-70B-Instruct"
    visitor.fill("Model", model)
    visitor.choose("GPU", "^A100-40GB")
    visitor.press("tensor_parallel_size 2")

    plan = planner.plan(model, gpu="A100-40GB", tensor_parallel_size=2)
    first = planner.advise(plan).offered[0]
    visitor.sees(".pl-headline", "Does not fit: the weights are too large")
    visitor.open("Advice")
    visitor.sees(".planner-advice .pl-row", first.title, "starts", "Apply")
    visitor.press(f"Apply: {first.title}")
    visitor.reads(".pl-subject", plan.changed(**first.changes).name, "2 x A100-40GB")
    visitor.sees(VERDICT, "Fits")


def test_gemma_with_images_on_an_l4(visitor) -> None:
    """The picture has the encoder's weights beside the model's, with their GiB."""
    visitor.press("Gemma 3 with images, L4")

    plan = RECIPES["Gemma 3 with images, L4"].plan()
    visitor.sees(".pl-headline", "Starts, and serves 8 of 8 at once")
    visitor.sees(".planner-bars", f"encoder weights {part(plan, 'encoder weights')}")


def test_tensor_parallel_against_data_and_expert_parallel(visitor) -> None:
    """DeepSeek-R1 on eight H200: tokens of all engines, side by side."""
    visitor.press("DeepSeek-R1, 8 x H200")
    visitor.sees(".pl-subject", "deepseek-ai/DeepSeek-R1 on 8 x H200")
    visitor.open("Compare")
    visitor.press("Pin this plan: The plan on the screen")
    visitor.press("tensor_parallel_size 1")
    visitor.press("data_parallel_size 8")
    visitor.press("on")

    split = RECIPES["DeepSeek-R1, 8 x H200"].plan()
    engines = split.changed(
        tensor_parallel_size=1, data_parallel_size=8, enable_expert_parallel=True
    )
    tokens = [one.all_engines.kv_cache_size_tokens for one in (split, engines)]
    assert tokens[1] > 2 * tokens[0]  # all eight engines, not one of them
    visitor.sees(".planner-compared-bars", "now", "serves 64 of 64")
    visitor.reads(".planner-pins table", *(f"{count:,}" for count in tokens))


def test_eight_adapters(visitor) -> None:
    """Eight LoRA adapters of rank 64 have a segment of their own, with its GiB."""
    visitor.unfold("LoRA")
    visitor.choose("LoRA adapters", "^on$")
    visitor.fill("Adapters in one batch", "8")
    visitor.choose("Largest rank", "^64$")

    lora = {"enable_lora": True, "max_loras": 8, "max_lora_rank": 64}
    plan = planner.plan(MODEL, gpu="H100", **lora)
    visitor.reads(".planner-command", plan.command())
    visitor.sees(".planner-bars", f"LoRA adapters {part(plan, 'LoRA adapters')}")
    visitor.sees(VERDICT, "Fits")


def test_eight_bits_against_sixteen(visitor) -> None:
    """FP8 weights beside BF16: what is saved stands in both bars."""
    visitor.fill("Model", "Qwen/Qwen3-8B")
    visitor.sees(".pl-subject", "Qwen/Qwen3-8B on H100")
    visitor.open("Compare")
    visitor.press("Pin this plan: The plan on the screen")
    visitor.choose("Quantization", "^fp8_per_tensor$")

    wide = planner.plan("Qwen/Qwen3-8B", gpu="H100")
    narrow = wide.changed(quantization="fp8_per_tensor")
    sizes = [
        format_gib(plan.ranks[0].allocated_weights_bytes) for plan in (wide, narrow)
    ]
    bars = [size.removesuffix(" GiB") for size in sizes]
    visitor.sees(".planner-compared-bars", "now", *bars)
    visitor.reads(".planner-pins table", "weights", *sizes)


def test_a_command_that_somebody_sent(visitor) -> None:
    """Pasted as it stands: two GPUs, whether it starts, and how much is left."""
    visitor.paste(COMMAND)
    visitor.sees(".planner-open", "GPU")  # which it does not name
    visitor.choose("GPU", "^H100,")

    visitor.sees(".pl-subject", "Qwen/Qwen3-14B on 2 x H100")
    plan = planner.read(COMMAND).plan(gpu="H100")
    tokens = f"{plan.kv_cache_size_tokens:,}"
    visitor.sees(".planner-verdict", "Fits", "left after one request of 16,384 tokens")
    visitor.reads(".planner-figures", tokens)


def test_a_crash(visitor) -> None:
    """An error out of a log: why it failed, and what helps, which is then applied."""
    said = planner.plan("Qwen/Qwen3-32B", gpu="H100", max_model_len=40_960).error
    text = f"$ vllm serve Qwen/Qwen3-32B\nValueError: {said.message}"
    visitor.paste(text)
    visitor.sees(".planner-open", "GPU")
    visitor.choose("GPU", "^H100,")

    fix = planner.read(text).explain("H100").fixes[0]
    visitor.sees(".pl-explained .pl-headline", "vLLM did not start")
    visitor.reads(".pl-explained", "40,960 tokens needs 10.00 GiB")
    visitor.sees(".pl-fixes > li", fix.title, "Fits")
    visitor.sees(".pl-fixes .pl-action", "Apply")
    visitor.press(f"Apply: {fix.title}")
    changed = planner.plan("Qwen/Qwen3-32B", gpu="H100", **fix.changes)
    visitor.sees(VERDICT, verdict(changed).headline)
    assert changed.fits or verdict(changed).headline in fix.result
    for name, value in fix.changes.items():
        visitor.reads(".planner-command", f"--{name.replace('_', '-')} {value}")


def test_a_link(browser, app) -> None:
    """A colleague's link opens the same plan, load and all."""
    load = planner.Load(prompt_tokens=3000, output_tokens=1000, requests=16)
    sent = planner.plan("Qwen/Qwen3-8B", gpu="L40S", load=load)
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT})
    page = context.new_page()
    page.goto(f"{app}{link(sent)}")
    visitor = Visitor(page)
    visitor.actions = 1

    visitor.sees(".pl-subject", "Qwen/Qwen3-8B on L40S")
    visitor.sees(".pl-headline", "serves 16 of 16 at once")
    visitor.sees(".planner-command", sent.command())
    context.close()


def test_a_manifest_for_kubernetes(visitor) -> None:
    """Two actions to a manifest of this model that can be copied."""
    visitor.open("Export")
    visitor.choose("format", "^Kubernetes$")

    visitor.sees(".planner-tab-export", "Copy", "kind: Deployment")
    visitor.reads(".planner-tab-export code", MODEL, 'nvidia.com/gpu: "1"')


STARTS = [
    Inputs(model="Qwen/Qwen3-32B", gpu="H100", load=next(iter(RECIPES.values())).load),
    Inputs(model="meta-llama/Llama-3.1-70B-Instruct", gpu="L4"),
    Inputs(
        model="deepseek-ai/DeepSeek-R1",
        gpu="H200",
        engine_args={"data_parallel_size": 8, "enable_expert_parallel": True},
    ),
    Inputs(
        model="Qwen/Qwen3-Next-80B-A3B-Instruct",
        gpu="H100",
        vllm_version="0.25.1",
        engine_args={"pipeline_parallel_size": 4, "kv_cache_dtype": "fp8"},
    ),
]


@pytest.mark.parametrize("inputs", STARTS, ids=lambda inputs: inputs.model)
def test_bars_and_figures_are_those_of_the_plan(browser, app, inputs) -> None:
    """In the browser, as `to_dict()` of the same plan has them."""
    plan = inputs.plan()
    said, bars = plan.to_dict(), []
    for line in said["ranks"][0]["lines"]:
        if line["bytes"] > 0 and line["name"] not in ("weights", "KV cache"):
            bars.append(f"{line['name']} {format_gib(line['bytes'])}")
    assert bars
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT})
    visitor = Visitor(context.new_page())
    visitor.page.goto(f"{app}{link(plan)}")

    visitor.reads(".planner-command", said["command"])
    visitor.sees(".pl-headline", verdict(plan).headline)
    visitor.reads(".planner-bars", *bars)
    figures = [
        f"{said['all_engines']['kv_cache_size_tokens']:,}",
        f"{said['all_engines']['max_concurrency']:,.2f}x",
        format_gib(said["available_kv_cache_bytes"]),
    ]
    if said["available_kv_cache_bytes"] <= 0:
        figures = ["Available KV cache", "none", "weights do not fit"]
    visitor.reads(".planner-figures", *figures)
    context.close()
