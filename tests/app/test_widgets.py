"""The explorer's controls and answers, without a kernel or a browser."""

import threading

import pytest

import planner
from planner.app.widgets import static_files
from planner.app.widgets.callbacks import UNEXPECTED
from planner.app.widgets.explorer import Explorer
from planner.app.widgets.fields import doubling_steps
from planner.app.widgets.parsing import parse_count, parse_length
from planner.engine.releases import NEWEST
from planner.errors import ModelNotFound, PlannerError, UnknownArchitecture
from tests import plans


@pytest.fixture
def explorer() -> Explorer:
    """Llama-3.1-8B on an H100."""
    return Explorer()


def test_the_explorer_opens_on_a_plan_that_fits(explorer) -> None:
    """Verdict, chart, table and command are there at once."""
    assert explorer.plan.fits
    assert "Fits" in explorer.results.answer.parts["verdict"]
    explorer.results.tabs.choose("memory")
    assert "<table" in explorer.results.answer.parts["panel-memory"]
    assert (
        "vllm serve meta-llama/Llama-3.1-8B-Instruct"
        in explorer.results.answer.parts["command"]
    )
    assert explorer.results.answer.figure["data"]


@pytest.mark.parametrize(
    ("name", "value", "flag"),
    [
        ("dtype", "float16", "--dtype float16"),
        ("max_model_len", "8192", "--max-model-len 8192"),
        ("max_num_seqs", "32", "--max-num-seqs 32"),
        ("max_num_batched_tokens", "4096", "--max-num-batched-tokens 4096"),
        ("kv_cache_dtype", "fp8", "--kv-cache-dtype fp8"),
        ("tensor_parallel_size", 2, "--tensor-parallel-size 2"),
        ("pipeline_parallel_size", 2, "--pipeline-parallel-size 2"),
        ("data_parallel_size", 2, "--data-parallel-size 2"),
        ("gpu_memory_utilization", 0.5, "--gpu-memory-utilization 0.5"),
        ("enforce_eager", True, "--enforce-eager"),
    ],
)
def test_each_control_sets_vllms_argument(explorer, name, value, flag) -> None:
    """Under vLLM's own name, and back to vLLM's default when it is taken back."""
    field = explorer.form.fields[name]
    field.value = value
    changed = explorer.results.answer.parts["command"]
    field.value = field.default

    assert flag in changed
    assert flag not in explorer.results.answer.parts["command"]


def test_an_argument_that_cannot_be_planned_marks_the_last_good_plan(explorer) -> None:
    """Readable, but too many stages: its field says so."""
    field = explorer.form.fields["pipeline_parallel_size"]
    field.value = "100000000"
    told = field.error
    marked = explorer.results.answer.parts["stale"]
    field.value = field.default

    assert "at most 1,024" in told
    assert "Last good plan" in marked
    assert explorer.results.answer.parts["stale"] == ""


def test_the_gpu_and_the_model_are_controls_too(explorer) -> None:
    """Both change the plan."""
    explorer.form.fields["gpu"].value = "L4"
    explorer.form.fields["model"].value = "Qwen/Qwen3-8B"

    assert explorer.plan.gpu.name == "L4"
    assert explorer.plan.name == "Qwen/Qwen3-8B"


def test_one_user_action_computes_once(explorer, monkeypatch) -> None:
    """A step of a slider is one message and one plan."""
    calls = []
    real = planner.plan
    monkeypatch.setattr(
        "planner.app.widgets.explorer.plan_start",
        lambda **asked: calls.append(1) or real(**asked),
    )

    explorer.form.main._handle_custom_msg({"set": "max_model_len", "value": 8192}, [])

    assert len(calls) == 1
    assert explorer.plan.resolved.max_model_len == 8192


def test_the_default_that_vllm_chooses_is_shown_in_grey(explorer) -> None:
    """And follows the GPU, since nothing was typed."""
    field = explorer.form.fields["max_num_seqs"]
    on_h100 = field.chosen
    explorer.form.fields["gpu"].value = "L4"

    assert on_h100 == "1024"
    assert field.chosen == "256"
    assert field.value == ""
    assert field.state()["c"] == "256"


def test_an_untouched_slider_follows_the_release(explorer, monkeypatch) -> None:
    """0.90 up to 0.19, 0.92 later; a share that the user chose stays."""
    calls = []
    plan = planner.plan
    monkeypatch.setattr(
        "planner.app.widgets.explorer.plan_start",
        lambda **given: calls.append(given) or plan(**given),
    )
    share = explorer.form.fields["gpu_memory_utilization"]
    release = explorer.form.fields["vllm_version"]
    release.value = "0.19.0"
    assert share.chosen == "0.9"
    assert len(calls) == 1
    assert "--gpu-memory-utilization" not in explorer.results.answer.parts["command"]
    share.value = 0.5
    release.value = NEWEST
    assert share.value == 0.5


@pytest.mark.parametrize("text", ["many", "12.5", "0", "8 tokens"])
def test_a_wrong_entry_is_named_beside_it_and_the_plan_stays(explorer, text) -> None:
    """The last good plan is still on the screen."""
    before = explorer.plan
    field = explorer.form.fields["max_model_len"]
    field.value = text

    assert "max_model_len" in field.error
    assert field.state()["v"] == text
    assert explorer.plan is before
    field.value = "4096"
    assert field.error == ""
    assert explorer.plan.resolved.max_model_len == 4096


def test_a_count_below_one_is_refused_beside_it(explorer) -> None:
    """No silent clamp."""
    before = explorer.plan
    field = explorer.form.fields["tensor_parallel_size"]
    field.value = 0

    assert "tensor_parallel_size=0" in field.error
    assert explorer.plan is before


def test_what_is_not_modelled_is_said_and_the_plan_stays(explorer, monkeypatch) -> None:
    """At the field that it names; cleared by the next good input."""
    before = explorer.plan

    def unknown(**_asked: object) -> None:
        raise UnknownArchitecture("quantization='fp8' is not modelled yet.")

    with monkeypatch.context() as patched:
        patched.setattr("planner.app.widgets.explorer.plan_start", unknown)
        explorer.form.fields["quantization"].value = "fp8_per_tensor"
    said = explorer.form.fields["quantization"].error
    explorer.form.fields["quantization"].value = None

    assert "not modelled yet" in said
    assert explorer.plan.settings == before.settings
    assert explorer.form.fields["quantization"].error == ""
    assert explorer.results.answer.alert == ""


def test_a_mistake_of_ours_is_shown_and_logged(explorer, monkeypatch, caplog) -> None:
    """Voila would hide it."""

    def broken(**_asked: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("planner.app.widgets.explorer.plan_start", broken)
    explorer.form.fields["enforce_eager"].value = True

    assert UNEXPECTED in explorer.results.answer.alert
    assert "ZeroDivisionError" in caplog.text


def test_vllms_refusal_is_quoted(explorer) -> None:
    """A refused start is a result, not an error of the input."""
    explorer.form.fields["max_model_len"].value = "200000"

    assert "refuses" in explorer.results.answer.parts["verdict"]
    assert "200000" in explorer.results.answer.parts["error"]
    assert explorer.results.answer.alert == ""


@pytest.fixture
def without_loop(monkeypatch) -> None:
    """Hand a reader's answer back at once, whatever loop is running."""
    monkeypatch.setattr(
        "planner.app.widgets.background._poster", lambda: lambda call: call()
    )


@pytest.mark.usefixtures("without_loop")
def test_a_model_from_elsewhere_is_read_apart(explorer, monkeypatch) -> None:
    """The page says so meanwhile, and shows the model when it has come."""
    answer, asked = threading.Event(), []
    real = planner.plan

    def slow(model: object, **arguments: object) -> planner.Plan:
        if model == "org/elsewhere":
            asked.append(model)
            answer.wait(10)
            return real(plans.LLAMA_8B)
        return real(model, **arguments)

    monkeypatch.setattr("planner.app.widgets.explorer.plan_start", slow)
    explorer.form.fields["model"].value = "org/elsewhere"
    reading = explorer.form.model.state()["reading"]
    answer.set()
    explorer._reader.wait(10)

    assert reading == "org/elsewhere"
    assert asked == ["org/elsewhere"]
    assert explorer.form.model.reading == ""
    assert explorer.plan.name == plans.LLAMA_8B


@pytest.mark.usefixtures("without_loop")
def test_a_model_that_is_not_found_leaves_the_plan(explorer, monkeypatch) -> None:
    """With the reason in an alert."""
    before, real = explorer.plan, planner.plan

    def missing(model: object, **arguments: object) -> planner.Plan:
        if model == "org/nowhere":
            raise ModelNotFound("'org/nowhere' was not found.")
        return real(model, **arguments)

    monkeypatch.setattr("planner.app.widgets.explorer.plan_start", missing)
    explorer.form.fields["model"].value = "org/nowhere"
    explorer._reader.wait(10)

    assert "org/nowhere" in explorer.results.answer.alert
    assert explorer.plan is before


def test_an_empty_model_is_refused_beside_it(explorer) -> None:
    """What to type is said."""
    explorer.form.fields["model"].value = " "

    assert "No model was given" in explorer.form.model.error


@pytest.mark.parametrize("plan", [plans.fitting, plans.too_long, plans.in_stages])
def test_a_plan_opens_in_the_explorer_as_it_is(plan) -> None:
    """explore() shows the same command."""
    assert plan().explore().plan.command() == plan().command()


def test_arguments_from_all_over_are_kept() -> None:
    """Those of the panel for all arguments too."""
    explorer = planner.plan(plans.LLAMA_8B, block_size=32).explore()
    explorer.form.fields["enforce_eager"].value = True

    assert explorer.plan.settings.block_size == 32


def test_how_vllm_is_started_is_kept() -> None:
    """Entry point and variables, which a start from the page needs too."""
    asked = {"entrypoint": "llm", "env": {"VLLM_USE_FLASHINFER_SAMPLER": "0"}}
    plan = planner.plan(plans.LLAMA_8B, gpu="H100", **asked)
    opened = plan.explore().plan

    assert opened.entrypoint == "llm"
    assert opened.env == plan.env
    assert opened.env


def test_a_gpu_of_ones_own_is_offered_first() -> None:
    """A GPU with replaced facts is not taken for the catalogue's."""
    own = planner.GPU(
        name="mine", total_memory_bytes=48 << 30, compute_capability=(9, 0)
    )
    explorer = Explorer(plans.LLAMA_8B, own)

    assert explorer.plan.gpu == own
    assert "mine" in explorer.form.fields["gpu"].options[0][0]


@pytest.mark.parametrize(
    ("text", "number"),
    [("8192", 8192), ("8,192", 8192), ("8k", 8000), ("8K", 8192), ("1.5k", 1500)],
)
def test_numbers_are_read_as_vllms_command_line_reads_them(text, number) -> None:
    """k is a thousand, K is 1,024."""
    assert parse_count("max_num_seqs", text) == number


def test_auto_is_a_length_and_not_a_count() -> None:
    """-1 is vLLM's number for it."""
    assert parse_length("max_model_len", "auto") == -1
    with pytest.raises(PlannerError, match="max_num_seqs was not understood"):
        parse_count("max_num_seqs", "auto")


def test_steps_double_and_end_at_the_largest() -> None:
    """Small numbers are not repeated."""
    assert doubling_steps(1, 8) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_the_page_gets_plotlys_basic_bundle() -> None:
    """As its makers publish it, with its licence beside it."""
    served = static_files.for_page().decode()

    assert served.startswith("/**\n* plotly.js (basic - minified) v")
    assert len(served) < 1_500_000
    assert "MIT" in (static_files.VENDORED / "plotly-LICENSE.txt").read_text()


def test_the_dust_that_a_page_adds_to_a_share_is_no_change(explorer, monkeypatch):
    """A slider answers 0.92 with 0.9199999999999999 when it is drawn."""
    calls = []
    monkeypatch.setattr(
        "planner.app.widgets.explorer.plan_start", lambda **given: calls.append(given)
    )
    before = explorer.form.fields["gpu_memory_utilization"]
    before.value = "0.92"
    calls.clear()
    sent = {"set": "gpu_memory_utilization", "value": 0.9199999999999999}
    explorer.form.main._handle_custom_msg(sent, [])

    assert "0.92" == before.value
    assert [] == calls
