"""plotly.js for the page: the bundle of the installed plotly package, started lighter.

The bundle sets up all its trace types when it loads, which takes a browser about 0.9 s;
bars and lines alone take 0.3 s (`docs/performance.md`). Only the list of types to set
up is shortened, as plotly.js's own custom bundles do; every byte still comes from the
installed package, and a bundle without such a list is used as it is.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from planner.errors import PlannerError

FILE_NAME = "plotly.min.js"

# The bundle ends with `core.register([bar(), box(), heatmap(), ...])`; lines (scatter)
# belong to the core. Source: plotly.js `lib/index.js`.
_REGISTER_ALL = re.compile(r"(\.register\(\[[\w$]+\(\))(?:,[\w$]+\(\)){20,}(\]\))")


def installed() -> Path:
    """Find plotly.js in the installed plotly package, without importing the package.

    Raises:
        PlannerError: when plotly is not installed.
    """
    spec = find_spec("plotly")
    if spec is None or not spec.submodule_search_locations:
        raise PlannerError(
            "The explorer needs plotly. Run: pip install 'vllm-memory-planner[app]'"
        )
    return Path(spec.submodule_search_locations[0]) / "package_data" / FILE_NAME


def bars_only(bundle: str) -> str:
    """Shorten the list of trace types that the bundle sets up to the first: bars."""
    shortened, count = _REGISTER_ALL.subn(r"\1\2", bundle)
    return shortened if count == 1 else bundle


def for_page() -> bytes:
    """Return the JavaScript that a page with memory bars needs."""
    return bars_only(installed().read_text(encoding="utf-8")).encode()
