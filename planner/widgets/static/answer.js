// The answer to the controls: verdict, bars, figures, and vLLM's own words.

const BEFORE_CHART = ["verdict", "stale"];
const AFTER_CHART = ["figures", "alert", "error"];

// The app's page has drawn the first chart before the controls were there.
function takeFirstChart() {
  const snapshot = document.querySelector(".planner-snapshot");
  const node = snapshot?.querySelector(".js-plotly-plot");
  snapshot?.remove();
  return node;
}

export default {
  render({ model, el }) {
    const undo = [];
    el.classList.add("planner-answer");
    for (const name of BEFORE_CHART) part(el, name);
    live(part(el, "verdict"));
    const chart = document.createElement("div");
    chart.className = "planner-bars";
    el.append(chart);
    for (const name of AFTER_CHART) part(el, name);
    const show = () => {
      const parts = model.get("parts");
      for (const name of [...BEFORE_CHART, ...AFTER_CHART]) {
        fill(part(el, name), parts[name] ?? "");
      }
    };
    show();
    model.on("change:parts", show);
    undo.push(() => model.off("change:parts", show));
    whenConnected(el, () => {
      const node = takeFirstChart() ?? document.createElement("div");
      chart.append(node);
      keepDrawn(model, node, undo);
    });
    return () => undo.forEach((step) => step());
  },
};
