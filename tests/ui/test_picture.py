"""The picture of a plan in a browser: every segment named, the ghost, PNG and SVG."""

import re
from itertools import combinations

import pytest

import planner
from planner.show.charts.frame import bars
from planner.show.charts.parts import parts_of
from planner.show.verdict import missing_bytes
from tests.app_visits import in_the_end

pytest.importorskip("axe_playwright_python")

pytestmark = pytest.mark.browser

WITH_ENCODERS = "Qwen/Qwen2.5-VL-7B-Instruct"
PLANS = {
    "one GPU": ("Qwen/Qwen3-32B", {}),
    "eight GPUs": ("Qwen/Qwen3-32B", {"tensor_parallel_size": 8}),
    "stages": ("Qwen/Qwen3-32B", {"pipeline_parallel_size": 2}),
    "nine segments": (WITH_ENCODERS, {"enable_lora": True, "max_lora_rank": 64}),
    "short": ("meta-llama/Llama-3.1-70B-Instruct", {}),
}
BOXES = """() => [...document.querySelectorAll('.planner-marks text')]
  .filter(node => node.textContent)
  .map(node => {
    const { left, top, right, bottom } = node.getBoundingClientRect();
    return [node.textContent, left, top, right, bottom];
  })"""
NAMED = """() => [...document.querySelectorAll(
    '.planner-marks text, .planner-legend li')]
  .filter(node => node.checkVisibility())
  .map(node => [...node.querySelectorAll('tspan')].map(one => one.textContent)
    .join(' ') || node.textContent)"""


def opened(browser, app: str, name: str, gpu: str = "H100", **options):
    """Open a plan and wait until its words are there."""
    model, arguments = PLANS[name]
    query = "&".join(
        [f"?model={model}&gpu={gpu}"]
        + [f"{key}={str(value).lower()}" for key, value in arguments.items()]
    )
    options = {"viewport": {"width": 1280, "height": 900}} | options
    page = browser.new_context(**options).new_page()
    page.goto(app + query)
    page.locator(".pl-subject", has_text=model).first.wait_for()
    page.locator(".pm-unit").first.wait_for()
    page.locator(".pc-field").first.wait_for()
    return page


def drawn_badly(page, width: int, sizes: dict[str, str]) -> list[object]:
    """Return the words that lie on others or outside, and the parts without a name."""
    boxes = page.evaluate(BOXES)
    said = [re.sub(r"\s+", " ", text) for text in page.evaluate(NAMED)]
    on_others = [
        (one, other)
        for one, other in combinations(boxes, 2)
        if one[3] > other[1] + 1
        and other[3] > one[1] + 1
        and one[4] > other[2] + 3
        and other[4] > one[2] + 3
    ]
    outside = [box for box in boxes if box[1] < 0 or box[3] > width]
    unnamed = [
        (part, said)
        for part, size in sizes.items()
        if not any(
            text.startswith(part) and (size in text or " to " in text) for text in said
        )
    ]
    return [*on_others, *outside, *unnamed]


@pytest.mark.parametrize("name", PLANS)
def test_every_segment_is_named_at_every_width(browser, app, name) -> None:
    """In it, on a leader line or in the legend; and no word lies on another."""
    page = opened(browser, app, name)
    model, arguments = PLANS[name]
    plan = planner.plan(model, gpu="H100", **arguments)
    sizes = {
        part.name: f"{part.size_bytes / 2**30:,.2f}"
        for bar in bars(plan)[:1]
        for part in parts_of(plan, bar)
    }
    wrong = {}
    for width in (390, 768, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        wrong[width] = in_the_end(lambda at=width: drawn_badly(page, at, sizes), [])
    page.context.close()

    assert {width: found for width, found in wrong.items() if found} == {}


def test_the_bar_is_twice_as_tall_as_before(browser, app) -> None:
    """84 pixels for the 42 that it had."""
    page = opened(browser, app, "one GPU")
    heights = page.evaluate(
        "[...document.querySelectorAll('.planner-chart .point path')]"
        ".map(path => path.getBBox().height)"
    )
    page.context.close()

    assert {84} == {round(height) for height in heights}


NOTE_GHOST = """() => {
  const picture = document.querySelector('.planner-picture');
  const watcher = new MutationObserver(() => {
    const change = picture.querySelector('.pm-change');
    if (!change) return;
    watcher.disconnect();
    window.noted = [change.textContent, picture.querySelectorAll('.pm-ghost').length,
      picture.getAnimations({ subtree: true }).length];
  });
  watcher.observe(picture, { childList: true, subtree: true });
}"""
"""It may be gone before a busy machine asks for it."""


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_the_ghost_shows_the_plan_before_until_the_reader_rests(
    browser, app, motion
) -> None:
    """Its difference is that of the two plans; two seconds later it is gone."""
    page = opened(browser, app, "one GPU", reduced_motion=motion)
    page.locator(".pm-ghost").first.wait_for(state="detached")
    page.evaluate(NOTE_GHOST)
    entry = page.get_by_role("textbox", name="gpu_memory_utilization")
    entry.fill("0.85")
    entry.press("Enter")
    said, outlines, moving = page.wait_for_function("() => window.noted").json_value()
    page.locator(".pm-change").wait_for(state="detached")
    left = page.locator(".pm-ghost").count()
    page.context.close()

    before = planner.plan("Qwen/Qwen3-32B", gpu="H100")
    now = before.changed(gpu_memory_utilization=0.85)
    size = (
        now.limiting_rank.available_kv_cache_bytes
        - before.limiting_rank.available_kv_cache_bytes
    )
    requests = now.all_engines.max_concurrency - before.all_engines.max_concurrency
    assert (
        f"KV cache {size / 2**30:+,.2f} GiB, {requests:+,.2f} requests at once" == said
    )
    assert outlines >= 6
    assert moving == 0
    assert left == 0


def test_another_gpu_leaves_no_ghost(browser, app) -> None:
    """A plan for another GPU is no change of this one."""
    page = opened(browser, app, "one GPU")
    box = page.get_by_role("combobox", name="GPU", exact=True)
    options = box.locator("option").all_inner_texts()
    box.select_option(label=next(text for text in options if text.startswith("H200")))
    page.locator(".pm-title", has_text="H200").wait_for()
    ghosts = page.locator(".pm-ghost").count()
    page.context.close()

    assert ghosts == 0


@pytest.mark.parametrize("name", ["eight GPUs", "nine segments"])
def test_a_saved_picture_stands_alone(browser, app, tmp_path, name) -> None:
    """Subject, verdict and every part are in the SVG; the PNG is its picture."""
    page = opened(browser, app, name, accept_downloads=True)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    files = {}
    more = page.get_by_role("button", name="More of the picture")
    assert more.get_attribute("aria-expanded") == "false"
    more.click()
    for form in ("SVG", "PNG"):
        with page.expect_download() as got:
            page.get_by_role("button", name=f"Save the picture as {form}").click()
        assert got.value.suggested_filename.endswith(f".{form.lower()}")
        files[form] = tmp_path / form
        got.value.save_as(files[form])
    page.context.close()
    drawn = files["SVG"].read_text()
    words = re.sub(r"<[^>]*>", " ", drawn)
    model, arguments = PLANS[name]
    plan = planner.plan(model, gpu="H100", **arguments)

    assert re.sub(r".*/", "", model) in words
    assert "Fits" in words
    for part in parts_of(plan, bars(plan)[0]):
        assert all(word in words for word in part.name.split())
        assert f"{part.size_bytes / 2**30:,.2f}" in words
    assert "<path" in drawn
    assert "currentColor" not in re.sub(r'="currentColor"', "", drawn)
    png = files["PNG"].read_bytes()
    assert png.startswith(b"\x89PNG")
    assert int.from_bytes(png[16:20], "big") == 2560
    assert not [url for url in asked if not url.startswith((app, "data:", "blob:"))]


OUTLINES = """() => [...document.querySelectorAll(
    '.planner-answer .barlayer .point path')].map(node => node.getAttribute('d'))"""
PLOTLYS_OWN = """() => document.querySelector(
    '.planner-answer .js-plotly-plot').data.map(trace => trace.x).flat()"""


CHART = ".planner-answer .js-plotly-plot"
"""A pointer over it makes plotly draw at once what is on the screen."""
NOTE_MOVE = f"""() => {{
  const watcher = new MutationObserver(() => {{
    watcher.disconnect();
    window.noted = [({OUTLINES})(), ({PLOTLYS_OWN})()];
  }});
  const bars = document.querySelector('.planner-answer .barlayer');
  watcher.observe(bars, {{ attributes: true, childList: true, subtree: true }});
}}"""


def numbers(outlines) -> list[float]:
    """All coordinates of the bars."""
    return [float(one) for d in outlines for one in re.findall(r"[\d.]+", d)]


@pytest.mark.parametrize("name", ["one GPU", "stages"])
def test_bars_that_a_step_moves_are_where_plotly_draws_them(browser, app, name) -> None:
    """To a fiftieth of a pixel; plotly draws them itself after a rest."""
    page = opened(browser, app, name)
    page.locator(CHART).dispatch_event("pointerover")
    known = page.evaluate(PLOTLYS_OWN)
    page.evaluate(NOTE_MOVE)
    page.get_by_role("slider", name="gpu_memory_utilization").first.press("ArrowLeft")
    moved, still = page.wait_for_function("() => window.noted").json_value()
    page.wait_for_function(
        f"known => ({PLOTLYS_OWN})().join() !== known", arg=",".join(map(str, known))
    )
    own = page.evaluate(OUTLINES)
    page.context.close()

    assert still == known, "plotly has drawn already: nothing was moved"
    assert numbers(own) == pytest.approx(numbers(moved), abs=0.021)


def test_plotly_answers_the_pointer_with_the_plan_on_the_screen(browser, app) -> None:
    """Not with the plan before the step: its words are those of the bars."""
    page = opened(browser, app, "one GPU")
    page.locator(CHART).dispatch_event("pointerover")
    bar = page.locator(".planner-answer .barlayer .point path").last
    slider = page.get_by_role("slider", name="gpu_memory_utilization").first
    slider.focus()
    before = page.evaluate(OUTLINES)
    slider.press("ArrowLeft")
    page.wait_for_function(
        f"before => ({OUTLINES})().join() !== before", arg=",".join(before)
    )
    page.locator(CHART).scroll_into_view_if_needed()  # the slider may be far below
    box = bar.bounding_box()
    for share in (0.8, 0.85):
        at = box["x"] + share * box["width"], box["y"] + share * box["height"]
        page.mouse.move(*at)
    said = page.locator(".planner-answer .hovertext").first
    said.wait_for()
    words = said.text_content()
    page.context.close()
    plan = planner.plan("Qwen/Qwen3-32B", gpu="H100", gpu_memory_utilization=0.91)

    missing = missing_bytes(plan, bars(plan)[0].rank)
    assert f"Missing {missing / 2**30:,.2f} GiB" in words
