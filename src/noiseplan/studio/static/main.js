// The page: its bar, its areas, its keys; everything is drawn anew, in place, whenever something changes.

import { enter, get, onConnection } from "./api.js";
import { attributesArea } from "./attributes.js";
import { budgetArea } from "./budget.js";
import { compareDesigns } from "./compare.js";
import { attributeNames } from "./design.js";
import { tell } from "./dialogs.js";
import { announce, h, patch } from "./dom.js";
import { refreshExpected } from "./expected.js";
import { notices } from "./notices.js";
import { beginWith, save, takeOut } from "./out.js";
import { replan } from "./plans.js";
import { resultsArea } from "./results.js";
import { begin, change, changed, onChange, redo, saved, state, undo } from "./store.js";
import { textArea } from "./study_text.js";
import { tablesArea } from "./tables.js";
import { chooseVariant } from "./variants.js";

const AREAS = [["attributes", "Attributes"], ["tables", "Tables"], ["budget", "Budget"], ["results", "What you get"]];
const area = (id) => document.getElementById(id);

async function goBack() {
  const label = await undo();
  announce(label ? `Undone: ${label}.` : "Nothing to undo.");
}

async function goForth() {
  const label = await redo();
  announce(label ? `Done again: ${label}.` : "Nothing to do again.");
}

function bar() {
  const past = state.past.at(-1)?.label;
  const next = state.future[0]?.label;
  const button = (key, words, label, onclick, off = false, kind = "") => h("button", { type: "button", key, class: kind, onclick, disabled: off, title: label }, words);
  return [
    h("div", { class: "name" },
      h("span", { class: "brand" }, "noiseplan studio"),
      h("input", { class: "title", value: state.design?.title ?? "", placeholder: "Untitled study", "aria-label": "Title of the study", key: "title", disabled: !state.design, autocomplete: "off",
        onchange: (event) => change("the title", (design) => { retitle(design, event.target.value.trim()); }) }),
      h("span", { class: saved() ? "muted small" : "small unsaved", id: "saved" }, state.file.digest === null ? "not saved yet" : saved() ? `${state.file.name}, saved` : `${state.file.name}, not saved`)),
    h("div", { class: "bar-tools", role: "toolbar", "aria-label": "Study" },
      button("undo", "Undo", past ? `Undo: ${past} (Ctrl+Z)` : "Nothing to undo", goBack, !past),
      button("redo", "Redo", next ? `Do again: ${next} (Ctrl+Y)` : "Nothing to do again", goForth, !next),
      button("variants", state.variants.length ? `Variants (${state.variants.length})` : "Variants", "Keep this design under a name", chooseVariant),
      button("compare", "Compare", "Two designs side by side", compareDesigns),
      button("save", "Save", "Save the study (Ctrl+S)", () => save(), saved(), "main"),
      button("out", "Take out…", "Study, report, Python, commands, release", takeOut)),
  ];
}

function retitle(design, title) {
  if (title) design.title = title;
  else delete design.title;
}

function welcome() {
  // It stays until there is an attribute: what moves under the pointer is missed by a click.
  if (!state.design || attributeNames(state.design).length) return null;
  return h("div", { class: "welcome" }, h("h2", {}, "Plan what to publish, and what it costs"),
    h("p", {}, "Say what the columns may hold, which tables are wanted and how much may be spent. The errors that every table will have are shown at once. No data is read here, ever."),
    h("div", { class: "actions" }, state.examples.map((example) => h("button", { type: "button", key: `example:${example.name}`, onclick: () => beginWith(`open ${example.title}`, example.text) }, h("span", {}, "Try: ", h("b", {}, example.title))))));
}

function draw() {
  document.title = `${saved() ? "" : "• "}${state.design?.title || state.file.name} – noiseplan studio`;
  patch(area("bar"), bar());
  patch(area("notices"), notices());
  patch(area("areas"), welcome(), h("ul", {}, AREAS.map(([id, words]) => h("li", {}, h("a", { href: `#${id}` }, words)))));
  const readable = state.design !== null;
  for (const [id, content] of [["attributes", attributesArea], ["tables", tablesArea], ["budget", budgetArea], ["results", resultsArea]]) {
    patch(area(id), readable ? content() : unreadable(id));
  }
  patch(area("file"), textArea());
}

function unreadable(id) {
  const words = AREAS.find(([each]) => each === id)[1];
  return [h("h2", { id: `${id}-title` }, words), h("p", { class: "empty" }, "The study cannot be read until its text is mended.")];
}

function keys(event) {
  const word = event.key.toLowerCase();
  if (!(event.ctrlKey || event.metaKey) || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = /^(INPUT|TEXTAREA)$/.test(event.target.nodeName) && event.target.type !== "range";
  if (word === "s") {
    event.preventDefault();
    document.activeElement?.blur();
    if (!saved()) save();
  } else if (word === "z" && !typing) {
    event.preventDefault();
    if (event.shiftKey) goForth();
    else goBack();
  } else if (word === "y" && !typing) {
    event.preventDefault();
    goForth();
  }
}

async function open() {
  onChange((what) => {
    if (what === "text") replan();
    refreshExpected();
    draw();
  });
  onConnection((now) => {
    state.connection = now;
    if (state.view) changed();
    else patch(area("notices"), notices());
  });
  document.addEventListener("keydown", keys);
  window.addEventListener("beforeunload", (event) => { if (!saved() && !state.keptHere) event.preventDefault(); });
  window.addEventListener("unhandledrejection", (event) => { tell("That did not work", event.reason?.message ?? String(event.reason)); });
  window.addEventListener("hashchange", enter); // a new address, pasted into this tab
  await enter();
  const { restored } = await begin(await get("/api/start"));
  if (restored) announce("Your work of before is back.");
}

open();
