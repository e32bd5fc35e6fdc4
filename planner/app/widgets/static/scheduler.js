// vLLM's scheduler and its KV cache, one step after the other: requests take blocks,
// share prefixes, wait, are preempted and come back. Left out: priorities, speculation,
// an encoder's blocks, hits inside a block, the watermark, and asynchronous scheduling,
// with which a window gives up a block one token later.
//
// Source: vLLM 0.33.0 `v1/core/sched/scheduler.py` Scheduler.schedule (running requests
// first, in the order of their arrival; without a free block the last of them is
// preempted; waiting requests start only in a step without a preemption) and
// _preempt_request; `v1/core/kv_cache_manager.py` KVCacheManager.allocate_slots.

import { longestHit } from "./scheduler_hits.js";
import { saves, tableOf } from "./scheduler_states.js";
import { Pool } from "./scheduler_tables.js";

/**
 * @typedef {import("./scheduler_tables.js").Rule} Rule
 * @typedef {import("./scheduler_tables.js").Cached} Cached
 *
 * @typedef {object} Arrival
 * @property {string} name
 * @property {number} prompt tokens
 * @property {number} answer tokens
 * @property {number} shared tokens of the prompt with which all others begin too
 *
 * @typedef {object} Engine
 * @property {Rule[]} rules of the groups of layers, one each
 * @property {number} blocks without the one that vLLM keeps empty
 * @property {number} seqs max_num_seqs
 * @property {number} batched max_num_batched_tokens
 * @property {boolean} caching enable_prefix_caching
 * @property {number} longest tokens of a request
 *
 * @typedef {{ what: "waits" | "starts" | "preempted" | "finished", one: Request,
 *   blocks: number, tokens: number }} Event blocks that are free, or that it frees; tokens
 *   that it finds in the cache, or that it had there
 */

/** @param {number} a @param {number} b @returns {number} */
const common = (a, b) => (b ? common(b, a % b) : a);

/** A request, as far as it is. */
export class Request {
  /** @param {Arrival} arrival */
  constructor({ name, prompt, answer, shared }) {
    this.name = name;
    this.prompt = prompt;
    this.total = prompt + answer;
    this.shared = shared;
    this.known = prompt; // tokens: the prompt, and the answer so far
    this.computed = 0; // tokens in the cache
    this.preemptions = 0;
    this.junction = 0; // tokens that some groups have stored and others have not
    this.told = false; // whether an event said that it waits
    /** @type {"waiting" | "running" | "preempted" | "finished"} */
    this.phase = "waiting";
  }

  /** The tokens of its prompt of which another request can find all. */
  get lastBoundary() {
    return this.prompt - 1;
  }

  /** The tokens that are known before the next one is drawn. */
  get prefillEnd() {
    return Math.max(this.prompt, this.known - 1);
  }

  /** @param {number} end @returns whose its first `end` tokens are; "": everybody's */
  whose(end) {
    return end <= this.shared ? "" : this.name;
  }
}

export class Scheduler {
  /** @param {Engine} engine */
  constructor({ rules, blocks, seqs, batched, caching, longest }) {
    this.seqs = seqs;
    this.batched = batched;
    this.pool = new Pool(blocks, caching);
    this.aligned = rules.reduce((all, { size }) => (all / common(all, size)) * size, 1);
    this.tables = rules.map((rule, group) =>
      tableOf(this.pool, rule, group, { aligned: this.aligned, batched, longest }),
    );
    this.splits = rules.some(({ reused }) => reused);
    /** @type {Request[]} */
    this.waiting = [];
    /** @type {Request[]} */
    this.running = [];
    /** @type {Event[]} of the step before */
    this.events = [];
    /** @type {Map<Request, number>} tokens that it computed */
    this.scheduled = new Map();
  }

  /** @param {Request} one that arrives */
  add(one) {
    this.waiting.push(one);
  }

  /** The blocks that requests use. */
  get used() {
    return this.pool.blocks.length - this.pool.free.length;
  }

  /** Makes a step, and draws a token where all that is known is computed. */
  step() {
    this.events = [];
    this.scheduled = new Map();
    for (const table of this.tables) table.newStep();
    if (!this.run()) this.admit();
    for (const one of [...this.running]) {
      const tokens = this.scheduled.get(one);
      one.computed += tokens ?? 0;
      if (tokens === undefined || one.computed !== one.known) continue;
      one.known += 1;
      if (one.known >= one.total) this.finish(one);
    }
  }

  /** Lets running requests go on; returns whether one was preempted. */
  run() {
    let wasFull = false;
    for (const one of [...this.running]) {
      if (!this.running.includes(one)) continue;
      const tokens = this.chunk(one, one.computed);
      if (!tokens) continue;
      while (!this.allocate(one, tokens)) {
        wasFull = true;
        const last = /** @type {Request} */ (this.running.pop());
        this.preempt(last);
        if (last === one) return true;
      }
      this.scheduled.set(one, tokens);
    }
    return wasFull;
  }

  /** Starts requests that wait, the first to come first. */
  admit() {
    while (this.waiting.length && this.running.length < this.seqs) {
      const [one] = this.waiting;
      /** @type {Cached} */
      let found = { rows: this.tables.map(() => []), tokens: 0, junction: 0 };
      if (this.pool.caching) {
        found = longestHit(this.tables, one, this.aligned);
        one.junction = found.junction;
      }
      const tokens = this.chunk(one, found.tokens);
      if (!tokens) return;
      if (!this.allocate(one, tokens, found)) {
        if (!one.told) this.tell("waits", one, this.pool.free.length);
        one.told = true;
        return;
      }
      this.waiting.shift();
      this.scheduled.set(one, tokens);
      this.tell("starts", one, 0, found.tokens);
      one.phase = "running";
      one.told = false;
      one.computed = found.tokens;
      this.running.push(one);
    }
  }

  /** Returns the tokens of a request that this step computes, from `begin` on. */
  chunk(/** @type {Request} */ one, /** @type {number} */ begin) {
    let taken = 0;
    for (const tokens of this.scheduled.values()) taken += tokens;
    const tokens = Math.min(one.known - begin, this.batched - taken);
    return this.splits && tokens ? this.split(one, begin, tokens) : tokens;
  }

  /**
   * Ends a part of a prompt where a state is stored.
   *
   * Source: vLLM 0.33.0 `v1/core/sched/scheduler.py` _mamba_block_aligned_split.
   *
   * @param {Request} one @param {number} begin @param {number} tokens
   */
  split(one, begin, tokens) {
    let end = begin + tokens;
    const size = this.aligned;
    if (begin >= one.prefillEnd) return tokens;
    const place = Math.floor((one.prefillEnd - 1) / size) * size;
    const isSaved =
      this.tables.every(({ rule }) => rule.kind !== "state" || rule.saved) &&
      end >= one.prefillEnd &&
      saves(begin, end, size) &&
      begin < place &&
      place < end;
    if (end < one.prefillEnd) {
      const whole = Math.floor(end / size) * size;
      if (whole > begin || size <= this.batched) end = whole;
    }
    const stops = [end, isSaved ? 0 : Math.floor((one.known - 1) / size) * size];
    if (begin % size && !isSaved) stops.push((Math.floor(begin / size) + 1) * size);
    if (begin < one.junction && one.junction < end) {
      stops.push(begin + Math.floor((one.junction - begin) / size) * size);
    }
    const inside = stops.filter((stop) => begin < stop && stop <= end);
    return Math.max(Math.min(...inside, end) - begin, 0);
  }

  /**
   * Gives a request the blocks for its next tokens; false without enough.
   *
   * @param {Request} one @param {number} tokens @param {Cached} [found] of its beginning
   */
  allocate(one, tokens, found) {
    const { tables } = this;
    const begin = one.computed + (found?.tokens ?? 0);
    const lacks = (/** @type {number} */ end, isAdmission = false) => {
      const needed = tables.map((table, at) =>
        table.missing(one, end, found?.rows[at] ?? [], begin, isAdmission),
      );
      return needed.reduce((sum, each) => sum + each, 0) > this.pool.free.length;
    };
    if (found && lacks(one.known, true)) return false;
    for (const table of tables) table.drop(one, begin);
    if (lacks(begin + tokens)) return false;
    if (found?.rows.some((row) => row.length)) {
      tables.forEach((table, at) => {
        table.adopt(one, found.rows[at], found.tokens);
      });
    }
    const whole = Math.floor((begin + tokens) / this.aligned) * this.aligned;
    for (const table of tables) {
      table.grow(one, begin + tokens);
      if (this.pool.caching) table.store(one, whole);
    }
    return true;
  }

  /** Its blocks are freed, nothing counts as computed, it waits in front of others. */
  preempt(/** @type {Request} */ one) {
    this.tell("preempted", one, this.free(one), one.computed);
    one.phase = "preempted";
    one.computed = 0;
    one.preemptions += 1;
    this.waiting.unshift(one);
  }

  finish(/** @type {Request} */ one) {
    this.running.splice(this.running.indexOf(one), 1);
    one.phase = "finished";
    this.tell("finished", one, this.free(one));
  }

  free(/** @type {Request} */ one) {
    return this.tables.reduce((sum, table) => sum + table.release(one), 0);
  }

  /** @param {Event["what"]} what @param {Request} one @param {number} blocks */
  tell(what, one, blocks, tokens = 0) {
    this.events.push({ what, one, blocks, tokens });
  }
}
