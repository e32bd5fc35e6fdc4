"""The explorer notebook in JupyterLab and in Notebook 7."""

from collections.abc import Iterator

import pytest

import planner
from tests.app_visits import eventually, in_the_end
from tests.ui import lab, servers

expect = pytest.importorskip("playwright.sync_api").expect

pytestmark = pytest.mark.browser

SWITCH = "name => jupyterapp.commands.execute('apputils:change-theme', { theme: name })"
COLOURS = """root => {
  const canvas = document.createElement('canvas').getContext('2d');
  const shade = colour => {
    canvas.fillStyle = '#808080';
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue] = canvas.getImageData(0, 0, 1, 1).data;
    return 0.3 * red + 0.6 * green + 0.1 * blue;
  };
  const of = (part, property) =>
    shade(getComputedStyle(root.querySelector(part))[property]);
  return {
    paper: of('.planner-answer', 'backgroundColor'),
    headline: of('.pl-headline', 'color'),
    entry: of('.pc-field input', 'color'),
    'name of a bar': of('.pm-title', 'fill'),
  };
}"""
"""How light the parts of an explorer are, from 0 to 255."""

CUT = """() => [
  ...[...document.querySelectorAll('.jp-OutputArea-output')]
    .filter((one) => one.scrollWidth > one.clientWidth + 1),
  ...[...document.querySelectorAll('.planner-answer .pl-figure dd')]
    .filter((one) => one.scrollWidth > one.clientWidth),
  ...[...document.querySelectorAll('.planner-left :is(.pc-button, .pc-argument)')]
    .filter((one) => one.getBoundingClientRect().right
      > one.closest('.planner-left').getBoundingClientRect().right - 12),
].map((one) => `${one.className}: ${one.innerText.slice(0, 60)}`)"""
"""What is wider than the place that it has."""

PLACES = {
    "JupyterLab": (servers.jupyterlab, lab.run_all),
    "Notebook 7": (servers.notebook7, lab.run_all_in_notebook7),
}
OURS = ("planner", "widget", "anywidget", "comm", "plotly")


@pytest.fixture(
    scope="module",
    params=["JupyterLab", pytest.param("Notebook 7", marks=pytest.mark.nightly)],
)
def page(browser, tmp_path_factory, request) -> Iterator[object]:
    """The notebook with all of its cells run, and what its console said."""
    serve, run_all = PLACES[request.param]
    folder = tmp_path_factory.mktemp("notebook")
    path = servers.notebook("explorer", folder)
    with serve(folder) as address:
        context = browser.new_context(viewport={"width": 1400, "height": 1000})
        opened = context.new_page()
        opened.said = []
        opened.on("console", lambda said: opened.said.append((said.type, said.text)))
        run_all(opened, address, path)
        bars = opened.locator(".planner-chart .barlayer .point path").first
        bars.wait_for(state="attached")
        yield opened
        context.close()


def explorer(page):
    """The notebook's first explorer; the last cells open another one."""
    return page.locator(".planner-explorer").first


def readable(page, *, is_dark: bool) -> dict[str, float]:
    """Return the shades that are not those of a theme: of paper, and of words on it."""
    shades = explorer(page).evaluate(COLOURS)
    return {
        name: shade
        for name, shade in shades.items()
        if (shade > 128) is not ((name == "paper") is not is_dark)
    }


def expect_command(page, flag: str) -> None:
    """Wait until the explorer's command holds `flag`."""
    line = explorer(page).locator(".pl-command code", has_text=flag)
    line.first.wait_for()


def test_the_explorer_draws_a_plan_that_fits(page) -> None:
    """The same verdict and command as in the app."""
    expect_command(page, "vllm serve meta-llama/Llama-3.1-8B-Instruct")
    verdict = explorer(page).locator(".planner-verdict", has_text="Fits").first
    verdict.wait_for()

    assert "does not" not in verdict.inner_text().lower()


def test_a_number_that_is_typed_changes_the_plan(page) -> None:
    """Typed and entered; taken back by emptying it."""
    entry = explorer(page).get_by_role("textbox", name="max_num_seqs").first
    entry.scroll_into_view_if_needed()
    entry.fill("64")
    entry.press("Enter")
    expect_command(page, "--max-num-seqs 64")
    entry.fill("")
    entry.press("Enter")
    explorer(page).locator(
        ".pl-command code", has_not_text="--max-num-seqs"
    ).first.wait_for()


def test_a_slider_keeps_the_keys_for_itself(page) -> None:
    """Notebooks have shortcuts on arrows and letters, which fold or delete cells."""
    cells = page.locator(".jp-Cell").count()
    slider = explorer(page).get_by_role("slider", name="gpu_memory_utilization").first
    slider.focus()
    before = int(slider.input_value())
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("x")
    expect_command(page, "--gpu-memory-utilization")

    expect(slider).to_have_value(str(before - 3))
    assert slider.evaluate("node => node === document.activeElement")
    assert cells == page.locator(".jp-Cell:visible").count()


def test_a_shortcut_with_control_still_reaches_the_notebook(page) -> None:
    """Ctrl+S saves, also with the focus on a slider."""
    slider = explorer(page).get_by_role("slider", name="gpu_memory_utilization").first
    slider.focus()
    with page.expect_response(
        lambda answer: answer.request.method == "PUT" and "explorer.ipynb" in answer.url
    ) as saved:
        page.keyboard.press("Control+s")

    assert saved.value.ok


def test_the_run_panel_opens(page) -> None:
    """A notebook is the user's own: plans may be run from it."""
    toggle = explorer(page).get_by_role("tab", name="Run", exact=True).first
    toggle.scroll_into_view_if_needed()
    toggle.click()
    explorer(page).locator(".planner-run-start").first.wait_for()


def test_ctrl_z_takes_a_step_back_and_the_notebook_keeps_its_cells(page) -> None:
    """Also where Jupyter has Ctrl+Z for its cells."""
    cells = page.locator(".jp-Cell").count()
    slider = explorer(page).get_by_role("slider", name="max_num_seqs").first
    slider.focus()
    page.keyboard.press("ArrowLeft")
    expect_command(page, "--max-num-seqs 896")
    page.keyboard.press("Control+z")
    line = explorer(page).locator(".pl-command code")
    line.filter(has_not_text="--max-num-seqs").first.wait_for()
    page.keyboard.press("Control+y")
    expect_command(page, "--max-num-seqs 896")
    page.keyboard.press("Control+z")
    line.filter(has_not_text="--max-num-seqs").first.wait_for()

    assert cells == page.locator(".jp-Cell").count()


def test_share_copies_the_plan_as_text(page) -> None:
    """A notebook's address is not the plan's: the text has a link and the command."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = explorer(page).get_by_role("button", name="Share", exact=True)
    button.click()
    explorer(page).get_by_role("button", name="Plan copied").wait_for()
    text = page.evaluate("navigator.clipboard.readText()")
    reading = planner.read(text)

    assert "Llama-3.1-8B-Instruct on H100" in text
    assert "?model=meta-llama" in text
    assert "meta-llama/Llama-3.1-8B-Instruct" == reading.inputs("H100").model


def test_the_verdict_stays_in_sight_while_the_notebook_scrolls(page) -> None:
    """As one line with the memory, while the figures below it are read."""
    bar = explorer(page).locator(".pl-bar-inside").first
    explorer(page).get_by_role("tab", name="Advice", exact=True).first.evaluate(
        "node => node.scrollIntoView({ block: 'start' })"
    )
    bar.wait_for(state="visible")

    assert eventually(lambda: 0 <= bar.bounding_box()["y"] < 300)
    assert "Fits" in bar.inner_text()


def test_the_explorer_follows_a_theme_that_is_switched(page) -> None:
    """Paper, words and picture, without being drawn anew by the kernel."""
    page.evaluate(SWITCH, "JupyterLab Dark")
    page.wait_for_function("document.body.dataset.jpThemeName === 'JupyterLab Dark'")
    dark = in_the_end(lambda: readable(page, is_dark=True), {})
    page.evaluate(SWITCH, "JupyterLab Light")
    page.wait_for_function("document.body.dataset.jpThemeName === 'JupyterLab Light'")
    light = in_the_end(lambda: readable(page, is_dark=False), {})

    assert {} == dark
    assert {} == light


FILES = """() => jupyterapp.commands.hasCommand('filebrowser:activate')
  && jupyterapp.commands.execute('filebrowser:activate')"""
"""Opens the file browser; Notebook 7 has none beside a notebook."""
SEEN = """() => {
  const screen = document.querySelector('.jp-WindowedPanel-outer');
  const { top, bottom } = screen.getBoundingClientRect();
  const root = document.querySelector('.planner-explorer');
  const parts = ['.planner-verdict', '.planner-bars .main-svg', ...['model', 'gpu',
    'quantization', 'tensor_parallel_size', 'max_model_len'].map(
    (name) => `.planner-left [data-name=${name}]`)];
  return parts.filter((part) => {
    const place = root.querySelector(part).getBoundingClientRect();
    const end = part.includes('svg') ? place.top : place.bottom;
    return place.top < top || end > bottom || place.right > screen.clientWidth
      + screen.getBoundingClientRect().left;
  });
}"""
"""What is not on the screen, of verdict, bars and the controls that decide."""


def test_the_first_screen_shows_verdict_bars_and_controls_beside_the_files(
    page,
) -> None:
    """At 1280 x 900 with the file browser open, the cell at the top."""
    size = page.viewport_size
    page.set_viewport_size({"width": 1280, "height": 900})
    page.evaluate(FILES)
    root = explorer(page)
    root.evaluate("node => node.scrollIntoView({ block: 'start' })")
    hidden = in_the_end(lambda: page.evaluate(SEEN), [])
    name = root.locator(".planner-left [data-name=quantization] .pl-name").first
    is_one_line = name.bounding_box()["height"] < 22
    tabs = root.locator(".pl-tabs").first.bounding_box()["height"]
    inner = root.locator(".planner-left").first.evaluate(
        "node => node.scrollHeight - node.clientHeight"
    )
    blank = root.locator(".planner-tab-advice").first.evaluate(
        "node => node.clientHeight - node.querySelector('.pl-rows').scrollHeight"
    )
    cut = page.evaluate(CUT)
    page.evaluate("jupyterapp.shell.collapseLeft()")
    page.set_viewport_size(size)

    assert [] == hidden
    assert is_one_line
    assert tabs < 50
    assert inner == 0
    assert blank < 250
    assert [] == cut


def test_a_notebook_on_a_phone_cuts_nothing(page) -> None:
    """Beside Jupyter's side bars: outputs, figures, presets and names of arguments."""
    size = page.viewport_size
    page.evaluate("jupyterapp.shell.collapseLeft()")
    page.set_viewport_size({"width": 390, "height": 900})
    cut = in_the_end(lambda: page.evaluate(CUT), [])
    page.set_viewport_size(size)

    assert [] == cut


def test_the_console_tells_no_error_of_ours(page) -> None:
    """Whatever Jupyter says of itself."""
    errors = [text for kind, text in page.said if kind == "error"]

    assert [] == [text for text in errors if any(name in text for name in OURS)]
