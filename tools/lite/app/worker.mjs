// Python of the app's page: Pyodide with the planner and its widgets, nothing of Jupyter.
import { loadPyodide } from "../static/pyodide/pyodide.mjs";

const source = fetch(new URL("boot.py", import.meta.url)).then((answer) =>
  answer.text(),
);

/** Messages that came while Python was not there yet. */
const early = [];
let hear = (message) => early.push(message);
self.addEventListener("message", ({ data }) => hear(data));

try {
  const python = await loadPyodide({
    indexURL: new URL("../static/pyodide/", import.meta.url).href,
    packages: "PACKAGES".split(","),
    env: { HOME: "/home/pyodide", JUPYTER_WIDGETS_ECHO: "0" },
  });
  const given = { post: (message) => self.postMessage(message) };
  python.registerJsModule("page", given);
  python.runPython(await source);
  const heard = python.globals.get("heard");
  hear = ({ message, type, id, data, buffers }) => {
    heard(message, type, id, data, buffers);
    self.postMessage({ type: "idle", parent: message });
  };
  for (const message of early.splice(0)) hear(message);
} catch (error) {
  self.postMessage({ type: "failed", text: String(error) });
}
