"""Documents in documents: blocks of code, cells of notebooks, transcripts."""

from __future__ import annotations

import json

import planner
from tests.rows import each_row

_COMMAND = "vllm serve a/b --max-model-len 9000"
_CODE = 'from vllm import LLM\nllm = LLM("a/b", max_model_len=9000)\n'


def _notebook(*cells: object, **facts: object) -> str:
    code = [{"cell_type": "code", "source": cell, **facts} for cell in cells]
    return json.dumps({"cells": code, "nbformat": 4})


TEXTS = {
    "a fence, and an apostrophe in the words around it": (
        f"It's best so:\n\n```bash\n{_COMMAND}\n```\n\nThat's all, isn't it?\n"
    ),
    "an indented one in a list, with prompts and output": (
        f"1. Don't wait:\n   ~~~console\n   $ {_COMMAND[:14]} \\\n"
        f"   >  {_COMMAND[15:]}\n   It's up: vllm serve x/y\n   ~~~\n"
    ),
    "one that is quoted": f"> I'm here\n> ```\n> {_COMMAND}\n> ```\n> what's this?\n",
    "Python, as a session": (
        "```pycon\n>>> from vllm import LLM\n>>> llm = LLM('a/b',\n"
        "...           max_model_len=9000)\n```\n"
    ),
    "one with another name than its language": f"```yaml\n{_COMMAND}\n```\n",
    "reStructuredText": (
        f"Don't::\n\n    echo\n\n.. code-block:: sh\n   :caption: x\n\n   {_COMMAND}\n"
        "\nIt's\n"
    ),
    "HTML": f'It\'s <pre><code class="language-sh">{_COMMAND} &amp;\n</code></pre>',
    "AsciiDoc": f"It's so:\n\n[source,bash]\n----\n{_COMMAND}\n----\n\nthen wait.",
    "a ticket": f"h2. It's so\n{{code:bash}}\n{_COMMAND}\n{{code}}\n",
    "Org": f"* It's so\n#+begin_src sh\n{_COMMAND}\n#+end_src\n",
    "Jekyll": f"{{% highlight bash %}}\n{_COMMAND}\n{{% endhighlight %}}\n",
    "a forum's tags": f"It's [code]{_COMMAND}[/code] isn't it",
    "no block at all": f"I'm running this:\n\n{_COMMAND}\n\nand it doesn't work\n",
    "words in backticks": f"I'm running `{_COMMAND}`.\nWhy's it slow?\n",
    "a terminal": f"me@box:~$ {_COMMAND}\nINFO it's up\nme@box:~$ exit\n",
    "a notebook": _notebook(["M = 'a/b'\n", "N = 1"], _CODE.replace('"a/b"', "M")),
    "a notebook with what it printed": _notebook(
        _CODE.splitlines(keepends=True),
        outputs=[{"text": ["INFO 05-02 10:11:12 [x.py:1] Model loading took 7.5 GiB"]}],
    ),
    "a long notebook": _notebook(_CODE, outputs=[{"data": "x" * 100_000}]),
    "a cell of a shell": _notebook(f"%%bash\n{_COMMAND}\n", "print('x')"),
    "a cell that writes a file": _notebook(f"%%writefile run.sh\n{_COMMAND}\n"),
}


@each_row("row", TEXTS.items(), ids=lambda row: row[0])
def test_a_start_is_found_in_its_document_and_changed_there(
    row: tuple[str, str],
) -> None:
    """One start in each text, whose length is the one thing that an edit changes."""
    text = row[1]
    found = planner.read(text)

    assert (found.model, found.num_starts) == ("a/b", 1)
    assert found.engine_args["max_model_len"] == 9000
    assert found.text(max_model_len=12345) == text.replace("9000", "12345")


def test_documents_of_several_languages_are_read_in_order() -> None:
    """Each by the readers of its language."""
    text = (
        "Compose:\n```yaml\nservices:\n  x:\n    image: vllm/vllm-openai:v0.9.1\n"
        "    command: --model a/b\n```\nor\n```Dockerfile\n"
        "FROM vllm/vllm-openai:v0.9.2\n"
        'CMD ["--model", "c/d"]\n```\nor\n```python\n' + _CODE + "```\n"
    )
    found = [planner.read(text, start=start) for start in (1, 2, 3)]

    assert [one.model for one in found] == ["a/b", "c/d", "a/b"]
    assert [one.vllm_version for one in found[:2]] == ["0.9.1", "0.9.2"]
