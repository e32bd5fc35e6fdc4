"""`%plan` in a real kernel, as Jupyter drives it."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel

from planner.app.cli.engine_flags import add_file_argument
from planner.app.magic import next_words
from tests.conftest import ROOT
from tests.samples import samples_of

PATIENCE = 300
QWEN = "Qwen/Qwen3-8B"


class Kernel:
    """A kernel that has loaded the extension, and what it says."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def run(self, code: str) -> dict[str, Any]:
        """Run a cell; returns the messages of one kind last sent, by their kind."""
        said: dict[str, Any] = {}
        reply = self.client.execute_interactive(
            code,
            timeout=PATIENCE,
            output_hook=lambda message: said.update(
                {message["msg_type"]: message["content"]}
            ),
        )
        return said | {"status": reply["content"]["status"], **reply["content"]}

    def text(self, code: str) -> str:
        """Run a cell and return its value as plain text."""
        said = self.run(code)
        assert "ok" == said["status"], said
        return said["execute_result"]["data"]["text/plain"]

    def sentence(self, code: str) -> str:
        """Run a cell that is refused and return all that the notebook shows of it."""
        return "\n".join(self.run(code)["error"]["traceback"])

    def offered(self, code: str) -> list[str]:
        """What the Tab key offers at the end of `code`, put into its place."""
        self.client.complete(code, len(code))
        content = self.client.get_shell_msg(timeout=PATIENCE)["content"]
        start = content["cursor_start"]
        return [code[:start] + match for match in content["matches"]]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory) -> Iterator[Kernel]:
    """One kernel for the module."""
    folder = tmp_path_factory.mktemp("kernel")
    manager, client = start_new_kernel(
        kernel_name="python3",
        startup_timeout=PATIENCE,
        cwd=str(folder),
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    started = Kernel(client)
    started.run("%load_ext planner")
    yield started
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.mark.server
def test_a_plan_shows_itself(kernel) -> None:
    """The same flags as `vllm serve`; text for terminals, HTML for notebooks."""
    said = kernel.run(f"%plan {QWEN} --gpu H100 --max-model-len 32768")
    data = said["execute_result"]["data"]

    assert f"vllm serve {QWEN} --max-model-len 32768" in data["text/plain"]
    assert "Fits" in data["text/html"]


@pytest.mark.server
def test_a_plan_is_a_value(kernel) -> None:
    """It may be assigned, and asked afterwards."""
    kernel.run(f"found = %plan {QWEN} --gpu L4 --enforce-eager")

    assert f"('{QWEN}', 'L4', True)" == kernel.text(
        "(found.name, found.gpu.name, found.settings.enforce_eager)"
    )


@pytest.mark.server
def test_a_semicolon_keeps_the_plan_silent(kernel) -> None:
    """As it does for every expression in a notebook."""
    said = kernel.run(f"%plan {QWEN};")

    assert "ok" == said["status"]
    assert "execute_result" not in said


@pytest.mark.server
def test_names_stand_for_variables_and_braces_for_json(kernel) -> None:
    """$name and {name} are whole words; JSON in quotes stays what it is."""
    kernel.run(f"model, card = {QWEN!r}, 'L40S'")
    shown = kernel.text(
        "%plan $model --gpu {card} --limit-mm-per-prompt '{\"image\": 1}'"
    )

    assert f"{QWEN} on L40S" in shown
    assert """--limit-mm-per-prompt '{"image": 1}'""" in shown


@pytest.mark.server
def test_a_plan_file_works_with_flags_beside_it(kernel) -> None:
    """Flags count instead of the file; its load is judged too."""
    written = (
        "from pathlib import Path\n"
        "_ = Path('plan.yaml').write_text('model: Qwen/Qwen3-8B\\ngpu: H100\\n"
        "load: {prompt_tokens: 1000, output_tokens: 200, requests: 8}\\n')"
    )
    kernel.run(written)
    said = kernel.run("%plan -f plan.yaml --gpu H200")

    assert f"{QWEN} on H200" in said["execute_result"]["data"]["text/plain"]
    assert "serves 8 of 8 at once" in said["execute_result"]["data"]["text/plain"]


@pytest.mark.server
def test_the_explorer_opens_on_the_plan(kernel) -> None:
    """--explore returns the widget instead of the plan."""
    said = kernel.run(f"%plan {QWEN} --gpu L4 --explore")
    # ipywidgets 7 displays what ipywidgets 8 returns.
    shown = said.get("execute_result") or said["display_data"]

    assert "application/vnd.jupyter.widget-view+json" in shown["data"]


@pytest.mark.server
@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", "Name a model, such as Qwen/Qwen3-8B, or a plan file with -f plan.yaml."),
        (f"{QWEN} --gpu", "Argument --gpu: expected one argument. `%plan?` helps."),
        (f"{QWEN} more", "'more' was not expected here. `%plan?` helps."),
        (f"{QWEN} 'open", "A quote is not closed."),
        (
            f"{QWEN} --max-model-length 5",
            "'max_model_length' is not an engine argument of vLLM. "
            "Did you mean max_model_len?",
        ),
        (
            f"{QWEN} --gpu $missing",
            "$missing: the notebook has no variable missing.",
        ),
        (
            "-f gone.yaml",
            "The plan file gone.yaml cannot be read: No such file or directory.",
        ),
    ],
)
def test_what_is_refused_is_one_sentence(kernel, line, sentence) -> None:
    """No traceback: what was given, what is allowed, what to do."""
    assert sentence == kernel.sentence(f"%plan {line}")


@pytest.mark.server
def test_a_refusal_stops_the_cell(kernel) -> None:
    """What follows would work with an older plan."""
    kernel.run("after = 1")
    kernel.run("found = %plan --gpu L4\nafter = 2")

    assert "1" == kernel.text("after")


@pytest.mark.server
def test_the_magic_documents_itself(kernel) -> None:
    """`%plan?` opens the pager with every flag."""
    (page,) = kernel.run("%plan?")["payload"]
    printed = kernel.run("%plan --help")["stream"]["text"]

    for told in (page["data"]["text/plain"], printed):
        assert "Plan vLLM's GPU memory" in told
        assert "--gpu-memory-utilization SHARE" in told
        assert "--explore" in told


@pytest.mark.server
@pytest.mark.parametrize(
    ("typed", "offer"),
    [
        ("%plan qwen/qwen3-8", f"%plan {QWEN}"),
        ("%plan 3.1-8B-Inst", "%plan meta-llama/Llama-3.1-8B-Instruct"),
        (f"%plan {QWEN} --gp", f"%plan {QWEN} --gpu"),
        (f"%plan {QWEN} --gpu h10", f"%plan {QWEN} --gpu H100"),
        (f"%plan {QWEN} --gpu=h10", f"%plan {QWEN} --gpu=H100"),
        (f"x = %plan {QWEN} --dtype b", f"x = %plan {QWEN} --dtype bfloat16"),
        ("%plan --kv-cache-dtype ", "%plan --kv-cache-dtype fp8"),
        ("%plan --entrypoint ", "%plan --entrypoint llm"),
        ("y = 1\n%plan --vllm-version 0.9", "y = 1\n%plan --vllm-version 0.9.2"),
        ("%plan --enforce-eager mist", "%plan --enforce-eager mistralai/Mistral-7B"),
        ("%plan --load-f", "%plan --load-format"),
    ],
)
def test_the_tab_key_completes(kernel, typed, offer) -> None:
    """Models, flags, GPUs and values of lists, through the kernel's own request."""
    found = kernel.offered(typed)

    assert any(one.startswith(offer) for one in found)
    assert all(one.startswith(typed[: typed.rindex("%plan")]) for one in found)


@pytest.mark.server
def test_the_tab_key_offers_plan_s_words_only(kernel) -> None:
    """No names of Python between the GPUs; other lines are completed as before."""
    gpus = kernel.offered(f"%plan {QWEN} --gpu L")
    kernel.run("some_long_name = 1")

    assert {"L4", "L40", "L40S", "L20"} == {one.split()[-1] for one in gpus}
    assert "some_long_name" in kernel.offered("some_long_na")


@pytest.mark.server
def test_the_tab_key_completes_plan_files(kernel) -> None:
    """A path is left to IPython's own completion."""
    kernel.run("_ = open('short.yaml', 'w').close()")

    assert "%plan -f short.yaml" in kernel.offered("%plan -f sho")


@pytest.mark.server
def test_unloading_takes_the_magic_back(kernel) -> None:
    """And loading again brings it once."""
    kernel.run("%unload_ext planner")
    said = kernel.run(f"%plan {QWEN}")
    kernel.run("%load_ext planner")
    kernel.run("%reload_ext planner")
    found = kernel.offered("%plan --gpu H10")

    assert re.search("%plan.*not found", str(said))
    assert sorted(set(found)) == sorted(found) != []


@pytest.mark.server
def test_the_page_on_notebooks_shows_what_its_cells_answer(kernel) -> None:
    """Each cell of docs/notebooks.md runs, and says what stands below it."""
    blocks = samples_of(ROOT / "docs" / "notebooks.md")
    cells = [
        (block.text, after.text if after and after.is_shown_by_code else "")
        for block, after in zip_longest(blocks, blocks[1:])
        if block.language == "python"
    ]

    assert len(cells) >= 5
    for code, shown in cells:
        said = kernel.run(code)
        value = said.get("execute_result", {}).get("data", {}).get("text/plain", "")
        told = "\n".join([value, *said.get("error", {}).get("traceback", [])])
        assert ("error" if "is not an engine" in shown else "ok") == said["status"]
        for part in shown.split("...\n"):
            assert part in f"{told}\n"


def test_a_model_is_offered_once() -> None:
    """After it only flags come; a flag with a list of values takes more of them."""
    parser = argparse.ArgumentParser(add_help=False)
    add_file_argument(parser)

    assert () == next_words(parser, f"{QWEN} Qw").offered
    assert "--gpu" in next_words(parser, f"{QWEN} ").offered
    assert QWEN in next_words(parser, "").offered
    assert "--gpu" in next_words(parser, "--cudagraph-capture-sizes 1 2 ").offered
    assert () == next_words(parser, f"'{QWEN} Qw").offered


# %%vllm

DOCKER = (
    "docker run --gpus 1 vllm/vllm-openai:v0.33.0 \\\n"
    f"  --model {QWEN} --max-model-len 16384 --enable-auto-tool-choice  # tools"
)


@pytest.mark.server
def test_a_cell_shows_what_was_read_and_its_plan(kernel) -> None:
    """Text for terminals, HTML for notebooks; what was kept is named."""
    said = kernel.run(f"%%vllm --gpu L4\n{DOCKER}")
    data = said["execute_result"]["data"]

    assert "enable_auto_tool_choice" in data["text/plain"]
    assert f"{QWEN} on L4" in data["text/plain"]
    assert "The GPU is not named" not in data["text/plain"]
    assert "pl-verdict" in data["text/html"]


@pytest.mark.server
def test_a_cell_is_a_value_with_its_plan(kernel) -> None:
    """The last value of the notebook: reading, plan, and no explanation of a start."""
    kernel.run(f"%%vllm --gpu H100\n{DOCKER}")
    kernel.run("found = Out[max(Out)]")

    assert f"('container', '{QWEN}', 16384, None)" == kernel.text(
        "(str(found.reading.kind), found.plan.name,"
        " found.plan.resolved.max_model_len, found.explanation)"
    )


@pytest.mark.server
def test_a_cell_without_a_gpu_says_what_to_give(kernel) -> None:
    """What was read is shown all the same."""
    said = kernel.run(f"%%vllm\nvllm serve {QWEN} --max-model-len 4096")
    text = said["execute_result"]["data"]["text/plain"]

    assert QWEN in text
    assert "Not planned: The text does not say on which GPU" in text


@pytest.mark.server
def test_a_cell_that_is_no_start_is_refused_in_a_sentence(kernel) -> None:
    """No traceback."""
    assert "No start of vLLM was found" in kernel.sentence("%%vllm\nwhat is this?")
    assert "`%%vllm?` helps" in kernel.sentence(f"%%vllm --gpux L4\n{DOCKER}")


@pytest.mark.server
def test_nothing_in_a_cell_is_run_or_replaced(kernel) -> None:
    """Neither the shell's substitutions nor the notebook's braces."""
    kernel.run("mark = 1")
    kernel.run(
        "%%vllm --gpu L4\n"
        f"vllm serve {QWEN} --served-model-name $(touch ran) {{mark}} --seed 1"
    )

    assert "False" == kernel.text("__import__('os').path.exists('ran')")


@pytest.mark.server
def test_the_help_of_a_cell_names_its_options(kernel) -> None:
    """`%%vllm -h` prints it."""
    said = kernel.run("%%vllm -h\n ")

    assert "--start N" in said["stream"]["text"]
    assert "nothing of it is run" in said["stream"]["text"]
