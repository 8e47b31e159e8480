// A release from the page: said first, confirmed by a word that is typed, done by the command line.

import { Refused, get, post } from "./api.js";
import { actions, dialog, tell } from "./dialogs.js";
import { announce, field, h, select } from "./dom.js";
import { saved, state } from "./store.js";

const UNKNOWN = "It is not known whether it was released: look at the ledger, or for the folder, before you try again.";
const ENDED = { done: "Released.", failed: "Not released.", cancelled: "Stopped.", unknown: UNKNOWN };
// Milliseconds: between looks, for one answer, and without any before nothing more is hoped for.
const [PAUSE, ANSWER, PATIENCE] = [300, 5000, 20000];

export async function askRelease() {
  if (!saved()) {
    await tell("Save first", "A release is of a study that is saved: save this one, then release it.");
    return;
  }
  if (!state.data.length) {
    await tell("No data were named", `The page releases only data that were named when the studio was started. Stop it, and start it again with them: noiseplan studio ${state.file.name} --data FILE`);
    return;
  }
  const wish = { data: state.data[0], out: state.design.output?.folder ?? "out" };
  let wrong = "";
  const plan = await dialog("Release", (close, redraw) => {
    const set = (key) => (event) => { wish[key] = event.target.value; };
    const submit = async (event) => {
      event.preventDefault();
      try {
        close(await post("/api/release/ask", { text: state.text, name: state.file.name, data: wish.data, out: wish.out.trim() }));
      } catch (error) {
        wrong = error.message;
        redraw();
      }
    };
    return h("form", { method: "dialog", onsubmit: submit },
      h("p", {}, "A release reads the data and spends the budget, once and for good. The page itself never reads data: the command line does it, with the ledger that the study names. Nothing happens yet."),
      field("Data", select({ onchange: set("data"), "data-first": true, key: "release-data" }, wish.data, state.data.map((each) => [each, each])), { hint: "As named when the studio was started.", wide: true }),
      field("Into the folder", h("input", { value: wish.out, required: true, oninput: set("out"), key: "release-out", autocomplete: "off" }), { hint: "It must be new, or empty.", wide: true }),
      wrong ? h("p", { class: "wrong", role: "alert" }, wrong) : null,
      actions(h("button", { class: "main" }, "What would happen?"), h("button", { type: "button", onclick: () => close() }, "Cancel")));
  });
  if (plan) await confirmRelease(plan);
}

/** The second confirmation, apart from the first: a word to be typed. */
async function confirmRelease(plan) {
  let [typed, wrong] = ["", ""];
  const word = plan.word ?? plan.typed ?? "release";
  const job = await dialog("Spend the budget?", (close, redraw) => {
    const submit = async (event) => {
      event.preventDefault();
      try {
        close(await post("/api/release/confirm", { nonce: plan.nonce, typed: typed.trim() }, { twice: false }));
      } catch (error) {
        // Without an answer nobody knows whether it began.
        wrong = error instanceof Refused && error.status < 500 ? error.message : UNKNOWN;
        redraw();
      }
    };
    return h("form", { method: "dialog", onsubmit: submit },
      h("ul", { class: "words" }, plan.words.map((each) => h("li", {}, each))),
      field(`Type “${word}” to go on`, h("input", { value: "", oninput: (event) => { typed = event.target.value; redraw(); }, key: "release-word", autocomplete: "off", spellcheck: "false" }), { wide: true }),
      wrong ? h("p", { class: "wrong", role: "alert" }, wrong) : null,
      actions(h("button", { class: "danger", disabled: typed.trim() !== word, key: "release-go" }, "Release"), h("button", { type: "button", "data-first": true, onclick: () => close() }, "Cancel")));
  });
  if (job) await watchRelease(job.job);
}

async function watchRelease(number) {
  let now = { state: "running", progress: null };
  let open = true;
  const shownBox = dialog("Release", (close, redraw) => {
    if (now.state === "running" && now.progress === null) follow(number, (step) => { now = step; if (open) redraw(); });
    const result = now.result ?? {};
    return [
      h("p", { role: "status" }, ENDED[now.state] ?? "Counting, adding noise, writing… This window may be closed; the release goes on."),
      result.output || now.error ? h("pre", { tabindex: "0", class: "scroll" }, result.output ?? now.error?.message) : null,
      now.state in ENDED ? null : h("progress", { "aria-label": "Releasing" }),
    ];
  }, { wide: true });
  await shownBox;
  open = false;
}

/** Look until it is over. A call that fails says nothing of the release, which goes on meanwhile. */
async function follow(number, tellStep) {
  for (let heard = Date.now(); ;) {
    const now = await look(number, Date.now() - heard > PATIENCE);
    if (now) {
      heard = Date.now();
      tellStep({ ...now, progress: now.progress ?? {} });
      if (now.state in ENDED) {
        announce(ENDED[now.state]);
        return;
      }
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

/** How it stands; null where nobody answered, and "unknown" where nobody will. */
async function look(number, last) {
  try {
    return await get(`/api/jobs/${number}`, { twice: false, signal: AbortSignal.timeout(ANSWER) });
  } catch (error) {
    const forgotten = error instanceof Refused && error.status === 404;  // by a server started again
    return last || forgotten ? { state: "unknown" } : null;
  }
}
