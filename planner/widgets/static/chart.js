// Draws a plotly figure, and gives the explorer around it what ipywidgets leaves out:
// names for slider handles, live regions, and a button that copies the command.

const CONFIG = { displayModeBar: false, responsive: false };

function fromPage(script) {
  return new Promise((resolve, reject) => {
    if (window.Plotly) return resolve(window.Plotly);
    if (script.dataset.failed) return reject(new Error("plotly.js was not served"));
    script.addEventListener("load", () => resolve(window.Plotly));
    script.addEventListener("error", reject);
  });
}

function fromKernel(model) {
  return new Promise((resolve, reject) => {
    model.on("msg:custom", (content, buffers) => {
      if (content !== "plotly.js" || !buffers?.length) return;
      const script = document.createElement("script");
      const source = new Blob([buffers[0]], { type: "text/javascript" });
      script.src = URL.createObjectURL(source);
      script.onload = () => resolve(window.Plotly);
      script.onerror = reject;
      document.head.append(script);
    });
    model.send("plotly.js");
  });
}

function loadPlotly(model) {
  if (window.Plotly) return Promise.resolve(window.Plotly);
  const script = document.getElementById("planner-plotly");
  if (!script) return fromKernel(model);
  return fromPage(script).catch(() => fromKernel(model));
}

function say(node, attribute, text) {
  if (node && text && node.getAttribute(attribute) !== text) {
    node.setAttribute(attribute, text);
  }
}

function nameSliders(root) {
  for (const handle of root.querySelectorAll(".noUi-handle")) {
    const field = handle.closest(".planner-field");
    const slider = handle.closest(".widget-slider");
    say(handle, "aria-label", field?.querySelector(".pl-name")?.textContent);
    say(handle, "aria-valuetext", slider?.querySelector(".widget-readout")?.textContent);
  }
}

function makeLive(root) {
  for (const part of root.querySelectorAll(".planner-verdict, .planner-reading")) {
    const content = part.querySelector(".widget-html-content");
    say(content, "role", "status");
    say(content, "aria-live", "polite");
  }
}

// A button that opens what stands below it says whether it is open.
function sayOpen(root) {
  for (const button of root.querySelectorAll(".planner-toggle")) {
    say(button, "aria-expanded", String(button.classList.contains("mod-active")));
  }
}

// A link holds this page's own address where the page is the app.
function fillLinks(root) {
  if (!document.getElementById("planner-plotly")) return;
  const page = window.location.origin + window.location.pathname;
  for (const code of root.querySelectorAll("code[data-link]")) {
    const text = page + code.dataset.link;
    if (code.textContent !== text) code.textContent = text;
  }
}

async function copy(event) {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  const code = button.parentElement.querySelector("code");
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch {
    // Without a secure context there is no clipboard: select the text for the user.
    window.getSelection().selectAllChildren(code);
    button.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl+C";
    return;
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

function attend(root) {
  const refresh = () => { nameSliders(root); makeLive(root); sayOpen(root); fillLinks(root); };
  const pressed = () => setTimeout(() => sayOpen(root));
  const observer = new MutationObserver(refresh);
  observer.observe(root, { subtree: true, childList: true, characterData: true });
  root.addEventListener("click", copy);
  root.addEventListener("click", pressed);
  refresh();
  return () => {
    observer.disconnect();
    root.removeEventListener("click", copy);
    root.removeEventListener("click", pressed);
  };
}

// The app's page has drawn the first chart before the controls were there.
function takeFirstChart() {
  const snapshot = document.querySelector(".planner-snapshot");
  const node = snapshot?.querySelector(".js-plotly-plot");
  snapshot?.remove();
  return node;
}

function whenConnected(el, action) {
  if (el.isConnected) return action();
  requestAnimationFrame(() => whenConnected(el, action));
}

export default {
  render({ model, el }) {
    const undo = [];
    // Views are attached after they are rendered: the rest must not wait here.
    whenConnected(el, () => connect(model, el, undo));
    return () => undo.forEach((step) => step());
  },
};

async function connect(model, el, undo) {
  const root = el.closest(".planner-explorer");
  if (root) undo.push(attend(root));
  const node = takeFirstChart() ?? document.createElement("div");
  node.classList.add("planner-chart");
  node.setAttribute("role", "img");
  node.style.minHeight = `${model.get("figure").layout?.height ?? 160}px`;
  el.append(node);
  const name = () => node.setAttribute("aria-label", model.get("label"));
  name();
  model.on("change:label", name);

  const Plotly = await loadPlotly(model);
  let isDrawn = false;
  const draw = () => {
    if (!node.clientWidth) return; // hidden so far: the observer below calls again
    isDrawn = true;
    const { data, layout } = model.get("figure");
    node.style.minHeight = `${layout.height}px`;
    Plotly.react(node, data, layout, CONFIG);
  };
  draw();
  model.on("change:figure", draw);
  const resized = new ResizeObserver(() => {
    if (!isDrawn) draw();
    else if (node.clientWidth) Plotly.Plots.resize(node);
  });
  resized.observe(node);
  undo.push(() => resized.disconnect(), () => model.off("change:figure", draw));
}
