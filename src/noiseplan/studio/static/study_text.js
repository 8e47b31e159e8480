// The study file as text: to read, to mend where it cannot be read, to write what no form offers.

import { announce, h } from "./dom.js";
import { changed, replaceText, state } from "./store.js";

let typed = null; // what is being written, where it is not what is there

export function textArea() {
  const broken = state.view && state.view.design === null;
  return h("details", { key: "text", open: broken, class: "plain" },
    h("summary", {}, h("h2", { id: "file-title" }, "The study file"), " ", h("span", { class: "muted" }, state.file.name)),
    h("p", { class: "muted" }, "All of the above, as text. Comments are kept."),
    editor(),
    h("div", { class: "actions" },
      h("button", { type: "button", class: "main", key: "apply-text", disabled: typed === null || typed === state.text, onclick: apply }, "Apply"),
      h("button", { type: "button", key: "reset-text", disabled: typed === null || typed === state.text, onclick: reset }, "Back to what it was")));
}

async function apply() {
  const text = typed;
  typed = null;
  await replaceText("edit the text", text);
  announce(state.view.problems.length ? `The study has a problem: ${state.view.problems[0].message}` : "The study was read.");
}

function reset() {
  typed = null;
  document.getElementById("study-text").value = state.text;
  changed();
}

/** The text with the numbers of its lines; lines with a problem are marked. */
function editor() {
  const text = typed ?? state.text;
  const bad = new Set((state.view?.problems ?? []).map((problem) => problem.line).filter(Boolean));
  const lines = text.split("\n").length;
  const area = h("textarea", {
    id: "study-text", class: "code", spellcheck: "false", wrap: "off", rows: Math.min(30, Math.max(8, lines + 1)), value: text, key: "study-text", "aria-label": "The study file",
    oninput: (event) => { typed = event.target.value; changed(); },
    onscroll: (event) => { document.getElementById("lines").scrollTop = event.target.scrollTop; },
    onkeydown: (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) apply(); },
  });
  return h("div", { class: "editor" },
    h("div", { class: "lines", id: "lines", "aria-hidden": "true" }, Array.from({ length: lines }, (_, at) => h("div", { class: bad.has(at + 1) ? "bad" : "" }, String(at + 1)))), area);
}

/** Open the text with that line selected. */
export function showLine(line) {
  const area = document.getElementById("study-text");
  area.closest("details").open = true;
  const rows = area.value.split("\n");
  const start = rows.slice(0, line - 1).reduce((sum, row) => sum + row.length + 1, 0);
  area.focus();
  area.setSelectionRange(start, start + (rows[line - 1]?.length ?? 0));
  const high = parseFloat(getComputedStyle(area).lineHeight);
  area.scrollTop = Math.max(0, (line - 4) * high);
  area.scrollIntoView({ block: "center" });
}
