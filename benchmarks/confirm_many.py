"""How many confirmations a minute a Ray cluster makes, by its number of workers.

    python benchmarks/confirm_many.py [--starts 40] [--seconds 2]

vLLM is stood in for by a program that takes some seconds and refuses, so that what is
left is Ray's and the planner's own: sending a plan, starting and ending processes,
writing the row. All workers share this machine's processors; on machines of their own
they would not.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import planner  # noqa: E402
from tests.ray_clusters import RefusingPython, add_node, cluster  # noqa: E402
from tests.starts import TINY, a_plan  # noqa: E402

WORKERS = (1, 2, 4, 8)


def main() -> None:
    """Measure for each number of workers, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--starts", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=2.0)
    asked = parser.parse_args()
    print(f"{asked.starts} starts of {asked.seconds:g} s each")
    print("workers  seconds  at once  share of the ideal")
    for workers in WORKERS:
        with tempfile.TemporaryDirectory() as folder, cluster() as made:
            add_node(made, num_cpus=workers)
            spent, most = measure(
                made.address, Path(folder), asked.starts, asked.seconds
            )
        ideal = asked.starts * asked.seconds / workers
        print(f"{workers:7}  {spent:7.1f}  {most:7}  {ideal / spent:18.0%}", flush=True)


def measure(
    address: str, folder: Path, starts: int, seconds: float
) -> tuple[float, int]:
    """Return the seconds from the first start to the last row, and the most at once.

    Connecting and the first worker are left out: they happen once, whatever is done.
    """
    python = RefusingPython(folder, seconds)
    model = folder / "tiny"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(TINY), encoding="utf-8")
    plans = [a_plan(model, share=(200 + n) / 1000) for n in range(starts)]
    begun: list[float] = []

    def listen(_event: object) -> None:
        begun.append(time.monotonic())

    planner.confirm_many(
        plans,
        address=address,
        listener=listen,
        cpus=1,
        python=str(python.path),
        is_stored=False,
    )
    return begun[-1] - begun[0], python.most_at_once()


if __name__ == "__main__":
    main()
