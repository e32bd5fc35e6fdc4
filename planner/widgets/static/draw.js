// Finds plotly.js, and draws a figure that is given as plotly's JSON.

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

// Draws the model's `figure` into `node` now and whenever it changes; returns the undo.
async function keepDrawn(model, node, undo) {
  node.classList.add("planner-chart");
  node.setAttribute("role", "img");
  node.style.height = `${model.get("figure").layout?.height ?? 160}px`;
  const name = () => node.setAttribute("aria-label", model.get("label"));
  name();
  model.on("change:label", name);
  undo.push(() => model.off("change:label", name));

  const Plotly = await loadPlotly(model);
  // Given to plotly, and asked once: each answer costs a layout of the page.
  let width = node.clientWidth;
  const draw = () => {
    if (!width) return; // hidden: the observer below tells when it is not
    const { data, layout } = model.get("figure");
    node.style.height = `${layout.height}px`;
    Plotly.react(node, data, { ...layout, width, autosize: false }, CONFIG);
  };
  draw();
  model.on("change:figure", draw);
  const resized = new ResizeObserver((entries) => {
    const now = entries.at(-1).contentRect.width;
    if (now === width) return;
    width = now;
    draw();
  });
  resized.observe(node);
  undo.push(() => resized.disconnect(), () => model.off("change:figure", draw));
}
