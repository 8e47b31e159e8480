// The state of the page: the text of the study, what the server reads in it, and where it came from.
//
// The text is what counts. An edit sends the text with the design as it should be, and gets the new
// text back, in which only what changed has changed. So undo is a list of texts, and a variant is a
// text with a name. Edits are done one after the other, each on what the one before left.

import { carry, post } from "./api.js";
import { carryNames, copy } from "./design.js";
import { forget, keep, openDrafts } from "./drafts.js";

const STEPS = 60;
const MERGED = 3000;
// What does not speak against an edit: it is still missing, or a file has yet to be called public.
const LATER = new Set(["missing", "not public"]);

export const state = {
  client: "", version: "", folder: "", data: [], examples: [],
  text: "", design: {}, view: null,
  file: { name: "study.toml", digest: null, text: null },
  past: [], future: [], variants: [], left: [],
  public: [], // files beside the study that the user called public
  moving: null, // where the slider of the budget is while it moves
  connection: "there", keptHere: true,
};

const listeners = new Set();
let queue = Promise.resolve();
let waiting = 0;
let lastChange = { label: "", at: 0 };

export function onChange(listener) {
  listeners.add(listener);
}

/** Tell everybody; `what` is "text" where the text is another one. */
export function changed(what = "page") {
  for (const listener of listeners) listener(what);
}

export const saved = () => state.file.text === state.text;

/** Whether there is a design that can be planned: something is asked, and nothing stands against it. */
export const plannable = () => Boolean(state.view && state.design && !state.view.problems.length && state.view.entries.length);

/** One thing after the other: the next begins when the one before is done. */
function inTurn(act) {
  waiting += 1;
  document.body.classList.add("pending");
  const done = queue.then(act).finally(() => {
    waiting -= 1;
    document.body.classList.toggle("pending", waiting > 0);
  });
  queue = done.catch(() => {});
  return done;
}

/** Wait until all that was asked for is done. */
export const settled = () => queue;

function persist() {
  const { text, past, future, variants, file, folder, public: called } = state;
  state.keptHere = keep({ text, past, future, variants, file, folder, public: called });
}

function take(view) {
  state.text = view.text;
  state.view = view;
  state.design = view.design;
  state.moving = null;
  persist();
  changed("text");
}

function remember(label, merge) {
  const again = merge && lastChange.label === label && Date.now() - lastChange.at < MERGED;
  if (!again) state.past = [...state.past, { text: state.text, label }].slice(-STEPS);
  state.future = [];
  lastChange = { label, at: Date.now() };
}

/** A problem of the design that was proposed, for whoever proposed it to show. */
class Unfit extends Error {
  constructor(problem) {
    super(problem.message);
    this.line = problem.line;
  }
}

/**
 * Change the design. `strict`: refuse, with an Unfit error, what brings a new problem.
 * `merge`: a change of the same label soon after counts as one step of undo.
 */
export function change(label, mutate, { strict = false, merge = false } = {}) {
  return inTurn(async () => {
    const design = copy(state.design);
    if (mutate(design) === false) return;
    let view = await post("/api/edit", { text: state.text, design });
    const renamed = view.design && state.view ? copy(view.design) : null;
    if (renamed && carryNames(renamed, state.view.entries, view.entries)) {
      view = await post("/api/edit", { text: view.text, design: renamed });
    }
    const known = new Set((state.view?.problems ?? []).map((problem) => problem.message));
    const fresh = view.problems.find((problem) => !known.has(problem.message) && !LATER.has(problem.kind));
    if (strict && fresh) throw new Unfit(fresh);
    if (view.text === state.text) {
      changed();
      return;
    }
    remember(label, merge);
    take(view);
  });
}

/** Take another text as a whole: typed, a variant, an example. */
export function replaceText(label, text) {
  return inTurn(async () => {
    const view = await post("/api/read", { text });
    if (text !== state.text) remember(label, false);
    take(view);
  });
}

export function undo() {
  return step("past", "future");
}

export function redo() {
  return step("future", "past");
}

function step(from, to) {
  return inTurn(async () => {
    const [list, other] = [state[from], state[to]];
    const item = from === "past" ? list.at(-1) : list[0];
    if (!item) return null;
    const view = await post("/api/read", { text: item.text });
    const here = { text: state.text, label: item.label };
    state[from] = from === "past" ? list.slice(0, -1) : list.slice(1);
    state[to] = to === "past" ? [...other, here] : [here, ...other];
    lastChange = { label: "", at: 0 };
    take(view);
    return item.label;
  });
}

export function keepVariant(name, text = state.text) {
  state.variants = [...state.variants.filter((variant) => variant.name !== name), { name, text }];
  persist();
  changed();
}

export function renameVariant(from, to) {
  state.variants = state.variants.map((variant) => (variant.name === from ? { ...variant, name: to } : variant));
  persist();
  changed();
}

export function removeVariant(name) {
  state.variants = state.variants.filter((variant) => variant.name !== name);
  persist();
  changed();
}

export function setFile(file) {
  state.file = file;
  persist();
  changed();
}

/** The user says that a file beside the study is public: it may be read now. */
export function callPublic(name) {
  return inTurn(async () => {
    state.public = [...new Set([...state.public, name])];
    take(await post("/api/read", { text: state.text }));
  });
}

carry(() => ({ public: state.public }));

/** Begin: with the draft of this tab where there is one, else with the file of the command. */
export async function begin(start) {
  Object.assign(state, { version: start.version, folder: start.folder, data: start.data, examples: start.examples ?? [] });
  const { id, kept, left } = await openDrafts();
  state.client = id;
  state.file = start.file ? { ...start.file } : { name: start.name ?? "study.toml", digest: null, text: null };
  const mine = kept && belongs(kept, start) ? kept : null;
  const clean = mine && mine.text === mine.file.text && start.file;
  if (mine) {
    Object.assign(state, { past: mine.past, future: mine.future, variants: mine.variants, public: mine.public ?? [] });
    // The digest stays that of the file this draft began with: saving then tells if it is another.
    if (!clean) state.file = { ...mine.file };
  }
  state.left = worthOffering(left.filter((draft) => belongs(draft, start)));
  const view = await post("/api/read", { text: mine && !clean ? mine.text : start.file?.text ?? "" });
  take(view);
  return { restored: Boolean(mine && mine.text !== start.file?.text && mine.text !== "") };
}

const belongs = (draft, start) => draft.folder === start.folder && (start.file === null || start.file === undefined || draft.file.name === start.file.name);

/** Unsaved work of tabs that are gone; variants alone are taken over without a question. */
function worthOffering(left) {
  const offered = [];
  for (const draft of left) {
    const unsaved = draft.text !== (draft.file.text ?? "") && draft.text !== state.file.text;
    if (unsaved) {
      offered.push(draft);
      continue;
    }
    const names = new Set(state.variants.map((variant) => variant.name));
    state.variants = [...state.variants, ...draft.variants.filter((variant) => !names.has(variant.name))];
    forget(draft.id);
  }
  return offered;
}

/** Take up what another tab left, or let it go. */
export async function takeUp(draft, wanted) {
  if (wanted) {
    for (const variant of draft.variants) keepVariant(variant.name, variant.text);
    await replaceText("take up unsaved work", draft.text);
  }
  forget(draft.id);
  state.left = state.left.filter((each) => each.id !== draft.id);
  changed();
}
