"""Every rich view as a cell of a notebook, and JupyterLab at a width and theme.

The views of a start are made of invented measurements, since no vLLM is needed here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.ui import lab, servers

HEAD = """
from pathlib import Path
import planner
from planner import Load, ray, solve
from tests import confirmations

TEXTS = Path(confirmations.__file__).parent / "data" / "texts"
load = Load(prompt_tokens=30_000, output_tokens=2_000, requests=20)
chat = Load(prompt_tokens=3_000, output_tokens=1_000, requests=16)
small = planner.plan("Qwen/Qwen3-8B", gpu="L4", load=chat)
large = planner.plan("Qwen/Qwen3-32B", gpu="H100", load=load)
PRICES = {"H100": 2.5, "H200": 3.4, "L40S": 0.9, "L4": 0.6, "A100-80GB": 1.6}
pipe = ray.pipeline(
    "Qwen/Qwen3-8B",
    gpu="H100",
    max_model_len=8192,
    tensor_parallel_size=2,
    concurrency=(4, 4),
    preprocess_map_kwargs={"num_gpus": 0.5, "concurrency": 1},
)
COMMAND = '''docker run --gpus 1 -p 8000:8000 vllm/vllm-openai:v0.33.0 \\\\
  --model Qwen/Qwen3-14B --max-model-len 32768 --api-key s3cret \\\\
  --enable-auto-tool-choice --tool-call-parser hermes'''
"""

VIEWS = {
    "plan": 'planner.plan("meta-llama/Llama-3.1-8B-Instruct", gpu="H100")',
    "plan-partly": "large",
    "plan-short": 'planner.plan("meta-llama/Llama-3.1-70B-Instruct", gpu="L4")',
    "plan-engines": """planner.plan(
    "deepseek-ai/DeepSeek-R1", gpu="H200", data_parallel_size=8,
    enable_expert_parallel=True, load=load,
)""",
    "plan-stages": """planner.plan(
    "meta-llama/Llama-3.1-70B-Instruct", gpu="H100", tensor_parallel_size=2,
    pipeline_parallel_size=4, cpu_offload_gb=10, enable_lora=True,
    max_loras=8, max_lora_rank=64,
)""",
    "compare": """planner.compare(
    large, large.changed(kv_cache_dtype="fp8"), large.changed(gpu="H200"),
    large.changed(tensor_parallel_size=2),
)""",
    "compare-engines": """planner.compare(
    planner.plan("deepseek-ai/DeepSeek-R1", gpu="H200", tensor_parallel_size=8),
    planner.plan("deepseek-ai/DeepSeek-R1", gpu="H200", data_parallel_size=8,
        enable_expert_parallel=True),
    names=["TP 8", "DP 8 + EP"],
)""",
    "gpus": """planner.compare_gpus(
    large, gpus=[*PRICES, "B200", "T4"], price_per_hour=PRICES, currency="EUR",
)""",
    "gpus-all": "planner.compare_gpus(small)",
    "sweep": """planner.sweep(
    small, over={"max_model_len": [1024 * 2**n for n in range(6)]},
)""",
    "sweep-grid": """planner.sweep(
    "Qwen/Qwen3-8B", gpu="L4",
    over={
        "max_model_len": [1024 * n for n in range(2, 41, 2)],
        "max_num_seqs": [1, 2, 4, 8, 16, 32, 64, 128, 256],
    },
)""",
    "solve": 'solve.longest_context("Qwen/Qwen3-8B", "L4", requests=2)',
    "solve-gpus": """solve.fewest_gpus(
    "meta-llama/Llama-3.1-70B-Instruct", load=chat,
)""",
    "solve-none": 'solve.most_requests("Qwen/Qwen3-8B", "L4", prompt_tokens=40_000)',
    "speed": "planner.speed_bound(small, chat)",
    "ray": "pipe",
    "ray-placed": """pipe.on(
    [ray.Node(name="a", cpus=32, gpus=4), ray.Node(name="b", cpus=32, gpus=2)]
)""",
    "confirm": "confirmations.confirmed()",
    "confirm-off": "confirmations.off()",
    "confirm-loaded": "confirmations.loaded()",
    "confirm-contradicted": "confirmations.contradicted()",
    "dry-run": "confirmations.dry_run()",
    "dry-run-unplanned": "confirmations.unplanned_run()",
    "read": "planner.read(COMMAND)",
    "explain": 'planner.read(TEXTS / "log-docker-too-long.txt").explain()',
    "explain-started": 'planner.read(TEXTS / "log-started-4090.txt").explain()',
}
"""By a short name, the last line of a cell."""

LIGHT, DARK = "JupyterLab Light", "JupyterLab Dark"
OUTPUT = ".jp-CodeCell .jp-OutputArea-output"


@contextmanager
def opened(browser: Any, folder: Path) -> Iterator[Any]:
    """JupyterLab on a notebook with every view, its cells run."""
    path = servers.write("views", folder, [HEAD, *VIEWS.values()])
    with servers.jupyterlab(folder) as address:
        context = browser.new_context(viewport={"width": 1400, "height": 1000})
        page = context.new_page()
        lab.run_all(page, address, path)
        page.evaluate("window.jupyterapp.shell.collapseLeft()")
        page.locator(OUTPUT).nth(len(VIEWS) - 1).wait_for(state="attached")
        yield page
        context.close()


def show(page: Any, width: int, theme: str) -> None:
    """Make the outputs so wide, in this theme of JupyterLab."""
    page.evaluate(
        "theme => window.jupyterapp.commands"
        ".execute('apputils:change-theme', { theme })",
        theme,
    )
    page.wait_for_function(
        "theme => document.body.dataset.jpThemeName === theme", arg=theme
    )
    first = page.locator(OUTPUT).first
    size = page.viewport_size
    missing = width - first.evaluate("output => output.clientWidth")
    page.set_viewport_size(size | {"width": size["width"] + missing})
    page.wait_for_function(
        "([output, width]) => output.clientWidth === width",
        arg=[first.element_handle(), width],
    )
