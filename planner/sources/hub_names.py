"""Which names a repository on the Hub can have."""

from __future__ import annotations

import re

_REPO_ID = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)?")
_LONGEST_REPO_ID = 96


def is_repo_id(text: str) -> bool:
    """Whether the Hub could have a repository of this name.

    Source: huggingface_hub 2.4.0 `utils/_validators.py` validate_repo_id.
    """
    return (
        _REPO_ID.fullmatch(text) is not None
        and len(text) <= _LONGEST_REPO_ID
        and "--" not in text
        and ".." not in text
        and not text.endswith((".git", ".", "-"))
        and not text.startswith((".", "-"))
    )
