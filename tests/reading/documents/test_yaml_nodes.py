"""Nodes hold what PyYAML reads, and each character's place is right."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
import yaml

from planner.reading.documents.yaml_edits import passage_of, removed, replaced
from planner.reading.documents.yaml_nodes import Node, documents, resolved
from planner.reading.passage import Passage, edited

LINES = (
    *("vllm serve \\", "  --x 1", "", "tail 'q'", "a: b", "it''s", "  more"),
    *("# c", "x \\", "{}", "é🙂", "end  "),
)
STYLES = ("|", "|-", "|+", ">", ">-", ">+", "'", '"', "", "|2")


def scalars(node: Node) -> Iterator[Node]:
    """Yield all scalars below a node."""
    if node.kind == "scalar":
        yield node
    for item in node.items:
        yield from scalars(item)
    for pair in node.pairs:
        for one in pair:
            yield from scalars(one)


def document(random: Random) -> str:
    """Return a table with one scalar of several lines in any style."""
    style = random.choice(STYLES)
    lines = [random.choice(LINES) for _ in range(random.randint(1, 7))]
    if style[:1] in ("|", ">") and style:
        text = "".join(f"    {line}\n" if line.strip() else "\n" for line in lines)
        after = random.choice(("", "z: 1\n", "\n# hi\nz: 2\n"))
        return f"a:\n  k: {style}\n{text}{after}"
    escaped = [
        line.replace("'", "''") if style == "'" else line.replace('"', '\\"')
        for line in lines
    ]
    return "a:\n  k: " + style + "\n    ".join(escaped) + style + "\n"


def test_values_and_places_are_those_of_the_text() -> None:
    """Of 2,000 scalars in every style, with line breaks of both kinds."""
    random = Random(5)
    seen = 0
    for number in range(2_000):
        text = document(random).replace("\n", "\r\n" if number % 5 == 0 else "\n")
        try:
            expected = list(yaml.safe_load_all(text))
        except yaml.YAMLError:
            continue
        page = Passage.whole(text)
        found = documents(page)
        assert [one.value for one in found] == expected
        for node in [one for root in found for one in scalars(root)]:
            passage = passage_of(node)
            assert passage.text == node.text
            assert len(passage.places) == len(passage.text) + 1
            assert list(passage.places) == sorted(passage.places)
            for place, one in zip(passage.places, passage.text, strict=False):
                if one.isalnum():
                    assert text[place] == one, text
            seen += 1
    assert seen > 2_000


@pytest.mark.parametrize(
    "text",
    ["1_000", "0x1F", "010", "1.5e+3", "1e-5", "off", "~", "", "0.30.1", "-.5", "+12"],
)
def test_plain_scalars_are_typed_as_pyyaml_types_them(text: str) -> None:
    """YAML 1.1, which vLLM's own --config reads."""
    assert resolved(text) == yaml.safe_load(text)


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("a: 1\nb: 2 # c\nd: 3\n", "b", "a: 1\nd: 3\n"),
        ("- a: 1\n  b: 2\n", "a", "- b: 2\n"),
        ("x:\n  a:\n    - 1\n    - 2\n  # c\n  b: 1\n", "a", "x:\n  # c\n  b: 1\n"),
        ("{a: 1, b: 2}", "a", "{b: 2}"),
        ("{a: 1, b: 2}", "b", "{a: 1}"),
        ('{"a": {"b": 1}}', "b", '{"a": {}}'),
        ("x:\n  a: 1\n", "a", "x:\n  {}\n"),
    ],
)
def test_an_entry_is_taken_out_with_its_line(
    text: str, name: str, expected: str
) -> None:
    """Comments of their own lines stay; the text stays valid."""
    table, key, value = next(
        (table, key, value)
        for root in documents(Passage.whole(text))
        for table in (root, *root.items, *(inner for _, inner in root.pairs))
        for key, value in table.pairs
        if key.text == name
    )

    assert edited(text, removed(table, key, value)) == expected
    yaml.safe_load(expected)


@pytest.mark.parametrize(
    ("text", "new", "expected"),
    [
        ("a: 1 # c\n", 2, "a: 2 # c\n"),
        ("a: '1'\n", 2, "a: '2'\n"),
        ("a:\n", 0.5, "a: 0.5\n"),
        ("a: x\n", "yes", 'a: "yes"\n'),
        ("a:\n  b: 1\n  c: 2\n# d\n", {"b": 2}, 'a: {"b": 2}\n# d\n'),
        ("a: |\n  b\n\n# d\n", "c", "a: c\n\n# d\n"),
    ],
)
def test_a_value_is_written_in_its_style(text: str, new: object, expected: str) -> None:
    """And read back as what was written."""
    (root,) = documents(Passage.whole(text))

    assert edited(text, replaced(*root.pairs[0], new)) == expected


@pytest.mark.parametrize("number", ["00", "-01", "9" * 5000])
def test_a_number_that_json_does_not_have_stays_a_text(number: str) -> None:
    """The argument's own check names it."""
    (node,) = documents(Passage.whole(f'{{"max_model_len": {number}}}'))

    assert {"max_model_len": number} == node.value
