// What the app's scripts find on the page.

interface Plotly {
  newPlot(node: Element, data: object[], layout: object, config: object): void;
  react(node: Element, data: object[], layout: object, config: object): void;
}

interface Window {
  /** Not there until its script has run. */
  Plotly: Plotly;
  /** Whether shortcuts.js is at work. */
  plannerKeepsKeys?: boolean;
}
