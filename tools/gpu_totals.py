"""Compare the catalogue's totals with those that measured start-ups printed.

Run from the repository's root: `python tools/gpu_totals.py [CORPUS.jsonl]`. Shows, for
each GPU that the corpus names, the totals it printed and how far ours lies from them:
what to look at before a total in planner/data/gpus.json is changed.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from planner.engine.gpu import GPU  # noqa: E402 - the repository is put on the path first
from planner.units import GIB  # noqa: E402
from tools.starts import CORPUS, read_records  # noqa: E402


def printed_totals(corpus: Path) -> dict[str, list[float]]:
    """Return the totals in GiB that each GPU's start-ups printed."""
    totals: dict[str, list[float]] = defaultdict(list)
    for row in read_records(corpus):
        if row["gpu"] and row["total_gpu_gib"]:
            totals[row["gpu"]].append(row["total_gpu_gib"])
    return dict(sorted(totals.items()))


def table(totals: dict[str, list[float]]) -> str:
    """Return one line for each GPU: records, printed range, ours, largest distance."""
    lines = [f"{'GPU':12} {'records':>7} {'printed GiB':>17} {'ours':>7} {'apart':>7}"]
    for name, printed in totals.items():
        ours = GPU.named(name).total_memory_bytes / GIB
        apart = max((ours / one - 1 for one in printed), key=abs)
        span = f"{min(printed):.2f} to {max(printed):.2f}"
        lines.append(f"{name:12} {len(printed):7} {span:>17} {ours:7.2f} {apart:+7.2%}")
    return "\n".join(lines)


if __name__ == "__main__":
    chosen = Path(sys.argv[1]) if sys.argv[1:] else CORPUS
    sys.stdout.write(table(printed_totals(chosen)) + "\n")
