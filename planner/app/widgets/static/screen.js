// The projector of a room: where phones go, the question, the votes and their slips.

import { button } from "./button.js";
import { setText } from "./change.js";
import { make } from "./make.js";
import { follow, here, send } from "./news.js";

/**
 * @typedef {{ label: string, count: number, kind: string }} Group
 * @typedef {object} Screen
 * @property {string} phase
 * @property {number} round
 * @property {number} places
 * @property {number} votes
 * @property {import("./room.js").Asked | null} question
 * @property {Group[][]} groups of the round before, if any, and of this one
 * @property {string} answer
 */

const SVG = "http://www.w3.org/2000/svg";
const SIGNS = /** @type {Record<string, string>} */ ({ right: "✔ ", slip: "✘ " });

/** @param {[size: number, path: string]} code @param {string} label */
function drawn([size, path], label) {
  const names = ["svg", "rect", "path"];
  const [svg, paper, dark] = names.map((name) => document.createElementNS(SVG, name));
  svg.setAttribute("viewBox", `0 0 ${size} ${size}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  svg.setAttribute("shape-rendering", "crispEdges");
  paper.setAttribute("width", `${size}`);
  paper.setAttribute("height", `${size}`);
  paper.setAttribute("fill", "#fff");
  dark.setAttribute("d", path);
  svg.append(paper, dark);
  return svg;
}

/** @param {Group[]} groups @param {string} title */
function histogram(groups, title) {
  const all = groups.reduce((sum, { count }) => sum + count, 0);
  const rows = groups.map(({ label, count, kind }) => {
    const bar = make("i", { class: `pr-bar pr-${kind}` });
    bar.style.width = `${all ? (100 * count) / all : 0}%`;
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, `${SIGNS[kind] ?? ""}${label}`),
      make("td", { class: "pl-number" }, `${count} of ${all}`),
      make("td", { class: "pr-track" }, bar),
    );
  });
  const heads = ["Votes", "How many", "Share"].map((text, at) =>
    make("th", { scope: "col", class: at === 1 ? "pl-number" : null }, text),
  );
  return make(
    "table",
    { class: "pl-lines pr-histogram" },
    make("caption", {}, title),
    make("thead", {}, make("tr", {}, ...heads)),
    make("tbody", {}, ...rows),
  );
}

/** @type {import("@anywidget/types").AnyWidget<{ address: string, qr: [number, string], titles: string[] }>} */
export default {
  render({ model, el }) {
    el.classList.add("planner-room");
    const code = make("div", { class: "pr-code" });
    code.append(drawn(model.get("qr"), `QR code of ${model.get("address")}`));
    const address = make("p", { class: "pr-address" }, model.get("address"));
    const count = make("p", { class: "pr-count", role: "status" });
    const titles = model
      .get("titles")
      .map((title, at) => make("option", { value: at }, title));
    const which = make("select", {}, ...titles);
    const label = make("label", { class: "pk-setting" }, "Question ", which);
    const title = make("h2", { class: "pg-title" });
    const asked = make("p", { class: "pr-asked" });
    const options = make("ul", { class: "pl-notes" });
    const votes = make("div", { class: "pr-votes" });
    const answer = make("p", { class: "pr-answer" });
    const wrong = make("p", { role: "alert" });
    const acts = /** @type {[string, string][]} */ ([
      ["ask", "Ask"],
      ["votes", "Show the votes"],
      ["slips", "Name the slips"],
      ["again", "Vote again"],
      ["answer", "Show the answer"],
    ]).map(([act, text]) => {
      const node = button(text);
      node.addEventListener("click", async () => {
        const question = Number(which.value);
        const isDone = await send(`${here()}/act`, { do: act, question });
        setText(wrong, isDone ? "" : "That did not work. Ask a question first.");
      });
      return node;
    });
    const controls = make("div", { class: "pk-controls" }, label, ...acts);
    const main = make(
      "div",
      { class: "pr-main" },
      title,
      asked,
      options,
      votes,
      answer,
    );
    const aside = make("div", { class: "pr-aside" }, code, address, count);
    el.append(controls, wrong, make("div", { class: "pr-both" }, main, aside));
    /** @param {Screen} state */
    const show = ({
      phase,
      round,
      places,
      votes: cast,
      question,
      groups,
      answer: told,
    }) => {
      setText(count, `${cast} of ${places} phones voted`);
      setText(title, question?.title ?? "Open the address with your phone");
      setText(asked, question?.asked ?? "No names are asked for, and nothing is kept.");
      const letters = phase === "asked" ? Object.entries(question?.options ?? {}) : [];
      options.replaceChildren(
        ...letters.map(([letter, text]) => make("li", {}, `${letter}: ${text}`)),
      );
      const first = round - groups.length + 1;
      votes.replaceChildren(
        ...groups.map((one, at) => histogram(one, `Vote ${first + at}`)),
      );
      setText(answer, told && `The answer: ${told}`);
      for (const node of acts.slice(1)) node.disabled = !phase;
    };
    follow(`${here()}/news`, show, (words) => setText(wrong, words));
  },
};
