// The area of attributes: what each column may hold.

import { editAttribute } from "./attribute_dialog.js";
import { attributeNames, attributeWords, moveAttribute, removeAttribute, usesOf } from "./design.js";
import { confirm } from "./dialogs.js";
import { announce, focusKey, h } from "./dom.js";
import { counted, listed } from "./numbers.js";
import { readPublicFile } from "./public_file.js";
import { change, state } from "./store.js";
import { valueText } from "./values.js";

const SHOWN = 8;

export function attributesArea() {
  const names = attributeNames(state.design);
  const seen = new Map((state.view?.schema ?? []).map((each) => [each.name, each]));
  return [
    h("div", { class: "area-head" }, h("h2", { id: "attributes-title" }, "Attributes"), h("p", { class: "muted" }, names.length ? cellsWords() : "What each column may hold.")),
    names.length ? h("ol", { class: "pieces" }, names.map((name, at) => card(name, at, names.length, seen.get(name)))) : h("p", { class: "empty" }, "None yet. Write them from a code book, or take them from a file that is public. Never from the data: what is written here is published."),
    h("div", { class: "actions" },
      h("button", { type: "button", class: names.length ? "" : "main", key: "add-attribute", onclick: () => editAttribute() }, "Add an attribute"),
      h("button", { type: "button", key: "public-file", onclick: () => readPublicFile() }, "From a public file…")),
  ];
}

function cellsWords() {
  const cells = state.view?.cells;
  return cells ? `${Number(cells).toLocaleString("en")} combinations of values` : "";
}

function card(name, at, all, seen) {
  const move = (by) => async () => {
    await change(`move ${name}`, (design) => moveAttribute(design, name, by));
    announce(`${name} is now number ${at + by + 1} of ${all}.`);
  };
  return h("li", { class: "card", key: `attribute:${name}` },
    h("div", { class: "card-main" },
      h("h3", {}, h("bdi", {}, name)),
      h("p", { class: "muted" }, h("bdi", {}, attributeWords(state.design.schema[name], seen))),
      seen ? labels(seen) : null),
    h("div", { class: "card-tools", role: "group", "aria-label": `${name}: change` },
      tool(`edit:${name}`, `Edit ${name}`, "Edit", () => editAttribute(name)),
      tool(`up:${name}`, `Move ${name} up`, "↑", move(-1), at === 0),
      tool(`down:${name}`, `Move ${name} down`, "↓", move(1), at === all - 1),
      tool(`remove:${name}`, `Remove ${name}`, "✕", () => removeOne(name, seen))));
}

export function tool(key, label, sign, onclick, off = false) {
  return h("button", { type: "button", class: "quiet", key, "aria-label": label, title: label, onclick, "aria-disabled": off ? "true" : null, disabled: off }, sign);
}

function labels(seen) {
  const texts = seen.labels.map(valueText);
  const first = texts.length <= SHOWN ? texts : [...texts.slice(0, SHOWN - 2), "…", texts.at(-1)];
  const whole = seen.more ? [...texts.slice(0, SHOWN - 1), "…"] : first;
  return h("p", { class: "labels" }, whole.map((label) => h("bdi", { class: label === "…" ? "gap" : "label" }, label)));
}

async function removeOne(name, seen) {
  const levels = (seen?.levels ?? []).map((level) => level.name);
  const uses = usesOf(state.design, name, levels);
  if (uses.length) {
    const names = uses.map(({ section, index }) => state.view.entries.find((entry) => entry.section === section && entry.index === index)?.names[0] ?? `${section} ${index + 1}`);
    const words = `${counted(uses.length, "entry", "entries")} of the tables name it: ${listed(names)}. Tables will be summed over it; tables of nothing else, and conditions on it, go too. You can undo this.`;
    if (!(await confirm(`Remove ${name}?`, words, "Remove", { danger: true }))) return;
  }
  await change(`remove ${name}`, (design) => removeAttribute(design, name, levels));
  announce(`Attribute ${name} removed.`);
  focusKey("add-attribute");
}
