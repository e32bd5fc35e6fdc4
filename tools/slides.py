"""Build the workshop's slides and handout: each becomes one HTML file.

    python tools/slides.py [FILE]      build/workshop/slides.html unless named

The handout, docs/workshop/handout.md, is beside it: a cheat sheet, a survey and a card,
to print.

The text is Markdown with Jinja's braces: a slide ends at a line of three dashes, and
what follows a line of three question marks is for the teacher. Every figure in braces
is computed by the planner while the page is built, from the plans that the lessons
start from. The page asks nobody for anything: styles and script are in it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jinja2
import mistune  # both come with Jupyter

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from planner import learn, solve  # noqa: E402
from planner.confirming.confirmation import ComparisonRow  # noqa: E402
from planner.learn import drawings  # noqa: E402
from planner.learn.account import line_of, message_of, rank_of, token_bytes  # noqa: E402
from planner.learn.lessons import capacity_plan, confirm, kv_cache  # noqa: E402
from planner.learn.lessons.capacity_plan import PRICES, VISITORS  # noqa: E402
from planner.learn.parts import Choice  # noqa: E402
from planner.planning.result import Plan  # noqa: E402
from planner.units import format_gib, format_size  # noqa: E402
from tools import slide_pictures  # noqa: E402

SOURCE = ROOT / "docs" / "workshop" / "slides.md"
HANDOUT = SOURCE.with_name("handout.md")
BUILT = ROOT / "build" / "workshop" / "slides.html"
PARTS = Path(__file__).parent / "slides"
_LENGTHS = (2048, 4096, 8192, 12_000)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def figures() -> dict[str, Any]:
    """Return what the text can name in braces: plans, and functions that show them."""
    desk = learn.checkpoint(1)
    larger = desk.changed(model="Qwen/Qwen3-14B")
    return {
        "desk": desk,
        "fp8": desk.changed(quantization="fp8"),
        "larger": larger,
        "two_cards": larger.changed(tensor_parallel_size=2),
        "fewer": desk.changed(max_num_seqs=64),
        "city": learn.checkpoint(6),
        "visitors": VISITORS,
        "most": solve.most_requests(
            learn.checkpoint(6),
            prompt_tokens=VISITORS.prompt_tokens,
            output_tokens=VISITORS.output_tokens,
        ).value,
        "prices": PRICES,
        "recorded": learn.recorded(),
        "line": lambda plan, name: format_gib(line_of(plan, name).size_bytes),
        "weights": lambda plan: format_gib(rank_of(plan).line("weights").size_bytes),
        "asked": lambda plan: format_gib(rank_of(plan).requested_memory_bytes),
        "left": lambda plan: format_gib(rank_of(plan).available_kv_cache_bytes),
        "card": lambda plan: format_gib(plan.gpu.total_memory_bytes),
        "token": lambda plan: format_size(token_bytes(plan)),
        "message": message_of,
        "number": lambda value: f"{value:,}",
        "models": [
            desk.changed(model=name, max_model_len=kv_cache.LENGTH)
            for name in ("meta-llama/Llama-2-7b-hf", *kv_cache.MODELS[:3])
        ],
        "draw": lambda name, *plans: drawings.picture(name, *plans).svg,
        "sizes": _sizes,
        "weights_of": lambda plan: line_of(plan, "weights").size_bytes,
        "cache_of": lambda plan: rank_of(plan).available_kv_cache_bytes,
        "logged": confirm.figures()["logged_available_kv"],
        "gib": format_gib,
        "needed": capacity_plan.figures()["all"],
        "blocks": lambda plan: slide_pictures.blocks(plan).svg,
        "preemption": lambda *given: slide_pictures.preemption(*given).svg,
        "lengths": _lengths,
        "question": _question,
        "compared": _compared,
    }


def _lengths(plan: Plan) -> str:
    """Return how many requests fit at once, by their length, as a Markdown table."""
    rows = [
        f"| {length:,} | {plan.changed(max_model_len=length).max_concurrency:.2f} |"
        for length in _LENGTHS
    ]
    return "\n".join(
        ["| Tokens of a request | Requests at once |", "| ---: | ---: |", *rows]
    )


def _sizes(title: str, fill: str, **named: int) -> str:
    """Draw sizes below each other, one colour for all; `_` in a name is a blank."""
    rows = [(name, 0, size, fill) for name, size in named.items()]
    return drawings.sizes(title, rows).svg


def _question(name: str) -> str:
    """Return the choices of an exercise as a list, to vote on."""
    asked = [one for one in learn.exercise(name).parts if isinstance(one, Choice)]
    options = asked[0].options
    return "\n".join(f"- **{letter}**: {text}" for letter, text in options.items())


def _compared(names: Mapping[str, str]) -> str:
    """Return rows of the recorded start beside its plan, as a Markdown table."""
    rows = {row.name: row for row in learn.recorded().compare().rows}
    lines = [
        f"| {title} | {_told(rows[name], rows[name].estimated)} | "
        f"{_told(rows[name], rows[name].measured)} |"
        for name, title in names.items()
    ]
    return "\n".join(
        ["| Figure | Planned | vLLM's log |", "| --- | ---: | ---: |", *lines]
    )


def _told(row: ComparisonRow, value: float | None) -> str:
    if value is None:
        return "none"
    return format_gib(int(value)) if row.unit == "bytes" else f"{value:,}"


def build(source: Path = SOURCE) -> str:
    """Return the page of a text."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # the text is ours, and Markdown is no HTML
        trim_blocks=True,
    )
    text = environment.from_string(source.read_text(encoding="utf-8"))
    markdown = mistune.create_markdown(escape=False, plugins=["table"])
    sources = text.render(figures()).split("\n---\n")
    slides = [
        _slide(number, source, markdown)
        for number, source in enumerate(sources, start=1)
    ]
    title = sources[0].partition("\n")[0].removeprefix("# ")
    return _page("\n".join(slides), f"{title}: {len(slides)} pages of the workshop")


def _slide(number: int, source: str, markdown: Callable[[str], Any]) -> str:
    shown, _, notes = source.partition("\n???\n")
    aside = (
        f"<details class='notes'><summary>For the teacher</summary>{markdown(notes)}"
        "</details>"
        if notes.strip()
        else ""
    )
    body = str(markdown(shown)).replace("<pre>", "<pre tabindex='0'>")
    return (
        f"<section id='slide-{number}' tabindex='-1' aria-label='Slide {number}'>"
        f"<div class='shown'>{body}</div>{aside}"
        f"<p class='place' aria-hidden='true'>{number}</p></section>"
    )


def _page(slides: str, title: str) -> str:
    css = drawings.styles() + (PARTS / "slides.css").read_text(encoding="utf-8")
    script = (PARTS / "slides.js").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n"
        f"<style>\n{css}</style>\n"
        "<noscript><style>.notes { display: block; }</style></noscript>\n</head>\n"
        f"<body>\n<main>\n{slides}\n"
        f"</main>\n<script>\n{script}</script>\n</body>\n</html>\n"
    )


def main(arguments: list[str]) -> int:
    """Write the page; the result is the exit status."""
    path = Path(arguments[0]) if arguments else BUILT
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(build(), encoding="utf-8")
    handout = path.with_name("handout.html")
    handout.write_text(build(HANDOUT), encoding="utf-8")
    print(f"{path}: open it in a browser; ? says which keys there are.")
    print(f"{handout}: print it, a sheet for each part.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
