"""Drives the Run panel in a browser, whatever engine is behind it."""

from pathlib import Path

from axe_playwright_python.sync_playwright import Axe

from tests.ui import lab, servers

PATIENCE = servers.PATIENCE_MS
BARS = ".planner-run-bars .barlayer .point path"
STATE = ".planner-run-progress"
ASK = "Ask vLLM (no GPU needed)"


_ARRIVED = """() => Promise.allSettled(document.getAnimations()
  .filter(one => one.playState === 'running')
  .filter(one => Number.isFinite(one.effect?.getComputedTiming().endTime))
  .map(one => one.finished)).then(() => null)"""


def open_in_lab(browser, address: str, notebook: Path, **options):
    """Open a notebook in JupyterLab and run its cells; returns the page."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000}, **options)
    page = context.new_page()
    lab.run_all(page, address, notebook)
    page.locator("[data-tab=run]").first.wait_for(state="attached")
    return page


def open_panel(page) -> None:
    """Open the tab."""
    toggle = page.get_by_role("tab", name="Run", exact=True)
    toggle.scroll_into_view_if_needed()
    toggle.click()
    page.locator(".planner-run-start").wait_for()


def set_minutes(page, minutes: int) -> None:
    """Set the time limit; the fake goes on until it is stopped with 1."""
    entry = page.get_by_role("textbox", name="time limit", exact=True)
    entry.fill(str(minutes))
    entry.press("Enter")


def press(page, name: str) -> None:
    """Press Run or Stop."""
    page.get_by_role("button", name=name, exact=True).click()


def bar_names(page) -> list[str]:
    """The names of the bars, sorted."""
    return sorted(page.locator(".planner-run-bars .ytick text").all_text_contents())


def right_edge(page) -> float:
    """How far to the right the panel's parts reach, those of the chart left out."""
    return page.evaluate(
        "Math.max(...[...document.querySelectorAll('.planner-run *')]"
        ".filter(node => node.offsetParent && !node.closest('.planner-chart'))"
        ".map(node => node.getBoundingClientRect().right))"
    )


def wait_for_state(page, state: str, timeout: float = PATIENCE) -> None:
    """Wait until the progress says so."""
    page.locator(f"{STATE}[data-state={state}]").wait_for(
        state="attached", timeout=timeout
    )


def note_stages(page) -> None:
    """Keep each stage that the page says, in `window.stages`."""
    page.evaluate(
        """() => {
          const node = document.querySelector('.pl-run-stage');
          window.stages = [];
          new MutationObserver(() => window.stages.push(node.textContent))
            .observe(node, { childList: true, characterData: true, subtree: true });
        }"""
    )


def wait_for_stage(page, stage: str, timeout: float = PATIENCE) -> None:
    """Wait until the start is in a stage."""
    page.locator(".pl-run-stage", has_text=stage).wait_for(timeout=timeout)


def command(page) -> str:
    """The `vllm serve` line of the plan on the page."""
    return page.locator(".planner-results .pl-command code").first.inner_text()


def violations(page, context: str) -> list[str]:
    """What axe-core finds wrong with a part of the page, one line each.

    Colours on their way to others are let arrive.
    """
    page.evaluate(_ARRIVED)
    options = {"resultTypes": ["violations"]}  # the others are not read
    return in_lines(Axe().run(page, context, options).response["violations"])


def in_lines(found) -> list[str]:
    """Write axe-core's findings, one line each."""
    return [
        f"{rule['id']} ({rule['impact']}): {node['target']} {node['failureSummary']}"
        for rule in found
        for node in rule["nodes"]
    ]
