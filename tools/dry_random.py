"""Random starts that nobody fitted, by vLLM itself without a GPU, beside their plans.

usage: python -m tools.dry_random [--seed N] [--count N] [--out FILE] [--run]
           [--most-gib N] [--seconds N]

Draws starts of models and GPUs of the catalogue that the recorded rows do not have, and
prints the line that starts each. With --run, and PLANNER_VLLM_PYTHON, vLLM answers
those that FILE does not hold, one at a time. The rows of FILE are scored: a start is
right where weights are within 0.1 % or 32 MiB, the peak within 2 % or 0.02 GiB, and a
refusal is a refusal. Its rows may be appended to tests/data/dry/vllm-RELEASE.jsonl.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import planner
from planner.confirming import installation
from planner.engine.gpu import catalogue
from planner.errors import PlannerError
from planner.models.catalogue import entries
from planner.planning.result import Outcome
from planner.units import GIB, MIB
from tools.configs import named
from tools.dry_sweep import NO_FIGURE, OUT, RANKS, rows, swept

_NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}
_MTP = {"method": "mtp", "num_speculative_tokens": 1}
_FEATURES: tuple[tuple[int, dict[str, Any]], ...] = (
    (20, {"kv_cache_dtype": "fp8"}),
    (15, {"enable_lora": True, "max_loras": 2, "max_lora_rank": 16}),
    (10, {"speculative_config": _NGRAM}),
    (50, {"speculative_config": _MTP}),
    (10, {"quantization": "fp8_per_tensor"}),
    (6, {"dtype": "float16"}),
    (10, {"enable_prefix_caching": False}),
    (10, {"enable_expert_parallel": True}),
    (25, {"mm_encoder_tp_mode": "data"}),
    (20, {"limit_mm_per_prompt": {"image": 1}}),
    (15, {"skip_mm_profiling": True}),
)
"""Arguments, and in how many of a hundred starts they are tried."""
_OF_MEDIA = ("mm_encoder_tp_mode", "limit_mm_per_prompt", "skip_mm_profiling")
_SEQUENCES = (2, 8, 32, 128, 256, 1024)
_LENGTHS = (2048, 4096, 8192, 32768)
_LEAST_TOKENS, _MOST_TOKENS = 8, 16
"""Powers of two: 256 and 65,536."""
_ANY_SIZE = 10_000
_COLD = {"compile_cache": "cold"}


def main() -> None:
    """Print starts, run them where that is asked for, and score the rows."""
    options = _options()
    drawn = list(starts(options.seed, options.count, options.most_gib))
    for case in drawn:
        print(command_of(case))
    if options.run:
        _run(drawn, options.out, options.seconds)
    found = rows(options.out)
    if found:
        print("\n".join(scored(found)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path("build/dry-random.jsonl"))
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--most-gib", type=int, default=_ANY_SIZE)
    parser.add_argument("--seconds", type=float, default=600.0)
    return parser.parse_args()


def starts(
    seed: int, count: int, most_gib: int = _ANY_SIZE
) -> Iterator[dict[str, Any]]:
    """Yield starts that fit by their plan; the same for the same seed and rows.

    `most_gib`: the most that weights may take on a rank.
    """
    draw, known = Random(seed), _recorded()
    models = [entry.name for entry in entries() if entry.name not in known]
    gpus = [gpu.name for gpu in catalogue() if not gpu.is_cpu]
    while count and models:
        model = models.pop(draw.randrange(len(models)))
        case = _case(draw, model, draw.choice(gpus), most_gib)
        if case is not None:
            count -= 1
            yield case


def _recorded() -> frozenset[str]:
    files = OUT.glob("vllm-*.jsonl")
    return frozenset(row["model"] for file in files for row in rows(file))


def _case(draw: Random, model: str, gpu: str, most_gib: int) -> dict[str, Any] | None:
    base, first = _base(draw), draw.randrange(len(RANKS))
    for ranks in (*RANKS[first:], *reversed(RANKS[:first])):
        args = {**base, **({"tensor_parallel_size": ranks} if ranks > 1 else {})}
        plan = _plan(model, gpu, args)
        if plan is None:
            args |= {"trust_remote_code": True}
            plan = _plan(model, gpu, args)
        if plan is not None and _weights(plan) <= most_gib * GIB:
            args = _with_features(draw, model, gpu, args, has_media=_has_media(plan))
            return {"model": model, "gpu": gpu, "args": args, "mended": True}
    return None


def _base(draw: Random) -> dict[str, Any]:
    tokens = round(2 ** draw.uniform(_LEAST_TOKENS, _MOST_TOKENS))
    return {
        "max_num_batched_tokens": tokens,
        "max_num_seqs": min(draw.choice(_SEQUENCES), tokens),
        "max_model_len": draw.choice(_LENGTHS),
        **({"enforce_eager": True} if draw.randrange(2) else _COLD),
    }


def _with_features(
    draw: Random, model: str, gpu: str, args: dict[str, Any], *, has_media: bool
) -> dict[str, Any]:
    """Return the arguments with some that the start can have as well."""
    for percent, feature in _FEATURES:
        is_drawn = draw.randrange(100) < percent
        if is_drawn and (has_media or not feature.keys() & set(_OF_MEDIA)):
            plan = _plan(model, gpu, {**feature, **args})
            args = args if plan is None else {**feature, **args}
    return args


def _plan(model: str, gpu: str, args: dict[str, Any]) -> planner.Plan | None:
    """Return the plan of a start that fits with all its parts; None for others."""
    try:
        plan = planner.plan(named(model), gpu=gpu, **args)
    except PlannerError:
        return None
    drafts = plan.model is not None and plan.model.speculation is not None
    is_whole = drafts or "speculative_config" not in args
    return plan if plan.outcome is Outcome.FITS and is_whole else None


def _weights(plan: planner.Plan) -> int:
    return max(rank.allocated_weights_bytes for rank in plan.ranks)


def _has_media(plan: planner.Plan) -> bool:
    return plan.model is not None and bool(plan.model.towers)


def command_of(case: dict[str, Any]) -> str:
    """Return the line that starts a case: `planner dry-run` and its flags."""
    plan = planner.plan(case["model"], gpu=case["gpu"], **case["args"])
    flags = plan.command().removeprefix("vllm serve ")
    cache = " --compile-cache cold" if _is_cold(case) else ""
    return f"planner dry-run --gpu {case['gpu']}{cache} {flags}"


def _is_cold(case: dict[str, Any]) -> bool:
    args: dict[str, Any] = case["args"]
    return _COLD.items() <= args.items()


def _run(drawn: Iterable[dict[str, Any]], out: Path, seconds: float) -> None:
    """Start each case in a process of its own, with caches of its own if it compiles.

    A row is written as soon as its start is over.
    """
    found, done = installation.find(), {_key(row) for row in rows(out)}
    out.parent.mkdir(parents=True, exist_ok=True)
    for case in drawn:
        if _key(case) in done:
            continue
        args = {key: case["args"][key] for key in case["args"] if key not in _COLD}
        with tempfile.TemporaryDirectory(prefix="caches-") as folder:
            caches = Path(folder) if _is_cold(case) else None
            asked = [{**case, "args": args}]
            for row in swept(asked, found, seconds, caches=caches):
                line = json.dumps({**row, "args": case["args"]})
                with out.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")
                print(verdict(json.loads(line)) or f"right: {case['model']}")


def _key(case: dict[str, Any]) -> str:
    return json.dumps([case[name] for name in ("model", "gpu", "args")], sort_keys=True)


def scored(found: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield what is wrong, and last how many of the starts are right.

    Starts of which neither a figure nor an error is known do not count.
    """
    counted = [row for row in found if row.get("refused") != NO_FIGURE]
    wrong = [text for row in counted if (text := verdict(row))]
    yield from wrong
    right = len(counted) - len(wrong)
    share = 100 * right / max(1, len(counted))
    yield f"{right} of {len(counted)} right = {share:.1f} %"


def verdict(row: dict[str, Any]) -> str:
    """Say what is wrong with the plan of a recorded start; empty: nothing."""
    where = f"{row['model']} on {row['gpu']} {row['args']}"
    try:
        plan = planner.plan(named(row["model"]), gpu=row["gpu"], **row["args"])
    except PlannerError as error:
        return f"not planned: {where}: {error}"
    refused = plan.outcome is Outcome.REFUSED
    if refused or "refused" in row:
        is_right = refused and "refused" in row
        words = row.get("refused", "it starts")
        return "" if is_right else f"verdict: {where}: vLLM says: {words}"
    rank = plan.ranks[0]
    off = rank.allocated_weights_bytes - row["weights"]
    peak = rank.line("peak activation").size_bytes - row["peak"]
    is_bound = any("lower bound" in note for note in row.get("notes", ()))
    wrong = []
    if abs(off) > max(32 * MIB, row["weights"] / 1000):
        wrong.append(f"weights {off / GIB:+.3f} GiB")
    if abs(peak) > max(0.02 * GIB, 0.02 * row["peak"]) and not is_bound:
        wrong.append(f"peak {peak / GIB:+.3f} of {row['peak'] / GIB:.3f} GiB")
    return f"{', '.join(wrong)}: {where}" if wrong else ""


if __name__ == "__main__":
    main()
