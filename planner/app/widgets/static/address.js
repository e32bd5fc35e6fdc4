// The app's address tells its plan: a page that is opened with a query hands it to the
// kernel, and the address follows the controls. A JupyterLab page's address is its own.

import "./shortcuts.js";

/** Whether the page is the app, not a notebook. */
export const isApp = () => document.getElementById("planner-plotly") !== null;

/**
 * Whether an address opens on this machine only.
 *
 * @param {{ protocol: string, hostname: string }} place
 */
export const isOfThisMachine = ({ protocol, hostname }) =>
  protocol === "file:" || /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);

/**
 * @param {import("@anywidget/types").AnyModel<{ query: string }>} model
 * @returns {(() => void) | undefined} what ends it
 */
export function followAddress(model) {
  if (!isApp()) return undefined;
  const { search } = window.location;
  if (search.length > 1) model.send({ opened: search });
  const follow = () => {
    const place = window.location.pathname + model.get("query");
    window.history.replaceState(window.history.state, "", place);
  };
  model.on("change:query", follow);
  return () => model.off("change:query", follow);
}
