"""`planner dry-run`: let vLLM itself start on a GPU that is not there."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from planner.app.cli.consent import add_consent, check_consent
from planner.app.cli.engine_flags import add_engine_arguments
from planner.app.cli.film import add_film, check_film, save_film
from planner.app.cli.shared import Output, add_output, add_python, add_time_limit
from planner.confirming.dry.run import CACHES, dry_run
from planner.confirming.start import stage_lines
from planner.planning.batches import ENTRYPOINTS

EXAMPLES = (
    "planner dry-run Qwen/Qwen3-8B --gpu H100",
    "planner dry-run org/new-model --gpu L40S --max-model-len 8192",
)


def add(parser: argparse.ArgumentParser) -> None:
    """Give the command's parser its flags."""
    parser.description = (
        "Start the installed vLLM, unmodified and with random weights, on a GPU that "
        "is not there, and read what it measures: any model that vLLM serves, to the "
        "byte. Needs Linux, a C compiler and vLLM's build for NVIDIA GPUs; no GPU, no "
        "weights, no network. Exit status: 0 vLLM started, 1 it did not, 2 bad input."
    )
    parser.add_argument("model", help="Hub id, catalogue id, folder or config.json")
    parser.add_argument(
        "--gpu",
        metavar="GPU",
        default="H100",
        help="catalogue name, or attached (default: H100)",
    )
    parser.add_argument(
        "--vllm-version", metavar="RELEASE", help="default: the installed one"
    )
    parser.add_argument(
        "--entrypoint", default="serve", choices=ENTRYPOINTS, help="default: serve"
    )
    _add_own(parser.add_argument_group("how vLLM is started"))
    # Its own --compile-cache says with which one vLLM starts.
    add_engine_arguments(parser, without=("compile_cache",))
    add_output(parser)


def _add_own(own: Any) -> None:  # noqa: ANN401 - argparse's own type is private
    add_consent(own)
    add_python(own)
    own.add_argument(
        "--compile-cache",
        default="shared",
        choices=CACHES,
        help="shared: as earlier runs left it (default); cold: empty; both: cold, then "
        "warm",
    )
    own.add_argument(
        "--real-workers",
        dest="has_real_workers",
        action="store_true",
        help="a process for every rank; else one process stands for all",
    )
    own.add_argument(
        "--trace",
        dest="is_traced",
        action="store_true",
        help="say what is alive at the first rank's peak, by the line of vLLM's code "
        "that allocated it",
    )
    add_film(own)
    add_time_limit(own)


def run(options: dict[str, Any], out: Output) -> int:
    """Let vLLM start, and return the exit status."""
    check_consent(options)
    given = {name: value for name, value in options.items() if value is not None}
    film = check_film(given.pop("film", None))
    result = dry_run(
        given.pop("model"),
        listener=stage_lines(sys.stderr),
        is_filmed=film is not None,
        **given,
    )
    save_film(result.film, film)
    return out.say(result, result.started)
