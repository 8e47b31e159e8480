// What each table costs the others: by how much their errors fall if it is left out.

import { plainBar } from "./bars.js";
import { announce, h } from "./dom.js";
import { run } from "./jobs.js";
import { percent } from "./numbers.js";
import { askedOf } from "./plans.js";
import { changed, plannable, state } from "./store.js";

const effects = { state: "idle", list: [], asked: null, error: "", progress: null };
let abort = null;

async function find() {
  abort?.abort();
  const mine = new AbortController();
  abort = mine;
  Object.assign(effects, { state: "running", list: [], asked: askedOf(state.design), error: "", progress: null });
  changed();
  const step = (now) => {
    effects.list = now.result ?? effects.list;
    effects.progress = now.progress;
    changed();
  };
  try {
    const ended = await run({ kind: "effects", text: state.text, client: `${state.client}-effects` }, { onStep: step, signal: mine.signal });
    Object.assign(effects, { state: ended.state === "failed" ? "failed" : "idle", error: ended.error?.message ?? "" });
    announce(ended.state === "done" ? "The effect of each table on the others is known." : effects.error);
  } catch (error) {
    if (mine.signal.aborted) effects.state = "cancelled";
    else Object.assign(effects, { state: "failed", error: error.message });
  }
  changed();
}

export function effectsBox() {
  const now = effects.asked === askedOf(state.design);
  const running = effects.state === "running" && now;
  const list = now ? [...effects.list].sort((a, b) => (b.gain ?? 0) - (a.gain ?? 0)) : [];
  const most = Math.max(0.01, ...list.map((each) => each.gain ?? 0));
  return h("details", { key: "effects" }, h("summary", {}, "What each table costs the others"),
    h("p", { class: "muted" }, "Each entry of the tables is left out in turn, at the same budget, and the rest planned again."),
    h("div", { class: "actions" }, running
      ? [h("button", { type: "button", onclick: () => abort.abort(), key: "effects-go" }, "Cancel"), h("span", { class: "muted" }, effects.progress?.message ?? "…")]
      : h("button", { type: "button", onclick: find, disabled: !plannable(), key: "effects-go" }, list.length ? "Find again" : "Find out")),
    now && effects.error ? h("p", { class: "wrong", role: "alert" }, effects.error) : null,
    list.length ? h("ul", { class: "effects" }, list.map((each) => h("li", { key: `effect:${each.section}:${each.index}` },
      h("span", {}, "Without ", h("bdi", {}, h("b", {}, each.name)), `: ${gainWords(each)}`), plainBar(each.gain ?? 0, most, "gain")))) : null);
}

function gainWords({ gain, what }) {
  if (gain < 0.0005) return "nothing is gained; it comes for free";
  if (what === "privacy") return `the cost falls by ${percent(gain, 2)}`;
  return `all others gain ${percent(gain, 2)}`;
}
