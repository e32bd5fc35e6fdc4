import assert from "node:assert/strict";
import { test } from "node:test";

import { ranked } from "#static/ranking.js";
import { table } from "./tables.js";

const { names, cases } = table("ranking_cases");
/** @type {[string, number][]} */
const rows = names.map((/** @type {string} */ name, /** @type {number} */ at) => [
  name,
  at,
]);

for (const { typed, found } of cases) {
  test(`the kernel ranks the same for ${JSON.stringify(typed)}`, () => {
    assert.deepEqual(
      ranked(typed, rows).map(([name]) => name),
      found,
    );
  });
}

test("a row keeps what it says besides its name", () => {
  const [row] = ranked("qwq", rows);
  assert.equal(row[1], names.indexOf("Qwen/QwQ-32B"));
});
