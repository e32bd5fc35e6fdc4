"""The controls without a browser: what a page may send, and what it is told."""

import asyncio
import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.app.widgets import arguments, choices, parsing
from planner.app.widgets.controls import Controls, FieldGroup
from planner.app.widgets.explorer import Explorer
from planner.app.widgets.fields import EntryField, Field, SwitchField
from planner.app.widgets.form import Form
from planner.app.widgets.models import ModelField
from planner.engine.arguments import ARGUMENTS
from planner.engine.gpu import CPU
from planner.engine.releases import NEWEST
from planner.errors import PlannerError
from tests import plans


@pytest.fixture
def form() -> Form:
    """Of an explorer that opens on the default plan."""
    return Explorer().form


def listened(controls: Controls) -> list[dict]:
    """Collect what a widget sends to its pages."""
    sent: list[dict] = []
    controls.send = sent.append
    return sent


def send(controls: Controls, message: object) -> None:
    """Send a message as a page does."""
    controls._handle_custom_msg(message, [])


def alone(*fields: Field) -> Controls:
    """Show some fields."""
    return Controls([FieldGroup("", fields)])


# Messages


def test_a_step_is_answered_once_with_what_has_changed(form) -> None:
    """The number that the page gave comes back with the changed field."""
    sent = listened(form.main)
    send(form.main, {"set": "max_model_len", "value": 8192, "n": 7})

    (message,) = sent
    assert message["ack"] == 7
    assert message["show"]["max_model_len"] == {"v": "8192", "set": True}


def test_what_changes_nothing_is_answered_all_the_same(form) -> None:
    """Else the page would wait."""
    sent = listened(form.main)
    send(form.main, {"set": "max_model_len", "value": "", "n": 8})

    assert sent == [{"ack": 8}]


@pytest.mark.parametrize(
    "message",
    [
        None,
        "set",
        7,
        [],
        {},
        {"set": "max_model_len"},
        {"set": 7, "value": 1},
        {"set": "no_such_argument", "value": 1},
        {"set": "max_model_len", "value": [8192]},
        {"set": "max_model_len", "value": {"a": 1}},
        {"set": "max_model_len", "value": True},
        {"set": "max_model_len", "value": "9" * 5000},
        {"set": "kv_cache_dtype", "value": "float128"},
        {"set": "kv_cache_dtype", "value": 8},
        {"set": "gpu", "value": "#99"},
        {"set": "gpu", "value": ["H100"]},
        {"set": "model", "value": 8},
        {"set": "model", "value": "m" * 5000},
        {"set": "block_size", "value": 32},
        {"explain": "no_such_argument"},
        {"explain": 7},
        {"find": 7},
        {"ready": 1.5},
        {"find": "m" * 5000},
        {"method": "update", "state": {}},
    ],
)
def test_messages_of_other_shapes_change_nothing_and_are_logged(
    form, caplog, message
) -> None:
    """A page can send anything; arguments of the other widget count as that."""
    before = {name: field.value for name, field in form.fields.items()}
    send(form.main, message)

    assert before == {name: field.value for name, field in form.fields.items()}
    assert "an invalid message of the controls" in caplog.text


@pytest.mark.parametrize("number", [None, "7", 7.0, True, [7]])
def test_only_whole_numbers_are_acknowledged(form, number) -> None:
    """Nothing that a page sends comes back to it unless it is a number."""
    sent = listened(form.main)
    send(form.main, {"set": "max_model_len", "value": "", "n": number})

    assert sent == []


def test_a_page_cannot_set_the_state(form, caplog) -> None:
    """It is told what to show; it does not tell."""
    form.main.set_state({"groups": [], "is_disabled": True, "typed": "secret"})

    assert form.main.groups
    assert not form.main.is_disabled
    assert "sent a state" in caplog.text
    assert "secret" not in caplog.text


def test_a_locked_control_takes_nothing(form) -> None:
    """As while vLLM runs."""
    form.main.is_disabled = True
    send(form.main, {"set": "max_model_len", "value": 8192})

    assert form.fields["max_model_len"].value == ""


def test_many_changes_at_once_are_told_once() -> None:
    """An advice moves several controls; the page hears of it when it is done."""

    async def user() -> list[dict]:
        form = Explorer().form
        sent = listened(form.main)
        form.set({"max_model_len": 4096, "max_num_seqs": 8, "kv_cache_dtype": "fp8"})
        assert sent == []
        await asyncio.sleep(0)
        return sent

    (message,) = asyncio.run(user())
    assert {"max_model_len", "max_num_seqs", "kv_cache_dtype"} <= set(message["show"])


def test_a_page_that_comes_later_is_shown_the_present(form) -> None:
    """Not what stood here at first."""
    send(form.main, {"set": "max_model_len", "value": "lots"})
    shown = form.main.get_state()["state"]["max_model_len"]

    assert shown["v"] == "lots"
    assert "was not understood" in shown["e"]


def test_a_page_that_could_not_listen_yet_catches_up(form) -> None:
    """JupyterLab opens the widget before the first plan and misses what it says."""
    sent = listened(form.main)
    send(form.main, {"ready": True})
    (message,) = sent

    assert message["show"]["max_num_seqs"] == {"c": "1024"}
    assert "quantization" not in message["show"]


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists))
def test_no_value_of_any_kind_raises_in_a_field(value) -> None:
    """It is taken as it was sent, or refused; reading it says what is wrong."""
    fields = [
        EntryField("max_model_len", "", parsing.LENGTH),
        EntryField("block_size", "", parsing.WHOLE),
        EntryField("gpu_memory_utilization", "", parsing.NUMBER),
        EntryField("cudagraph_capture_sizes", "", parsing.LIST),
        EntryField("limit_mm_per_prompt", "", parsing.JSON),
        EntryField("attention_backend", "", parsing.TEXT),
        arguments.field_of("kv_cache_dtype"),
        SwitchField("enforce_eager"),
        ModelField([], plans.LLAMA_8B),
    ]
    for field in fields:
        before = field.value
        if not field.receive(value):
            assert field.value is before
        with suppress(PlannerError):
            field.read()


# Values


def test_every_argument_of_the_planner_has_a_control_but_the_secret(form) -> None:
    """Whatever a plan can hold is shown somewhere."""
    start = {"model", "gpu", "entrypoint", "vllm_version"}
    known = {argument.name for argument in ARGUMENTS.values() if not argument.gone}

    own = {*form.needs.parts, *form.other_gpu, *form.hand.fields}
    assert set(form.fields) == start | own | known - set(arguments.SECRET)
    every = set(form.main.fields) | set(form.more.fields)
    assert every - set(form.features.parts) - {"load"} == set(form.fields)


@pytest.mark.parametrize(
    ("name", "sent", "value"),
    [
        ("block_size", "32", 32),
        ("cudagraph_capture_sizes", "1, 2 4", (1, 2, 4)),
        ("limit_mm_per_prompt", '{"image": 2}', {"image": 2}),
        ("enable_prefix_caching", "false", False),
        ("enable_prefix_caching", True, True),
        ("max_lora_rank", "64", 64),
        ("kv_cache_memory_bytes", "8GiB", "8GiB"),
        ("served_model_name", "mine, other", ["mine", "other"]),
        ("seed", "-1", -1),
        ("cpu_offload_gb", "2.5", 2.5),
        ("attention_backend", "FLASHINFER", "FLASHINFER"),
        ("kv_cache_dtype_skip_layers", "0,1", ("0", "1")),
        ("max_num_batched_tokens", "16K", 16384),
    ],
)
def test_what_a_page_sends_is_typed_as_vllm_types_it(form, name, sent, value) -> None:
    """And what a plan holds is written so that it is read back."""
    field = form.fields[name]
    assert field.receive(sent)
    read = field.read()
    field.put(None)
    field.put(read)

    assert value == read == field.read()
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("name", "sent", "words"),
    [
        ("limit_mm_per_prompt", "{'image': 2}", "is not valid JSON (line 1, column 2"),
        ("limit_mm_per_prompt", "7", "names and values are needed"),
        ("cudagraph_capture_sizes", "many", "a list of whole numbers from 1"),
        ("cpu_offload_gb", "nan", "was not understood"),
        ("block_size", "0", "a whole number from 1 is needed"),
        ("seed", "1" * 30, "was not understood"),
    ],
)
def test_what_vllm_would_not_take_is_said_at_the_field(form, name, sent, words) -> None:
    """The text typed stays."""
    field = form.fields[name]
    send(form.more, {"set": name, "value": sent})

    assert words in field.error
    assert field.is_set


def test_vllms_own_defaults_are_shown_before_any_plan() -> None:
    """As its parser has them."""
    form = Form(plans.LLAMA_8B, "H100")

    assert form.fields["max_lora_rank"].state()["c"] == "16"
    assert form.fields["enable_dbo"].state()["c"] == "off"


def test_the_choice_shown_is_vllms_not_the_user_s(form) -> None:
    """It stays what it was while something else is given."""
    field = form.fields["max_num_seqs"]
    send(form.main, {"set": "max_num_seqs", "value": 8})
    while_set = field.chosen
    send(form.main, {"set": "max_num_seqs", "value": None})

    assert while_set == field.chosen == "1024"
    assert not field.is_set


def test_the_lengths_end_at_what_the_model_was_made_for(form) -> None:
    """Llama-3.1 takes 131,072 tokens, Qwen3 40,960."""
    before = form.fields["max_model_len"].steps[-1]
    send(form.main, {"set": "model", "value": "Qwen/Qwen3-8B"})

    assert before == 131072
    assert form.fields["max_model_len"].steps[-1] == 40960


def test_arguments_of_later_releases_are_marked(form) -> None:
    """With the release they came with; none where the release has them."""
    send(form.more, {"set": "vllm_version", "value": "0.10.2"})
    marked = {name for name, field in form.fields.items() if field.since}
    send(form.more, {"set": "vllm_version", "value": NEWEST})

    assert "max_num_queued_reqs" in marked
    assert "max_model_len" not in marked
    assert not any(field.since for field in form.fields.values())


# Errors of planning


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("max_model_len=7: too long.", "max_model_len"),
        ("Please set `--kv-cache-dtype` to `auto`.", "kv_cache_dtype"),
        ("Set the `dtype` flag, for example: --dtype=half.", "dtype"),
        ("block_size=3 and max_num_seqs=2 do not go together.", "block_size"),
        ("the model's dtype is unknown", None),
        ("Something else is wrong.", None),
    ],
)
def test_an_error_is_placed_at_the_argument_that_it_names_first(
    form, text, name
) -> None:
    """Words of plain English are no arguments."""
    is_placed = form.place_error(PlannerError(text))
    wrong = [one for one, field in form.fields.items() if field.error]

    assert is_placed is (name is not None)
    assert wrong == ([name] if name else [])


# Published


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "../models", "~/m", "http://h/o/n", "o/n/x", "C:\\m", "a b/c", ""],
)
def test_strangers_name_models_of_the_catalogue_or_the_hub(monkeypatch, name) -> None:
    """Folders and addresses are refused at the box, and nothing is read."""
    monkeypatch.setenv("PLANNER_PUBLISHED", "1")
    explorer = Explorer()
    before = explorer.plan
    send(explorer.form.main, {"set": "model", "value": name})

    assert "owner/name" in explorer.form.model.error or not name
    assert explorer.form.model.error
    assert explorer.plan is before


def test_strangers_see_no_device_of_this_machine(monkeypatch) -> None:
    """Neither its GPUs nor its processor, though there are some."""
    monkeypatch.setenv("PLANNER_PUBLISHED", "1")
    options, _ = choices.gpus("H100")

    assert CPU not in [value for _, value in options]
    assert not [text for text, _ in options if "attached" in text]


# Numbers


def test_dust_is_left_out_of_shares() -> None:
    """A slider adds it."""
    assert parsing.write_number(0.9199999999999999) == "0.92"
    assert parsing.write_number(math.inf) == "inf"
