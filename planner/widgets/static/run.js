// Shows how far a start of vLLM is, with its log; tells the kernel that a page looks,
// so that vLLM ends with the last page.

const KEPT_LINES = 2000;
const BEAT_MS = 5000;
const TICK_MS = 250;
const NEAR_END_PIXELS = 24;

const isOn = (model) => ["running", "stopping"].includes(model.get("state"));

function make(tag, className, attributes = {}) {
  const node = document.createElement(tag);
  node.className = className;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

function clock(seconds) {
  const whole = Math.floor(Math.max(0, seconds));
  const pad = (number) => String(number).padStart(2, "0");
  const minutes = Math.floor(whole / 60) % 60;
  const hours = Math.floor(whole / 3600);
  return (hours ? `${hours}:${pad(minutes)}` : `${minutes}`) + `:${pad(whole % 60)}`;
}

// The log: the last lines, at its end unless the reader has scrolled up.
function makeLog() {
  const box = make("div", "pl-run-log");
  const name = make("span", "pl-run-log-name");
  const text = make("pre", "pl-run-lines", {
    role: "log", "aria-live": "off", "aria-label": "Log of vLLM", tabindex: "0",
  });
  const down = make("button", "pl-run-end", { type: "button" });
  down.textContent = "To the end";
  box.append(name, text, down);
  let next = 0;
  let kept = 0;
  let isFollowing = true;
  const isAtEnd = () =>
    text.scrollHeight - text.scrollTop - text.clientHeight < NEAR_END_PIXELS;
  const showPlace = () => { down.hidden = isFollowing; };
  const toEnd = () => {
    isFollowing = true;
    text.scrollTop = text.scrollHeight;
    showPlace();
  };
  const drop = () => {
    while (kept > KEPT_LINES && text.childNodes.length > 1) {
      kept -= text.firstChild.lineCount;
      text.firstChild.remove();
    }
  };
  const clear = () => {
    text.replaceChildren();
    next = kept = 0;
    isFollowing = true;
    box.hidden = true;
    showPlace();
  };
  const add = ({ first, lines }) => {
    const fresh = lines.slice(Math.max(0, next - first));
    next = Math.max(next, first + lines.length);
    if (!fresh.length) return;
    // Text, never HTML: a log may hold anything.
    const part = document.createTextNode(fresh.map((line) => `${line}\n`).join(""));
    part.lineCount = fresh.length;
    text.append(part);
    kept += fresh.length;
    drop();
    box.hidden = false;
    name.textContent = `Log of vLLM, ${next.toLocaleString("en")} lines`;
    if (isFollowing) text.scrollTop = text.scrollHeight;
  };
  text.addEventListener("scroll", () => { isFollowing = isAtEnd(); showPlace(); });
  down.addEventListener("click", toEnd);
  clear();
  return { box, add, clear };
}

function makeHead(model) {
  const box = make("div", "pl-run-head");
  const title = make("p", "pl-run-title");
  const stage = make("span", "pl-run-stage", { role: "status", "aria-live": "polite" });
  const time = make("span", "pl-run-time");
  const bar = make("div", "pl-run-bar", {
    role: "progressbar", "aria-label": "Progress of the start",
    "aria-valuemin": "0", "aria-valuemax": "100",
  });
  const filled = make("div", "pl-run-filled");
  bar.append(filled);
  const row = make("div", "pl-run-row");
  row.append(stage, time);
  const stages = make("ol", "pl-run-stages", { "aria-label": "Stages of the start" });
  box.append(title, row, bar, stages);
  const mark = () => {
    const names = model.get("stages");
    if (stages.childElementCount !== names.length) {
      stages.replaceChildren(...names.map((name) => {
        const item = document.createElement("li");
        item.textContent = name;
        return item;
      }));
    }
    const at = model.get("position");
    [...stages.children].forEach((item, number) => {
      const isNow = number === at && isOn(model);
      const isSkipped = model.get("skipped").includes(item.textContent);
      const past = isSkipped ? "skipped" : "past";
      item.dataset.is = number < at ? past : isNow ? "now" : "to come";
      if (isNow) item.setAttribute("aria-current", "step");
      else item.removeAttribute("aria-current");
    });
  };
  let since = performance.now();
  const tick = () => {
    const passed = isOn(model) ? (performance.now() - since) / 1000 : 0;
    time.textContent = clock(model.get("seconds") + passed);
  };
  const show = () => {
    since = performance.now();
    const percent = Math.round(100 * model.get("fraction"));
    title.textContent = model.get("title");
    mark();
    if (stage.textContent !== model.get("stage")) stage.textContent = model.get("stage");
    filled.style.width = `${percent}%`;
    bar.setAttribute("aria-valuenow", percent);
    bar.setAttribute("aria-valuetext", `${percent} %, ${model.get("stage")}`);
    tick();
  };
  return { box, show, tick };
}

function attend(model, view, undo) {
  const say = (kind) => {
    try { model.send({ kind, view }); } catch { /* the kernel is gone */ }
  };
  const beat = setInterval(() => isOn(model) && say("here"), BEAT_MS);
  const leave = () => say("leaving");
  const back = () => say("here");
  const seen = () => !document.hidden && isOn(model) && say("here");
  window.addEventListener("pagehide", leave);
  window.addEventListener("pageshow", back);
  document.addEventListener("visibilitychange", seen);
  undo.push(() => {
    clearInterval(beat);
    window.removeEventListener("pagehide", leave);
    window.removeEventListener("pageshow", back);
    document.removeEventListener("visibilitychange", seen);
    leave();
  });
  say("hello");
}

export default {
  render({ model, el }) {
    const undo = [];
    const on = (event, call) => {
      model.on(event, call);
      undo.push(() => model.off(event, call));
    };
    const head = makeHead(model);
    const log = makeLog();
    el.classList.add("planner-run-progress");
    el.append(head.box, log.box);
    const show = () => { el.dataset.state = model.get("state"); head.show(); };
    for (const name of ["state", "title", "stage", "position", "skipped", "fraction", "seconds"]) {
      on(`change:${name}`, show);
    }
    on("msg:custom", (content) => {
      if (content.kind === "log") log.add(content);
      if (content.kind === "clear") log.clear();
    });
    const ticking = setInterval(() => isOn(model) && head.tick(), TICK_MS);
    undo.push(() => clearInterval(ticking));
    show();
    attend(model, `${Math.random()}`.slice(2), undo);
    return () => undo.forEach((step) => step());
  },
};
