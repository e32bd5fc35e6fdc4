"""The Run panel in JupyterLab, with vLLM's CPU build behind it."""

import json
import os
import time

import pytest

pytest.importorskip("axe_playwright_python")

from tests.ui import run_pages, servers
from tests.ui.conftest import browser as browser  # noqa: PLC0414 - a fixture
from tests.ui.run_pages import BARS

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not os.environ.get("PLANNER_VLLM_PYTHON"),
        reason="PLANNER_VLLM_PYTHON does not name the Python of a vLLM CPU build",
    ),
]

START_MS = 240_000
TINY = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 512,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "torch_dtype": "float32",
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
EXPLORER = """\
from planner.widgets.explorer import Explorer
explorer = Explorer(
    {folder!r},
    "CPU",
    dtype="float32",
    gpu_memory_utilization=0.15,
    max_model_len=1024,
    enforce_eager=True,
    vllm_version="0.32.0",
)
explorer"""


@pytest.fixture
def page(browser, tmp_path, monkeypatch):
    """The explorer on a model of two layers, in JupyterLab, with its panel open."""
    model = tmp_path / "tiny"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(TINY), encoding="utf-8")
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path / "kept"))
    notebook = servers.write("run", tmp_path, [EXPLORER.format(folder=str(model))])
    with servers.jupyterlab(tmp_path) as address:
        opened = run_pages.open_in_lab(browser, address, notebook)
        run_pages.open_panel(opened)
        yield opened
        opened.context.close()


def children() -> set[int]:
    """Processes whose command line names this test's vLLM server."""
    found = set()
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                words = file.read()
        except OSError:
            continue
        if entry.isdigit() and b"test_" in words and b"tiny" in words:
            found.add(int(entry))
    return found


def test_run_stop_and_run_to_the_end(page, tmp_path) -> None:
    """Stop leaves no process; a whole run shows both bars, and axe-core passes."""
    page.locator(".pl-installed", has_text="vLLM 0.32.0 (CPU build)").wait_for(
        timeout=run_pages.SLOW
    )
    run_pages.press(page, "Run")
    run_pages.wait_for_stage(page, "starting", run_pages.SLOW)
    before = run_pages.command(page)
    handle = page.get_by_role("slider", name="gpu_memory_utilization")
    handle.focus()
    pressed = time.monotonic()
    handle.press("ArrowRight")
    page.locator(
        ".planner-results .pl-command code", has_text="--gpu-memory-utilization 0.16"
    ).first.wait_for(timeout=run_pages.PATIENCE)
    print(f"slider answered in {1000 * (time.monotonic() - pressed):.0f} ms")
    handle.press("ArrowLeft")
    run_pages.wait_for_state(page, "running")
    run_pages.press(page, "Stop")
    run_pages.wait_for_state(page, "ended")
    stopped = page.locator(".pl-run-stage").inner_text()
    page.wait_for_timeout(1000)
    left = children()
    run_pages.press(page, "Run")
    page.locator(BARS).first.wait_for(state="attached", timeout=START_MS)
    run_pages.wait_for_state(page, "ended", START_MS)
    given = page.locator(".pl-given").inner_text()
    served = page.locator(".pl-served").inner_text()
    found = run_pages.violations(page, ".planner-explorer")

    assert "0.15" in before
    assert "Not decided" in stopped
    assert left == set()
    assert "exactly what vLLM says" in given
    assert "It serves: one prompt was answered with" in served
    assert found == []
