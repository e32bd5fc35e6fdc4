"""Controls for what users switch on: adapters, images, drafts, offloading, graphs."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner.app.widgets import parsing
from planner.app.widgets.background import Drafts, named
from planner.app.widgets.controls import Controls
from planner.app.widgets.explorer import Explorer
from planner.app.widgets.features import TERMS
from planner.app.widgets.fields import EntryField
from planner.app.widgets.form import Form
from planner.app.widgets.tables import FieldTable, SubField
from planner.export.reading_links import read_link
from planner.show.glossary import explained
from tests import plans

QWEN_VL = "Qwen/Qwen2.5-VL-7B-Instruct"
SPEC = "speculative_config"


@pytest.fixture
def explorer() -> Explorer:
    """The default plan."""
    return Explorer()


def send(controls: Controls, name: str, value: object) -> list[dict]:
    """Send a value as a page does; returns what the page is told."""
    told: list[dict] = []
    controls.send = told.append
    controls._handle_custom_msg({"set": name, "value": value, "n": 1}, [])
    return told


def shown(form: Form, prefix: str = "") -> set[str]:
    """The fields of the folded groups that are on the page."""
    names = {field.name for group in form.features.groups for field in group.fields}
    return {n for n in names - set(form.main.gone) if n.startswith(prefix)}


# What is there


def test_adapters_have_one_switch_until_it_is_on(explorer) -> None:
    """Then their room is asked for; experts only of a model that has them."""
    adapters = {"max_loras", "max_lora_rank", "fully_sharded_loras", "max_cpu_loras"}
    before = shown(explorer.form)
    send(explorer.form.main, "enable_lora", True)
    after = shown(explorer.form)

    assert "enable_lora" in before
    assert not adapters & before
    assert adapters < after
    assert "enable_moe_shared_loras" not in after
    send(explorer.form.main, "model", "Qwen/Qwen3-30B-A3B")
    assert "enable_moe_shared_loras" in shown(explorer.form)


@pytest.mark.parametrize(
    ("model", "limits", "settings"),
    [
        (plans.LLAMA_8B, set(), set()),
        (QWEN_VL, {"image", "video"}, {"max_pixels", "min_pixels"}),
        ("Qwen/Qwen2-Audio-7B-Instruct", {"audio"}, set()),
        (
            "OpenGVLab/InternVL2-2B",
            {"image", "video"},
            {"max_dynamic_patch", "min_dynamic_patch"},
        ),
        ("google/gemma-4-E4B-it", {"audio", "image", "video"}, {"max_soft_tokens"}),
    ],
)
def test_what_a_model_takes_is_asked_and_nothing_else(model, limits, settings) -> None:
    """Its modalities, and what its processor understands; of text alone nothing."""
    form = Explorer(model, trust_remote_code=True).form
    names = {n.split(".")[1] for n in shown(form, "limit_mm_per_prompt.")}
    keys = {n.split(".")[1] for n in shown(form, "mm_processor_kwargs.")}

    assert limits == names
    assert settings == keys
    assert ("language_model_only" in shown(form)) is bool(limits)


def test_text_only_takes_the_other_fields_away() -> None:
    """They would change nothing."""
    form = Explorer(QWEN_VL).form
    send(form.main, "language_model_only", True)

    assert not shown(form, "limit_mm_per_prompt")
    assert "language_model_only" in shown(form)


def test_a_method_brings_what_it_needs(explorer) -> None:
    """A model of its own for drafts, lengths of what is looked up for ngram."""
    form = explorer.form
    first = shown(form, SPEC)
    send(form.main, f"{SPEC}.method", "ngram")
    looked_up = shown(form, SPEC)
    send(form.main, f"{SPEC}.method", "draft_model")
    drafted = shown(form, SPEC)

    assert first == {f"{SPEC}.method"}
    assert {f"{SPEC}.prompt_lookup_max", SPEC} < looked_up
    assert f"{SPEC}.model" not in looked_up
    assert f"{SPEC}.model" in drafted


def test_layers_of_the_model_s_own_are_offered_where_it_has_them() -> None:
    """DeepSeek-V3 has one that looks ahead, Llama has none."""

    def methods(model: str) -> list[object]:
        field = Explorer(model, "H200", tensor_parallel_size=8).form.features.parts
        return [value for _, value in field[f"{SPEC}.method"].options]

    assert "mtp" in methods("deepseek-ai/DeepSeek-V3")
    assert "mtp" not in methods(plans.LLAMA_8B)


def test_what_is_set_is_shown_whatever_applies() -> None:
    """Limits given for a model of text, and the short names of speculative_config."""
    form = Explorer(limit_mm_per_prompt={"image": 2}).form
    assert {"limit_mm_per_prompt.image", "limit_mm_per_prompt"} <= shown(form)

    form = Explorer(spec_method="ngram", spec_tokens=3).form
    assert {"spec_method", "spec_tokens"} <= shown(form)


def test_older_releases_take_capture_sizes_in_the_table(explorer) -> None:
    """The argument of its own came with 0.11.1."""
    send(explorer.form.more, "vllm_version", "0.10.2")
    send(explorer.form.main, "compilation_config.cudagraph_capture_sizes", "1 2 4")

    assert "cudagraph_capture_sizes" not in shown(explorer.form)
    table = explorer.form.fields["compilation_config"].read()
    assert table == {"cudagraph_capture_sizes": [1, 2, 4]}


def test_every_part_can_be_explained(explorer) -> None:
    """By an entry of its own, or by that of its table."""
    parts = explorer.form.features.parts.values()

    assert [field.name for field in parts if not explained(field.term)] == []
    assert {field.term for field in parts} >= {*TERMS}


# One truth


def test_a_field_stands_in_both_places(explorer) -> None:
    """The same field: what one page part sets, the other shows."""
    form = explorer.form
    send(form.main, "enable_lora", True)

    assert form.main.fields["enable_lora"] is form.more.fields["enable_lora"]
    assert form.more.get_state()["state"]["enable_lora"]["v"] == "true"


def test_parts_make_the_table_and_the_plan(explorer) -> None:
    """One message up, one down, one plan."""
    count = []
    explorer.form.on_change(lambda _: count.append(1))
    (answer,) = send(explorer.form.main, f"{SPEC}.method", "ngram")

    assert len(count) == 1
    assert answer["ack"] == 1
    assert answer["show"][f"{SPEC}.num_speculative_tokens"]["v"] == "5"
    assert json.loads(explorer.form.fields[SPEC].value) == {
        "method": "ngram",
        "num_speculative_tokens": 5,
    }
    assert explorer.plan.model.speculation.num_speculative_tokens == 5
    send(explorer.form.main, f"{SPEC}.method", None)
    assert explorer.form.fields[SPEC].value == ""
    assert explorer.plan.command() == f"vllm serve {plans.LLAMA_8B}"


def test_parts_follow_what_is_typed_into_the_table(explorer) -> None:
    """And the table says what no field shows."""
    form = explorer.form
    typed = '{"method": "ngram", "num_speculative_tokens": 7, "disable_logprobs": true}'
    send(form.more, SPEC, typed)

    assert form.features.parts[f"{SPEC}.num_speculative_tokens"].value == "7"
    assert form.features.parts[f"{SPEC}.method"].value == "ngram"
    assert "also holds disable_logprobs" in form.fields[SPEC].hint
    send(form.main, f"{SPEC}.num_speculative_tokens", 3)
    assert form.fields[SPEC].read()["disable_logprobs"] is True


def test_a_count_alone_and_with_sizes() -> None:
    """As vLLM writes both."""
    form = Explorer(QWEN_VL).form
    whole = form.fields["limit_mm_per_prompt"]
    send(form.main, "limit_mm_per_prompt.image", "2")
    alone = whole.read()
    send(form.main, "limit_mm_per_prompt.image.width", "512")
    sized = whole.read()
    send(form.main, "limit_mm_per_prompt.video", 0)
    send(form.main, "limit_mm_per_prompt.image.width", "")

    assert alone == {"image": 2}
    assert sized == {"image": {"count": 2, "width": 512}}
    assert whole.read() == {"image": 2, "video": 0}


def test_a_wrong_part_is_said_at_its_field_and_keeps_the_plan(explorer) -> None:
    """As every wrong entry; another part's change does not lose it."""
    form = explorer.form
    send(form.main, f"{SPEC}.method", "ngram")
    before = explorer.plan
    send(form.main, f"{SPEC}.num_speculative_tokens", "lots")
    field = form.features.parts[f"{SPEC}.num_speculative_tokens"]

    assert "was not understood: 'lots'" in field.error
    assert explorer.plan is before
    assert "Last good plan" in explorer.results.answer.parts["stale"]
    send(form.main, f"{SPEC}.prompt_lookup_max", 4)
    assert (field.value, explorer.plan) == ("lots", before)
    send(form.main, f"{SPEC}.num_speculative_tokens", 5)
    assert field.error == ""
    assert explorer.results.answer.parts["stale"] == ""
    assert explorer.plan.model.speculation.num_speculative_tokens == 5


def test_a_table_that_is_none_is_left_as_it_was_typed(explorer) -> None:
    """A part cannot be written into it."""
    form = explorer.form
    send(form.more, SPEC, '{"method')
    send(form.main, f"{SPEC}.method", "ngram")

    assert form.fields[SPEC].value == '{"method'
    assert "Correct it first" in form.features.parts[f"{SPEC}.method"].error
    send(form.more, SPEC, "")
    assert form.features.wrong == ""


def test_errors_stand_at_the_part_that_they_name(explorer) -> None:
    """speculative_config.num_speculative_tokens, and not the whole table."""
    send(explorer.form.more, SPEC, '{"method": "ngram", "num_speculative_tokens": "x"}')
    part = explorer.form.features.parts[f"{SPEC}.num_speculative_tokens"]

    assert "a whole number is needed" in part.error


def test_a_number_in_the_place_of_compilation_config_is_its_mode(explorer) -> None:
    """As vLLM reads it; a part then makes a table of it."""
    send(explorer.form.more, "compilation_config", "3")
    send(explorer.form.main, "compilation_config.cudagraph_mode", "PIECEWISE")

    assert explorer.form.fields["compilation_config"].read() == {
        "mode": 3,
        "cudagraph_mode": "PIECEWISE",
    }


_KEYS = st.sampled_from(["image", "video", "audio", "other"])
_VALUES = st.integers(0, 9) | st.dictionaries(
    st.sampled_from(["count", "width"]), st.integers(0, 9), min_size=1
)


@given(st.dictionaries(_KEYS, _VALUES), st.integers(0, 9) | st.none())
def test_what_no_part_names_is_never_lost(table, value) -> None:
    """Setting a part changes that part of the table alone, and it reads it back."""
    count = EntryField("t.image", "", parsing.FROM_NOTHING)
    whole = EntryField("limit_mm_per_prompt", "", parsing.JSON)
    part = SubField(field=count, path=("image", "count"))
    made = part.placed(table, value)
    others = {key: one for key, one in table.items() if key != "image"}

    assert part.found(made) == value
    assert {key: one for key, one in made.items() if key != "image"} == others
    held = FieldTable(whole, [part])
    whole.put(made or None)
    assert count.read() == held.value("t.image") == value


# Drafts


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        ({}, ""),
        ({SPEC: {"method": "ngram", "num_speculative_tokens": 3}}, ""),
        ({SPEC: {"model": "ngram", "num_speculative_tokens": 3}}, ""),
        ({SPEC: {"method": "suffix", "model": "o/n"}}, ""),
        ({SPEC: {"model": "o/n"}}, "o/n"),
        ({"spec_method": "eagle3", "spec_model": "o/n"}, "o/n"),
        ({SPEC: "text"}, ""),
        ({SPEC: {"model": 7}}, ""),
    ],
)
def test_drafts_are_found_in_what_is_asked(request_, name) -> None:
    """Only methods with a draft read one."""
    assert named(request_) == name


def test_bundled_drafts_need_no_reading() -> None:
    """Others are read once in a while."""
    drafts = Drafts()

    assert not drafts.must_be_read(plans.LLAMA_8B)
    assert drafts.must_be_read("nobody/draft")


def test_a_draft_on_disk_is_read_beside_the_page(tmp_path) -> None:
    """The page says that it is read; then the plan is made with it."""
    target = "meta-llama/Llama-3.1-70B-Instruct"
    draft = planner.plan("meta-llama/Llama-3.2-1B-Instruct").model
    (tmp_path / "config.json").write_text(json.dumps(dict(draft.files.config)))
    explorer = Explorer(target, "H100", tensor_parallel_size=4)
    told = []
    shows = explorer.form.model.show_reading
    explorer.form.model.show_reading = lambda name: (told.append(name), shows(name))
    config = {"model": str(tmp_path), "num_speculative_tokens": 3}
    send(explorer.form.more, SPEC, json.dumps(config))
    explorer._reader.wait(20)

    assert str(tmp_path) in told
    assert explorer.form.model.reading == ""
    assert explorer.plan.model.speculation.draft is not None
    assert f'"model": "{tmp_path}"' in explorer.plan.command()


def test_a_draft_that_is_not_there_is_said(explorer, tmp_path) -> None:
    """The last good plan stays."""
    before = explorer.plan
    config = {"model": str(tmp_path / "none"), "num_speculative_tokens": 3}
    send(explorer.form.more, SPEC, json.dumps(config))
    explorer._reader.wait(20)

    assert explorer.plan is before
    assert "No such file or folder" in explorer.results.answer.alert


def test_strangers_name_drafts_of_the_hub_alone(monkeypatch) -> None:
    """As they name models."""
    monkeypatch.setenv("PLANNER_PUBLISHED", "1")
    explorer = Explorer()
    before = explorer.plan
    send(explorer.form.main, f"{SPEC}.method", "draft_model")
    send(explorer.form.main, f"{SPEC}.model", "/etc/passwd")
    field = explorer.form.features.parts[f"{SPEC}.model"]

    assert "owner/name" in field.error
    assert "/etc" not in explorer.plan.command()
    send(explorer.form.more, SPEC, '{"model": "/etc", "num_speculative_tokens": 3}')
    explorer._reader.wait(20)
    assert "No such model" in explorer.results.answer.alert
    assert before.model is explorer.plan.model or explorer.plan.error is not None


# Links


@pytest.mark.parametrize(
    ("version", "config", "kept"),
    [
        ("0.33.0", {"method": "ngram", "num_speculative_tokens": 4}, True),
        ("0.19.0", {"method": "ngram", "num_speculative_tokens": 4}, False),
        (
            "0.33.0",
            {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3},
            False,
        ),
        ("0.33.0", {"model": plans.LLAMA_8B, "num_speculative_tokens": 4}, False),
    ],
)
def test_a_link_has_a_method_and_its_tokens_but_no_draft(version, config, kept) -> None:
    """Under the short names of 0.22 and later; a draft may be a folder."""
    target = (
        "meta-llama/Llama-3.1-70B-Instruct" if "model" in config else plans.LLAMA_8B
    )
    plan = planner.plan(
        target,
        gpu="H200",
        tensor_parallel_size=2,
        vllm_version=version,
        speculative_config=config,
    )
    opened = read_link(planner.export.link(plan))

    given = {"spec_method": "ngram", "spec_tokens": 4} if kept else {}
    guessing = {n: v for n, v in opened.inputs.engine_args.items() if "spec" in n}
    assert guessing == given
    assert opened.ignored == ()
    assert (opened.inputs.plan().ranks == plan.ranks) is kept
