"""Python code, read as syntax."""

from __future__ import annotations

import pytest

import planner
from tests.rows import each_row


def test_constants_of_the_code_are_put_in() -> None:
    """Names that are assigned once; tables passed with two stars."""
    found = planner.read(
        "from vllm import LLM\nM = 'org/m'\nmore = {'dtype': 'half', 'seed': 1}\n"
        "llm = LLM(M, tensor_parallel_size=2, **more)\n"
    )

    assert found.model == "org/m"
    assert found.entrypoint == "llm"
    assert found.engine_args == {"tensor_parallel_size": 2, "dtype": "half", "seed": 1}


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
    assert text.replace('"half"', '"float16"') == found[1].text(dtype="float16")


_LLM = "from vllm import LLM\n"
_RUN = "import os, shlex, subprocess, json\n"
VALUES = {
    "a later assignment": f"N = 1\nN = 9000\n{_LLM}LLM('a/b', max_model_len=N)\n",
    "several at once": f"M, N = 'a/b', 9000\n{_LLM}LLM(M, max_model_len=N)\n",
    "a default of the environment": (
        f"import os\n{_LLM}LLM('a/b', max_model_len=int(os.getenv('N', '9000')))\n"
    ),
    "an option's default": (
        f"import argparse\n{_LLM}p = argparse.ArgumentParser()\n"
        "p.add_argument('--max-len', type=int, default=9000)\na = p.parse_args()\n"
        "LLM('a/b', max_model_len=a.max_len)\n"
    ),
    "a decorator's default": (
        f"import click\n{_LLM}@click.command()\n@click.option('--n', default=9000)\n"
        "def main(n):\n    LLM('a/b', max_model_len=n)\n"
    ),
    "a function's argument": (
        f"{_LLM}def run(m, n=1):\n    LLM(m, max_model_len=n)\nrun('a/b', n=9000)\n"
    ),
    "a field of a class": (
        f"from dataclasses import dataclass\n{_LLM}@dataclass\nclass C:\n"
        "    n: int = 9000\nclass E:\n    def __init__(self, c):\n        self.c = c\n"
        "    def go(self):\n        LLM('a/b', max_model_len=self.c.n)\nE(C()).go()\n"
    ),
    "a table that grows": (
        f"{_LLM}k = dict(model='a/b')\nk.update(seed=1)\nk['max_model_len'] = 9000\n"
        "LLM(**k)\n"
    ),
    "a table in a table": (
        f"{_LLM}base = {{'model': 'a/b'}}\nLLM(**{{**base, 'max_model_len': 9000}})\n"
    ),
    "a list that grows": (
        f"{_RUN}c = ['vllm', 'serve', 'a/b']\nc += ['--max-model-len', '9000']\n"
        "subprocess.run(c)\n"
    ),
    "a list from a table": (
        f"{_RUN}o = {{'max-model-len': 9000}}\nc = ['vllm', 'serve', 'a/b']\n"
        "for k, v in o.items():\n    c.extend([f'--{k}', str(v)])\nsubprocess.run(c)\n"
    ),
    "a list that is joined": (
        f"{_RUN}N = 9000\nos.system(' '.join(['vllm', 'serve', 'a/b', "
        "'--max-model-len', str(N)]))\n"
    ),
    "braces": f"{_RUN}N = 9000\nos.system(f'vllm serve a/b --max-model-len {{N}} &')\n",
    "a sum": f"{_RUN}N = 9000\nos.system('vllm serve a/b --max-model-len ' + str(N))\n",
    "percent": f"{_RUN}os.system('vllm serve %s --max-model-len %d' % ('a/b', 9000))\n",
    "format": f"{_RUN}os.system('vllm serve a/b --max-model-len {{}}'.format(9000))\n",
    "a template": (
        f"import string\n{_RUN}t = string.Template('vllm serve $m --max-model-len "
        "$n')\nos.system(t.substitute(m='a/b', n=9000))\n"
    ),
    "words of a call": (
        f"{_RUN}p = asyncio.create_subprocess_exec('vllm', 'serve', 'a/b', "
        "'--max-model-len', '9000')\n"
    ),
    "an enumeration": (
        f"import enum\n{_LLM}class N(enum.Enum):\n    A = 9000\n"
        "LLM('a/b', max_model_len=N.A.value)\n"
    ),
    "words of a text": (
        f"{_RUN}C = '''\nvllm serve a/b\n  --max-model-len 9000\n'''\n"
        "subprocess.Popen(shlex.split(C))\n"
    ),
    "escapes": f"{_RUN}os.system('vllm serve a/b \\\\\\n --max-model-len 9000')\n",
    "a line of a notebook": "M = 'a/b'\n!vllm serve {M} --max-model-len 9000\n",
    "words around it": f"So:\n{_LLM}LLM('a/b', max_model_len=9000)\nAnd so on.\n",
    "arguments that are not shown": (
        f"{_LLM}LLM(\n    'a/b',\n    max_model_len=9000,\n    ...\n)\n"
    ),
    "a setting or its default": (
        f"import os\n{_LLM}LLM('a/b', max_model_len=int(os.getenv('N') or 9000))\n"
    ),
    "flags of a table's names": (
        f"{_RUN}c = ['vllm', 'serve', 'a/b']\nfor k, v in {{'max_model_len': 9000}}"
        ".items():\n    c += ['--' + k.replace('_', '-'), str(v)]\nsubprocess.run(c)\n"
    ),
    "a branch that is taken": (
        f"FAST = False\n{_LLM}n = 1 if FAST else 9000\nif FAST:\n    n = 2\n"
        "LLM('a/b', max_model_len=n)\n"
    ),
}


@each_row("row", VALUES.items(), ids=lambda row: row[0])
def test_a_value_is_followed_to_where_it_stands(row: tuple[str, str]) -> None:
    """What is run is one start, and a change is written into the constant."""
    text = row[1]
    found = planner.read(text)

    assert (found.model, found.num_starts) == ("a/b", 1)
    assert found.engine_args["max_model_len"] == 9000
    assert found.text(max_model_len=12345) == text.replace("9000", "12345")


OPEN = {
    "LLM('a/b', max_model_len=f())": "max_model_len is f()",
    "import sys\nn = sys.argv[1]\nLLM('a/b', max_model_len=n)": "n = sys.argv[1]",
    "n = 1\nif f():\n    n = 2\nLLM('a/b', max_model_len=n)": "n = 1 or 2",
    "k = {}\nif f():\n    k['max_model_len'] = 9\nLLM('a/b', **k)": "9 if f()",
    "LLM('a/b', max_model_len=9 if f() else 8)": "9 if f() else 8",
    "import os\nc = ['vllm', 'serve', 'a/b']\nif f():\n    c += ['--max-model-len', "
    "'9']\nos.execvp('vllm', c)": "--max-model-len is '9' if f()",
    "import os\nos.system('vllm serve a/b ' + more)": "",
}


@each_row("row", OPEN.items(), ids=lambda row: row[0])
def test_what_run_time_decides_is_open(row: tuple[str, str]) -> None:
    """Its code is named, and no value is taken."""
    found = planner.read(f"from vllm import LLM\n{row[0]}\n")

    assert found.model == "a/b"
    assert found.engine_args == {}
    assert row[1] in " ".join(found.open)


def test_the_gpu_of_a_function_is_the_starts() -> None:
    """Modal's decorators, with the constants that they name."""
    found = planner.read(
        "import modal, subprocess\nCARD, N = 'A100', 2\napp = modal.App()\n"
        "@app.function(gpu=f'{CARD}:{N}')\ndef serve():\n"
        "    subprocess.Popen(['vllm', 'serve', 'a/b', '-tp', str(N)])\n"
    )

    assert (found.model, found.gpus) == ("a/b", 2)
    assert found.to_dict()["inputs"]["gpu"] == "A100-40GB"
    assert found.engine_args == {"tensor_parallel_size": 2}


def test_each_round_and_each_call_is_a_start() -> None:
    """Of a loop over a list, of a function with other arguments."""
    loop = "for m in ['a/a', 'b/b']:\n    LLM(m, max_model_len=9)\n"
    calls = "def run(m):\n    LLM(m)\nrun('a/a')\nrun('b/b')\nrun('b/b')\n"
    for text in (loop, calls):
        starts = [planner.read(_LLM + text, start=one) for one in (1, 2)]

        assert [one.model for one in starts] == ["a/a", "b/b"]
        assert starts[0].num_starts == 2
