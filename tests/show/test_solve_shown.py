"""How an answer is shown: text, HTML, plain values and the command line."""

import json
from html.parser import HTMLParser

import pytest

import planner
from planner import solve
from planner.app import cli
from planner.engine.releases import NEWEST
from planner.show.solution import value_text
from tests.configs import LLAMA_8B, architecture

MODEL = "Qwen/Qwen3-8B"
VOID = {"br", "hr", "img", "input", "meta", "link"}


class Tags(HTMLParser):
    """Collects tags, and fails where one is not closed."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):  # noqa: ARG002 - the base class's
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert tag == self.open.pop()


def context():
    """An answer that is found."""
    return solve.longest_context(MODEL, "L4", requests=2)


def impossible():
    """An answer that nothing serves."""
    return solve.most_requests(MODEL, "L4", prompt_tokens=40_000)


def test_text_leads_with_the_value_and_ends_with_the_command():
    """Value, question, arithmetic, how requests count, command."""
    found = context()
    lines = str(found).splitlines()

    assert f"✔ {found.value:,} tokens" == lines[0]
    assert (
        f"Longest context of Qwen/Qwen3-8B on L4 (vLLM {NEWEST}) for 2 requests"
        in (lines[1])
    )
    assert found.why in lines
    assert "prefix caching" in str(found)
    assert found.plan.command() == lines[-1] == found.command()


def test_an_impossible_answer_has_a_sign_and_words_and_no_command():
    """Never by colour alone."""
    found = impossible()

    assert str(found).startswith("✘ Not possible")
    assert not found.command()
    assert "vllm serve" not in str(found)


def test_a_line_stands_for_an_answer():
    """In a list or a debugger; whole plans would fill pages."""
    found = context()

    assert repr(found).startswith(f"Solution(context: {found.value} tokens, asked=")
    assert len(repr(found)) < 200


def test_values_are_written_with_their_units():
    """One is no plural, shares and bytes come as they are typed."""
    load = planner.Load(prompt_tokens=1000, output_tokens=0)
    cache = solve.smallest_kv_cache_memory(MODEL, "H100", load=load)
    share = solve.smallest_utilization(MODEL, "H100", load=load)
    one = solve.most_requests(MODEL, "H100", load=load, max_num_seqs=1)
    gpus = solve.fewest_gpus(MODEL, "H100", load=load)

    # 63 blocks + 1 of 36 layers x 16 tokens x 8 heads x 256 values x 2 bytes
    assert "150,994,944 bytes (0.14 GiB)" == value_text(cache)
    assert f"{share.value:g} of the GPU's memory" == value_text(share)
    assert "1 request" == value_text(one)
    assert "1 x H100" == value_text(gpus)


def test_several_gpus_are_listed_and_those_that_do_not_serve_are_named():
    """Best first, with what each adds to the command."""
    found = solve.fewest_gpus(
        "meta-llama/Llama-3.1-70B-Instruct", ["T4", "H100"], prompt_tokens=1000
    )

    assert "2 x H100" in str(found)
    assert "--tensor-parallel-size 2" in str(found)
    assert "Not with these: T4." in str(found)


def test_html_is_closed_and_holds_the_answer():
    """Self-contained: no script, no address."""
    for found in (context(), impossible(), several()):
        page = found._repr_mimebundle_()["text/html"]
        tags = Tags()
        tags.feed(page)
        assert not tags.open
        assert "script" not in tags.seen
        assert "http" not in page
        assert value_text(found) in page


def several():
    """An answer with options."""
    return solve.fewest_gpus(MODEL, ["L4", "H100"], prompt_tokens=1000)


def test_html_escapes_what_it_shows():
    """A model's name is anybody's text."""
    hostile = "<img src=x onerror=alert(1)>"
    model = architecture(LLAMA_8B)
    named = planner.Inputs(model=model).plan().model
    found = solve.longest_context(
        type(named)(**{**fields_of(named), "name": hostile}), "H100"
    )

    page = found._repr_mimebundle_()["text/html"]
    assert hostile in str(found)
    assert hostile not in page
    assert "&lt;img" in page


def fields_of(value):
    """The fields of a value by name."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def test_plain_values_can_be_written_as_json():
    """Everything that was asked and found, plans in the shape of the contract."""
    told = json.loads(json.dumps(several().to_dict()))

    assert ("gpus", 1, "GPUs") == (told["question"], told["value"], told["unit"])
    assert ["L4", "H100"] == [option["gpu"] for option in told["options"]]
    assert told["plan"]["fits"] is True
    assert told["command"].startswith(f"vllm serve {MODEL}")
    assert 1000 == told["load"]["prompt_tokens"]
    assert json.loads(json.dumps(impossible().to_dict()))["nearest"]


@pytest.mark.parametrize(
    ("arguments", "unit"),
    [
        (["context", "--requests", "3"], "tokens"),
        (["requests", "--prompt-tokens", "3000"], "requests"),
        (["gpus", "--gpus", "L4", "H100", "--prompt-tokens", "3000"], "GPUs"),
        (["utilization", "--prompt-tokens", "3000"], "of the GPU's memory"),
        (["kv-cache-memory", "--prompt-tokens", "3000"], "bytes"),
        (["instances", "--prompt-tokens", "3000", "--instances", "2"], "instances"),
    ],
)
def test_each_question_can_be_asked_on_the_command_line(arguments, unit, capsys):
    """Exit status 0, and the same answer as in Python."""
    question, *rest = arguments
    asked = ["solve", question, MODEL, *rest, "--kv-cache-dtype", "fp8", "--json"]

    assert cli.FITS == cli.main(asked)
    told = json.loads(capsys.readouterr().out)
    assert (question, unit) == (told["question"], told["unit"])
    assert told["value"] > 0
    assert "--kv-cache-dtype fp8" in told["command"]


def test_what_nothing_serves_ends_with_one(capsys):
    """The answer stands on standard output."""
    asked = ["solve", "requests", MODEL, "--gpu", "L4", "--prompt-tokens", "40000"]
    assert cli.DOES_NOT_FIT == cli.main(asked)
    assert "Nearest that is served: 1 request of" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["solve", "requests", MODEL], "prompt_tokens"),
        (["solve", "context", MODEL, "--requests", "0"], "requests=0"),
        (["solve", "context", MODEL, "--gpu", "H101"], "H100"),
        (["solve", "utilization", MODEL, "--step", "7"], "step=7"),
        (["solve", "gpus", MODEL, "--gpus", "H101"], "H100"),
        (["solve", "context", MODEL, "--max-modle-len", "1"], "--max-model-len"),
    ],
)
def test_bad_input_ends_with_two(arguments, message, capsys):
    """The sentence stands on standard error."""
    assert cli.BAD_INPUT == cli.main(arguments)
    assert message in capsys.readouterr().err


def test_one_gpu_can_be_named_as_everywhere(capsys):
    """--gpu names the one kind to choose from."""
    asked = ["solve", "gpus", MODEL, "--gpu", "L4", "--prompt-tokens", "1000"]
    assert cli.FITS == cli.main(asked)
    assert "1 x L4" in capsys.readouterr().out
