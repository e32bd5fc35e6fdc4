// The phone's page and the projector's, with a server that answers as a test says.

import assert from "node:assert/strict";
import { test } from "node:test";

import "./page.js";

import room from "#static/room.js";
import screen from "#static/screen.js";
import { FakeModel, find, render } from "./page.js";

const POLL = { title: "Lesson 1", asked: "How much?", options: null };
const PHONE = {
  phase: "asked",
  round: 1,
  question: POLL,
  side: "A",
  vote: null,
  says: "",
  answer: "",
};
const BAR = {
  ...POLL,
  total: 20,
  parts: ["weights", "KV cache"].map((name) => ({ name, fill: "#fff", ink: "" })),
};

/** A server: its news come one after the other, then none; it takes every vote. */
function served(/** @type {any[]} */ news, taken = true) {
  /** @type {any[]} */
  const sent = [];
  /** @type {any} */ (globalThis).fetch = async (
    /** @type {string} */ address,
    /** @type {any} */ { body } = {},
  ) => {
    if (body) {
      sent.push([address, JSON.parse(body)]);
      return { ok: taken, status: taken ? 204 : 409 };
    }
    const state = news.shift();
    if (!state) return new Promise(() => {});
    if (typeof state === "number") return { ok: false, status: state };
    return { ok: true, status: 200, json: async () => state };
  };
  return sent;
}

const settled = () => new Promise((go) => setImmediate(go));

test("a figure is sent as it was typed, and can be changed", async () => {
  const sent = served([PHONE]);
  const { el } = render(room, new FakeModel({}));
  await settled();
  assert.equal(find(el, ".pr-asked").textContent, "How much?");
  find(el, "input").value = "<b>7 GiB";
  find(el, "form").dispatchEvent(new Event("submit"));
  await settled();
  assert.deepEqual(sent.at(-1)[1], { answer: "<b>7 GiB" });
  assert.match(find(el, "[role=status]").textContent, /counted/);
});

test("a letter is one press, and a vote that is not taken is told", async () => {
  const sent = served(
    [{ ...PHONE, question: { ...POLL, options: { a: "x", b: "y" } } }],
    false,
  );
  const { el } = render(room, new FakeModel({}));
  await settled();
  const [, second] = el.querySelectorAll(".pr-choices button");
  /** @type {HTMLElement} */ (second).click();
  await settled();
  assert.deepEqual(sent.at(-1)[1], { answer: "b" });
  assert.equal(second.getAttribute("aria-pressed"), "true");
  assert.match(find(el, "[role=status]").textContent, /not counted/);
});

test("a bar is sent without the part that is left", async () => {
  const sent = served([{ ...PHONE, question: BAR }]);
  const { el } = render(room, new FakeModel({}));
  await settled();
  assert.match(find(el, ".pr-asked").textContent, /side A/);
  find(el, "input").value = "15";
  find(el, "input").dispatchEvent(new Event("change"));
  find(el, ".planner-room > div .pp-button").click();
  await settled();
  assert.deepEqual(sent.at(-1)[1], { answer: { weights: 15 } });
});

test("the check's words come with the slips, the answer last", async () => {
  const named = { ...PHONE, phase: "slips", vote: "7", says: "you forgot the graphs" };
  served([named, { ...named, phase: "answer", answer: "3.62 GiB" }]);
  const { el } = render(room, new FakeModel({}));
  await settled();
  await settled();
  const said = find(el, "[role=status]").textContent;
  assert.match(said, /Your vote: you forgot the graphs The answer: 3.62 GiB/);
  assert.equal(el.querySelector("form"), null);
});

test("who has no place any more is told, and asks no more", async () => {
  served([403, PHONE]);
  const { el } = render(room, new FakeModel({}));
  await settled();
  await settled();
  assert.match(find(el, "[role=alert]").textContent, /Load it again/);
  assert.equal(find(el, ".pr-asked").textContent, "");
});

test("the screen shows both votes with their slips, and leads on", async () => {
  const groups = [
    { label: "within 10 % of it", count: 1, kind: "right" },
    { label: "the <whole> card", count: 3, kind: "slip" },
  ];
  const state = { phase: "slips", round: 2, places: 4, votes: 4, question: POLL };
  const sent = served([{ ...state, groups: [groups, groups], answer: "" }]);
  const given = {
    address: "http://a/room/B",
    qr: [29, "M4 4h1v1h-1z"],
    titles: ["L", "M"],
  };
  const { el } = render(screen, new FakeModel(given));
  await settled();
  const captions = [...el.querySelectorAll("caption")].map((one) => one.textContent);
  assert.deepEqual(captions, ["Vote 1", "Vote 2"]);
  assert.equal(el.querySelectorAll("tbody th")[1].textContent, "✘ the <whole> card");
  assert.equal(el.querySelectorAll("tbody td")[2].textContent, "3 of 4");
  assert.equal(find(el, ".pr-count").textContent, "4 of 4 phones voted");
  assert.equal(
    find(el, "svg").getAttribute("aria-label"),
    "QR code of http://a/room/B",
  );
  find(el, "select").value = "1";
  find(el, "button").click();
  await settled();
  assert.deepEqual(sent.at(-1)[1], { do: "ask", question: 1 });
});
