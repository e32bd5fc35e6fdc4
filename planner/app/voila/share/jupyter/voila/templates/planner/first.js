// Shows the first plan before the controls are alive: Voila needs a second to start them.
(() => {
  document.getElementById("rendered_cells")?.setAttribute("role", "main");
  // A link opens another plan than the one that was drawn beforehand.
  if (window.location.search.length > 1) return;
  const cells = 'script[type="application/vnd.voila.cell-output+json"]';
  const config = { displayModeBar: false, responsive: false };

  /** @param {Element} place where a chart goes; its figure comes next */
  const draw = (place) => {
    const figure = JSON.parse(place.nextElementSibling?.textContent ?? "");
    const node = document.createElement("div");
    node.className = "planner-chart";
    node.style.height = `${figure.layout.height}px`;
    place.append(node);
    const now = () => {
      if (!node.isConnected) return;
      window.Plotly.newPlot(node, figure.data, figure.layout, config);
    };
    if (window.Plotly) now();
    else document.getElementById("planner-plotly")?.addEventListener("load", now);
  };

  for (const output of document.querySelectorAll(cells)) {
    const html = JSON.parse(output.textContent ?? "").data?.["text/html"] ?? "";
    if (!html.includes("planner-snapshot")) continue;
    output.insertAdjacentHTML("beforebegin", html);
    const place = document.querySelector(".planner-first-chart");
    if (place) draw(place);
  }
})();
