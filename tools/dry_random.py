"""Random starts that nobody fitted, by vLLM itself without a GPU, beside their plans.

usage: python -m tools.dry_random [--seed N] [--count N] [--out FILE] [--run]
           [--most-gib N] [--seconds N] [--release VERSION]

Draws starts of the catalogue's models, an architecture first, on its GPUs, and prints
the line that starts each. All have an empty cache: eager ones tune kernels too. Half of
them compile, and start again with what they compiled, which is a row of its own. With
--run, and PLANNER_VLLM_PYTHON of that release, vLLM answers those that FILE does not
hold, one at a time. The rows of FILE are scored: a start is right where weights are
within 0.1 % or 32 MiB, the peak within 2 % or 0.02 GiB, and a refusal is a refusal. Its
rows may be appended to tests/data/dry/vllm-RELEASE.jsonl.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any, TypeGuard

import planner
from planner.confirming import installation
from planner.engine.gpu import catalogue
from planner.engine.releases import NEWEST
from planner.errors import PlannerError
from planner.memory.account import NOT_SERVED
from planner.models.catalogue import entries
from planner.models.sources.finding import model_files
from planner.planning.result import Outcome
from planner.units import GIB, MIB
from tools.configs import named
from tools.dry_sweep import NO_FIGURE, OUT, RANKS, rows, swept

_NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}
_MTP = {"method": "mtp", "num_speculative_tokens": 1}
_LORA = {"enable_lora": True, "max_loras": 2, "max_lora_rank": 16}
FEATURES: tuple[tuple[int, dict[str, Any]], ...] = (
    (20, {"kv_cache_dtype": "fp8"}),
    (15, _LORA),
    (3, {**_LORA, "fully_sharded_loras": True, "max_lora_rank": 64}),
    (10, {"speculative_config": _NGRAM}),
    (50, {"speculative_config": _MTP}),
    (10, {"quantization": "fp8_per_tensor"}),
    (4, {"quantization": "mxfp8"}),
    (6, {"dtype": "float16"}),
    (2, {"dtype": "float32"}),
    (10, {"enable_prefix_caching": False}),
    (4, {"enable_chunked_prefill": False}),
    (10, {"enable_expert_parallel": True}),
    (4, {"data_parallel_size": 2}),
    (4, {"pipeline_parallel_size": 2}),
    (4, {"cpu_offload_gb": 2}),
    (4, {"block_size": 64}),
    (4, {"attention_backend": "FLASHINFER"}),
    (4, {"attention_backend": "TRITON_ATTN"}),
    (5, {"async_scheduling": False}),
    (5, {"max_logprobs": 100}),
    (8, {"gpu_memory_utilization": 0.85}),
    (25, {"mm_encoder_tp_mode": "data"}),
    (20, {"limit_mm_per_prompt": {"image": 1}}),
    (10, {"limit_mm_per_prompt": {"image": 2, "video": 0}}),
    (8, {"language_model_only": True}),
    (15, {"skip_mm_profiling": True}),
)
"""Arguments, and in how many of a hundred starts they are tried."""
_OF_MEDIA = (
    *("mm_encoder_tp_mode", "limit_mm_per_prompt", "skip_mm_profiling"),
    "language_model_only",
)
_SEQUENCES = (2, 8, 32, 128, 256, 1024)
_LENGTHS = (2048, 4096, 8192, 32768)
_LEAST_TOKENS, _MOST_TOKENS = 8, 16
"""Powers of two: 256 and 65,536."""
_ANY_SIZE = 10_000
_STARTS_OF_A_GPU = 8
"""On average: starts of one GPU share a process, and so the import of vLLM."""
_REFUSED = 15
"""Of a hundred features that are refused by their plan, how many are tried."""
_COLD, _WARM = {"compile_cache": "cold"}, {"compile_cache": "warm"}


def main() -> None:
    """Print starts, run them where that is asked for, and score the rows."""
    options = _options()
    seed, count, release = options.seed, options.count, options.release
    drawn = list(starts(seed, count, options.most_gib, release))
    for case in drawn:
        print(command_of(case, release))
    if options.run:
        _run(drawn, options.out, options.seconds, release)
    found = rows(options.out)
    if found:
        print("\n".join(scored(found, release)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path("build/dry-random.jsonl"))
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--most-gib", type=int, default=_ANY_SIZE)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--release", default=NEWEST)
    return parser.parse_args()


def starts(
    seed: int, count: int, most_gib: int = _ANY_SIZE, release: str = NEWEST
) -> Iterator[dict[str, Any]]:
    """Yield starts of which nearly all fit by their plan, sorted by GPU.

    They are the same for the same seed, and no recorded row is among them. Each
    architecture has one as long as there are others.

    `most_gib`: the most that weights may take on a rank.
    """
    draw, known = Random(seed), _recorded()
    models: dict[str, list[str]] = {}
    every = sorted(gpu.name for gpu in catalogue() if not gpu.is_cpu)
    gpus = draw.sample(every, -(-count // _STARTS_OF_A_GPU))
    found: list[dict[str, Any]] = []
    while len(found) < count:
        models = models or _models()
        model = draw.choice(models.pop(draw.choice(sorted(models))))
        case = _case(draw, model, draw.choice(gpus), most_gib, release)
        if case is not None and _key(case) not in known:
            found.append(case)
    yield from sorted(found, key=lambda case: gpus.index(case["gpu"]))


def _models() -> dict[str, list[str]]:
    """Return the models of each architecture and way of quantization."""
    found: dict[str, list[str]] = {}
    for entry in entries():
        config = model_files(entry.name).config
        kind = (config.get("quantization_config") or {}).get("quant_method", "")
        found.setdefault(f"{config.get('architectures')} {kind}", []).append(entry.name)
    return found


def _recorded() -> frozenset[str]:
    files = OUT.glob("vllm-*.jsonl")
    return frozenset(_key(row) for file in files for row in rows(file))


def _case(
    draw: Random, model: str, gpu: str, most_gib: int, release: str
) -> dict[str, Any] | None:
    base, first = _base(draw), draw.randrange(len(RANKS))
    for ranks in (*RANKS[first:], *reversed(RANKS[:first])):
        args = {**base, **({"tensor_parallel_size": ranks} if ranks > 1 else {})}
        start = partial(_plan, model, gpu, release)
        plan = start(args)
        if plan is None:
            args |= {"trust_remote_code": True}
            plan = start(args)
        if _fits(plan) and _weights(plan) <= most_gib * GIB:
            args = _with_features(draw, start, args, has_media=_has_media(plan))
            return {"model": model, "gpu": gpu, "args": args, "mended": True}
    return None


def _base(draw: Random) -> dict[str, Any]:
    """Return lengths and batches; a third leaves one of them to vLLM."""
    tokens = round(2 ** draw.uniform(_LEAST_TOKENS, _MOST_TOKENS))
    sizes = {
        "max_num_batched_tokens": tokens,
        "max_num_seqs": min(draw.choice(_SEQUENCES), tokens),
        "max_model_len": draw.choice(_LENGTHS),
    }
    if not draw.randrange(3):
        del sizes[draw.choice(sorted(sizes))]
    eager = {"enforce_eager": True} if draw.randrange(2) else {}
    return {**sizes, **eager, **_COLD}


def _with_features(
    draw: Random,
    start: Callable[[dict[str, Any]], planner.Plan | None],
    args: dict[str, Any],
    *,
    has_media: bool,
) -> dict[str, Any]:
    """Return the arguments with some that the start can have as well.

    Now and then the last is one that is refused by the plan.
    """
    for percent, feature in FEATURES:
        is_drawn = draw.randrange(100) < percent
        is_told = draw.randrange(100) < _REFUSED
        if is_drawn and (has_media or not feature.keys() & set(_OF_MEDIA)):
            plan = start({**feature, **args})
            if plan is not None and plan.outcome is Outcome.REFUSED and is_told:
                return {**feature, **args}
            args = {**feature, **args} if _fits(plan) else args
    return args


def _plan(
    model: str, gpu: str, release: str, args: dict[str, Any]
) -> planner.Plan | None:
    """Return the plan of a start; None where it is incomplete."""
    try:
        plan = planner.plan(named(model), gpu=gpu, vllm_version=release, **args)
    except PlannerError:
        return None
    drafts = plan.model is not None and plan.model.speculation is not None
    is_whole = drafts or "speculative_config" not in args
    return plan if plan.outcome is Outcome.REFUSED or is_whole else None


def _fits(plan: planner.Plan | None) -> TypeGuard[planner.Plan]:
    return plan is not None and plan.outcome is Outcome.FITS


def _weights(plan: planner.Plan) -> int:
    return max(rank.allocated_weights_bytes for rank in plan.ranks)


def _has_media(plan: planner.Plan) -> bool:
    return plan.model is not None and bool(plan.model.towers)


def command_of(case: dict[str, Any], release: str = NEWEST) -> str:
    """Return the line that starts a case: `planner dry-run` and its flags."""
    model, gpu, args = case["model"], case["gpu"], case["args"]
    plan = planner.plan(model, gpu=gpu, vllm_version=release, **args)
    flags = plan.command().removeprefix("vllm serve ")
    cache = " --compile-cache cold" if _is_cold(case) else ""
    return f"planner dry-run --gpu {gpu}{cache} {flags}"


def _is_cold(case: dict[str, Any]) -> bool:
    args: dict[str, Any] = case["args"]
    return _COLD.items() <= args.items()


def _run(
    drawn: Iterable[dict[str, Any]], out: Path, seconds: float, release: str
) -> None:
    """Start the cases that are not in a file, and add a row as each start is over.

    Raises:
        SystemExit: where the installed vLLM is of another release.
    """
    found, done = installation.find(), {_key(row) for row in rows(out)}
    if found.version != release:
        raise SystemExit(f"vLLM {found.version} is installed, not {release}.")
    out.parent.mkdir(parents=True, exist_ok=True)
    for asked in _processes(case for case in drawn if _key(case) not in done):
        plain = [_without_cache(case) for case in asked]
        with tempfile.TemporaryDirectory(prefix="caches-") as folder:
            answers = swept(plain, found, seconds, caches=Path(folder))
            for case, row in zip(asked, answers, strict=True):
                line = json.dumps({**row, "args": case["args"]})
                with out.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")
                print("\n".join(scored([json.loads(line)], release)))


def _processes(cases: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield what one process starts, of one GPU: a cold start before its warm one."""
    for _gpu, group in groupby(cases, key=lambda case: str(case["gpu"])):
        yield [one for case in group for one in _starts(case)]


def _starts(case: dict[str, Any]) -> list[dict[str, Any]]:
    warm = {**case, "args": {**case["args"], **_WARM}}
    return [case] if case["args"].get("enforce_eager") else [case, warm]


def _without_cache(case: dict[str, Any]) -> dict[str, Any]:
    args = {name: case["args"][name] for name in case["args"] if name not in _COLD}
    return {**case, "args": args}


def _key(case: dict[str, Any]) -> str:
    return json.dumps([case[name] for name in ("model", "gpu", "args")], sort_keys=True)


def scored(found: Iterable[dict[str, Any]], release: str = NEWEST) -> Iterator[str]:
    """Yield what is wrong, how many of the starts are right, and how many say nothing.

    Those are the dry run's own failures; like starts that were ended, they do not count
    as right or wrong.
    """
    every = list(found)
    faults = [row for row in every if "fault" in row]
    counted = [row for row in every if is_answer(row)]
    wrong = [text for row in counted if (text := verdict(row, release))]
    yield from wrong
    yield from (f"no answer: {_start_of(row)}: {row['fault']}" for row in faults)
    right = len(counted) - len(wrong)
    share = 100 * right / max(1, len(counted))
    yield f"{right} of {len(counted)} right = {share:.1f} %"
    share = 100 * len(faults) / max(1, len(every))
    yield f"{len(faults)} of {len(every)} without an answer = {share:.1f} %"


def is_answer(row: dict[str, Any]) -> bool:
    """Whether a start says what vLLM measured, or why it refuses."""
    return "weights" in row or row.get("refused", NO_FIGURE) != NO_FIGURE


def _start_of(row: dict[str, Any]) -> str:
    return f"{row['model']} on {row['gpu']} {row['args']}"


def verdict(row: dict[str, Any], release: str = NEWEST) -> str:
    """Say what is wrong with the plan of a recorded start; empty: nothing."""
    where = _start_of(row)
    try:
        model, gpu, args = named(row["model"]), row["gpu"], row["args"]
        plan = planner.plan(model, gpu=gpu, vllm_version=release, **args)
    except PlannerError as error:
        return f"not planned: {where}: {error}"
    ends = plan.error is not None and plan.error.kind == NOT_SERVED
    words, is_refused = row.get("refused"), ends or plan.outcome is Outcome.REFUSED
    if is_refused or words:
        is_right = is_refused and words
        return (
            "" if is_right else f"verdict: {where}: vLLM says: {words or 'it starts'}"
        )
    rank = plan.ranks[0]
    off = rank.allocated_weights_bytes - row["weights"]
    peak = rank.line("peak activation").size_bytes - row["peak"]
    is_bound = any("lower bound" in note for note in row.get("notes", ()))
    # A dry run begins with the last stage: the first finds what that one compiled.
    is_bound |= _is_cold(row) and len(plan.ranks) > 1
    wrong = []
    if "error" in row and plan.outcome is Outcome.FITS:
        wrong.append(f"verdict: vLLM says: {row['error']}")
    if abs(off) > max(32 * MIB, row["weights"] / 1000):
        wrong.append(f"weights {off / GIB:+.3f} GiB")
    if abs(peak) > max(0.02 * GIB, 0.02 * row["peak"]) and not is_bound:
        wrong.append(f"peak {peak / GIB:+.3f} of {row['peak'] / GIB:.3f} GiB")
    return f"{', '.join(wrong)}: {where}" if wrong else ""


if __name__ == "__main__":
    main()
