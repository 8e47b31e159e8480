// What leaves the page: the study by name, the planning report, Python, commands, and a release.

import { post } from "./api.js";
import { actions, ask, confirm, dialog, download, tell } from "./dialogs.js";
import { announce, h } from "./dom.js";
import { askRelease } from "./release.js";
import { keepVariant, replaceText, saved, setFile, settled, state } from "./store.js";

const withEnding = (name) => (name.endsWith(".toml") ? name : `${name}.toml`);

/** Save under the name it has; the first time, or `as` another, under one that is asked for. */
export async function save({ as = false } = {}) {
  await settled();
  let { name, digest } = state.file;
  if (as || digest === null) {
    const asked = await ask("Save the study", "Name of the file", name, "Save", `In ${state.folder}`);
    if (!asked) return false;
    if (withEnding(asked) !== name) digest = null;
    name = withEnding(asked);
  }
  return write(name, digest, false);
}

async function write(name, digest, replace) {
  const text = state.text;
  try {
    const done = await post("/api/save", { name, text, digest, replace }, { twice: false });
    setFile({ name, text, digest: done.digest });
    announce(`Saved as ${name}.`);
    return true;
  } catch (error) {
    if (error.status === 409) return changedMeanwhile(name, error);
    await tell("Not saved", error.message);
    return false;
  }
}

/** Somebody else has written the file: another tab, an editor. Nothing is overwritten silently. */
async function changedMeanwhile(name, error) {
  const there = error.data.error.file;
  const then = await dialog("The file is not as you opened it", (close) => [
    h("p", {}, error.message, ". Another tab or an editor may have written it. Nothing was saved."),
    actions(
      h("button", { type: "button", class: "main", "data-first": true, onclick: () => close("other"), key: "save-other" }, "Save under another name…"),
      h("button", { type: "button", onclick: () => close("look"), key: "save-look" }, "Open that one; keep mine as a variant"),
      h("button", { type: "button", class: "danger", onclick: () => close("replace"), key: "save-replace" }, "Replace it")),
  ]);
  if (then === "other") return save({ as: true });
  if (then === "replace") return write(name, there.digest, true);
  if (then === "look") {
    keepVariant("Mine, not saved");
    await replaceText("open the file as it is", there.text);
    setFile(there);
  }
  return false;
}

/** Everything that can be taken from here. */
export async function takeOut() {
  const then = await dialog("Take it out", (close) => h("div", { class: "outs" },
    out(close, save, saved() ? "Save the study again" : "Save the study", `${state.file.name}, in ${state.folder}. Comments are kept.`, "out-save"),
    out(close, () => save({ as: true }), "Save under another name…", "The file that is open stays as it is.", "out-save-as"),
    out(close, downloadStudy, "Download the study", "A copy, wherever your browser puts files.", "out-download"),
    out(close, report, "Planning report", "One page for those who decide: what is published, how exactly, at which cost. It needs no network.", "out-report"),
    out(close, python, "Python", "A program that makes the same plan.", "out-python"),
    out(close, commands, "Commands", "What to type to plan, check, release and report.", "out-commands"),
    out(close, askRelease, "Release…", "Reads the data and spends the budget. Asks twice.", "out-release")));
  await then?.();
}

function out(close, act, title, words, key) {
  return h("button", { type: "button", class: "out", key, onclick: () => close(act) }, h("b", {}, title), h("span", { class: "muted" }, words));
}

function downloadStudy() {
  download(state.file.name, state.text, "application/toml");
}

async function report() {
  const designs = [{ name: state.design.title || state.file.name, text: state.text }, ...state.variants.filter((variant) => variant.text !== state.text)];
  let chosen = new Set([0]);
  const picked = designs.length === 1 ? [0] : await dialog("Planning report", (close, redraw) => [
    h("fieldset", {}, h("legend", {}, "Designs in it, side by side"), designs.map((design, at) => h("label", { class: "check" },
      h("input", { type: "checkbox", checked: chosen.has(at), onchange: (event) => { chosen = new Set(event.target.checked ? [...chosen, at] : [...chosen].filter((each) => each !== at)); redraw(); } }), h("span", {}, h("bdi", {}, design.name))))),
    actions(h("button", { type: "button", class: "main", "data-first": true, disabled: !chosen.size, onclick: () => close([...chosen].sort()) }, "Make the report")),
  ]);
  if (!picked) return;
  await guarded("No report", async () => {
    const { html } = await post("/api/report", { text: state.text, designs: picked.map((at) => designs[at]) });
    download(state.file.name.replace(/\.toml$/, "-plan.html"), html, "text/html");
    announce("The planning report was downloaded.");
  });
}

async function guarded(title, act) {
  try {
    await act();
  } catch (error) {
    await tell(title, error.message);
  }
}

async function python() {
  await guarded("No program", async () => {
    const { code } = await post("/api/python", { text: state.text });
    await showCode("The same plan in Python", code, state.file.name.replace(/\.toml$/, ".py"), "text/x-python");
  });
}

async function commands() {
  await guarded("No commands", async () => {
    const found = await post("/api/commands", { name: state.file.name });
    await showCode("Commands", commandText(found.commands), "commands.txt", "text/plain");
  });
}

const commandText = (list) => list.map((each) => (typeof each === "string" ? each : `# ${each.does ?? each.words ?? each.name}\n${each.command}`)).join("\n");

function showCode(title, code, name, type) {
  let copied = false;
  return dialog(title, (close, redraw) => [
    h("pre", { class: "scroll", tabindex: "0", id: "code" }, code),
    actions(
      h("button", { type: "button", class: "main", "data-first": true, onclick: async () => { await navigator.clipboard?.writeText(code).catch(() => {}); copied = true; announce("Copied."); redraw(); } }, copied ? "Copied" : "Copy"),
      h("button", { type: "button", onclick: () => download(name, code, type) }, "Download")),
  ], { wide: true });
}

/** Leave what is open for another beginning; what was not saved can be taken back by undo. */
export async function beginWith(label, text) {
  if (!saved() && state.text.trim() && !(await confirm(label, "The design that is open was not saved. You can undo this.", "Open it"))) return;
  await replaceText(label, text);
}
