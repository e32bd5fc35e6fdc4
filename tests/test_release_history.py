"""planner/data/release_history.json is what its tool would write."""

import json
from pathlib import Path

from planner.engine.releases import MODELLED

KINDS = ("architectures", "arguments", "kv_cache_dtypes")


def test_every_entry_names_a_release_that_is_modelled(root: Path) -> None:
    """Later than the oldest, whose own are left out."""
    path = root / "planner" / "data" / "release_history.json"
    table = json.loads(path.read_text(encoding="utf-8"))
    assert KINDS == tuple(sorted(table))
    for firsts in table.values():
        assert set(firsts.values()) <= set(MODELLED[:-1])
        assert list(firsts) == sorted(firsts)
