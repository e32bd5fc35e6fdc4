// What a room's server has to tell: each answer comes when there is something new.

const PAUSE = 1000; // milliseconds, before a request that failed is sent again

/** @param {number} milliseconds */
const pause = (milliseconds) => new Promise((go) => setTimeout(go, milliseconds));

/**
 * Shows each news of an address, until its page is gone or the place in the room is.
 *
 * @param {string} address
 * @param {(state: any) => void} show
 * @param {(words: string) => void} tell what is wrong; "" where nothing is
 */
export async function follow(address, show, tell) {
  let seen = -1;
  for (;;) {
    try {
      const answer = await fetch(`${address}?seen=${seen}`, { cache: "no-store" });
      if (answer.status === 403 || answer.status === 404) {
        tell("This page has no place in the room any more. Load it again.");
        return;
      }
      if (answer.ok) {
        const state = await answer.json();
        seen = state.version;
        tell("");
        show(state);
        continue;
      }
    } catch {
      tell("The room does not answer; trying again.");
    }
    await pause(PAUSE);
  }
}

/**
 * Sends a value; returns whether it was taken.
 *
 * @param {string} address @param {object} value
 */
export async function send(address, value) {
  try {
    const answer = await fetch(address, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(value),
    });
    return answer.ok;
  } catch {
    return false;
  }
}

/** The address of the page, without query and fragment. */
export const here = () => window.location.pathname.replace(/\/$/, "");
