// Variants: designs kept under a name, to come back to and to compare.

import { compareDesigns } from "./compare.js";
import { actions, ask, confirm, dialog } from "./dialogs.js";
import { announce, h } from "./dom.js";
import { keepVariant, removeVariant, renameVariant, replaceText, state } from "./store.js";

function freeName() {
  for (let n = 1; ; n += 1) if (!state.variants.some((variant) => variant.name === `Variant ${n}`)) return `Variant ${n}`;
}

async function keepAs() {
  const name = await ask("Keep this design", "Name", freeName(), "Keep", "It stays in this browser, as it is now, until you remove it.");
  if (!name) return;
  const there = state.variants.find((variant) => variant.name === name);
  if (there && there.text !== state.text && !(await confirm(`Replace ${name}?`, "A variant of that name is kept already.", "Replace"))) return;
  keepVariant(name);
  announce(`Kept as ${name}.`);
}

export async function chooseVariant() {
  const then = await dialog("Variants", (close, redraw) => [
    state.variants.length ? h("ul", { class: "pieces" }, state.variants.map((variant) => row(variant, close, redraw))) : h("p", { class: "empty" }, "None yet. Keep the design under a name, change it, and compare."),
    actions(
      h("button", { type: "button", class: "main", "data-first": true, onclick: () => close(keepAs), key: "keep-variant" }, "Keep this design as…"),
      h("button", { type: "button", onclick: () => close(compareDesigns), key: "compare-variants" }, "Compare…")),
  ]);
  await then?.();
}

function row(variant, close, redraw) {
  const rename = async () => {
    const name = await ask("Rename", "Name", variant.name, "Rename");
    if (name && !state.variants.some((each) => each.name === name)) renameVariant(variant.name, name);
    chooseVariant();
  };
  const open = async () => {
    await replaceText(`open ${variant.name}`, variant.text);
    announce(`${variant.name} is open.`);
  };
  const same = variant.text === state.text;
  return h("li", { class: "card", key: `variant:${variant.name}` },
    h("div", { class: "card-main" }, h("h3", {}, h("bdi", {}, variant.name)), h("p", { class: "muted small" }, same ? "as the design that is open" : "another design")),
    h("div", { class: "card-tools" },
      h("button", { type: "button", disabled: same, "aria-label": `Open ${variant.name}`, onclick: () => close(open) }, "Open"),
      h("button", { type: "button", "aria-label": `Rename ${variant.name}`, onclick: () => close(rename) }, "Rename"),
      h("button", { type: "button", "aria-label": `Remove ${variant.name}`, onclick: () => { removeVariant(variant.name); redraw(); } }, "✕")));
}
