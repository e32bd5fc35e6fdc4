"""Fit the forecast of speed to published measurements of vLLM.

    python tools/fit_speed.py [--measured FILE.jsonl]

Writes `planner/data/speed.json`: each parameter with its unit and source, the ranges,
and how many measurements are near which start. The ranges are those of sources that
were left out: for each source the parameters are fitted to all others. Writes the
report card into docs/speed.md too.

A line of the file: source (an address), model, gpu, arguments, release, prompt_tokens,
output_tokens, requests at once, and what was measured: next_token_ms, first_token_ms
(medians, or means where no median was published), total_tokens_per_second. A line with
left_out, the reason, is not fitted.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import pathlib
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlsplit

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from planner import Load, PlannerError, plan  # noqa: E402
from planner.solve.speed.forecast import regime_of  # noqa: E402
from planner.solve.speed.form import (  # noqa: E402
    Point,
    figures_of,
    memory_of,
    point_of,
    times_of,
)
from planner.solve.speed.own import start_of  # noqa: E402
from tools.speed_card import card, parameter_table, replace_part  # noqa: E402

MEASURED = ROOT / "tests" / "data" / "speed.jsonl"
DATA = ROOT / "planner" / "data" / "speed.json"
PAGE = ROOT / "docs" / "speed.md"
REGIMES = ("one request", "moderate", "saturated")
WEIGHTS = {"next_token": 1.0, "total": 0.5, "first_token": 0.2}
"""What an error of each figure counts in the fit."""
KNEE = 0.3
"""Errors beyond it, in logarithms, count by their size, not by its square."""
PRIOR_WEIGHT = 0.1
INSIDE = 0.8
"""Of the measurements of sources that are left out, inside the range."""


@dataclass(frozen=True)
class Parameter:
    """A parameter, and what is expected of it before anything is measured."""

    name: str
    expected: float
    spread: float
    """Standard deviation of its logarithm."""
    unit: str
    what: str


HARDWARE = "of the peak bandwidth that reading weights and caches reaches"
PARAMETERS = (
    Parameter("bandwidth_share_HBM", 0.75, 0.15, "1", f"share {HARDWARE}, HBM"),
    Parameter("bandwidth_share_GDDR", 0.8, 0.15, "1", f"share {HARDWARE}, GDDR"),
    Parameter(
        "bandwidth_share_unified", 0.82, 0.15, "1", f"share {HARDWARE}, shared memory"
    ),
    Parameter("peak_share_dense", 0.55, 0.3, "1", "share of the peak of matrix units"),
    Parameter(
        "peak_share_experts", 0.25, 0.5, "1", "the same for models of routed experts"
    ),
    Parameter(
        "layer_seconds", 30e-6, 0.7, "s", "overhead of a layer, with CUDA graphs"
    ),
    Parameter(
        "expert_layer_seconds", 30e-6, 0.8, "s", "what a layer of experts adds to it"
    ),
    Parameter("request_seconds", 30e-6, 0.8, "s", "overhead of a request in a step"),
    Parameter("reduce_seconds_NVLink", 12e-6, 0.6, "s", "latency of an all-reduce"),
    Parameter("reduce_seconds_PCIe", 25e-6, 0.6, "s", "latency of an all-reduce"),
    Parameter("reduce_seconds_network", 60e-6, 0.8, "s", "latency of an all-reduce"),
    Parameter(
        "server_seconds", 15e-3, 0.8, "s", "overhead of a request before it runs"
    ),
    Parameter(
        "prompts_ahead", 0.3, 0.5, "1", "share of the other prompts that are first"
    ),
)
EXPECTED = [math.log(one.expected) for one in PARAMETERS]


@dataclass(frozen=True)
class Sample:
    """A measurement, and what its time depends on."""

    source: str
    point: Point
    start: str
    """What it has in common with others of the same start."""
    regime: str
    measured: dict[str, float]


LeftOut: TypeAlias = "tuple[Sample, dict[str, float]]"
"""A measurement with its errors by figure."""


def main() -> int:
    """Fit, write, and say how far off left-out sources are."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--measured", type=pathlib.Path, default=MEASURED)
    samples = list(read(parser.parse_args().measured))
    values = fitted(samples)
    left_out = errors_left_out(samples)
    table = {
        "fitted": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "measurements": len(samples),
        "sources": sorted({sample.source for sample in samples}),
        "parameters": [_entry(one, values[one.name]) for one in PARAMETERS],
        "ranges": ranges(left_out),
        "own_ranges": own_ranges(left_out),
        "near": near(samples),
    }
    DATA.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    within = [(sample, errors(sample, values)) for sample in samples]
    report = card(within, left_out)
    replace_part(PAGE, "report card", report)
    replace_part(PAGE, "parameters", parameter_table(PARAMETERS, values))
    print(report)
    return 0


def _entry(parameter: Parameter, value: float) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "value": float(f"{value:.4g}"),
        "unit": parameter.unit,
        "what": parameter.what,
        "basis": "measured",
    }


# Reading -----------------------------------------------------------------------


def read(path: pathlib.Path) -> Iterable[Sample]:
    """Yield the measurements that can be planned."""
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found = None if row.get("left_out") else sample_of(row)
        if found is not None:
            yield found


def sample_of(row: dict[str, Any]) -> Sample | None:
    """Return a measurement with what its time depends on; None: it is not planned."""
    load = Load(
        prompt_tokens=row["prompt_tokens"],
        output_tokens=row["output_tokens"],
        requests=row["requests"],
    )
    release = {"vllm_version": row["release"]} if row.get("release") else {}
    try:
        planned = plan(row["model"], gpu=row["gpu"], **release, **row["arguments"])
        memory = memory_of(planned.gpu)
        if memory is None:
            return None
        point = point_of(planned, load, memory)
    except PlannerError:
        return None
    figures = {
        "next_token": row.get("next_token_ms", 0) / 1000,
        "first_token": row.get("first_token_ms", 0) / 1000,
        "total": row.get("total_tokens_per_second", 0),
    }
    return Sample(
        source=publisher(row["source"]),
        point=point,
        start=start_of(planned),
        regime=regime_of(load, point.running),
        measured={name: value for name, value in figures.items() if value},
    )


def publisher(address: str) -> str:
    """Return who published a measurement: the owner of a repository, or the site.

    >>> publisher("https://github.com/ovg-project/kvcached/pull/331")
    'ovg-project'
    >>> publisher("https://forums.developer.nvidia.com/t/6x-spark-setup/354399/18")
    'forums.developer.nvidia.com'
    """
    parts = urlsplit(address)
    owner = parts.path.strip("/").split("/")[0]
    return owner if parts.netloc == "github.com" else parts.netloc


# Fitting -----------------------------------------------------------------------


def errors(sample: Sample, values: dict[str, float]) -> dict[str, float]:
    """Return the logarithm of measured over forecast, by figure."""
    told = figures_of(times_of(sample.point, values))
    return {name: math.log(one / told[name]) for name, one in sample.measured.items()}


def fitted(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the parameters with the least loss, found by steps along each."""
    weights = weights_of(samples)
    at, steps = list(EXPECTED), [0.2] * len(EXPECTED)
    best = _loss(samples, weights, at)
    while max(steps) > 2e-3:  # noqa: PLR2004 - a fifth of a percent
        for number in range(len(at)):
            for sign in (1, -1):
                tried = list(at)
                tried[number] += sign * steps[number]
                loss = _loss(samples, weights, tried)
                if loss < best:
                    at, best = tried, loss
                    steps[number] *= 1.3
                    break
            else:
                steps[number] *= 0.6
    return _values(at)


def weights_of(samples: Sequence[Sample]) -> list[float]:
    """Return what each measurement counts: a source by the root of its number."""
    counts: dict[str, int] = defaultdict(int)
    for sample in samples:
        counts[sample.source] += 1
    return [1 / math.sqrt(counts[sample.source]) for sample in samples]


def _loss(
    samples: Sequence[Sample], weights: Sequence[float], at: list[float]
) -> float:
    values = _values(at)
    loss = 0.0
    for sample, weight in zip(samples, weights, strict=True):
        for name, error in errors(sample, values).items():
            loss += weight * WEIGHTS[name] * _huber(error)
    for one, value, expected in zip(PARAMETERS, at, EXPECTED, strict=True):
        loss += PRIOR_WEIGHT * ((value - expected) / one.spread) ** 2 / 2
    return loss


def _huber(error: float) -> float:
    size = abs(error)
    return size * size / (2 * KNEE) if size < KNEE else size - KNEE / 2


def _values(at: Sequence[float]) -> dict[str, float]:
    return {
        one.name: math.exp(value) for one, value in zip(PARAMETERS, at, strict=True)
    }


# Ranges ---------------------------------------------------------------


def errors_left_out(samples: Sequence[Sample]) -> list[LeftOut]:
    """Return the errors of each measurement, fitted without its source."""
    found = []
    for source in sorted({sample.source for sample in samples}):
        values = fitted([one for one in samples if one.source != source])
        mine = [one for one in samples if one.source == source]
        found += [(sample, errors(sample, values)) for sample in mine]
    return found


def ranges(left_out: Sequence[LeftOut]) -> dict[str, Any]:
    """Return by what factor four of five measurements differ from the forecast.

    By regime and figure, each half from its own regime and half from all: few sources
    measured a regime.
    """
    found: dict[str, Any] = {}
    for regime in REGIMES:
        found[regime] = {}
        for name in WEIGHTS:
            all_errors = [
                (s, abs(error[name])) for s, error in left_out if name in error
            ]
            own = [pair for pair in all_errors if pair[0].regime == regime]
            factor = math.exp((quantile(own) + quantile(all_errors)) / 2)
            found[regime][name] = round(factor, 3)
    return found


def own_ranges(left_out: Sequence[LeftOut]) -> dict[str, float]:
    """Return the factors after one other measurement of the same start."""
    starts: dict[tuple[str, str], list[LeftOut]] = defaultdict(list)
    for pair in left_out:
        starts[pair[0].source, pair[0].start].append(pair)
    found = {}
    for name in WEIGHTS:
        apart = [
            (sample, abs(error[name] - other[name]))
            for same in starts.values()
            for sample, error in same
            for _, other in same
            if error is not other and name in error and name in other
        ]
        found[name] = round(math.exp(quantile(apart)), 3)
    return found


def quantile(of: Sequence[tuple[Sample, float]]) -> float:
    """Return what four of five errors are within, sources weighted as in the fit."""
    weights = weights_of([sample for sample, _ in of])
    passed, total = 0.0, sum(weights)
    pairs = zip((error for _, error in of), weights, strict=True)
    for error, weight in sorted(pairs):
        passed += weight
        if passed >= INSIDE * total:
            return error
    return max(error for _, error in of)


def near(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """Return how many measurements of which sources each kind of start has."""
    kinds: dict[Any, list[Sample]] = defaultdict(list)
    for sample in samples:
        kinds[sample.point.kind].append(sample)
    return [
        {
            "memory": kind.memory,
            "weights": kind.weights,
            "gpus": kind.gpus,
            "measurements": len(found),
            "sources": sorted({one.source for one in found}),
        }
        for kind, found in sorted(kinds.items(), key=lambda pair: repr(pair[0]))
    ]


if __name__ == "__main__":
    sys.exit(main())
