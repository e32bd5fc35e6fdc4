// A day at the desk: visitors come to vLLM's scheduler, the learner's settings decide what
// each brings, and the clock counts the GPU's seconds.

import { Request, Scheduler } from "./scheduler.js";

/**
 * @typedef {object} Choice vLLM with some arguments
 * @property {string} dtype kv_cache_dtype
 * @property {number} seqs max_num_seqs
 * @property {boolean} caching enable_prefix_caching
 * @property {number} blocks
 * @property {number} batched max_num_batched_tokens
 * @property {import("./scheduler_tables.js").Rule[]} rules
 * @property {string} size of a block
 * @property {[step: number, kept: number, computed: number]} seconds of a step: what it
 *   takes at least, more for each token in the cache, or else for each one computed
 *
 * @typedef {object} Desk
 * @property {string} words
 * @property {string} subject
 * @property {number} longest tokens of a request
 * @property {number[]} arrivals of the visitors, as shares of the day
 * @property {number} seconds of the GPU that the day has
 * @property {string} hours such as "9 17"
 * @property {{ price: number, currency: string, source: string } | null} cost of an hour
 * @property {number[]} lengths of prompts to choose from
 * @property {number[]} beginnings that prompts share
 * @property {number} answer tokens, of a visitor in the middle
 * @property {Choice[]} choices
 * @property {{ dtype: string, seqs: number, caching: boolean, length: number,
 *   shared: number }} settings at first
 *
 * @typedef {{ number: number, came: number, started: number, one: Request }} Visitor
 */

const GOLDEN = (Math.sqrt(5) - 1) / 2; // its multiples spread evenly between 0 and 1
const MOST_STEPS = 2000; // of the scheduler, before the page is drawn again
const FORMAT = new Intl.NumberFormat("en");

/** @param {number} count */
export const whole = (count) => FORMAT.format(count);

/** @param {number} count @param {string} unit such as "block" */
const counted = (count, unit) => `${whole(count)} ${unit}${count === 1 ? "" : "s"}`;

/** @param {number} number @param {number} turn @returns a share from 0.6 to 1.4 */
const spread = (number, turn) => 0.6 + 0.8 * ((number * GOLDEN * turn) % 1);

export class Day {
  /** @param {Desk} desk */
  constructor(desk) {
    this.desk = desk;
    this.settings = { ...desk.settings };
    this.clock = 0;
    this.served = 0;
    this.preemptions = 0;
    this.again = 0; // tokens that had to be computed again
    this.tokens = 0; // of prompts and answers that were served
    this.restarts = 0;
    this.comeAlone = true;
    /** @type {Visitor[]} */
    this.visitors = [];
    /** @type {string[]} */
    this.events = [];
    this.scheduler = this.begun();
  }

  /** What vLLM runs with. */
  get choice() {
    const { dtype, seqs, caching } = this.settings;
    const found = this.desk.choices.find(
      (one) => one.dtype === dtype && one.seqs === seqs && one.caching === caching,
    );
    return /** @type {Choice} */ (found);
  }

  get count() {
    return this.desk.arrivals.length;
  }

  get isOver() {
    return this.served === this.count;
  }

  get isIdle() {
    return !this.scheduler.running.length && !this.scheduler.waiting.length;
  }

  get waiting() {
    return this.scheduler.waiting.length;
  }

  begun() {
    return new Scheduler({ ...this.choice, longest: this.desk.longest });
  }

  /**
   * Changes what the next visitors bring, or an argument of vLLM: then it starts again,
   * the cache is empty, and whoever was not finished asks again.
   *
   * @param {Partial<Desk["settings"]>} changes
   */
  set(changes) {
    const before = this.choice;
    const kept = this.settings;
    this.settings = { ...kept, ...changes };
    if (this.choice === before) return;
    if (!this.choice) {
      this.settings = kept;
      this.events.push("vLLM does not start with that; it goes on as before.");
      return;
    }
    const { running, waiting } = this.scheduler;
    for (const one of [...running, ...waiting]) this.again += one.computed;
    const asks = this.visitors.filter(({ one }) => one.phase !== "finished");
    this.scheduler = this.begun();
    for (const visitor of asks) {
      const { name, prompt, total, shared, preemptions } = visitor.one;
      visitor.one = new Request({ name, prompt, answer: total - prompt, shared });
      visitor.one.preemptions = preemptions;
      this.scheduler.add(visitor.one);
    }
    if (this.visitors.length) this.restarts += 1;
    this.events = [
      `vLLM starts with an empty cache; to ask again: ${counted(asks.length, "visitor")}.`,
    ];
  }

  /** Lets the next visitor come. */
  come() {
    const number = this.visitors.length + 1;
    if (number > this.count) return;
    const { longest, answer } = this.desk;
    const { length, shared } = this.settings;
    const answered = Math.round(answer * spread(number, 2));
    const prompt = Math.min(Math.round(length * spread(number, 1)), longest - answered);
    const common = Math.min(shared, prompt);
    const given = { name: `${number}`, prompt, answer: answered, shared: common };
    const one = new Request(given);
    this.visitors.push({ number, came: this.clock, started: -1, one });
    this.scheduler.add(one);
    this.events.push(
      `${number} comes with ${whole(prompt)} tokens` +
        `${common ? `, ${whole(common)} of them shared` : ""}.`,
    );
  }

  /** @returns {number} when the next visitor comes by the day's curve; Infinity: never */
  get next() {
    const share = this.desk.arrivals[this.visitors.length];
    return this.comeAlone && share !== undefined ? share * this.desk.seconds : Infinity;
  }

  /** Lets the clock go on, and everything happen until then. @param {number} seconds */
  goOn(seconds) {
    const end = this.clock + seconds;
    this.events = [];
    for (
      let steps = 0;
      steps < MOST_STEPS && this.clock < end && !this.isOver;
      steps++
    ) {
      this.step(end);
    }
  }

  /** Goes on to the next event. */
  goToEvent() {
    this.events = [];
    for (let steps = 0; steps < 50 * MOST_STEPS && !this.isOver; steps++) {
      if (this.isIdle && this.next === Infinity) return;
      this.step(this.next);
      if (this.events.length) return;
    }
  }

  /** Makes one step of the scheduler, or waits for the next visitor. @param {number} end */
  step(end) {
    while (this.next <= this.clock) this.come();
    const { scheduler } = this;
    if (this.isIdle) {
      this.clock = Math.min(this.next, end);
      return;
    }
    scheduler.step();
    for (const event of scheduler.events) this.tell(event);
    this.clock += this.seconds();
  }

  /** Returns how long the step took: at the bound that no GPU of its kind passes. */
  seconds() {
    const [least, kept, computed] = this.choice.seconds;
    let tokens = 0;
    let held = 0;
    for (const [one, count] of this.scheduler.scheduled) {
      tokens += count;
      held += one.computed;
    }
    return Math.max(least + kept * held, computed * tokens);
  }

  /** @param {import("./scheduler.js").Event} event */
  tell({ what, one, blocks, tokens }) {
    const visitor = this.visitors[Number(one.name) - 1];
    const count = counted(blocks, "block");
    if (what === "preempted") {
      this.preemptions += 1;
      this.again += tokens;
    }
    if (what === "starts" && visitor.started < 0) visitor.started = this.clock;
    if (what === "finished") {
      this.served += 1;
      this.tokens += one.total;
    }
    const does = one.preemptions ? "comes back" : "starts";
    const hit = tokens ? `: ${whole(tokens)} tokens are in the cache` : "";
    this.events.push(
      {
        waits: `${one.name} waits: its prompt needs more than ${count}.`,
        starts: `${one.name} ${does}${hit}.`,
        preempted: `The cache is full: ${one.name}, the last to start, is preempted and gives up ${count}.`,
        finished: `${one.name} is answered and frees ${count}.`,
      }[what],
    );
  }

  /** @returns {number} seconds that the visitor waited longest for a start */
  get longestWait() {
    const waits = this.visitors.map(({ came, started }) =>
      started < 0 ? this.clock - came : started - came,
    );
    return Math.max(0, ...waits);
  }

  /** @returns {string} the GPU's time in money; "" where no price is known */
  get spent() {
    const { cost } = this.desk;
    if (!cost) return "";
    return `${cost.currency} ${((cost.price * this.clock) / 3600).toFixed(4)}`;
  }

  /** @returns {string} the time of the desk's day, such as 10:40 */
  get time() {
    const [opens, closes] = this.desk.hours.split(" ").map(Number);
    const hours = opens + (closes - opens) * (this.clock / this.desk.seconds);
    const minutes = Math.floor(hours * 60);
    return `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}`;
  }

  /** @returns {string} the score, to share */
  get score() {
    const { cost, subject } = this.desk;
    const million = cost && (cost.price * this.clock * 1e6) / 3600 / this.tokens;
    const parts = [
      `A day at the desk: ${counted(this.served, "visitor")}`,
      `${counted(this.preemptions, "preemption")} (${whole(this.again)} tokens computed again)`,
      `longest wait ${Math.round(this.longestWait)} s`,
      `${whole(this.tokens)} tokens in ${Math.round(this.clock)} s of GPU`,
    ];
    if (cost && million) {
      parts.push(
        `${this.spent}, ${cost.currency} ${million.toFixed(2)} a million tokens`,
      );
    }
    if (this.restarts) parts.push(counted(this.restarts, "restart"));
    return `${parts.join(" · ")} · ${subject}`;
  }
}
