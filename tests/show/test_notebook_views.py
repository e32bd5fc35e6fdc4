"""What a notebook shows of each answer: the answer first, what is long folded."""

import re
from html import unescape

import pytest

import planner
from planner import Load, solve
from planner.show.compared_gpus import cells
from planner.show.compared_plans import verdict_text
from planner.show.explanation import explanation_sheet
from planner.show.page import plan_html
from planner.show.sheet import Table
from planner.show.speed import rate_text
from tests import confirmations, plans
from tests.show.test_explanation import read_file
from tests.show.test_ray_shown import pipeline, placement

LOAD = Load(prompt_tokens=3000, output_tokens=1000, requests=16)
PRICES = {"L4": 0.5, "H100": 2.5, "A10": 0.6, "T4": 0.2}
FOLD = re.compile(r"<details.*?</details>", re.DOTALL)
TAGS = re.compile(r"<style>.*?</style>|<[^>]+>", re.DOTALL)


def small(**changes):
    """Qwen3-8B on an L4, which holds 6 of the load's 16 requests."""
    return planner.plan("Qwen/Qwen3-8B", gpu="L4", **{"load": LOAD, **changes})


def html_of(shown) -> str:
    """What a notebook shows."""
    return shown._repr_mimebundle_()["text/html"]


def words(html: str) -> str:
    """The text of a page, in one line."""
    return " ".join(unescape(TAGS.sub(" ", html)).split())


def unfolded(html: str) -> str:
    """What is there before anything is opened; folds in folds do not occur here."""
    return FOLD.sub("", html)


@pytest.mark.parametrize("plan", [plans.fitting, plans.too_long, plans.in_stages])
def test_each_line_of_a_plan_opens_to_its_arithmetic(plan) -> None:
    """Without a script: what a line is stays, how it was computed is folded."""
    html = plan_html(plan())
    rank = plan().limiting_rank

    for line in rank.lines:
        assert unescape(html).count(line.why) >= 1
        assert line.why not in unescape(unfolded(html))
        assert f"<span class='pl-line-name'>{line.name}</span>" in unfolded(html)
    lines = sum(len(one.lines) for one in plan().ranks)
    assert html.count("<details class='pl-more'>") == lines


def test_a_plan_with_a_load_shows_both_parts_of_the_verdict() -> None:
    """It starts, and serves 5 of 16 even when it starts first."""
    text = words(plan_html(small()))

    assert "Starts, but serves 5 of 16 at once" in text
    assert "! starts, serves 5 of 16 at once" == verdict_text(small())
    assert "✔ fits" == verdict_text(small(load=None, max_model_len=4096))


def test_figures_of_several_engines_are_of_all_and_of_each() -> None:
    """Two engines hold twice what one logs."""
    plan = planner.plan(
        "Qwen/Qwen3-8B", gpu="H100", data_parallel_size=2, max_model_len=8192
    )
    one, both = plan.kv_cache_size_tokens, plan.all_engines.kv_cache_size_tokens

    assert both == 2 * one
    assert f"{both:,} tokens on 2 engines, each {one:,}" in words(plan_html(plan))


@pytest.mark.parametrize(
    ("found", "question"),
    [
        (lambda: solve.longest_context("Qwen/Qwen3-8B", "L4"), "Longest context of"),
        (
            lambda: solve.fewest_gpus("Qwen/Qwen3-8B", ["L4", "H100"], load=LOAD),
            "Fewest GPUs for",
        ),
        (
            lambda: solve.most_requests("Qwen/Qwen3-8B", "L4", prompt_tokens=40_000),
            "Most requests of",
        ),
    ],
)
def test_a_solver_answers_before_it_repeats_the_question(found, question) -> None:
    """The value is the first thing on the page."""
    solution = found()
    text = words(html_of(solution))
    first = str(solution).splitlines()[0]

    assert text.startswith(f"{first} {question}")
    assert solution.why in text


def test_a_solver_over_many_gpus_shows_five_and_folds_the_others() -> None:
    """Their arithmetic is folded too."""
    names = ["L4", "A10", "L40S", "A100-40GB", "A100-80GB", "H100", "H200", "B200"]
    found = solve.fewest_gpus("Qwen/Qwen3-8B", names, load=LOAD)
    html = html_of(found)

    assert unfolded(html).count("<tr><th scope='row'>") == 5
    assert "<summary>The other 3</summary>" in html
    for option in found.options:
        assert option.why in words(html)
    assert found.options[-1].why not in words(unfolded(html))


def test_a_bound_on_speed_says_first_what_it_is_for_the_load() -> None:
    """Of 16 requests 9 may run at once; what the bounds come from is folded."""
    bound = planner.speed_bound(small(), LOAD)
    total = f"{bound.total_at_most_tokens_per_second:,.0f}"
    first = f"At most {total} tokens per second, 9 of 16 requests at once"
    html = html_of(bound)

    assert str(bound).splitlines()[0] == first
    assert words(html).startswith(f"≤ {first}")
    assert "A bound, not a forecast" in words(unfolded(html))
    assert "Active parameters" not in unfolded(html)
    for figure in bound.figures:
        assert figure.why in words(html)


def test_a_forecast_says_first_what_it_is_for_the_load() -> None:
    """Value and range, how many run, what was measured near it; then the bound."""
    found = planner.speed_forecast(small(), LOAD)
    total, each = (
        f"{rate_text(of.value)} ({rate_text(of.low)} to {rate_text(of.high)})"
        for of in (found.total_tokens_per_second, found.per_request_tokens_per_second)
    )
    first = (
        f"About {total} tokens per second, {found.requests} of 16 requests at once: "
        f"{each} for each"
    )
    html = html_of(found)

    assert str(found).splitlines()[0] == f"≈ {first}"
    assert words(html).startswith(f"≈ {first}")
    assert found.near.words in words(unfolded(html))
    assert found.why in words(unfolded(html))
    for figure in found.bound.figures:
        assert figure.why in words(html)


def test_one_request_is_not_written_as_several() -> None:
    """A load of one."""
    alone = Load(prompt_tokens=1000, output_tokens=100, requests=1)
    bound = planner.speed_bound(small(load=None, max_model_len=4096), alone)

    assert str(bound).splitlines()[0].endswith("tokens per second, 1 request at once")


def test_columns_that_decide_between_gpus_come_first() -> None:
    """Count, verdict, speed, cost of answers and price; what is held comes last."""
    found = planner.compare_gpus(small(), list(PRICES), PRICES, currency="EUR")
    names = list(cells(found.choices[0], found))

    assert names[:6] == [
        *("GPU", "GPUs", "Verdict", "Tokens per second, at most"),
        *("Per million answer tokens, at least", "Price per hour"),
    ]
    assert names[-2:] == ["Requests", "Requests, at least"]
    in_page = re.findall(r"<th scope='col'[^>]*>(.*?)</th>", html_of(found))
    assert in_page[: len(names)] == names


def test_a_comparison_of_gpus_begins_with_the_best() -> None:
    """Two L4 at 0.50 each are cheaper than two A10 at 0.60 and an H100 at 2.50."""
    found = planner.compare_gpus(small(), list(PRICES), PRICES, currency="EUR")
    best = found.best
    price = f"{best.price_per_hour:.2f}"
    serving = sum(choice.serves for choice in found.choices)

    text = words(html_of(found))
    assert text.startswith(
        f"✔ {best.gpus_total} x {best.gpu.name}, {price} EUR per hour"
    )
    assert (
        f"{serving} of 4 kinds of GPU serve; the cheapest is first, of those tried."
        in text
    )


def test_a_comparison_of_gpus_without_one_that_serves_says_so() -> None:
    """70 billion parameters do not fit on eight T4."""
    plan = planner.plan(plans.LLAMA_70B, max_model_len=4096)
    found = planner.compare_gpus(plan, ["T4"])

    assert words(html_of(found)).startswith("✘ No kind of GPU starts")


def test_all_gpus_are_five_rows_and_a_fold() -> None:
    """The whole catalogue."""
    found = planner.compare_gpus(planner.plan("Qwen/Qwen3-0.6B", max_model_len=4096))
    html = html_of(found)

    assert unfolded(html).count("<tr><th scope='row'>") == 5
    assert f"<summary>The other {len(found.choices) - 5}</summary>" in html
    assert html.count("<tr><th scope='row'>") == len(found.choices)


@pytest.mark.parametrize(("count", "shown"), [(1, 1), (5, 5), (6, 6), (7, 5), (60, 5)])
def test_a_table_folds_when_that_saves_more_than_a_row(count, shown) -> None:
    """Every row is there, in its order."""
    rows = [[f"row {number}", "x"] for number in range(count)]
    html = Table("Rows", ["Name", ("Word", "pl-word")], rows, most=5).to_html()

    assert html.count("<tr><th scope='row'>") == count
    assert unfolded(html).count("<tr><th scope='row'>") == shown
    assert re.findall(r"row (\d+)", html) == [str(number) for number in range(count)]
    assert html.count("<td class='pl-word'>x</td>") == count


def test_a_sweep_begins_with_how_many_serve() -> None:
    """And between which ends; each row in two parts; the errors are folded."""
    grid = planner.sweep(
        small(), over={"max_model_len": [4096, 8192, 16384, 32768, 40960]}
    )
    served, wanted = grid.cells[0].requests_served, small().load.requests
    text = words(html_of(grid))

    assert served < wanted
    assert text.startswith(f"✘ 0 of 5 plans serve {wanted} at once Qwen/Qwen3-8B on L4")
    assert f"◐ starts, serves {served} of {wanted}" in text
    assert f"to {grid.cells[0].max_concurrency:,.2f}x at max_model_len 4,096." in text
    assert "Served at once" in text
    assert "To serve at least one request" not in words(unfolded(html_of(grid)))
    assert "To serve at least one request" in text


def test_a_comparison_shows_what_decides_and_folds_the_rest() -> None:
    """Blocks and margins open; with three plans the commands do too."""
    plan = small()
    more = plan.changed(kv_cache_dtype="fp8"), plan.changed(gpu="H100")
    html = html_of(planner.compare(plan, *more))

    assert "KV cache size, tokens" in unfolded(html)
    assert "KV cache blocks" not in unfolded(html)
    assert "KV cache blocks" in html
    assert "<summary>2 commands, word by word</summary>" in html
    assert "vllm serve" not in unfolded(html)
    assert "vllm serve" in unfolded(html_of(planner.compare(plan, more[0])))


def test_a_comparison_says_what_counts_all_engines() -> None:
    """Only where there are several."""
    one = planner.plan("Qwen/Qwen3-8B", gpu="H100", max_model_len=8192)
    two = one.changed(data_parallel_size=2)

    assert "of all engines together" in html_of(planner.compare(one, two))
    assert "of all engines" not in html_of(
        planner.compare(one, one.changed(max_num_seqs=8))
    )


def test_workers_without_a_place_come_before_the_others() -> None:
    """Of two replicas of two GPUs on 4 + 1, and half a GPU, all have one."""
    assert "Without a place" not in html_of(placement())
    short = html_of(pipeline().on([planner.ray.Node(name="a", cpus=32, gpus=2)]))

    assert short.index("Without a place") < short.index("Workers, in the order")
    assert "… waits" in unfolded(short)


def test_a_start_that_measured_nothing_has_no_empty_bar() -> None:
    """The estimate alone is drawn."""
    html = html_of(confirmations.contradicted())

    assert html.count("<div class='pl-bar'>") == 1
    assert html_of(confirmations.confirmed()).count("<div class='pl-bar'>") == 2


def test_numbers_stand_under_their_headings() -> None:
    """A heading has the class of its column."""
    html = html_of(confirmations.confirmed())

    assert "<th scope='col' class='pl-number'>Measured</th>" in html
    assert "<th scope='col' class='pl-number pl-range'>Range</th>" in html


def test_an_explanation_shows_five_changes_and_folds_the_others() -> None:
    """Each with its result, its cost and the text with it."""
    found = read_file("log-started-4090.txt").explain()
    html = explanation_sheet(found).to_html()

    assert len(found.fixes) > 5
    assert html.count("<div class='pl-fix'>") == len(found.fixes)
    assert f"<summary>The other {len(found.fixes) - 5}</summary>" in html
    assert html.count("<summary>Your text with it</summary>") == len(found.fixes)
    before, after = html.split("<summary>The other")
    assert before.count("<div class='pl-fix'>") == 5
    assert after.count("<div class='pl-fix'>") == len(found.fixes) - 5
