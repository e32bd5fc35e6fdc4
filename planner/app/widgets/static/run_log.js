// The log of a start: the last lines, at its end unless the reader has scrolled up.

import { make } from "./make.js";

const KEPT_LINES = 2000;
const NEAR_END_PIXELS = 24;

/** @typedef {{ first: number, lines: string[] }} Lines where they are in the log */

export class RunLog {
  constructor() {
    this.name = make("span", { class: "pl-run-log-name" });
    this.text = make("pre", {
      class: "pl-run-lines",
      role: "log",
      "aria-live": "off",
      "aria-label": "Log of vLLM",
      tabindex: 0,
    });
    this.down = make("button", { class: "pl-run-end", type: "button" }, "To the end");
    this.box = make("div", { class: "pl-run-log" }, this.name, this.text, this.down);
    this.text.addEventListener("scroll", () => this.follow(this.isAtEnd()));
    this.down.addEventListener("click", () => this.toEnd());
    /** @type {number[]} Lines in each piece of the text. */
    this.counts = [];
    this.next = 0;
    this.kept = 0;
    this.isFollowing = true;
    this.placed = 0;
    this.clear();
  }

  isAtEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.text;
    return scrollHeight - scrollTop - clientHeight < NEAR_END_PIXELS;
  }

  /** @param {boolean} isFollowing */
  follow(isFollowing) {
    this.isFollowing = isFollowing;
    this.down.hidden = isFollowing;
  }

  toEnd() {
    this.text.scrollTop = this.text.scrollHeight;
    this.placed = this.text.scrollTop;
    this.follow(true);
  }

  clear() {
    this.text.replaceChildren();
    this.counts = [];
    this.next = 0;
    this.kept = 0;
    this.box.hidden = true;
    this.follow(true);
  }

  /** @param {Lines} fresh those that are there already are passed over */
  add({ first, lines }) {
    const fresh = lines.slice(Math.max(0, this.next - first));
    this.next = Math.max(this.next, first + lines.length);
    if (!fresh.length) return;
    // Lines may come before the event that says that the reader has scrolled up.
    if (this.text.scrollTop < this.placed) this.follow(this.isAtEnd());
    // Text, never HTML: a log may hold anything.
    this.text.append(fresh.map((line) => `${line}\n`).join(""));
    this.counts.push(fresh.length);
    this.kept += fresh.length;
    this.drop();
    this.box.hidden = false;
    this.name.textContent = `Log of vLLM, ${this.next.toLocaleString("en")} lines`;
    if (this.isFollowing) this.toEnd();
  }

  drop() {
    while (this.kept > KEPT_LINES && this.counts.length > 1) {
      this.kept -= this.counts.shift() ?? 0;
      this.text.firstChild?.remove();
    }
  }
}
