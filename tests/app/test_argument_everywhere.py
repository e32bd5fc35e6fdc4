"""An entry in the table of engine arguments is all that an argument needs."""

import argparse
from dataclasses import replace

import pytest

import planner
from planner.app.cli import build_parser
from planner.app.cli.engine_flags import add_engine_arguments
from planner.app.widgets.form import Form
from planner.engine.arguments import ARGUMENTS, Argument, Feature, Group, Kind, Memory
from planner.errors import PlannerError
from planner.export import link, read_link, read_yaml, yaml
from planner.show import glossary
from tests import plans
from tools.docs_site import engine_arguments

MADE_UP = Argument(
    name="max_made_up_tokens",
    group=Group.SCHEDULER,
    kind=Kind.COUNT,
    memory=Memory.NONE,
    text="Tokens that nobody has ever counted.",
    hint="tokens made up for a test",
    default=7,
    least=1,
    most=4096,
    feature=Feature.ADAPTERS,
)


@pytest.fixture(autouse=True)
def _made_up(monkeypatch):
    """Add one entry, and nothing else anywhere."""
    monkeypatch.setitem(ARGUMENTS, MADE_UP.name, MADE_UP)
    glossary.entries.cache_clear()
    yield
    glossary.entries.cache_clear()


def plan(**given):
    """A plan that is given the made-up argument."""
    return planner.plan(plans.LLAMA_8B, gpu="H100", max_made_up_tokens=3, **given)


def test_it_is_planned_and_checked() -> None:
    """Within its bounds, and under its name."""
    assert "--max-made-up-tokens 3" in plan().command()
    with pytest.raises(PlannerError, match="max_made_up_tokens=0: a whole number from"):
        planner.plan(plans.LLAMA_8B, gpu="H100", max_made_up_tokens=0)
    with pytest.raises(PlannerError, match="at most 4,096 is planned"):
        planner.plan(plans.LLAMA_8B, gpu="H100", max_made_up_tokens=4097)
    with pytest.raises(PlannerError, match="Did you mean max_made_up_tokens"):
        planner.plan(plans.LLAMA_8B, gpu="H100", max_made_up_token=1)


def test_it_is_on_the_command_line(capsys) -> None:
    """As a flag, and in the help of its group."""
    parser = build_parser()
    words = ["plan", "m", "--max-made-up-tokens", "3"]

    assert "`planner plan --help`" in " ".join(parser.format_help().split())
    assert 3 == parser.parse_args(words).max_made_up_tokens
    with pytest.raises(SystemExit):
        parser.parse_args(["plan", "--help"])
    scheduler = capsys.readouterr().out.partition("\nScheduler (SchedulerConfig):")[2]
    ours = " ".join(scheduler.partition("\nLoRA (")[0].split())
    assert "--max-made-up-tokens [N] Tokens that nobody has ever counted." in ours
    assert "GPU memory: no effect." in ours


def test_what_is_modelled_has_a_line_of_help(monkeypatch) -> None:
    """What it is given in, and what it does to memory."""
    modelled = replace(MADE_UP, memory=Memory.MODELLED, short="-mu")
    monkeypatch.setitem(ARGUMENTS, MADE_UP.name, modelled)
    parser = argparse.ArgumentParser()
    add_engine_arguments(parser)

    shown = " ".join(parser.format_help().split())
    flags = "--max-made-up-tokens N, -mu N"
    assert f"{flags} Tokens that nobody has ever counted." in shown
    assert 2000 == parser.parse_args(["-mu", "2k"]).max_made_up_tokens


def test_it_is_in_a_link_and_in_a_plan_file() -> None:
    """And opens the same plan again."""
    address = link(plan())
    opened = read_link(address)

    assert "&max_made_up_tokens=3" in address
    assert (3, ()) == (opened.inputs.engine_args["max_made_up_tokens"], opened.ignored)
    read = read_yaml(yaml(plan())).inputs
    assert 3 == read.engine_args["max_made_up_tokens"]


def test_an_entry_may_keep_it_out_of_links(monkeypatch) -> None:
    """With its reason, for whoever opens such a link."""
    secret = replace(MADE_UP, kept_out="is a secret")
    monkeypatch.setitem(ARGUMENTS, MADE_UP.name, secret)

    assert "max_made_up_tokens" not in link(plan())
    assert read_link("?max_made_up_tokens=3").ignored == (
        "max_made_up_tokens is a secret: no link sets it.",
    )


def test_it_has_a_control() -> None:
    """With its hint and vLLM's default, in its group and among its feature's."""
    form = Form(plans.LLAMA_8B, "H100")
    field = form.fields["max_made_up_tokens"]

    assert ("tokens made up for a test", "7") == (field.hint, field.chosen)
    assert field.receive("3")
    assert 3 == form.gather()["max_made_up_tokens"]
    groups = {title: names for title, names, _ in form.more.groups}
    assert "max_made_up_tokens" in groups["Scheduler"]
    groups = {title: names for title, names, _ in form.main.groups}
    assert "max_made_up_tokens" in groups["LoRA"]


def test_it_is_in_the_glossary_and_in_the_reference() -> None:
    """The glossary says what it is, the reference also what it may be."""
    text = "Tokens that nobody has ever counted. It does not change GPU memory."
    (entry,) = (
        one
        for one in engine_arguments.entries(Group.SCHEDULER)
        if one.name == "max_made_up_tokens"
    )

    assert text == glossary.explained("max_made_up_tokens")
    # The glossary's page leaves those without an effect to the reference.
    assert "max_made_up_tokens" not in glossary.glossary_markdown()
    assert ("--max-made-up-tokens N", text) == (entry.words, entry.text)
    assert entry.facts == (
        "A whole number, also as 8k (8000) or 8K (8192); from 1; at most 4,096; "
        "vLLM's default is 7."
    )
