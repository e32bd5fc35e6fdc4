"""How characters are written so that a shell reads them where they stand."""

from __future__ import annotations

import re


def escaped(value: str) -> str:
    """Write a value without quotes."""
    return re.sub(r"([^\w@%+=:,./-])", r"\\\1", value)


def in_document(value: str) -> str:
    """Write a value into a here-document."""
    return re.sub(r"([\\$`])", r"\\\1", value)


def in_single(value: str) -> str:
    """Write a value between single quotes."""
    return value.replace("'", "'\\''")


def in_double(value: str) -> str:
    """Write a value between double quotes."""
    return re.sub(r'(["\\$`])', r"\\\1", value)
