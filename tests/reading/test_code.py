"""Python code, read as syntax."""

from __future__ import annotations

import pytest

import planner


def test_constants_of_the_code_are_put_in() -> None:
    """Names that are assigned once; tables passed with two stars."""
    found = planner.read(
        "from vllm import LLM\nM = 'org/m'\nmore = {'dtype': 'half', 'seed': 1}\n"
        "llm = LLM(M, tensor_parallel_size=2, **more)\n"
    )

    assert found.model == "org/m"
    assert found.entrypoint == "llm"
    assert found.engine_args == {"tensor_parallel_size": 2, "dtype": "half", "seed": 1}


def test_a_name_assigned_twice_is_left_open() -> None:
    """Nothing is run to find its value."""
    found = planner.read(
        "from vllm import LLM\nN = 1\nN = 2\nLLM('org/m', max_model_len=N)"
    )

    assert found.engine_args == {}
    assert "max_model_len is N, which the text does not set." in found.open


def test_variables_set_in_the_code() -> None:
    """`os.environ`."""
    found = planner.read(
        "import os\nos.environ['VLLM_USE_V1'] = '1'\nfrom vllm import LLM\nLLM('org/m')"
    )

    assert found.env == {"VLLM_USE_V1": "1"}


@pytest.mark.parametrize(
    ("code", "changes", "expected"),
    [
        ("LLM('a/b', seed=1)", {"seed": None}, "LLM('a/b')"),
        (
            "LLM('a/b', seed=1, dtype='half')",
            {"seed": None},
            "LLM('a/b', dtype='half')",
        ),
        ("LLM('a/b')", {"max_num_seqs": 4}, "LLM('a/b', max_num_seqs=4)"),
        (
            "LLM(\n    model='a/b',\n    seed=1,  # lucky\n)",
            {"seed": None},
            "LLM(\n    model='a/b',\n)",
        ),
        (
            "LLM(\n    model='ä/b',\n)",
            {"dtype": "half"},
            "LLM(\n    model='ä/b',\n    dtype='half',\n)",
        ),
    ],
)
def test_an_argument_is_changed_where_it_stands(
    code: str, changes: dict[str, object], expected: str
) -> None:
    """With its comma and its line."""
    before = "from vllm import LLM\n"

    assert planner.read(before + code).text(**changes) == before + expected


def test_a_command_in_a_string_is_read_too() -> None:
    """`os.system("vllm serve ...")`, changed in its own words."""
    text = "import os\nos.system('vllm serve org/m -tp 2')\n"
    found = planner.read(text)

    assert found.model == "org/m"
    assert found.text(tensor_parallel_size=4) == text.replace("-tp 2", "-tp 4")


def test_places_in_a_line_with_other_letters_are_those_of_characters() -> None:
    """Python counts bytes of UTF-8, an edit counts characters."""
    text = 'y = "é🙂"; LLM("a/b", dtype="auto"); z = "é"; LLM("c/d", dtype="half")\n'
    text = f"from vllm import LLM\n{text}"
    found = [planner.read(text, start=start) for start in (1, 2)]

    assert ["a/b", "c/d"] == [one.model for one in found]
    assert text.replace('"half"', "'float16'") == found[1].text(dtype="float16")
