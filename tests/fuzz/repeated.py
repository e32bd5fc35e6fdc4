"""Long texts of one repeated fragment: their time must grow with their length alone."""

from __future__ import annotations

from random import Random

_LONGEST = 60_000
_POD = """\
apiVersion: v1
kind: Pod
spec:
  containers:
  - image: vllm/vllm-openai
    args: """
_COMPOSE = """\
services:
  vllm:
    image: vllm/vllm-openai
    command: |
      """
_BEFORE = (
    *("", "vllm serve a/b ", "vllm bench throughput ", "docker run vllm/vllm-openai "),
    *("bash -c 'vllm serve a ", _POD, f"{_POD}['a", f"{_POD}\n    - ", _COMPOSE),
    *("from vllm import LLM\n", "from vllm import LLM\nLLM('a', ", "model: a\nx: "),
    "INFO 04-22 01:47:55 [gpu_worker.py:436] x\n",
    "torch.OutOfMemoryError: CUDA out of memory.\n",
    *("FROM vllm/vllm-openai\nCMD [", 'FROM vllm/vllm-openai\nCMD ["', "ValueError: "),
    "lm_eval --model vllm --model_args pretrained=a,",
    "name: a\nresources: {gpu: H100}\nrun: vllm serve a\nx: vllm==1.",
    "type: service\nresources: {gpu: H100}\ncommands:\n",
    "model: {model_id: a, base_args: [--a, --b]}\nvariants:\n",
)
_FRAGMENTS = (
    *(
        " ",
        "\n",
        " \n",
        "\r\n",
        "#\n",
        "'",
        '"',
        '\\"',
        "\\",
        "$(",
        "${a",
        "${a:-",
        "$a",
        "a_",
        "a/",
    ),
    *("a.", "a-", "-", "1", "1.", "a=b ", "a=b;", "a={,", "a=[", "export A=b\n", "x\n"),
    *("vllm serve a;", "- vllm serve a\n", "--a ", "--a,", "--max-model-len 1, "),
    *("CMD [\n", "FROM a\n", "LLM('a')\n", "os.environ['a']='b'\n", "a=1,", "é=1,"),
    *(
        "{",
        "[",
        "{{ a }} ",
        "- a\n",
        "&a ",
        "*a ",
        "H100 ",
        "Qwen3 8B ",
        "#PBS ",
        "  a: ",
    ),
)
_AFTER = ("", "x", "a1\n", "b']\n", "\n]\n", "]", " ")


def repeated(random: Random) -> str:
    """Return a text of 10,000 to 60,000 characters, most of them one fragment's."""
    fragment = random.choice(_FRAGMENTS)
    number = random.randint(10_000, _LONGEST) // len(fragment)
    return random.choice(_BEFORE) + fragment * number + random.choice(_AFTER)
