// What a KV cache has of a request's beginning: the longest prefix of all groups.
//
// Source: vLLM 0.33.0 `v1/core/kv_cache_coordinator.py` HybridKVCacheCoordinator;
// `v1/core/single_type_kv_cache_manager.py` find_longest_cache_hit of each manager.

/**
 * @typedef {import("./scheduler.js").Request} Request
 * @typedef {import("./scheduler_tables.js").Table} Table
 * @typedef {import("./scheduler_tables.js").Row} Row
 * @typedef {import("./scheduler_tables.js").Cached} Cached
 *
 * @typedef {(number | null)[]} Places for each block, its number from 1 where it is used
 */

/** @param {number} begin @param {number} end @returns {Places} */
const from = (begin, end) =>
  Array.from({ length: Math.max(end - begin, 0) }, (_, at) => begin + at + 1);

/**
 * Returns what all groups have of a request, without its last token: that one is computed
 * again, for its logits.
 *
 * @param {Table[]} tables @param {Request} one @param {number} aligned
 * @returns {Cached}
 */
export function longestHit(tables, one, aligned) {
  const parts = alike(tables);
  const isSimple = parts.length === 2 && parts[0][0].rule.kind === "full";
  /** @type {Row[]} */
  const rows = [];
  let tokens = one.known - 1;
  let longest = 0;
  for (;;) {
    let current = tokens;
    for (const part of parts) {
      const [{ group, size, rule }] = part;
      if (rule.kind === "full" && rows[group]) {
        current = Math.min(current, rows[group].length * size);
        continue;
      }
      current = search(part, one, current, aligned, rows);
      longest = Math.max(longest, current);
    }
    if (current >= tokens) break;
    tokens = current;
    if (isSimple) break;
  }
  for (const { group, rule, size } of tables) {
    if (rule.kind === "full") rows[group].splice(Math.ceil(tokens / size));
  }
  return { rows, tokens, junction: longest > tokens ? longest : 0 };
}

/** @param {Table[]} tables @returns those of one rule together, full ones first */
function alike(tables) {
  /** @type {Map<string, Table[]>} */
  const parts = new Map();
  for (const table of tables) {
    const rule = JSON.stringify(table.rule);
    parts.set(rule, [...(parts.get(rule) ?? []), table]);
  }
  const isLater = (/** @type {Table[]} */ [{ rule }]) => Number(rule.kind !== "full");
  return [...parts.values()].sort((a, b) => isLater(a) - isLater(b));
}

/**
 * Finds the longest prefix of some groups of one rule; returns its tokens.
 *
 * @param {Table[]} part @param {Request} one @param {number} most @param {number} aligned
 * @param {Row[]} rows
 */
function search(part, one, most, aligned, rows) {
  const { kind, kept } = part[0].rule;
  const { size } = part[0];
  const last = Math.floor(most / size);
  /** Whether all groups have a block, by its number from 1. */
  const has = (/** @type {number} */ place) =>
    part.every((table) => table.pool.find(table.key(one, place * size)));
  const isEnd = (/** @type {number} */ place) => (place * size) % aligned === 0;
  const places = {
    full: () => ofEveryToken(has, last, size, aligned),
    window: () => ofWindow(has, last, Math.ceil((kept - 1) / size), isEnd),
    chunk: () =>
      ofChunk(has, last, Math.floor((Math.floor(most / kept) * kept) / size)),
    state: () => ofState(has, last, isEnd),
  }[kind]();
  for (const table of part) {
    rows[table.group] = places.map((place) =>
      place === null ? null : (table.pool.find(table.key(one, place * size)) ?? null),
    );
  }
  return places.length * size;
}

/** @typedef {(place: number) => boolean} Test */

/**
 * @param {Test} has @param {number} last @param {number} size @param {number} aligned
 * @returns {Places}
 */
function ofEveryToken(has, last, size, aligned) {
  let places = 0;
  while (places < last && has(places + 1)) places += 1;
  const tokens = Math.floor((places * size) / aligned) * aligned;
  return from(0, Math.ceil(tokens / size));
}

/**
 * From the right: so many blocks in a row as a window needs, or all to the left.
 *
 * @param {Test} has @param {number} last @param {number} needed @param {Test} isEnd
 * @returns {Places}
 */
function ofWindow(has, last, needed, isEnd) {
  let end = 0;
  let run = 0;
  for (let place = last; place > 0; place -= 1) {
    if (!has(place)) run = 0;
    else if (run || isEnd(place)) {
      if (!run) end = place;
      run += 1;
      if (run >= needed)
        return [...Array(end - run).fill(null), ...from(end - run, end)];
    }
  }
  while (!isEnd(run)) run -= 1;
  return from(0, run);
}

/**
 * Nothing of the chunks before the last one is needed.
 *
 * @param {Test} has @param {number} last @param {number} begin @returns {Places}
 */
function ofChunk(has, last, begin) {
  let end = begin;
  while (end < last && has(end + 1)) end += 1;
  return [...Array(begin).fill(null), ...from(begin, end)];
}

/**
 * The last state that is there.
 *
 * @param {Test} has @param {number} last @param {Test} isEnd @returns {Places}
 */
function ofState(has, last, isEnd) {
  for (let place = last; place > 0; place -= 1) {
    if (isEnd(place) && has(place)) return [...Array(place - 1).fill(null), place];
  }
  return [];
}
