"""Accelerators that are not NVIDIA GPUs, and what to say when a plan names one.

vLLM runs on several of them with other code: its platforms for ROCm, XPU and others,
and plug-ins. None of the planner's figures hold there.
"""

from __future__ import annotations

import re

_SENTENCE = (
    "{name!r} is {what}, and is not covered: the planner models vLLM's CUDA and CPU "
    "platforms only. {other} allocates memory by other code, so that the figures of a "
    "described GPU (planner.GPU(...)) would not hold for it either. Start vLLM there "
    "and read its log, or plan for one of `planner gpus`."
)
_KINDS = (
    (
        "AMD Instinct, Radeon",
        r"(amd|radeon|instinct|rocm|mi[0-9]{3}[a-z]?|rx ?[5-9][0-9]{3}|gfx[0-9]+"
        r"|r9[0-9]{3}|w[67][0-9]00)",
        "an AMD GPU",
        "vLLM's ROCm platform",
    ),
    (
        "Google TPU",
        r"(tpu[a-z0-9]*|trillium|ironwood|v[2-7][ep](?:-[0-9]+)?)",
        "a TPU",
        "vLLM's TPU plug-in",
    ),
    (
        "Intel Gaudi",
        r"(gaudi ?[0-9]?|hpu|hl-?[23][0-9]{2})",
        "an Intel Gaudi",
        "vLLM's Gaudi plug-in",
    ),
    (
        "Huawei Ascend",
        r"(ascend ?[0-9]*[a-d]?[0-9]?|npu|atlas|910[a-d]?[0-9]?)",
        "a Huawei Ascend",
        "vLLM's Ascend plug-in",
    ),
    (
        "Apple silicon",
        r"(apple|mac(?:book|mini)?|metal|mps|m[1-9])",
        "an Apple chip",
        "vLLM's plug-in for Metal",
    ),
    (
        "Intel Arc, Max, Flex",
        r"(intel|xpu|arc|max ?1[0-9]{3}|flex ?1[0-9]{2}|b[56]0|ponte)",
        "an Intel GPU",
        "vLLM's XPU platform",
    ),
    (
        "AWS Inferentia, Trainium",
        r"(inferentia[0-9]?|trainium[0-9]?|neuron|inf[12]|trn[123]n?)",
        "an AWS accelerator",
        "vLLM's Neuron plug-in",
    ),
    (
        "Others, such as Cerebras, Groq, Tenstorrent",
        r"(spyre|cerebras|groq|sambanova|tenstorrent|wormhole|blackhole|qualcomm"
        r"|cambricon|mlu|kunlun|metax|moore|musa|enflame|hygon|dcu|rebellions|furiosa)",
        "an accelerator of another kind",
        "A plug-in of vLLM's, where there is one,",
    ),
)
"""As a list names it, words with which such a name begins or that stand in it, what it
is, what runs it."""
NOT_COVERED = tuple(listed for listed, *_ in _KINDS)
"""The kinds, as a list of devices to choose from names them."""
_NVIDIA = "nvidia|geforce|quadro|tesla|rtx|gtx"
_IN_PROSE = (
    r"(?ia)(?:(?<![\w./-])|(?<=[/-])(?=rocm|tpu|xpu|[hn]pu|gaudi|ascend|neuron))"
    r"(?P<name>(?:"
    + "|".join(words for _, words, *_ in _KINDS)
    + r")(?:[ -](?:max|ultra|pro|air|mini|studio|xtx?|gre|silicon|gpu|card|chip"
    r"|[a-z]{1,2}\d{1,4}[a-z]?|\d{1,4}[a-z]?)(?!\w)|\.com/gpu)*)s?(?!\w)"
)
_OTHER_WORDS = (
    r"(?i)(?:amd|apple|arc|atlas|b[56]0|flex.*|intel|max.*|metal|moore|mps|910)\Z"
)
"""Names that mean something else where no number follows: bare metal, an Intel CPU."""


def why_not_covered(name: str) -> str:
    """Return why a GPU of that name cannot be planned for; empty if it could be.

    >>> why_not_covered("MI300X").partition(",")[0]
    "'MI300X' is an AMD GPU"
    >>> why_not_covered("H100")
    ''
    """
    if re.search(_NVIDIA, name, re.IGNORECASE):
        return ""
    for _, words, what, other in _KINDS:
        if re.search(rf"(?<![a-z0-9]){words}(?![a-z0-9])", name, re.IGNORECASE):
            return _SENTENCE.format(name=name, what=what, other=other)
    return ""


def not_covered_in(text: str) -> list[tuple[str, tuple[int, int]]]:
    """Return the accelerators in running text that are not covered, and their places.

    >>> not_covered_in("Does Qwen3-8B run on my Mac M3 Max, or on an RX 7900 XTX?")
    [('Mac M3 Max', (24, 34)), ('RX 7900 XTX', (45, 56))]
    >>> not_covered_in("an H100 on bare metal, linux/amd64, arc_easy")
    []
    """
    return [
        (match["name"], match.span("name"))
        for match in re.finditer(_IN_PROSE, text)
        if not re.match(_OTHER_WORDS, match["name"])
    ]
