"""While an entry is wrong, the answer is not for it: it says so; nothing applies."""

import pytest

from planner.app.widgets.explorer import Explorer
from planner.engine.not_covered import NOT_COVERED
from planner.planning.inputs import Inputs
from tests import plans


@pytest.fixture
def explorer() -> Explorer:
    """Llama-3.1-8B with its whole length on an L4, where it does not fit."""
    return Explorer(plans.LLAMA_8B, "L4")


@pytest.fixture
def without_loop(monkeypatch) -> None:
    """Hand a reader's answer back at once, whatever loop is running."""
    monkeypatch.setattr(
        "planner.app.widgets.background._poster", lambda: lambda call: call()
    )


def press(explorer: Explorer, key: str) -> None:
    """Press Apply as a page does."""
    message = {"press": "apply", "row": key}
    explorer.results.advice._handle_custom_msg(message, [])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("max_model_len", "lots"),
        ("tensor_parallel_size", "0"),
        ("pipeline_parallel_size", "100000000"),
    ],
)
def test_the_error_stands_at_the_field_and_above_the_answer(
    explorer, name, text
) -> None:
    """With the name of the plan that is still shown; the field speaks, once."""
    explorer.form.fields[name].value = text
    field, answer = explorer.form.fields[name], explorer.results.answer

    assert field.error
    assert field.error.split(":")[0] in answer.alert.replace("&#x27;", "'")
    assert f"{plans.LLAMA_8B} on L4, the last good plan" in answer.alert
    assert "role=" not in answer.alert
    assert answer.is_stale


def test_no_advice_is_applied_while_an_entry_is_wrong(explorer) -> None:
    """What was typed stays; once it is right, the change sets what it names."""
    explorer.form.fields["max_num_seqs"].value = "many"
    press(explorer, "0")
    kept = explorer.form.fields["max_num_seqs"].value
    refused = explorer.results.answer.alert
    explorer.form.fields["max_num_seqs"].value = "8"
    press(explorer, "0")

    assert "many" == kept
    assert "Correct the marked control first" in refused
    assert explorer.plan.settings.max_num_seqs == 8
    assert explorer.plan.fits


@pytest.mark.usefixtures("without_loop")
def test_the_nearest_models_are_offered_where_one_is_not_found(explorer) -> None:
    """Each as a name that can be chosen."""
    explorer.form.fields["model"].value = "meta-llama/Llama-3.1-8B-Instrukt"
    explorer._reader.wait(20)
    field = explorer.form.model

    assert plans.LLAMA_8B in field.suggested
    assert plans.LLAMA_8B in field.state()["try"]
    explorer.form.fields["model"].value = field.suggested[0]
    assert () == field.suggested
    assert not explorer.results.answer.is_stale


def test_a_gpu_of_ones_own_needs_its_memory(explorer) -> None:
    """Its fields come with the choice, and say what is missing; first of all a name."""
    fields = explorer.form.fields
    hidden = set(explorer.form.main.gone)
    fields["gpu"].value = "another"

    assert {"gpu_memory", "gpu_capability", "gpu_bandwidth", "gpu_name"} <= hidden
    assert "gpu_memory" not in explorer.form.main.gone
    assert fields["gpu_name"].error.startswith("Name a slice of a GPU")
    assert explorer.results.answer.is_stale
    fields["gpu_capability"].value = "8.9"
    assert "Memory of the other GPU is needed" in fields["gpu_memory"].error


def test_a_gpu_of_ones_own_is_planned_and_taken_back(explorer) -> None:
    """48 GiB of compute capability 8.9; its name and bandwidth may be left out."""
    fields = explorer.form.fields
    fields["gpu"].value = "another"
    fields["gpu_memory"].value = "48GiB"
    fields["gpu_capability"].value = "8.9"
    planned = explorer.plan.gpu
    fields["gpu_memory"].value = "lots"
    wrong = fields["gpu_memory"].error
    fields["gpu"].value = "L4"

    assert (48 << 30, (8, 9)) == (
        planned.total_memory_bytes,
        planned.compute_capability,
    )
    assert "Size 'lots' was not understood" in wrong
    assert "L4" == explorer.plan.gpu.name
    assert "" == fields["gpu_memory"].error


def test_slices_are_found_by_their_name(explorer) -> None:
    """The list has whole GPUs; a slice that is chosen is listed as long as it is."""
    fields = explorer.form.fields
    listed = {row[0] for row in fields["gpu"].state()["options"]}
    fields["gpu"].value = "another"
    fields["gpu_name"].value = "H100-MIG-1g.10gb"

    assert not any("MIG-" in name for name in listed)
    assert "H100-MIG-1g.10gb" in fields["gpu_name"].state()["known"]
    assert "H100-MIG-1g.10gb" == explorer.plan.gpu.name
    explorer.take(Inputs(model="Qwen/Qwen3-8B", gpu="H200-MIG-1g.18gb"))
    assert "H200-MIG-1g.18gb" == fields["gpu"].value == explorer.plan.gpu.name


def test_what_is_not_covered_is_not_listed_and_says_why(explorer) -> None:
    """AMD, TPU and others, by their names."""
    fields = explorer.form.fields
    options = fields["gpu"].state()["options"]
    fields["gpu"].value = "another"
    fields["gpu_name"].value = "MI300X"

    assert not {row[1] for row in options} & {*NOT_COVERED}
    assert "'MI300X' is an AMD GPU, and is not covered" in fields["gpu_name"].error


def test_a_refusal_shows_no_default_of_the_model_before(explorer) -> None:
    """Its own length, and nothing where vLLM stops before it chooses."""
    fields = explorer.form.fields
    explorer.take(
        Inputs(
            model="Qwen/Qwen3-8B", gpu="H100", engine_args={"tensor_parallel_size": 3}
        )
    )

    assert explorer.plan.error.kind == "refused"
    assert fields["max_model_len"].chosen == "40960"
    assert not fields["max_num_seqs"].chosen
    assert fields["pipeline_parallel_size"].chosen == "1"


def test_a_refusal_by_one_control_leaves_the_others_as_they_were(explorer) -> None:
    """Of the same model on the same GPU: nothing on the page jumps."""
    fields = explorer.form.fields
    before = fields["max_num_seqs"].chosen, fields["max_model_len"].chosen
    fields["tensor_parallel_size"].value = "3"

    assert explorer.plan.error.kind == "refused"
    assert before == (fields["max_num_seqs"].chosen, fields["max_model_len"].chosen)


def test_a_format_of_the_model_before_is_not_shown_for_another(explorer) -> None:
    """As published: fp8, and then as published alone; so after a recipe."""
    quantization = explorer.form.fields["quantization"]
    explorer.form.fields["model"].value = "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8"
    of_release = quantization.chosen
    explorer.form.fields["model"].value = "Qwen/Qwen3-8B"

    assert of_release
    assert quantization.chosen == ""
