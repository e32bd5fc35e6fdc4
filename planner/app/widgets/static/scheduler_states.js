// The tables of groups whose layers store a state of each request: a block holds a whole
// one. With prefix caching vLLM also keeps the states at the ends of some blocks, which
// other requests with the same beginning start from.
//
// Source: vLLM 0.33.0 `v1/core/single_type_kv_cache_manager.py` MambaManager.

import { NEVER, Table, unused, WindowTable } from "./scheduler_tables.js";

/**
 * @typedef {import("./scheduler.js").Request} Request
 * @typedef {import("./scheduler_tables.js").Pool} Pool
 * @typedef {import("./scheduler_tables.js").Row} Row
 * @typedef {import("./scheduler_tables.js").Rule} Rule
 */

/** The states of requests, one each. */
class StateTable extends Table {
  /** @param {number} computed */
  skipped(computed) {
    return computed - 1;
  }
}

/** The states of requests, and those that other requests can start from. */
class ReusedStateTable extends StateTable {
  /** @type {Map<string, number>} */
  before = new Map();
  /** @type {Map<string, number>} */
  retired = new Map();
  /** @type {Map<string, [number, number]>} */
  saved = new Map();
  /** @type {Set<string>} */
  fresh = new Set(); // keys of states that are written in this step

  newStep() {
    this.fresh.clear();
  }

  /**
   * @param {Request} one @param {number} tokens @param {Row} found
   * @param {number} computed @param {boolean} isAdmission
   */
  missing(one, tokens, found, computed, isAdmission) {
    // A state that is written in this step can be read in the next one only.
    if (this.fresh.has(found.at(-1)?.key ?? "")) return NEVER;
    const whole = Math.ceil(tokens / this.size);
    const saved = this.saves(one, tokens, computed);
    if (!isAdmission) {
      this.saved.delete(one.name);
      if (saved) this.saved.set(one.name, [saved, whole - 2]);
    }
    const more = whole - found.length - this.of(one).length;
    return Math.min(more, saved ? 2 : 1) + unused(found);
  }

  /** @param {Request} one @param {number} tokens */
  grow(one, tokens) {
    const row = this.of(one);
    const needed = Math.ceil(tokens / this.size);
    const saving = this.saved.has(one.name) ? 1 : 0;
    if (needed <= row.length && !saving) return;
    if (row.length) this.before.set(one.name, row.length - 1);
    const gap = Math.max(needed - 1 - saving - row.length, 0);
    row.push(...Array(gap).fill(null));
    this.take(one, needed - row.length);
  }

  /** @param {Request} one @param {number} computed */
  drop(one, computed) {
    const row = this.blocks.get(one.name) ?? [];
    const begin = this.retired.get(one.name) ?? 0;
    const end = Math.min(Math.floor(this.skipped(computed) / this.size), row.length);
    if (begin < end) {
      this.give(one, begin, end);
      this.retired.set(one.name, end);
    }
    const before = this.before.get(one.name) ?? Infinity;
    if (before < Math.ceil(computed / this.size) - 1) {
      this.give(one, before, before + 1);
    }
  }

  /** @param {Request} one @param {number} begin @param {number} end */
  give(one, begin, end) {
    const row = this.of(one);
    const freed = row.slice(begin, end).reverse();
    row.fill(null, begin, end);
    this.pool.release(freed, one.name);
  }

  /** @param {Request} one @param {number} tokens */
  store(one, tokens) {
    const begin = this.done.get(one.name) ?? 0;
    super.store(one, tokens);
    this.storeSaved(one);
    for (const block of this.of(one).slice(begin, this.done.get(one.name))) {
      if (block?.key) this.fresh.add(block.key);
    }
  }

  /**
   * Stores the state that a kernel saves inside a prompt, at the end of a block.
   *
   * Source: vLLM 0.33.0 `v1/core/single_type_kv_cache_manager.py`
   * MambaManager._cache_partial_tail_block.
   *
   * @param {Request} one
   */
  storeSaved(one) {
    const [saved, place] = this.saved.get(one.name) ?? [0, 0];
    const block = saved ? this.of(one)[place] : null;
    if (!block) return;
    const last = Math.floor(one.lastBoundary / this.size) * this.size;
    const key = this.key(one, saved);
    if (saved !== last && saved !== one.junction) this.pool.forget(block);
    else if (block.key !== key) {
      this.pool.store(block, key);
      this.fresh.add(key);
    }
  }

  /** @param {Request} one */
  release(one) {
    for (const kept of [this.before, this.retired, this.saved]) kept.delete(one.name);
    return super.release(one);
  }

  /**
   * Returns the tokens after which a kernel saves the state; 0: it saves none.
   *
   * Source: vLLM 0.33.0 `v1/core/single_type_kv_cache_manager.py`
   * MambaManager._needs_internal_checkpoint.
   *
   * @param {Request} one @param {number} tokens @param {number} computed
   */
  saves(one, tokens, computed) {
    const place = Math.ceil(tokens / this.size) - 2;
    const isSaved =
      this.rule.saved &&
      tokens >= one.prefillEnd &&
      saves(computed, tokens, this.size) &&
      !this.blocks.get(one.name)?.[place];
    return isSaved ? (place + 1) * this.size : 0;
  }

  /**
   * Keeps the state at the end of the prompt, and at a junction.
   *
   * Source: vLLM 0.33.0 `v1/core/single_type_kv_cache_manager.py`
   * MambaManager.reachable_block_mask.
   *
   * @param {Request} one @param {number} place
   */
  isKept(one, place) {
    return this.ends(one).some(
      (tokens) => Math.floor(tokens / this.size) - 1 === place,
    );
  }
}

/**
 * Returns whether a kernel can save the last state at the end of a block, in a chunk.
 *
 * Source: vLLM 0.33.0 `v1/kv_cache_interface.py` is_mamba_prefill_checkpoint_valid, where
 * blocks are a multiple of the alignment that it asks for.
 *
 * @param {number} begin @param {number} end @param {number} size
 */
export function saves(begin, end, size) {
  const place = Math.floor((end - 1) / size) * size;
  return (
    begin % size === 0 &&
    Math.ceil(end / size) - 2 > Math.floor((begin - 1) / size) &&
    begin + size <= place &&
    begin < place &&
    place < end
  );
}

/**
 * Returns the table of a group.
 *
 * Source: vLLM 0.33.0 `v1/kv_cache_interface.py` SlidingWindowSpec and
 * ChunkedLocalAttentionSpec, max_admission_blocks_per_request.
 *
 * @param {Pool} pool @param {Rule} rule @param {number} group
 * @param {{ aligned: number, batched: number, longest: number }} engine
 */
export function tableOf(pool, rule, group, { aligned, batched, longest }) {
  const { kind, kept, size, reused } = rule;
  if (kind === "full") return new Table(pool, rule, group, aligned, NEVER);
  if (kind === "state") {
    const Kind = reused ? ReusedStateTable : StateTable;
    return new Kind(pool, rule, group, aligned, NEVER);
  }
  const more = kind === "window" ? 1 : 0;
  const most = Math.ceil(Math.min(kept - more + batched, longest) / size) + more;
  return new WindowTable(pool, rule, group, aligned, most);
}
