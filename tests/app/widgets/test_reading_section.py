"""A pasted text in the explorer: it fills the controls, is undone and given back."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import planner
from planner.app.widgets.explorer import Explorer
from planner.app.widgets.export_section import FORMATS, OWN
from planner.app.widgets.read_html import changes
from planner.app.widgets.reading_section import MARK, ReadingSection
from planner.engine.gpu import GPU
from planner.models import catalogue
from tests.conftest import ROOT

TEXTS = ROOT / "tests" / "data" / "texts"
PATIENCE = 300
DOCKER = """\
# ours
docker run --gpus 2 -e HF_TOKEN=$TOKEN vllm/vllm-openai:v0.32.0 \\
  --model Qwen/Qwen3-14B --tensor-parallel-size 2 --enable-lora \\
  --max-model-len 16k --api-key sk-secret --enable-auto-tool-choice
"""


MODEL = "meta-llama/Llama-3.1-8B-Instruct"


@pytest.fixture
def explorer() -> Explorer:
    """The explorer on a model and a GPU that the user chose."""
    return Explorer(MODEL, "H100")


def paste(explorer: Explorer, text: str, *, is_whole: bool = True) -> ReadingSection:
    """Paste a text as a page does, and wait until it was read."""
    message = {"piece": text, "is_first": True, "is_last": True, "is_whole": is_whole}
    explorer.pasted.box._handle_custom_msg(message, [])
    explorer.pasted.wait(PATIENCE)
    return explorer.pasted


def press(explorer: Explorer, name: str) -> None:
    """Press a button of what was read."""
    explorer.pasted.view._handle_custom_msg({"press": name}, [])
    explorer.pasted.wait(PATIENCE)


def marked(explorer: Explorer) -> set[str]:
    """The controls with the mark."""
    fields = explorer.form.fields
    return {name for name, field in fields.items() if field.mark == MARK}


def exported(explorer: Explorer) -> Any:
    """The view of the export section, opened."""
    explorer.results.tabs.choose("export")
    return explorer.results.export.view


def test_a_command_fills_the_controls_and_is_planned(explorer) -> None:
    """The release and arguments in folded groups too; the plan is the reading's own."""
    section = paste(explorer, DOCKER)
    plan = planner.read(DOCKER).plan("H100")

    assert (
        "container command for Qwen/Qwen3-14B, vLLM 0.32.0, 2 GPUs" in section.box.said
    )
    assert plan.command() == explorer.plan.command()
    assert "0.32.0" == explorer.plan.vllm_version
    assert explorer.form.fields["enable_lora"].value is True


def test_the_controls_that_it_set_are_marked(explorer) -> None:
    """Those, and no others; a part of a table with its table."""
    paste(explorer, DOCKER)
    by_text = {"model", "tensor_parallel_size", "enable_lora", "max_model_len"}

    assert by_text | {"entrypoint", "vllm_version"} == marked(explorer)
    paste(explorer, "vllm serve a/b --limit-mm-per-prompt '{\"image\": 2}'")
    parts = explorer.form.features.parts
    assert MARK == parts["limit_mm_per_prompt.image"].mark
    assert "" == parts["limit_mm_per_prompt.video"].mark


def test_a_control_that_the_user_moves_loses_its_mark(explorer) -> None:
    """It is no longer the text's."""
    paste(explorer, DOCKER)
    explorer.form.fields["max_model_len"].value = "4096"

    assert "max_model_len" not in marked(explorer)
    assert "model" in marked(explorer)


def test_undo_restores_what_was_before(explorer) -> None:
    """Every control, the plan, and no mark is left."""
    explorer.form.fields["max_num_seqs"].value = "64"
    explorer.form.fields["gpu"].value = "L40S"
    before, values = explorer.plan, explorer.form.values()
    paste(explorer, DOCKER)
    press(explorer, "undo")

    assert values == explorer.form.values()
    assert before.command() == explorer.plan.command()
    assert set() == marked(explorer)
    assert explorer.pasted.reading is None


def test_what_the_text_does_not_tell_is_asked_for_there(explorer) -> None:
    """The GPU: the same control, beside the box. It stays as the controls have it."""
    explorer.form.fields["gpu"].value = "L40S"
    section = paste(explorer, DOCKER)
    (asked,) = section._questions.children

    assert ["gpu"] == list(asked.fields)
    assert asked.fields["gpu"] is explorer.form.fields["gpu"]
    assert "L40S" == explorer.plan.gpu.name
    assert "The GPU is not named." in section.view.html


@pytest.mark.parametrize(
    ("text", "name"),
    [("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"), ("qwen3 8b", "Qwen/Qwen3-8B")],
)
def test_a_name_or_a_few_words_choose_a_model(explorer, text, name) -> None:
    """As in the box of models; the other controls stay."""
    explorer.form.fields["max_model_len"].value = "4096"
    paste(explorer, text)

    assert name == explorer.plan.name
    assert 4096 == explorer.plan.resolved.max_model_len
    press(explorer, "undo")
    assert "meta-llama/Llama-3.1-8B-Instruct" == explorer.plan.name


def test_a_name_that_is_being_typed_is_not_read_yet(explorer) -> None:
    """Half an address must not be asked, nor half a name be searched."""
    paste(explorer, "http://127.0.0.1:80", is_whole=False)
    paste(explorer, "Qwen/Qwen3", is_whole=False)

    assert "" == explorer.pasted.box.said
    assert "" == explorer.pasted.view.html


def test_a_text_that_is_none_of_these_is_said_and_changes_nothing(explorer) -> None:
    """An alert, with what is taken."""
    before = explorer.plan
    section = paste(explorer, "what is this?\nno idea")

    assert "role='alert'" in section.view.html
    assert "No start of vLLM was found" in section.view.html
    assert before is explorer.plan


def test_an_unexpected_error_is_logged_without_the_text(
    explorer, monkeypatch, caplog
) -> None:
    """Neither its message nor its traceback, which may quote it."""
    monkeypatch.setattr("planner.reading.read", lambda *_, **__: int("sk-secret"))
    caplog.set_level(logging.DEBUG)
    section = paste(explorer, DOCKER)

    assert "Something went wrong" in section.view.html
    assert "ValueError" in caplog.text
    assert "secret" not in caplog.text


def test_an_empty_box_forgets_the_text(explorer) -> None:
    """The controls stay, without marks."""
    paste(explorer, DOCKER)
    section = paste(explorer, "  ")

    assert ("", "") == (section.box.said, section.view.html)
    assert set() == marked(explorer)
    assert "Qwen/Qwen3-14B" == explorer.plan.name


def test_of_several_starts_one_is_chosen(explorer) -> None:
    """By buttons with the names of the text; the plan follows."""
    text = "vllm serve Qwen/Qwen3-8B\nvllm serve Qwen/Qwen3-14B --seed 1\n"
    section = paste(explorer, text)
    first = explorer.plan.name
    press(explorer, "start 2")
    second = explorer.plan.name

    assert ("Qwen/Qwen3-8B", "Qwen/Qwen3-14B") == (first, second)
    assert "data-press='start 2' data-key='start 2' aria-pressed='true'" in (
        section.view.html
    )
    press(explorer, "undo")
    assert "meta-llama/Llama-3.1-8B-Instruct" == explorer.plan.name
    assert () == section._questions.children


# What nobody named


def shown(explorer: Explorer) -> str:
    """All that the answer says."""
    return " ".join(explorer.results.answer.parts.values())


def test_without_a_model_or_a_gpu_there_is_no_verdict_and_no_advice() -> None:
    """On a fresh page: why, a question, its field, and no other plan in sight."""
    wrong = []
    for text, why, fields in (
        ("Qwen3-8B on an MI300X", "is an AMD GPU, and is not covered", ["gpu"]),
        ("Passt Qwen3-8B auf einen Mac M3 Max?", "is an Apple chip", ["gpu"]),
        ("Qwen3-8B 能在 RTX 9090 上运行吗", "is not in the catalogue", ["gpu"]),
        ("Qwen3-8B CPU only", "names a CPU", ["gpu"]),
        ("Does my model fit on an H100?", "Which model?", ["model"]),
        ("mon modèle sur une Radeon ?", "is an AMD GPU", ["gpu", "model"]),
        ("vllm serve Qwen/Qwen3-8B", "Which GPU?", ["gpu"]),
        ("qwen3 8b", "Which GPU?", ["gpu"]),
        ("CUDA out of memory. Tried to allocate 2.00 GiB", "Which", ["gpu", "model"]),
        ("Will it fit?", "was not understood", []),
    ):
        explorer = Explorer()
        section = paste(explorer, text)
        said, told = shown(explorer), section.view.html
        asked = [name for one in section._questions.children for name in one.fields]
        plans = "pl-subject" in said or "Llama" in said + told or "Apply" in told
        if why not in said or fields != asked or plans:
            wrong.append((text, asked, said, told))
    assert [] == wrong


def test_the_verdict_comes_with_the_answers() -> None:
    """Of both questions; the changes are then the user's own text's."""
    explorer = Explorer()
    paste(explorer, "CUDA out of memory. Tried to allocate 2.00 GiB")
    explorer.form.fields["model"].receive("Qwen/Qwen3-8B")
    assert "pl-verdict" not in shown(explorer)
    explorer.form.fields["gpu"].receive("L4")
    explorer.pasted.wait(PATIENCE)

    assert ("Qwen/Qwen3-8B", "L4") == (explorer.plan.name, explorer.plan.gpu.name)
    assert "pl-verdict" in explorer.results.answer.parts["verdict"]
    assert "Apply" in explorer.pasted.view.html

    explorer = Explorer()
    paste(explorer, DOCKER)
    explorer.form.fields["gpu"].receive("H200")
    assert "Nothing changed" in explorer.pasted._own_text()


def test_what_the_user_chose_is_not_asked_for_again(explorer) -> None:
    """By hand, for a plan or by a link; unless the text names what is not known."""
    paste(explorer, "vllm serve Qwen/Qwen3-14B")
    assert ("Qwen/Qwen3-14B", "H100") == (explorer.plan.name, explorer.plan.gpu.name)

    paste(explorer, "Qwen3-8B on an MI300X")
    assert "is not covered" in shown(explorer)
    assert "pl-verdict" not in shown(explorer)

    other = Explorer()
    other._open_link("?model=Qwen%2FQwen3-8B&gpu=L4")
    paste(other, "vllm serve Qwen/Qwen3-14B")
    assert ("Qwen/Qwen3-14B", "L4") == (other.plan.name, other.plan.gpu.name)


@pytest.mark.parametrize("text", ["Qwen3-8B on an MI300X", "What is this?\nNo idea"])
def test_an_emptied_box_brings_the_page_back(text) -> None:
    """As Undo does; a control that is moved ends what was not understood."""
    explorer = Explorer()
    before = explorer.form.values()
    paste(explorer, text)
    assert "pl-verdict" not in shown(explorer)
    paste(explorer, "")

    assert before == explorer.form.values()
    assert "pl-verdict" in shown(explorer)


# Given back


def test_the_text_is_given_back_with_what_changed_since(explorer) -> None:
    """First among the exports; the arguments in their own places."""
    view = exported(explorer)
    paste(explorer, DOCKER)
    explorer.form.fields["max_model_len"].value = "8192"
    explorer.form.fields["enable_lora"].value = None
    explorer.results.export.refresh()

    assert [OWN, *FORMATS] == [name for name, _ in view.formats]
    assert "<ins data-was='16k'>8192</ins>" in view.html
    assert "<ins data-was=' --enable-lora'></ins>" in view.html
    assert "--api-key sk-secret --enable-auto-tool-choice" in view.html
    assert "# ours" in view.html


def test_without_a_text_the_exports_are_as_before(explorer) -> None:
    """After undo too."""
    view = exported(explorer)
    before = (view.formats, view.chosen)
    paste(explorer, DOCKER)
    press(explorer, "undo")

    assert before == (view.formats, view.chosen)
    assert OWN not in dict(view.formats)


def test_nothing_secret_reaches_the_link(explorer) -> None:
    """Keys of the server, variables and the text itself."""
    paste(explorer, DOCKER.replace("-e HF", "-e VLLM_API_KEY=sk-two -e HF"))

    assert "secret" not in explorer.header.query
    assert "sk-two" not in explorer.header.query


def test_changes_are_what_differs() -> None:
    """None for what is gone; of variables, those alone."""
    before = {"gpu": "L4", "seed": 1, "env": {"A": "1", "B": "2"}}
    now = {"gpu": "L4", "max_num_seqs": 8, "env": {"A": "1", "B": "3"}}

    assert {"seed": None, "env": {"B": "3"}, "max_num_seqs": 8} == changes(before, now)


# Logs and errors


def test_a_log_is_explained_and_its_fixes_are_applied(explorer) -> None:
    """The check, its arithmetic, and changes: a button sets the controls."""
    text = (TEXTS / "log-docker-too-long.txt").read_text(encoding="utf-8")
    section = paste(explorer, text)
    html = section.view.html
    fix = section._found.explanation.fixes[0]
    press(explorer, "apply 0")

    assert "vLLM did not start" in html
    assert "5.62 GiB" in html  # vLLM's own figure
    assert fix.title in html
    assert "Your text with it" in html
    for name, value in fix.changes.items():
        assert value == explorer.request()[name]


def test_a_log_is_explained_again_for_another_gpu(explorer) -> None:
    """It named none: the plan beside it depends on the GPU that is chosen."""
    text = (TEXTS / "log-docker-too-long.txt").read_text(encoding="utf-8")
    section = paste(explorer, text)
    explorer.form.fields["gpu"].value = "L4"
    section.wait(PATIENCE)

    assert "L4" == section._found.explanation.plan.gpu.name
    assert "L4" == explorer.plan.gpu.name


def test_an_error_alone_is_explained_beside_the_plan_on_the_screen(explorer) -> None:
    """It names no model: the controls stay, but for the GPU of that size."""
    explorer.form.fields["max_model_len"].value = "4096"
    text = (TEXTS / "error-torch-old.txt").read_text(encoding="utf-8")
    section = paste(explorer, text)

    assert "error message" in section.box.said
    assert "Tried to allocate 2.00 GiB" in section.view.html
    assert 4096 == explorer.plan.resolved.max_model_len
    assert {"gpu"} == marked(explorer)


@pytest.mark.parametrize(
    "name", ["apply 99", "apply x", "start 0", "start 99", "x", ""]
)
def test_a_press_that_there_is_not_changes_nothing(explorer, name) -> None:
    """A page can send anything."""
    paste(explorer, DOCKER)
    before = explorer.plan.command()
    press(explorer, name)

    assert before == explorer.plan.command()


# Published


def test_a_published_app_asks_no_address_and_reads_no_path(
    explorer, monkeypatch, tmp_path
) -> None:
    """Neither is looked at; a text is read as it is."""
    file = tmp_path / "serve.sh"
    file.write_text("vllm serve Qwen/Qwen3-14B", encoding="utf-8")
    monkeypatch.setenv("PLANNER_PUBLISHED", "1")
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("asked"))
    before = explorer.plan
    for text in ("http://127.0.0.1:8000", "localhost:8000", str(file)):
        section = paste(explorer, text)
        assert "role='alert'" in section.view.html
        assert before.command() == explorer.plan.command()
    paste(explorer, file.read_text(encoding="utf-8"))

    assert "Qwen/Qwen3-14B" == explorer.plan.name


def test_a_text_that_is_too_long_is_refused(monkeypatch) -> None:
    """With the limit, and what to paste instead."""
    monkeypatch.setenv("PLANNER_PUBLISHED", "1")
    section = paste(Explorer(), "vllm serve a/b " + "x" * 200_000)

    assert "more than 200,000 characters" in section.view.html


@pytest.mark.parametrize(
    ("question", "tab"),
    [
        ("What is the cheapest way to run Qwen3-8B on an L4?", "gpus"),
        ("How fast is Qwen3-8B on an L4?", "speed"),
        ("Why does Qwen3-8B on an L4 run out of memory?", "memory"),
        ("Does Qwen3-8B fit on an L4?", "advice"),
    ],
)
def test_a_question_opens_the_tab_that_answers_it(explorer, question, tab) -> None:
    """The verdict answers whether it fits: the tab stays."""
    explorer.results.tabs.choose("advice")
    paste(explorer, question)

    assert explorer.results.tabs.chosen == tab


def test_where_models_are_asked_for_they_are_listed_and_one_is_opened(
    monkeypatch,
) -> None:
    """No verdict on a model that nobody named; GPU and load are in the controls."""
    names = ("Qwen/Qwen3-8B", "Qwen/Qwen3-32B")
    few = tuple(one for one in catalogue.popular() if one.name in names)
    monkeypatch.setattr(catalogue, "popular", lambda: few)
    explorer = Explorer()
    paste(explorer, "Which models fit on two RTX 4090 for 5 users at 16k?")
    models = explorer.results.models

    assert "models" == explorer.results.tabs.chosen
    assert explorer.results.answer.is_empty
    assert {"planner-held", "planner-searching"} <= {*explorer.results._dom_classes}
    assert ["Qwen/Qwen3-8B"] == [row["name"] for row in models.table.rows]
    assert "2 x RTX4090 with 5 requests of 16,384 tokens" in models.table.answer
    asked = explorer.request()
    assert (5, "RTX4090") == (asked["load"].requests, asked["gpu"])

    models._told({"apply": "Qwen/Qwen3-8B"})
    assert ("Qwen/Qwen3-8B", 2) == (explorer.plan.name, explorer.plan.gpus_total)
    assert explorer.plan.serving.is_served
    assert not {"planner-held", "planner-searching"} & {*explorer.results._dom_classes}


def test_a_question_is_answered_where_it_was_asked(explorer) -> None:
    """In its own words, until a control says something else."""
    text = "Does Qwen3-32B fit on an H100 for 20 users at 32k?"
    section = paste(explorer, text)
    answer = planner.read(text).explain().headline

    assert answer.startswith("No: 20 requests of 32,768 tokens at once need")
    assert f"<p class='pl-first'>{answer}</p>" in section.view.html
    explorer.pasted.changed(explorer.form.fields["requests"])
    assert "pl-first" not in section.view.html


def test_a_question_that_leaves_the_gpu_open_is_answered_once_it_is_chosen() -> None:
    """Nothing is said before."""
    explorer = Explorer()
    section = paste(explorer, "Does Qwen3-8B fit for 4 users at 16k?")
    assert "pl-first" not in section.view.html

    field = explorer.form.fields["gpu"]
    explorer.form.main._handle_custom_msg({"set": "gpu", "value": "L4", "n": 1}, [])
    section.wait(PATIENCE)
    assert field.value == "L4"
    assert "No: 4 requests of 16,384 tokens" in section.view.html


def test_the_cheapest_gpu_is_listed_and_none_is_asked_for(monkeypatch) -> None:
    """The set-ups stand in place of a plan; one is applied with its layout."""
    few = tuple(map(GPU.named, ("H100", "A40", "L4")))
    monkeypatch.setattr("planner.solve.gpus.catalogue", lambda: few)
    explorer = Explorer()
    section = paste(explorer, "What is the cheapest GPU for Qwen3-8B, 8 users at 16k?")
    gpus = explorer.results.gpus

    assert "" == section.question
    assert "gpus" == explorer.results.tabs.chosen
    assert explorer.results.answer.is_empty
    assert " at " in section.view.html.partition("pl-first")[2][:60]
    assert {"H100", "A40", "L4"} == {row["gpu"] for row in gpus.table.rows}
    cheapest = next(row for row in gpus.table.rows if row["gpu"] == "A40")
    gpus._told({"apply": cheapest["key"]})
    assert ("Qwen/Qwen3-8B", "A40") == (explorer.plan.name, explorer.plan.gpu.name)
    assert explorer.plan.serving.is_served
    assert not explorer.results.is_searching


def test_the_release_is_open_only_where_another_answers_otherwise(
    explorer: Explorer,
) -> None:
    """Qwen3-8B fits an H100 in all; 32,768 tokens of Qwen3-32B do not in the newest."""
    alike = paste(explorer, "vllm serve Qwen/Qwen3-8B").view.html
    apart = paste(explorer, "vllm serve Qwen/Qwen3-32B --max-model-len 32768").view.html
    named = paste(
        explorer,
        "docker run vllm/vllm-openai:v0.33.0 --model Qwen/Qwen3-32B "
        "--max-model-len 32768",
    ).view.html
    question = paste(explorer, "does Qwen3-8B fit on an H100?").view.html

    assert [
        "release of vLLM is not named" in html
        for html in (alike, question, apart, named)
    ] == [False, False, True, False]
    assert "0.25.0 answers otherwise than 0.33.0, which is planned: it fits" in apart
