// The plan of the design that is open: made in the background after each change, and scaled at once
// while only the budget moves.

import { calmly, announce } from "./dom.js";
import { run } from "./jobs.js";
import { shown, widthFactor } from "./numbers.js";
import { changed, plannable, state } from "./store.js";

export const planning = {
  state: "idle", // or "running", "failed", "cancelled"
  progress: null, error: null,
  result: null, text: null, asked: null, budget: null, // the last plan, its text, what that asks and may cost
};
let abort = null;

/** The level of the intervals, half of which every ± of the page is; null: that of the targets, or 95 %. */
export const reading = { level: null };
export const LEVELS = [["0.9", "90 %"], ["0.95", "95 %"], ["0.99", "99 %"]];

export function readLevel() {
  const targets = typeof state.design?.targets === "object" ? Object.values(state.design.targets) : [];
  return reading.level ?? targets.find((target) => target.half_width !== undefined)?.level ?? 0.95;
}

/** The levels to choose from, among them one that the file has. */
export const levelsWith = (level) => (LEVELS.some(([value]) => Number(value) === level) ? LEVELS : [[String(level), `${shown(100 * level)} %`], ...LEVELS]);

/** What turns a standard error of a plan into its ±, half of the interval at that level. */
export const half = (result) => widthFactor(readLevel(), result.privacy.pure_epsilon !== null);

export const levelWords = () => `${shown(100 * readLevel())} %`;

/** All that decides a plan but the amount of the budget. */
export function askedOf(design) {
  const { schema, tables, predicates, plan, people, targets, budget } = design ?? {};
  return JSON.stringify([schema, tables, predicates, plan, people, targets, Object.keys(budget ?? {})]);
}

const upToDate = () => planning.result !== null && planning.text === state.text;

/** Whether the plan at hand is of what is asked now, at another budget perhaps. */
export const sameQuestions = () => planning.result !== null && planning.asked === askedOf(state.design);

/** By how much the errors of the plan at hand are multiplied at the budget chosen now. */
export function errorFactor() {
  const result = planning.result;
  if (!result || !sameQuestions() || result.least) return 1;
  const now = state.moving ?? state.view?.privacy;
  if (!now) return 1;
  const pure = result.privacy.pure_epsilon;
  if (pure && (now.pure_epsilon ?? now.epsilon)) return pure / (now.pure_epsilon ?? now.epsilon);
  return now.rho ? Math.sqrt(result.privacy.rho / now.rho) : 1;
}

const soon = calmly(250, plan);

/** A change of the title, say, is no reason to plan anew. */
function takeOver() {
  if (sameQuestions() && planning.budget === JSON.stringify(state.design.budget)) planning.text = state.text;
}

/** Call after each change: plans what is there now, if it can be planned. */
export function replan() {
  takeOver();
  soon.cancel();
  abort?.abort();
  if (upToDate() || !plannable()) {
    planning.state = "idle";
    return;
  }
  planning.state = "running";
  planning.progress = null;
  soon();
}

export function cancelPlan() {
  soon.cancel();
  abort?.abort();
  planning.state = "cancelled";
  announce("Planning was cancelled.");
  changed();
}

export async function plan() {
  const mine = new AbortController();
  abort?.abort();
  abort = mine;
  const of = { text: state.text, asked: askedOf(state.design), budget: JSON.stringify(state.design.budget) };
  Object.assign(planning, { state: "running", error: null, progress: null });
  try {
    const ended = await run({ kind: "plan", text: of.text, client: state.client }, {
      signal: mine.signal,
      onStep: (now) => { if (abort === mine) { planning.progress = now.progress; changed(); } },
    });
    if (abort !== mine) return;
    finish(ended, of);
  } catch (error) {
    if (abort !== mine || mine.signal.aborted) return;
    Object.assign(planning, { state: "failed", error });
  }
  changed();
}

function finish(ended, of) {
  if (ended.state === "done") {
    Object.assign(planning, { state: "idle", result: ended.result, error: null, ...of });
    const { rmse, largest } = ended.result;
    const [average, worst] = [rmse, largest].map((error) => (error === null ? "not known" : `± ${shown(error * half(ended.result))}`));
    announce(`Planned: average error ${average} at ${levelWords()}, largest ${worst}.`);
  } else if (ended.state === "failed") {
    Object.assign(planning, { state: "failed", error: ended.error });
    announce(`No plan: ${ended.error?.message ?? ended.error}`);
  } else planning.state = "cancelled";
}
