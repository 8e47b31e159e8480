// What a budget promises: the stops of its slider, and the promise of the amount chosen.

import { post } from "./api.js";
import { budgetAmount, budgetDelta, budgetOf, costMode, setBudget } from "./design.js";
import { calmly } from "./dom.js";
import { planning } from "./plans.js";
import { changed, state } from "./store.js";

const ranges = new Map();
let asked = { of: "", privacy: null };

/** The stops of the slider, once they are there. */
export function stopsOf(currency, delta) {
  const key = `${currency} ${currency === "approx_dp" ? delta : ""}`;
  if (!ranges.has(key)) {
    ranges.set(key, null);
    post("/api/privacy/range", { currency, ...(currency === "approx_dp" ? { delta } : {}) })
      .then((found) => { ranges.set(key, found.stops); changed(); })
      .catch(() => ranges.delete(key));
  }
  return ranges.get(key);
}

/** The stop nearest to an amount, in proportion. */
export function nearestStop(stops, amount) {
  const far = (stop) => Math.abs(Math.log(stop.value / amount));
  return stops.reduce((best, stop, at) => (far(stop) < far(stops[best]) ? at : best), 0);
}

/** All that a promise depends on beside the amount. */
const circumstances = (design) => ({
  neighbours: design.plan?.neighbours ?? "add-remove", noise: design.plan?.noise ?? null,
  max_rows: design.people?.max_rows ?? 1, unit: design.people ? design.people.unit ?? "person" : "record",
});

const askSoon = calmly(30, async (of, body) => {
  const privacy = await post("/api/privacy", body).catch(() => null);
  if (asked.of !== of) return;
  asked.privacy = privacy;
  changed();
});

/** The promise of what is chosen now, while it moves too; null until it is known. */
export function promised() {
  if (!state.moving && state.view?.privacy) return state.view.privacy;
  const design = state.design ?? {};
  const currency = costMode(design);
  if (currency === "targets" || currency === "reach") return planning.result?.least ? planning.result.privacy : null;
  const amount = state.moving?.value ?? budgetAmount(design);
  if (!amount) return null;
  const body = { budget: budgetOf(currency, amount, budgetDelta(design)), ...circumstances(design) };
  const of = JSON.stringify(body);
  if (asked.of !== of) {
    asked = { of, privacy: asked.privacy };
    askSoon(of, body);
  }
  return asked.privacy;
}

const three = (x) => Number(x.toPrecision(3));

/** The same cost in another currency, to three digits: where a change of currency begins. */
function sameCost(design, currency) {
  const known = state.view?.privacy ?? planning.result?.privacy;
  const delta = budgetDelta(design);
  if (!known) return { amount: currency === "zcdp" ? 0.1 : 1, delta };
  if (currency === "zcdp") return { amount: three(known.rho), delta };
  const near = known.epsilons.find((each) => each.delta === delta) ?? known.epsilons[0];
  if (currency === "approx_dp") return { amount: three(near.epsilon), delta: near.delta };
  if (currency === "gdp") return { amount: three(Math.sqrt(2 * known.rho)), delta };
  // ε of pure DP implies ρ = ε²/2: the same promise in zCDP, which an ε with δ is far above.
  return { amount: three(known.pure_epsilon ?? Math.sqrt(2 * known.rho)), delta };
}

export function takeCurrency(design, currency) {
  const { amount, delta } = sameCost(design, currency);
  delete design.targets;
  if (design.plan) {
    delete design.plan.at_most;
    // A noise that was asked for need not go with another currency.
    if (design.plan.noise && design.plan.noise !== "discrete") delete design.plan.noise;
  }
  if (design.plan && !Object.keys(design.plan).length) delete design.plan;
  setBudget(design, currency, amount, delta);
}
