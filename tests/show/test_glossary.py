"""The glossary: complete, plain, and the same on the page and in the documentation."""

import re

from planner.app.widgets.form import Form
from planner.app.widgets.run_options import OptionsForm
from planner.engine.arguments import Memory, named
from planner.show.glossary import entries, explained, glossary_markdown
from planner.show.lines import LINE_FACTS
from tests import plans
from tests.rows import each_row
from tools.glossary_page import PAGE

LONGEST_SENTENCE = 260


def test_every_field_shown_has_an_entry() -> None:
    """Of the form, of the panel of all arguments, and of a run."""
    fields = [
        *Form(plans.LLAMA_8B, "H100").fields.values(),
        *OptionsForm().fields.values(),
    ]
    assert [field.name for field in fields if not explained(field.term)] == []


def test_every_memory_line_has_an_entry() -> None:
    """Under the name that the table and the bars have."""
    named = {entry.lower() for entry in entries()}

    assert [name for name in LINE_FACTS if name.lower() not in named] == []


@each_row("name", entries())
def test_an_entry_is_two_or_three_whole_sentences(name) -> None:
    """What it is, and what it does to memory; short enough to be read in place."""
    text = explained(name)
    sentences = re.split(r"(?<=[.;]) (?=[A-Zv0-9`])", text)

    assert text[0].isupper() or text[0].isdigit() or text.startswith(("dummy", "vLLM"))
    assert text.endswith(".")
    assert 2 <= len(re.split(r"(?<=\.) ", text)) <= 4
    assert max(map(len, sentences)) <= LONGEST_SENTENCE


def test_no_two_entries_say_the_same() -> None:
    """A copied text would be wrong for one of them."""
    texts = [entry.text for entry in entries().values()]

    assert len(set(texts)) == len(texts)


def test_the_page_says_what_is_not_modelled_as_the_planner_does() -> None:
    """From the planner's own lists."""
    assert explained("seed").endswith("It does not change GPU memory.")
    assert "except for auto, vllm, which" in explained("model_impl")
    unknown, harmless = named(Memory.UNKNOWN), named(Memory.NONE)
    assert all("Plans do not count" in explained(name) for name in unknown)
    assert all("does not change GPU memory" in explained(name) for name in harmless)


def test_the_documentation_is_current() -> None:
    """`python tools/glossary_page.py` writes it."""
    assert PAGE.read_text(encoding="utf-8") == glossary_markdown()
