import assert from "node:assert/strict";
import { test } from "node:test";

import { decimalNumber, grouped, nearest, wholeNumber } from "#static/numbers.js";
import { table } from "./tables.js";

for (const { text, whole, decimal } of table("number_cases")) {
  test(`the kernel reads ${JSON.stringify(text)} the same`, () => {
    assert.equal(wholeNumber(text), whole);
    assert.equal(decimalNumber(text), decimal);
  });
}

test("a slider stands at the step next to what was typed", () => {
  assert.equal(nearest([1, 2, 4, 8], 5), 2);
  assert.equal(nearest([1, 2, 4, 8], 100), 3);
  assert.equal(nearest([0.5, 0.9, 0.95], 0.92), 1);
});

test("long numbers are grouped, and other texts left alone", () => {
  assert.deepEqual(["131072", "8192", "auto", "0.92"].map(grouped), [
    "131,072",
    "8192",
    "auto",
    "0.92",
  ]);
});
