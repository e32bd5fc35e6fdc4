"""How far off the forecast of speed and aiconfigurator are, on the same measurements.

    pip install aiconfigurator==0.12.0          (in an environment of its own)
    python benchmarks/alternatives/aiconfigurator_speed.py --python ENV/bin/python

Time of the next token, for the published measurements that both answer. Ours is also
given as fitted without the source of each measurement, for aiconfigurator was not
fitted to any of them. It is asked for as many requests at once as we count, since it
does not count them.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tools import fit_speed  # noqa: E402

SYSTEMS = {
    "A100-80GB": "a100_sxm",
    "H100": "h100_sxm",
    "H200": "h200_sxm",
    "B200": "b200_sxm",
    "B300": "b300_sxm",
    "L4": "l4",
    "L40S": "l40s",
}
ASK = """
import json, logging, sys
logging.disable(logging.CRITICAL)
from aiconfigurator.cli.api import cli_estimate
for line in sys.stdin:
    asked = json.loads(line)
    model, system = asked.pop("model"), asked.pop("system")
    try:
        found = cli_estimate(model, system, backend_name="vllm", **asked).tpot / 1000
    except BaseException as error:
        found = None
    print("ANSWER", json.dumps(found), flush=True)
"""
"""Run by the other interpreter: a question in each line, an answer for each."""


def question(row: dict[str, Any], sample: fit_speed.Sample) -> dict[str, Any] | None:
    """Return what aiconfigurator is asked of a measurement; None: no such GPU."""
    point, system = sample.point, SYSTEMS.get(row["gpu"])
    if system is None or point.replicas > 1:
        return None
    experts = {"moe_tp_size": point.tensor_ranks, "moe_ep_size": 1}
    return {
        "model": row["model"],
        "system": system,
        "isl": row["prompt_tokens"],
        "osl": max(2, row["output_tokens"]),
        "batch_size": point.running,
        "tp_size": point.tensor_ranks,
        "pp_size": point.stages,
        **(experts if point.has_experts else {}),
    }


def answers(python: str, questions: list[dict[str, Any]]) -> list[float | None]:
    """Return the times that aiconfigurator forecasts, in seconds; None: refused."""
    done = subprocess.run(
        [python, "-W", "ignore", "-c", ASK],
        input="\n".join(map(json.dumps, questions)),
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [one for one in done.stdout.splitlines() if one.startswith("ANSWER ")]
    return [json.loads(one.removeprefix("ANSWER ")) for one in lines]


def main() -> int:
    """Ask both, and print the median errors on the points that both answer."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", required=True, help="with aiconfigurator installed")
    parser.add_argument("--most", type=int, default=1000, help="points to ask about")
    options = parser.parse_args()
    samples, asked, places = [], [], []
    for line in fit_speed.MEASURED.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        sample = None if row.get("left_out") else fit_speed.sample_of(row)
        if sample is None:
            continue
        samples.append(sample)
        one = question(row, sample) if "next_token" in sample.measured else None
        if one is not None:
            asked.append(one)
            places.append(len(samples) - 1)
    spread = slice(None, None, max(1, -(-len(asked) // options.most)))
    asked, places = asked[spread], places[spread]
    told = answers(options.python, asked)
    values = fit_speed.fitted(samples)
    left_out = {id(one): error for one, error in fit_speed.errors_left_out(samples)}
    theirs, ours, ours_left_out = [], [], []
    for place, answer in zip(places, told, strict=True):
        if not answer:
            continue
        sample = samples[place]
        theirs.append(abs(answer / sample.measured["next_token"] - 1))
        error = fit_speed.errors(sample, values)["next_token"]
        ours.append(abs(math.exp(-error) - 1))
        ours_left_out.append(abs(math.exp(-left_out[id(sample)]["next_token"]) - 1))
    print(f"{len(samples)} measurements, {len(asked)} asked, {len(theirs)} answered")
    for name, errors in (
        ("aiconfigurator", theirs),
        ("planner, fitted", ours),
        ("planner, source left out", ours_left_out),
    ):
        print(f"{name:26s} next token off by {100 * statistics.median(errors):.0f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
