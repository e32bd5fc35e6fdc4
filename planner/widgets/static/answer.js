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

// On a phone the controls fill the screen: a bar at its end says how it stands while the
// verdict itself is out of sight. What it says is announced there, so it is for the eyes.
function addBar(root, verdict, undo) {
  const bar = document.createElement("div");
  bar.className = "planner-bar pl-plan";
  bar.setAttribute("aria-hidden", "true");
  const words = document.createElement("span");
  bar.append(words);
  bar.addEventListener("click", () => verdict.scrollIntoView({ block: "start" }));
  root.append(bar);
  const seen = new IntersectionObserver((entries) => {
    bar.classList.toggle("pl-is-needed", entries.at(-1).intersectionRatio < 0.6);
  }, { threshold: [0, 0.6] });
  seen.observe(verdict);
  undo.push(() => seen.disconnect(), () => bar.remove());
  return () => {
    const said = verdict.querySelector(".pl-verdict");
    const text = (name) => said?.querySelector(name)?.textContent.trim() ?? "";
    bar.className = bar.className.replace(/ pl-(fits|tight|short|refused)/g, "");
    bar.classList.add(...(said?.classList ?? []));
    bar.classList.remove("pl-verdict");
    words.textContent = `${text(".pl-headline")} ${text(".pl-margin")}`;
  };
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
    const own = new Set([...BEFORE_CHART, ...AFTER_CHART]);
    let root; // once it is on the page
    let follow = () => {};
    const show = () => {
      const parts = model.get("parts");
      for (const name of own) fill(part(el, name), parts[name] ?? "");
      follow();
      for (const [name, html] of Object.entries(parts)) {
        if (own.has(name)) continue;
        const place = root?.querySelector(`.planner-parts > [data-part="${name}"]`);
        if (place) fill(place, html);
      }
    };
    show();
    // After the chart's `change:figure`: drawing measures, and would first lay out a page
    // that these have changed.
    model.on("change", show);
    undo.push(() => model.off("change", show));
    whenConnected(el, () => {
      const node = takeFirstChart() ?? document.createElement("div");
      chart.append(node);
      keepDrawn(model, node, undo);
      root = el.closest(".planner-explorer");
      if (!root) return;
      follow = addBar(root, part(el, "verdict"), undo);
      root.addEventListener("planner-place", show);
      undo.push(() => root.removeEventListener("planner-place", show));
      show();
    });
    return () => undo.forEach((step) => step());
  },
};
