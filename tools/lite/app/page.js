// The app's page: widgets whose Python runs in a worker. It takes the place of a kernel's
// connection: messages of comms, and nothing else, go both ways.

/**
 * @typedef {{ msg_id: string, msg_type: string }} Head
 * @typedef {{ header: Head, parent_header: Head, metadata: object,
 *   content: any, buffers: DataView[], channel: string }} Message
 * @typedef {{ iopub?: { status?: (message: Message) => void } }} Callbacks
 */

const place = document.getElementById("planner-app");
const waiting = document.getElementById("loading");
const worker = new Worker(new URL("worker.mjs", import.meta.url), { type: "module" });

/** @type {Map<string, { needs: string[], make: (...given: any[]) => any, made?: any }>} */
const modules = new Map();
let last = "";

/**
 * The few forms of AMD in which the widgets' scripts are written.
 *
 * @param {any[]} given a name, unless the file is it; names of what it needs; the maker
 */
function define(...given) {
  const name = typeof given[0] === "string" ? given[0] : last;
  const [needs, make] = given.slice(-2);
  modules.set(name, { needs, make });
}
define.amd = {};

/** @param {string} name */
function use(name) {
  if (name === "module") return { id: name, uri: "" };
  const found = modules.get(name);
  if (!found) throw new Error(`${name} is not part of this page.`);
  found.made ??= found.make(...found.needs.map(use));
  return found.made;
}

/**
 * @param {string} source
 * @param {string} name of a module that does not say its own
 */
async function load(source, name = "") {
  const code = await (await fetch(new URL(source, import.meta.url))).text();
  last = name;
  new Function("define", code)(define);
}

/** One comm, as the widgets' manager expects it. */
class Comm {
  /** @type {Map<string, Comm>} */
  static all = new Map();

  /** @param {string} id */
  constructor(id) {
    this.comm_id = id;
    this.target_name = "jupyter.widget";
    /** @type {Message[]} those that came before the model */
    this.early = [];
    /** @type {((message: Message) => void) | undefined} */
    this.heard = undefined;
    /** @type {((message: Message) => void) | undefined} */
    this.ended = undefined;
    Comm.all.set(id, this);
  }

  /** @param {(message: Message) => void} heard */
  on_msg(heard) {
    this.heard = heard;
    for (const message of this.early.splice(0)) heard(message);
  }

  /** @param {(message: Message) => void} ended */
  on_close(ended) {
    this.ended = ended;
  }

  /** @param {Message} message */
  take(message) {
    if (this.heard) this.heard(message);
    else this.early.push(message);
  }

  /**
   * @param {any} data
   * @param {Callbacks} [callbacks]
   * @param {object} [_metadata]
   * @param {(ArrayBuffer | ArrayBufferView)[]} [buffers]
   */
  send(data, callbacks, _metadata, buffers = []) {
    return tell("comm_msg", this.comm_id, data, buffers, callbacks);
  }

  close() {
    Comm.all.delete(this.comm_id);
    return tell("comm_close", this.comm_id, {}, []);
  }
}

/** @type {Map<string, Callbacks>} */
const asked = new Map();
let number = 0;

/**
 * @param {string} type
 * @param {string} id
 * @param {any} data
 * @param {(ArrayBuffer | ArrayBufferView)[]} buffers
 * @param {Callbacks} [callbacks]
 */
function tell(type, id, data, buffers, callbacks) {
  number += 1;
  const message = `page-${number}`;
  if (callbacks) asked.set(message, callbacks);
  worker.postMessage({ message, type, id, data: JSON.stringify(data), buffers });
  return message;
}

/**
 * @param {string} type
 * @param {any} content
 * @param {string} parent
 * @param {Partial<Message>} [more]
 * @returns {Message}
 */
const written = (type, content, parent, more) => ({
  header: { msg_id: "", msg_type: type },
  parent_header: { msg_id: parent, msg_type: "comm_msg" },
  metadata: {},
  channel: "iopub",
  buffers: [],
  content,
  ...more,
});

const scripts = Promise.all([
  load("widgets.js"),
  load("anywidget.js", "anywidget"),
]).then(async () => {
  const { HTMLManager } = use("@jupyter-widgets/html-manager");
  const loader = async (/** @type {string} */ name) => use(name);
  const manager = new HTMLManager({ loader });
  // Its style sheets come first: the planner's outrank them by their order alone.
  await manager.loadClass("VBoxModel", "@jupyter-widgets/controls", "2.0.0");
  return manager;
});

/** @param {string} text */
function fail(text) {
  if (waiting?.isConnected) waiting.textContent = text;
  else console.error(text);
}

/** @type {Record<string, (given: any, manager: any) => void>} */
const ways = {
  comm_open({ id, content, metadata, buffers }, manager) {
    const data = { ...content, comm_id: id };
    const opened = written("comm_open", data, "", { metadata, buffers });
    manager.handle_comm_open(new Comm(id), opened);
  },
  comm_msg({ id, content, buffers, parent }) {
    Comm.all.get(id)?.take(written("comm_msg", content, parent, { buffers }));
  },
  comm_close({ id, content, parent }) {
    Comm.all.get(id)?.ended?.(written("comm_close", content, parent));
    Comm.all.delete(id);
  },
  idle({ parent }) {
    const status = written("status", { execution_state: "idle" }, parent);
    asked.get(parent)?.iopub?.status?.(status);
    asked.delete(parent);
  },
  async shown({ id }, manager) {
    const model = await manager.get_model(id);
    await manager.display_view(manager.create_view(model), place);
    place?.removeAttribute("id");
  },
  failed({ text }) {
    fail(`Python could not be started in this browser.\n${text}`);
  },
};

// One after the other: the worker's messages wait until the widgets' scripts are there.
let done = scripts;
worker.addEventListener("message", ({ data }) => {
  done = done.then((manager) => {
    if (data.buffers)
      data.buffers = data.buffers.map(
        (/** @type {Uint8Array} */ one) =>
          new DataView(one.buffer, one.byteOffset, one.byteLength),
      );
    ways[data.type](data, manager);
    return manager;
  });
  done.catch((error) => fail(String(error)));
});
worker.addEventListener("error", (event) => ways.failed({ text: event.message }, null));

// A page that is left keeps no Python, not even in the browser's memory of pages.
window.addEventListener("pagehide", () => worker.terminate());
window.addEventListener("pageshow", ({ persisted }) => {
  if (persisted) window.location.reload();
});
