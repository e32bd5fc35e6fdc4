"""The Run panel in Chromium, on a start of vLLM that starts nothing."""

import pytest

pytest.importorskip("axe_playwright_python")

from planner.app.widgets.consent import TICK
from tests.app_visits import eventually
from tests.fake_run import STAGES, UNREAD
from tests.ui import run_pages, servers
from tests.ui.looks import THEMES
from tests.ui.run_pages import BARS

pytestmark = pytest.mark.browser

CELLS = (
    "from tests import fake_run\nfake_run.install()",
    "from planner.app.widgets.explorer import Explorer\nExplorer()",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the notebooks lie, and what fake runs note down."""
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def notebook(folder):
    """The explorer, with a stand-in for vLLM."""
    return servers.write("run", folder, CELLS)


@pytest.fixture(scope="module")
def marks(folder):
    """Kernels note down here what their runs do."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("FAKE_RUN_FOLDER", str(folder / "marks"))
        (folder / "marks").mkdir()
        yield folder / "marks"


@pytest.fixture(scope="module")
def lab(folder, marks):
    """Address of JupyterLab on that notebook."""
    assert marks.is_dir()
    with servers.jupyterlab(folder) as address:
        yield address


@pytest.fixture(scope="module")
def opened(browser, lab, notebook):
    """The explorer in JupyterLab with its panel open."""
    page = run_pages.open_in_lab(browser, lab, notebook)
    run_pages.open_panel(page)
    yield page
    page.context.close()


@pytest.fixture
def page(opened, marks):
    """The same page for every test but the last in JupyterLab, which closes it."""
    for mark in marks.iterdir():
        mark.unlink()
    run_pages.set_minutes(opened, 30)
    return opened


@pytest.fixture(scope="module")
def app(notebook, marks):
    """Address of the app with the stand-in."""
    assert marks.is_dir()
    with servers.voila(notebook) as address:
        yield address


def test_run_goes_through_the_stages_to_both_bars(page) -> None:
    """Stage, log, then the chart, the table and what it proves."""
    run_pages.note_stages(page)
    run_pages.press(page, "Run")
    log = page.get_by_role("log")
    page.locator(BARS).first.wait_for(state="attached")
    run_pages.wait_for_state(page, "ended")
    table = page.locator("table.pl-compared")
    stages = page.evaluate("window.stages")

    assert len(set(stages) & {str(stage) for stage in STAGES}) >= 3
    assert stages[-1] == "Confirmed"
    assert "loading shard 59" in log.inner_text()
    assert page.locator(BARS).count() >= 10
    assert run_pages.bar_names(page) == ["estimated", "measured"]
    assert table.locator("tbody tr").count() == 7
    assert "exactly what vLLM says" in page.locator(".pl-given").inner_text()
    assert "<b>profiling</b>" in log.inner_text()
    assert "\x1b" not in log.inner_text()
    assert (
        page.get_by_role("progressbar", name="Progress of the start").get_attribute(
            "aria-valuenow"
        )
        == "100"
    )
    assert page.locator(".pl-run-stage").get_attribute("role") == "status"
    assert run_pages.violations(page, ".planner-explorer") == []


def test_stop_ends_the_run_and_a_slider_answers_before(page, marks) -> None:
    """The kernel is free while vLLM starts, and the run is not disturbed."""
    run_pages.set_minutes(page, 1)
    run_pages.press(page, "Run")
    run_pages.wait_for_stage(page, "profiling")
    handle = page.get_by_role("slider", name="gpu_memory_utilization")
    handle.focus()
    handle.press("ArrowLeft")
    page.locator(
        ".planner-results .pl-command code", has_text="--gpu-memory-utilization 0.91"
    ).first.wait_for()
    run_pages.wait_for_state(page, "running")
    run_text = page.locator(".pl-run-title").inner_text()
    is_locked = page.get_by_role("button", name="Run", exact=True).is_disabled()
    assert run_pages.violations(page, ".planner-explorer") == []
    run_pages.press(page, "Stop")
    run_pages.wait_for_state(page, "ended")

    assert "0.91" not in run_text
    assert is_locked
    assert (marks / "stopped").exists()
    assert "Not decided" in page.locator(".planner-run-verdict").inner_text()
    assert page.get_by_role("button", name="Stop", exact=True).is_disabled()


def test_the_log_follows_its_end_unless_the_reader_scrolled_up(page) -> None:
    """And goes back with a button."""
    run_pages.set_minutes(page, 1)
    run_pages.press(page, "Run")
    run_pages.wait_for_stage(page, "profiling")
    log = page.get_by_role("log")
    at_end = "log => log.scrollHeight - log.scrollTop - log.clientHeight < 24"
    longer = "([log, text]) => log.textContent !== text"
    page.wait_for_function(at_end, arg=log.element_handle())
    before = log.evaluate("log => { log.scrollTop = 10; return log.textContent; }")
    page.wait_for_function(longer, arg=[log.element_handle(), before])
    assert log.evaluate("log => log.scrollTop") == 10
    page.get_by_role("button", name="To the end").click()
    page.wait_for_function(at_end, arg=log.element_handle())
    run_pages.press(page, "Stop")
    run_pages.wait_for_state(page, "ended")


def test_a_start_that_cannot_be_is_said_in_an_alert(page) -> None:
    """With what to do; Run can be pressed again."""
    page.get_by_label("weights", exact=True).select_option(label="real")
    run_pages.press(page, "Run")
    alert = page.locator(".planner-run [role=alert]")
    alert.wait_for()

    said = alert.inner_text()
    page.get_by_label("weights", exact=True).select_option(label="dummy")

    assert "pip install vllm" in said
    assert page.get_by_role("button", name="Run", exact=True).is_enabled()
    assert run_pages.violations(page, ".planner-run") == []


def test_the_panel_can_be_used_by_key(page) -> None:
    """Run, then Stop, without a mouse."""
    run_pages.set_minutes(page, 1)
    page.get_by_role("button", name="Run", exact=True).press("Enter")
    run_pages.wait_for_stage(page, "profiling")
    page.get_by_role("button", name="Stop", exact=True).press("Space")
    run_pages.wait_for_state(page, "ended")

    assert "Not decided" in page.locator(".pl-run-stage").inner_text()


def test_the_panel_is_accessible_in_the_dark_theme(page) -> None:
    """Contrast, names, roles: axe-core finds nothing, before and after a run."""
    change = "theme => jupyterapp.commands.execute('apputils:change-theme', { theme })"
    dark, light = (f"body[data-jp-theme-light={value}]" for value in ("false", "true"))
    page.evaluate(change, "JupyterLab Dark")
    page.locator(dark).wait_for(state="attached")
    before = run_pages.violations(page, ".planner-explorer")
    run_pages.press(page, "Run")
    run_pages.wait_for_stage(page, "Confirmed")
    page.locator(BARS).first.wait_for(state="attached")
    after = run_pages.violations(page, ".planner-run")
    page.evaluate(change, "JupyterLab Light")
    page.locator(light).wait_for(state="attached")

    assert before == []
    assert after == []


def test_a_page_that_is_closed_ends_its_run(page, marks) -> None:
    """JupyterLab keeps the kernel; the panel misses the page."""
    run_pages.set_minutes(page, 1)
    run_pages.press(page, "Run")
    run_pages.wait_for_stage(page, "profiling")
    assert not (marks / "stopped").exists()
    page.close(run_before_unload=False)

    assert eventually((marks / "stopped").exists)


@pytest.mark.parametrize("scheme", THEMES)
def test_the_app_asks_vllm_and_runs_a_plan_and_its_page_is_accessible(
    browser, app, scheme
) -> None:
    """Three bars; the page passes axe-core, wide and narrow, and nothing is cut off."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 900}, color_scheme=scheme
    )
    page = context.new_page()
    page.goto(app)
    page.locator("[data-tab=run]").wait_for(state="attached")
    run_pages.open_panel(page)
    run_pages.press(page, run_pages.ASK)
    page.locator(BARS).first.wait_for(state="attached")
    run_pages.wait_for_state(page, "ended")
    dry = run_pages.bar_names(page), run_pages.violations(page, ".planner-run")
    run_pages.press(page, "Run")
    page.locator(BARS).first.wait_for(state="detached")
    page.locator(BARS).first.wait_for(state="attached")
    run_pages.wait_for_state(page, "ended")
    three = run_pages.bar_names(page)
    wide = run_pages.violations(page, "html") if scheme == "light" else []
    page.set_viewport_size({"width": 390, "height": 900})
    fits = eventually(lambda: run_pages.right_edge(page) <= 390)
    narrow = run_pages.violations(page, "html") if scheme == "dark" else []
    context.close()

    assert dry == (["dry run", "estimated"], [])
    assert three == ["dry run", "estimated", "measured"]
    assert wide == []
    assert narrow == []
    assert fits


FOREIGN = (
    "VLLM_PLUGINS=theirs vllm serve meta-llama/Llama-3.1-8B-Instruct "
    "--trust-remote-code --tool-parser-plugin /home/somebody/a_long_name/of_a_file.py"
)


def test_what_a_pasted_text_may_run_waits_for_a_tick(browser, app, marks) -> None:
    """Named above the buttons, in both schemes, wide and narrow; then it runs."""
    for mark in marks.iterdir():
        mark.unlink()
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(app)
    page.locator("[data-tab=run]").wait_for(state="attached")
    page.locator(".planner-paste textarea").first.fill(FOREIGN)
    page.locator(".planner-open select").select_option("H100")
    run_pages.open_panel(page)
    named = page.locator(".planner-run-consent")
    named.wait_for()
    told = named.inner_text()
    run_pages.press(page, "Run")
    page.locator(".planner-run .pl-alert").wait_for()
    found = run_pages.violations(page, ".planner-run")
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 390, "height": 900})
    found += run_pages.violations(page, ".planner-run")
    right = run_pages.right_edge(page)
    before = list(marks.iterdir())
    page.get_by_role("checkbox", name=TICK).check()
    run_pages.press(page, "Run")
    page.locator(BARS).first.wait_for(state="attached")
    context.close()

    assert "--tool-parser-plugin /home/somebody/a_long_name/of_a_file.py" in told
    assert "VLLM_PLUGINS=theirs" in told
    assert found == []
    assert right <= 390
    assert before == []


def test_the_app_offers_to_ask_vllm_where_it_has_no_plan(browser, app) -> None:
    """One press opens the panel, asks, and moves the page there."""
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(app)
    page.locator("[data-tab=run]").wait_for(state="attached")
    entry = page.get_by_role("combobox", name="Model", exact=True)
    entry.fill(UNREAD)
    entry.press("Enter")
    name = f"{run_pages.ASK}: {UNREAD} on H100"
    button = page.get_by_role("button", name=name)
    button.wait_for()
    said = page.get_by_role("alert").first.inner_text()
    found = run_pages.violations(page, "html")
    button.click()
    run_pages.wait_for_state(page, "ended")
    is_in_view = page.locator(".pl-run-bar").evaluate(
        "bar => bar.parentElement === document.activeElement"
        " && bar.getBoundingClientRect().top < window.innerHeight"
    )
    meaning = page.locator(".planner-run-meaning").inner_text()
    right = run_pages.right_edge(page)
    context.close()

    assert "NewForCausalLM is not modelled" in said
    assert found == []
    assert is_in_view
    assert "There is no estimate" in meaning
    assert right <= 390


@pytest.mark.parametrize("button", ["Run", run_pages.ASK])
def test_in_the_app_a_closed_page_ends_its_run(browser, app, marks, button) -> None:
    """Its kernel goes with it; a run that is still there has been told before."""
    (marks / "stopped").unlink(missing_ok=True)
    context = browser.new_context()
    page = context.new_page()
    sockets = []
    page.on("websocket", lambda socket: sockets.append(socket.url))
    page.goto(app)
    page.locator("[data-tab=run]").wait_for(state="attached")
    run_pages.open_panel(page)
    run_pages.set_minutes(page, 1)
    run_pages.press(page, button)
    run_pages.wait_for_stage(page, "profiling")
    kernel = sockets[0].split("/kernels/")[1].split("/")[0]
    page.close(run_before_unload=True)
    is_gone = eventually(
        lambda: (
            servers.status(f"{app}api/kernels/{kernel}") == 404
            or (marks / "stopped").exists()
        )
    )
    context.close()

    assert is_gone
