"""What names the newest release beside the code, and follows it.

Pages show output of the planner, images, and commands for the newest release; the
stand-ins that tests start are of it. Elsewhere a page may name any release: where a
fact was read, or what was recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_RELEASE = r"\d+\.\d+\.\d+"
_PAGES = (
    rf"vllm/vllm-openai:v({_RELEASE})",
    rf"vllm==({_RELEASE})",
    rf"vllm_version(?:=|: \")({_RELEASE})",
    rf"^[\w./-]+(?: on (?:\d+ x )?\w+)?, vLLM ({_RELEASE})(?=$|: the fewest)",
    rf"\(vLLM ({_RELEASE})\)(?: for|, each| *$)",
    rf"^# [\w./-]+ with vLLM ({_RELEASE}) on ",
    rf"^[\w./-]+,\w+,({_RELEASE}),\d",
    rf"0\.9\.2 to ({_RELEASE}), each release",
    rf"this page describes vLLM ({_RELEASE})",
    rf"--to ({_RELEASE})(?= --gpu|`)",
    rf"to=\"({_RELEASE})\"",
)
_STAND_INS = {
    "tests/fake_vllm/vllm.dist-info/METADATA": rf"^Version: ({_RELEASE})",
    "tests/fake_vllm_gpu/vllm.dist-info/METADATA": rf"^Version: ({_RELEASE})",
    "tests/fake_vllm/vllm/__init__.py": rf"__version__ = \"({_RELEASE})",
    "tests/fake_vllm/vllm/engine.py": rf"LLM engine \(v({_RELEASE})\)",
    "tests/ray_clusters.py": rf"\"vllm\": \"({_RELEASE})\+cpu\"",
}
FOLLOWING: dict[str, re.Pattern[str]] = {
    **dict.fromkeys(
        (
            *("README.md", "notebooks/src/explorer.py"),
            *(
                f"docs/{page}.md"
                for page in (
                    *("advice", "compare", "dry-run", "export", "memory-model"),
                    *("notebooks", "scope", "solve", "tutorial", "upgrade"),
                )
            ),
        ),
        re.compile("|".join(_PAGES), re.MULTILINE),
    ),
    **{path: re.compile(text, re.MULTILINE) for path, text in _STAND_INS.items()},
}
"""Files, each with what finds the newest release in it."""


def named(root: Path) -> Iterator[tuple[str, str]]:
    """Yield each file with each release that it calls the newest."""
    for path, pattern in FOLLOWING.items():
        text = (root / path).read_text(encoding="utf-8")
        for match in pattern.finditer(text):
            yield path, next(filter(None, match.groups()))


def followed(text: str, pattern: re.Pattern[str], release: str) -> str:
    """Return a text with another newest release."""

    def put(match: re.Match[str]) -> str:
        old = next(filter(None, match.groups()))
        return match[0].replace(old, release)

    return pattern.sub(put, text)
