"""Write the accuracy report: the planner beside published start-ups of vLLM.

    python tools/accuracy.py [--corpus FILE.jsonl] [--shared FOLDER]

FOLDER holds starts that people shared (`planner calibration share`). Writes
`docs/accuracy/` (figures as SVG, the raw rows), the tables of
`docs/accuracy.md`, the lines of the README between its markers, and the summary that
the app shows. Needs Chromium for the figures (CHROMIUM=...).
"""

from __future__ import annotations

import csv
import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.accuracy_features import as_table, feature_rows  # noqa: E402
from tools.accuracy_figures import draw  # noqa: E402
from tools.compared import LINES, Row, mean, median, rows_of, summary  # noqa: E402
from tools.dry_rows import DryRow, dry_rows  # noqa: E402
from tools.report_card import (  # noqa: E402
    by_key,
    family_of,
    features_of_row,
    gpu_of_row,
    machines,
    minor_of,
    unknown,
)
from tools.starts import chosen_starts, read_records, read_starts  # noqa: E402

DOCS = ROOT / "docs"
CALIBRATION = ROOT / "planner" / "data" / "calibration"
SUMMARY = ROOT / "planner" / "data" / "accuracy.json"
MACHINES = (
    "CUDA's context grows with the card. NCCL starts before vLLM's first look from "
    "0.11 on. Where GPU and processor share their memory, every program counts."
)
ABOUT = (
    "Each start was planned from the model's config and the arguments in its log. "
    "`make accuracy` writes this page. Below are what is not known, tables of the "
    "errors, and [vLLM's own code](#against-vllms-own-code)."
)
LARGEST = 6
BEGIN, END = "<!-- accuracy: begin -->", "<!-- accuracy: end -->"


def main() -> int:
    """Plan every start, compare, write."""
    corpus, shared = chosen_starts(__doc__)
    starts = read_starts(corpus, shared=shared)
    rows = rows_of(start for start in starts if start.record["scored"])
    runs = dry_rows()
    figures = summary(rows)
    dry = [run.as_record() for run in runs]
    SUMMARY.write_text(as_text(figures | {"dry": dry}), encoding="utf-8")
    folder = DOCS / "accuracy"
    folder.mkdir(exist_ok=True)
    write_rows(rows, folder / "starts.csv")
    draw(rows, folder)
    records = read_records(corpus)
    features = as_table(feature_rows(records))
    card = report(rows, runs, features, machines(records))
    replace_between(DOCS / "accuracy.md", card)
    replace_between(ROOT / "README.md", short(rows))
    print(json.dumps({k: v for k, v in figures.items() if k != "published"}, indent=1))
    return 0


def as_text(figures: dict[str, Any]) -> str:
    """Write the summary, its lists of starts a start a line."""
    lists = {name: figures.pop(name) for name in ("published", "dry")}
    text = json.dumps(figures, indent=1).removesuffix("\n}")
    for name, rows in lists.items():
        lines = ",\n  ".join(json.dumps(row) for row in rows)
        text += f',\n "{name}": [\n  {lines}\n ]'
    return text + "\n}\n"


def write_rows(rows: Sequence[Row], path: pathlib.Path) -> None:
    """Write the raw rows, one start a line."""
    flat = [row.flat() for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(flat)


def replace_between(path: pathlib.Path, text: str) -> None:
    """Put the text between the markers of a document."""
    before, rest = path.read_text(encoding="utf-8").split(BEGIN)
    _old, after = rest.split(END)
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def short(rows: Sequence[Row]) -> str:
    """Write the figures of the README."""
    figures = summary(rows)
    return (
        f"Against {figures['starts']} published start-ups of vLLM 0.9 to 0.31, the KV "
        f"cache is off by {figures['kv_median_error_gib']:.2f} GiB in the median "
        f"({figures['kv_median_error_percent']:.1f} %) and "
        f"{figures['kv_mean_error_gib']:.2f} GiB on average "
        f"({figures['kv_mean_error_of_releases_gib']:.2f} without "
        f"{figures['patched_starts']} starts of patched builds); taking off a flat "
        f"2.5 GiB is off by {figures['rival_median_error_gib']:.2f} and "
        f"{figures['rival_mean_error_gib']:.2f} GiB. "
        f"{figures['inside_percent']:.0f} % of the starts lie in the stated range, "
        f"whose median width is {figures['median_width_gib']:.1f} GiB."
    )


def patched(rows: Sequence[Row]) -> str:
    """Write what is different in the patched builds."""
    figures = summary(rows)
    return (
        f"The {figures['patched_starts']} patched builds (their names begin with kt-) "
        "have a default of 32,768 for max_num_batched_tokens where the release has "
        "8,192; their records give it as an argument."
    )


def beside_dry_runs(runs: Sequence[DryRow]) -> str:
    """Write how many dry runs the planner agrees with."""
    equal = sum(run.has_equal_weights for run in runs)
    close = sum(run.has_close_peak for run in runs)
    return (
        f"Of {len(runs)} dry runs, vLLM's own starts without a GPU "
        f"([dry-run.md](dry-run.md)), {equal} have the planned weights within 1 % and "
        f"{close} the planned peak within 0.02 GiB."
    )


def report(
    rows: Sequence[Row], runs: Sequence[DryRow], features: str, kept: str
) -> str:
    """Write the report card: the summary, what is not known, and folded tables."""
    return "\n\n".join(
        [
            short(rows),
            beside_dry_runs(runs),
            ABOUT,
            "## Against real start-ups",
            patched(rows),
            "### What is not known",
            unknown(rows, runs),
            "### The tables",
            "![Errors by release](accuracy/releases.svg)",
            "![Range of each start](accuracy/ranges.svg)",
            folded("By release", by_key(rows, runs, minor_of)),
            folded("By GPU", by_key(rows, runs, gpu_of_row)),
            folded("By family", by_key(rows, runs, family_of)),
            folded("By feature", by_key(rows, runs, features_of_row)),
            folded("By line", by_line(rows)),
            folded("What machines keep before vLLM looks", MACHINES, kept),
            folded("What is fitted", fitted()),
            folded("The largest errors", worst(rows)),
            folded(
                "Adapters, drafts, offloading, encoders",
                "Every published start with one of them, scored above or not.",
                features,
            ),
            "Every start, with the address of its log: "
            "[accuracy/starts.csv](accuracy/starts.csv).",
        ]
    )


def folded(title: str, *parts: str) -> str:
    """Return parts that open by a click, on the site and on a code host."""
    opening = f"<details>\n<summary>{title}</summary>"
    return "\n\n".join([opening, *parts, "</details>"])


def by_line(rows: Sequence[Row]) -> str:
    """Write the errors of each line that logs state."""
    lines = [
        "| line | starts | mean error, GiB | median | largest |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name in LINES:
        errors = [r.line_errors_gib[name] for r in rows if name in r.line_errors_gib]
        lines.append(
            f"| {name} | {len(errors)} | {mean(errors):.3f} | {median(errors):.3f} | "
            f"{max(errors, key=abs):+.2f} |"
        )
    return "\n".join(lines)


def fitted() -> str:
    """Write what was fitted, with the error on models that were left out of the fit."""
    parts = json.loads((CALIBRATION / "non_torch.json").read_text())["parts"]
    graphs = json.loads((CALIBRATION / "cudagraphs.json").read_text())
    lines = [
        "| part | GiB | range | starts | error on a model left out, GiB |",
        "| --- | ---: | --- | ---: | ---: |",
    ]
    for name, part in parts.items():
        left_out = part["left_out_error_gib"]
        lines.append(
            f"| {name} | {part['gib']:.2f} | {part['low_gib']:.2f} to "
            f"{part['high_gib']:.2f} | {len(part['starts'])} | "
            f"{'one model only' if left_out is None else f'{left_out:.2f}'} |"
        )
    for name in ("estimated", "actual"):
        fit = graphs[name]
        lines.append(
            f"| CUDA graphs, {name} | {fit['pool_gib']['Hopper and later']:.2f} + "
            f"{fit['mib_per_layer_and_graph']:.2f} MiB per layer and graph, latent "
            f"attention {fit['latent_weight']:.1f} times as much | "
            f"x {fit['low_share']:.2f} to {fit['high_share']:.2f} | "
            f"{len(fit['starts'])} | "
            f"{fit['left_out_error_gib']:.2f} |"
        )
    return "\n".join(lines)


def worst(rows: Sequence[Row]) -> str:
    """Write the starts with the largest errors."""
    lines = [
        "| start | GPU | measured, GiB | planned | range |",
        "| --- | --- | ---: | ---: | --- |",
    ]
    for row in sorted(rows, key=lambda row: -abs(row.error_gib))[:LARGEST]:
        lines.append(
            f"| {row.start} | {row.gpu} x {row.tensor_parallel_size} | "
            f"{row.measured_gib:.2f} | {row.planned_gib:.2f} | "
            f"{row.low_gib:.2f} to {row.high_gib:.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
