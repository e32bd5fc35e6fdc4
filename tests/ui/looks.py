"""Themes and widths in which a page is looked at.

Colours do not depend on the width, nor what is cut off on the colours: the narrow dark
page finds what either does, so the wide light one is looked at by night.
"""

from __future__ import annotations

import pytest

LOOKS = [pytest.param("light", 1280, marks=pytest.mark.nightly), ("dark", 390)]
"""Theme and width in pixels."""
THEMES = [pytest.param("light", marks=pytest.mark.nightly), "dark"]
