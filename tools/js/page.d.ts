// What the app's scripts find on the page.

interface Plotly {
  newPlot(node: Element, data: object[], layout: object, config: object): void;
  react(node: Element, data: object[], layout: object, config: object): void;
  /** The figure as a data URL. */
  toImage(figure: object, options: object): Promise<string>;
}

interface Window {
  /** Not there until its script has run. */
  Plotly: Plotly;
  /** Whether shortcuts.js is at work. */
  plannerKeepsKeys?: boolean;
}
