"""A slider over one argument: the plan of each value, computed before it is moved.

The page needs no kernel while the slider moves, so it also works in a notebook that
was run before, in slides, and in a file of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.errors import PlannerError
from planner.learn.display import ShownAsPage
from planner.planning.inputs import Inputs
from planner.planning.planning import plan
from planner.planning.result import Plan
from planner.show import tables
from planner.show.charts.parts import spoken
from planner.show.charts.picture import page_spec
from planner.show.document import wide_page
from planner.show.html import Html
from planner.show.pieces import table_html
from planner.show.verdict import cache_name, shown_lines, subject, verdict
from planner.units import format_gib
from planner.values import frozen

LEAST_VALUES, MOST_VALUES = 2, 60
"""A plan takes milliseconds and 3 kB of the page."""
_USUAL: Mapping[str, tuple[Any, ...]] = {
    "gpu_memory_utilization": tuple(round(0.5 + 0.02 * step, 2) for step in range(25)),
    "tensor_parallel_size": (1, 2, 4, 8),
    "max_num_seqs": tuple(1 << power for power in range(3, 11)),
    "max_num_batched_tokens": tuple(1 << power for power in range(10, 17)),
}
_SHORTEST = 1024
_COLUMNS = ("Verdict", "KV cache", "KV tokens", "Requests at once")


@frozen(repr=False)
class Slider(ShownAsPage):
    """The plans of several values of one argument, shown as a slider.

    Without scripts it is a table with a row for each value.
    """

    script = "slide.js"

    vary: str
    """The argument that the slider moves."""
    values: tuple[Any, ...]
    plans: tuple[Plan, ...]
    """The plan of each value."""
    start: int = 0
    """Where the slider is at first."""

    @property
    def page_title(self) -> str:
        """The title of its own page."""
        return f"{self.vary}: {subject(self.plans[0])}"

    def __str__(self) -> str:
        rows = [(self.vary, *_COLUMNS), *self._rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows
        )

    def table(self) -> Html:
        """Show the values as a table, where no script runs."""
        caption = f"{self.vary} of {self.plans[0].name} on {self.plans[0].gpu.name}"
        return wide_page(table_html(caption, (self.vary, *_COLUMNS), self._rows()))

    def described(self) -> dict[str, Any]:
        """Describe all plans for the page's script; each text is there once."""
        texts: dict[str, int] = {}
        frames = [
            _frame(one, texts) | {"value": value_text(value)}
            for one, value in zip(self.plans, self.values, strict=True)
        ]
        return {
            "vary": self.vary,
            "start": self.start,
            "frames": frames,
            "texts": list(texts),
        }

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (value_text(value), *_figures(one))
            for value, one in zip(self.values, self.plans, strict=True)
        ]


def slide(
    model: Any = "Qwen/Qwen3-8B",  # noqa: ANN401 - what planner.plan takes
    gpu: Any = "L4",  # noqa: ANN401 - what planner.plan takes
    *,
    vary: str = "max_model_len",
    values: Sequence[Any] | None = None,
    **arguments: Any,  # noqa: ANN401 - vLLM's own types
) -> Slider:
    """Plan each value of one argument, and show a slider that moves between them.

    Args:
        model: as in `planner.plan`; or a plan, of which everything else is kept.
        gpu: as in `planner.plan`.
        vary: the argument that the slider moves, such as "max_model_len".
        values: what it takes, in the order of the slider, 2 to 60 of them; without
            them, round values of the usual arguments.
        arguments: the other arguments of `planner.plan`. For the one that varies, the
            value that the slider starts from.

    Raises:
        PlannerError: for input that cannot be planned, and where values are needed.

    >>> slider = slide("Qwen/Qwen3-8B", "L4", vary="max_model_len", values=(4096, 8192))
    >>> [plan.resolved.max_model_len for plan in slider.plans]
    [4096, 8192]
    """
    given = {**_inputs(model, gpu), **arguments}
    inputs = {name: value for name, value in given.items() if name != vary}
    chosen = _usual_values(vary, inputs) if values is None else tuple(values)
    if not LEAST_VALUES <= len(chosen) <= MOST_VALUES:
        raise PlannerError(
            f"A slider takes {LEAST_VALUES} to {MOST_VALUES} values of {vary}."
        )
    return Slider(
        vary=vary,
        values=chosen,
        plans=tuple(plan(**{**inputs, vary: value}) for value in chosen),
        start=_start(vary, chosen, given),
    )


def _inputs(model: Any, gpu: Any) -> dict[str, Any]:  # noqa: ANN401 - as in `slide`
    if not isinstance(model, Plan):
        return {"model": model, "gpu": gpu}
    of_plan = Inputs.of(model)
    return {
        "model": of_plan.model,
        "gpu": of_plan.gpu,
        "vllm_version": of_plan.vllm_version,
        "entrypoint": of_plan.entrypoint,
        "load": of_plan.load,
        **of_plan.engine_args,
    }


def value_text(value: object) -> str:
    """Write a value for a reader.

    >>> value_text(8192), value_text(0.9), value_text(True), value_text("fp8")
    ('8,192', '0.9', 'on', 'fp8')
    """
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        return f"{value:,}"
    return "vLLM's default" if value is None else str(value)


def _usual_values(vary: str, inputs: Mapping[str, Any]) -> tuple[Any, ...]:
    if vary in _USUAL:
        return _USUAL[vary]
    if vary != "max_model_len":
        raise PlannerError(f"Name the values of {vary} that the slider should have.")
    longest = plan(**inputs)
    most = longest.resolved.max_model_len if longest.resolved else 0
    powers = (_SHORTEST << power for power in range(most.bit_length()))
    return (*(length for length in powers if length < most), most)


def _start(vary: str, values: tuple[Any, ...], given: Mapping[str, Any]) -> int:
    """Return the place of the value that was given, or is vLLM's default."""
    first = given.get(vary)
    if first is None:
        first = getattr(plan(**given).resolved, vary, None)
    return values.index(first) if first in values else 0


def _figures(plan: Plan) -> tuple[str, ...]:
    rank = plan.limiting_rank
    answer = verdict(plan)
    if rank is None:
        return (f"{answer.symbol} {answer.starts}", "-", "-", "-")
    words = f"{answer.symbol} {answer.headline}"
    whole = plan.all_engines
    return (
        words,
        format_gib(rank.available_kv_cache_bytes),
        f"{max(whole.kv_cache_size_tokens, 0):,}",
        f"{max(whole.max_concurrency, 0):,.2f}",
    )


def _frame(plan: Plan, texts: dict[str, int]) -> dict[str, Any]:
    """Describe one plan; its texts are numbers of `texts`."""

    def kept(text: str) -> int:
        return texts.setdefault(text, len(texts))

    return {
        "picture": page_spec(plan)["picture"],
        "spoken": kept(spoken(plan)),
        "verdict": kept(tables.verdict_html(plan)),
        "figures": kept(tables.figures_html(plan)),
        "error": kept(tables.error_html(plan)),
        "lines": [
            [line.name, format_gib(line.size_bytes), kept(line.why)]
            for line in _lines(plan)
        ],
        "cache": cache_name(plan.limiting_rank) if plan.limiting_rank else "",
    }


def _lines(plan: Plan) -> Sequence[Any]:
    rank = plan.limiting_rank
    return shown_lines(rank) if rank else ()
