// The blocks of a KV cache, and the table of blocks of each group of layers. All groups
// take their blocks from one pool; a group's rule says which blocks a request needs,
// which it no longer needs, and which are kept for other requests.
//
// Source: vLLM 0.33.0 `v1/core/block_pool.py` BlockPool;
// `v1/core/single_type_kv_cache_manager.py` FullAttentionManager, SlidingWindowManager,
// ChunkedLocalAttentionManager and MambaManager.

/**
 * @typedef {import("./scheduler.js").Request} Request
 *
 * @typedef {object} Rule how a group of layers uses blocks
 * @property {"full" | "window" | "chunk" | "state"} kind what it stores
 * @property {number} size tokens of a block
 * @property {number} kept tokens of a window or a chunk
 * @property {boolean} reused of states: whether those at the ends of blocks are kept
 * @property {boolean} saved of such states: whether a kernel also saves one in a prompt
 *
 * @typedef {object} Block
 * @property {number} index from 1
 * @property {string[]} owners
 * @property {string} key under which other requests find it
 * @property {number} group
 *
 * @typedef {(Block | null)[]} Row of blocks; null for one that is not needed
 * @typedef {{ rows: Row[], tokens: number, junction: number }} Cached
 */

export const NEVER = 2 ** 50;

/** All blocks; those that are free lie in the order in which they are taken. */
export class Pool {
  /** @param {number} count @param {boolean} caching */
  constructor(count, caching) {
    this.caching = caching;
    /** @type {Block[]} */
    this.blocks = Array.from({ length: count }, (_, at) => {
      return { index: at + 1, owners: [], key: "", group: 0 };
    });
    this.free = [...this.blocks];
    /** @type {Map<string, Map<number, Block>>} */
    this.stored = new Map();
  }

  /** @param {number} count @param {string} owner @param {number} group */
  take(count, owner, group) {
    const taken = this.free.splice(0, count);
    for (const block of taken) {
      this.forget(block);
      block.owners = [owner];
      block.group = group;
    }
    return taken;
  }

  /** @param {string} key @returns {Block | undefined} the first that is stored there */
  find(key) {
    return this.stored.get(key)?.values().next().value;
  }

  /** @param {Row} row of blocks that were found @param {string} owner */
  touch(row, owner) {
    for (const block of row) {
      if (!block) continue;
      if (!block.owners.length) this.free.splice(this.free.indexOf(block), 1);
      block.owners.push(owner);
    }
  }

  /** @param {Block} block that others find from now on @param {string} key */
  store(block, key) {
    if (block.key === key) return;
    this.forget(block);
    block.key = key;
    const held = this.stored.get(key) ?? new Map();
    this.stored.set(key, held.set(block.index, block));
  }

  /** @param {Block} block */
  forget(block) {
    const held = this.stored.get(block.key);
    held?.delete(block.index);
    if (held && !held.size) this.stored.delete(block.key);
    block.key = "";
  }

  /**
   * Frees blocks, those to take first in front: one that can be found goes to the end of
   * the line. Returns how many are free now.
   *
   * @param {Row} row @param {string} owner
   */
  release(row, owner) {
    /** @type {Block[]} */
    const first = [];
    /** @type {Block[]} */
    const last = [];
    for (const block of row) {
      if (!block) continue;
      block.owners.splice(block.owners.indexOf(owner), 1);
      if (!block.owners.length) (this.caching && block.key ? last : first).push(block);
    }
    if (first.length) this.free.unshift(...first);
    this.free.push(...last);
    return first.length + last.length;
  }
}

/** @param {Row} row @returns how many are free: they are no longer, once they are used */
export const unused = (row) =>
  row.filter((block) => block && !block.owners.length).length;

/** The blocks of each request in a group whose layers store every token. */
export class Table {
  /**
   * @param {Pool} pool of all groups
   * @param {Rule} rule @param {number} group its number
   * @param {number} aligned tokens of which a hit is a multiple
   * @param {number} most blocks of one request, for which its admission is checked
   */
  constructor(pool, rule, group, aligned, most) {
    this.pool = pool;
    this.rule = rule;
    this.group = group;
    this.size = rule.size;
    this.aligned = aligned;
    this.most = most;
    /** @type {Map<string, Row>} */
    this.blocks = new Map();
    /** @type {Map<string, number>} */
    this.done = new Map(); // blocks of a request that were stored, or were found
  }

  newStep() {}

  /** @param {number} _computed @returns the tokens in front that are needed no longer */
  skipped(_computed) {
    return 0;
  }

  /** @param {Request} one @returns {Row} */
  of(one) {
    const row = this.blocks.get(one.name) ?? [];
    this.blocks.set(one.name, row);
    return row;
  }

  /** @param {Request} one @param {number} end @returns under what a block is found */
  key(one, end) {
    return `${this.group} ${one.whose(end)} ${end}`;
  }

  /**
   * Returns the free blocks that a request needs to have so many tokens.
   *
   * @param {Request} one
   * @param {number} tokens that need room, those that have it included
   * @param {Row} found its blocks that other requests left
   * @param {number} computed tokens that are or were computed
   * @param {boolean} isAdmission whether its whole prompt must fit
   */
  missing(one, tokens, found, computed, isAdmission) {
    const whole = Math.ceil(tokens / this.size);
    const needed = isAdmission ? Math.min(whole, this.most) : whole;
    const has = this.blocks.get(one.name)?.length ?? 0;
    if (this.done.has(one.name)) return Math.max(needed - has, 0);
    const skipped = Math.floor(this.skipped(computed) / this.size);
    return (
      Math.max(needed - Math.max(skipped, found.length + has), 0) +
      unused(found.slice(Math.max(0, skipped - has)))
    );
  }

  /** @param {Request} one @param {Row} found @param {number} computed */
  adopt(one, found, computed) {
    const skipped = Math.max(Math.floor(this.skipped(computed) / this.size), 0);
    const used = found.slice(skipped);
    this.pool.touch(used, one.name);
    const row = [...Array(skipped).fill(null), ...used];
    this.blocks.set(one.name, row);
    this.done.set(one.name, row.length);
  }

  /** @param {Request} one @param {number} tokens */
  grow(one, tokens) {
    this.take(one, Math.ceil(tokens / this.size) - this.of(one).length);
  }

  /** @param {Request} one @param {number} count */
  take(one, count) {
    if (count > 0) this.of(one).push(...this.pool.take(count, one.name, this.group));
  }

  /** @param {Request} one @param {number} computed */
  drop(one, computed) {
    const row = this.blocks.get(one.name) ?? [];
    const end = Math.floor(this.skipped(computed) / this.size);
    const freed = [];
    for (let place = Math.min(end, row.length) - 1; row[place]; place -= 1) {
      freed.push(row[place]);
      row[place] = null;
    }
    this.pool.release(freed, one.name);
  }

  /** @param {Request} one @param {number} tokens whose full blocks others find */
  store(one, tokens) {
    const row = this.of(one);
    const begin = this.done.get(one.name) ?? 0;
    const end = Math.floor(tokens / this.size);
    for (let place = begin; place < end; place += 1) {
      const block = row[place];
      if (block && this.isKept(one, place)) {
        this.pool.store(block, this.key(one, (place + 1) * this.size));
      }
    }
    this.done.set(one.name, Math.max(begin, end));
  }

  /** @param {Request} one @param {number} place @returns {boolean} */
  isKept(one, place) {
    return Boolean(one) && place >= 0;
  }

  /** @param {Request} one @returns how many blocks are free now, the last one first */
  release(one) {
    const row = this.blocks.get(one.name) ?? [];
    this.done.delete(one.name);
    this.blocks.delete(one.name);
    return this.pool.release([...row].reverse(), one.name);
  }

  /** @param {Request} one @returns the ends of blocks that others need, in tokens */
  ends(one) {
    const { aligned } = this;
    return [one.lastBoundary, one.junction].map(
      (tokens) => Math.floor(tokens / aligned) * aligned,
    );
  }
}

/** The blocks of a group whose layers store a window, or a chunk, of the tokens. */
export class WindowTable extends Table {
  /** @param {number} computed */
  skipped(computed) {
    const { kind, kept } = this.rule;
    if (kind === "chunk") return Math.floor(computed / kept) * kept;
    return Math.max(0, computed - kept + 1);
  }

  /**
   * Keeps what a hit at the end of the prompt, or at a junction, needs.
   *
   * Source: vLLM 0.33.0 `v1/core/single_type_kv_cache_manager.py`
   * SlidingWindowManager.reachable_block_mask; `config/cache.py`
   * prefix_cache_retention_interval, 0 by default.
   *
   * @param {Request} one @param {number} place
   */
  isKept(one, place) {
    if (this.rule.kind === "chunk" || this.aligned % this.size) return true;
    const run = Math.ceil((this.rule.kept - 1) / this.size);
    return this.ends(one).some((tokens) => {
      const end = Math.floor(tokens / this.size);
      return end - run <= place && place < end;
    });
  }
}
