// Debug this start: a command and its error, a cause and a remedy to choose, and what
// planner.read says of them.

import { button } from "./button.js";
import { newId } from "./change.js";
import { make } from "./make.js";
import { fill } from "./parts.js";

/**
 * @typedef {[text: string, reply: string, isRight: boolean]} DebugOption
 *
 * @typedef {object} Debug
 * @property {string} heading
 * @property {string} command
 * @property {string} error
 * @property {string} credit
 * @property {DebugOption[]} causes
 * @property {DebugOption[]} remedies
 * @property {string} explanation HTML that the kernel wrote
 */

/**
 * A question with one answer of several.
 *
 * @param {string} question
 * @param {DebugOption[]} options
 */
function choice(question, options) {
  const name = newId();
  const node = make("fieldset", { class: "pd-choice" });
  node.append(make("legend", {}, question));
  const inputs = options.map(([text], at) => {
    const input = make("input", { type: "radio", name, value: at });
    node.append(make("label", {}, input, make("span", {}, text)));
    return input;
  });
  return { node, chosen: () => options[inputs.findIndex(({ checked }) => checked)] };
}

/**
 * Says how an answer stands: a sign, a word, and what helps.
 *
 * @param {string} name
 * @param {DebugOption | undefined} option
 */
export function judged(name, option) {
  if (!option) return `… ${name}: not chosen yet.`;
  const [, reply, isRight] = option;
  const state = isRight ? "✔" : "✘";
  return `${state} ${name}: ${isRight ? "right" : "not this one"}. ${reply}`.trim();
}

/** @type {import("@anywidget/types").AnyWidget<Debug>} */
export default {
  render({ model, el }) {
    el.classList.add("planner-debug");
    const cause = choice("Why did it fail?", model.get("causes"));
    const remedy = choice("What helps?", model.get("remedies"));
    const check = button("Check");
    const open = button("Explain");
    const result = make("div", { role: "status", "aria-live": "polite" });
    const explanation = make("div", { class: "pd-explanation" });
    const explain = () => {
      const title = make("p", { class: "pg-name" }, "What planner.read says of it:");
      const scrolls = { class: "pd-said", tabindex: 0, role: "group" };
      const said = make("div", { ...scrolls, "aria-label": "Explanation" });
      fill(said, model.get("explanation"));
      explanation.replaceChildren(title, said);
    };
    check.addEventListener("click", () => {
      const answers = [cause.chosen(), remedy.chosen()];
      const lines = ["Cause", "Remedy"].map((name, at) => judged(name, answers[at]));
      result.replaceChildren(...lines.map((text) => make("p", {}, text)));
      if (answers.every((answer) => answer?.[2])) explain();
    });
    open.addEventListener("click", explain);
    const code = { class: "pl-plain-command", tabindex: 0 };
    el.append(
      make("h2", { class: "pg-title" }, model.get("heading")),
      make("pre", { ...code, "aria-label": "Command" }, model.get("command")),
      make("pre", { ...code, "aria-label": "Error" }, model.get("error")),
      make("p", { class: "pg-formula" }, model.get("credit")),
      make("div", { class: "pd-choices" }, cause.node, remedy.node),
      make("p", { class: "pk-controls" }, check, open),
      result,
      explanation,
    );
  },
};
