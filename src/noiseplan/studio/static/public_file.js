// Attributes from a file that the user calls public: its header, and the different values of its columns.

import { post } from "./api.js";
import { attributeNames, attributeWords } from "./design.js";
import { actions, dialog } from "./dialogs.js";
import { announce, h } from "./dom.js";
import { counted, listed } from "./numbers.js";
import { change, state } from "./store.js";
import { valueText } from "./values.js";

export const WARNING = "Everything this file holds may be published: values become labels of the tables, and the study is a public file. Take a code list, or an example with made-up records. Never the data that are to be protected, nor a part of them.";
const MOST = 24 * 2 ** 20;

/** The box that must be ticked before a file is read at all. */
export function publicBox(confirmed, onchange) {
  return h("label", { class: "check" },
    h("input", { type: "checkbox", checked: confirmed, onchange: (event) => onchange(event.target.checked), key: "is-public" }),
    h("span", {}, "The file I choose is public, every line of it."));
}

export function fileInput(confirmed, label, take) {
  return h("div", { class: "field wide" }, h("label", { for: "public-file-input" }, label),
    h("input", { id: "public-file-input", type: "file", accept: ".csv,.txt,.tsv,text/csv", disabled: !confirmed, key: "public-input", onchange: (event) => take(event.target.files[0]) }));
}

export async function contentOf(file) {
  if (file.size > MOST) throw new Error(`${file.name} has ${(file.size / 2 ** 20).toFixed(0)} MB: at most ${MOST / 2 ** 20} can be read here.`);
  return file.text();
}

export async function readPublicFile() {
  let [confirmed, wrong, found, chosen] = [false, "", null, new Set()];
  await dialog("Attributes from a public file", (close, redraw) => {
    const take = async (file) => {
      if (!file) return;
      try {
        found = await post("/api/example", { name: file.name, content: await contentOf(file), confirmed });
        const there = new Set(attributeNames(state.design));
        chosen = new Set(found.columns.filter((column) => column.declaration && !there.has(column.name)).map((column) => column.name));
        wrong = "";
      } catch (error) {
        [wrong, found] = [error.message, null];
      }
      redraw();
    };
    const add = async () => {
      wrong = await addColumns(found.columns.filter((column) => chosen.has(column.name)));
      if (wrong) redraw();
      else close();
    };
    return [
      h("p", { class: "warning" }, WARNING),
      publicBox(confirmed, (on) => { confirmed = on; redraw(); }),
      fileInput(confirmed, "The file, CSV with a header", take),
      wrong ? h("p", { class: "wrong", role: "alert" }, wrong) : null,
      found ? columnList(found.columns, chosen, redraw) : null,
      actions(
        h("button", { type: "button", class: "main", disabled: !found || !chosen.size, onclick: add, key: "add-columns" }, found ? `Add ${counted(chosen.size, "attribute")}` : "Add"),
        h("button", { type: "button", onclick: () => close() }, "Cancel")),
    ];
  });
}

function columnList(columns, chosen, redraw) {
  const toggle = (name) => (event) => {
    if (event.target.checked) chosen.add(name);
    else chosen.delete(name);
    redraw();
  };
  return h("fieldset", {}, h("legend", {}, "Columns to take; all can be changed afterwards"), columns.map((column) =>
    h("label", { class: "check", key: `column:${column.name}` },
      h("input", { type: "checkbox", checked: chosen.has(column.name), disabled: !column.declaration, onchange: toggle(column.name) }),
      h("span", {}, h("b", {}, h("bdi", {}, column.name)), " ", h("small", {}, h("bdi", {}, columnWords(column)))))));
}

function columnWords(column) {
  const values = (column.values ?? []).map(valueText);
  const seen = column.range ? `${column.range.map(valueText).join(" … ")}` : `${counted(column.distinct ?? values.length, "value")}: ${listed(values, 5)}`;
  return column.declaration ? `${attributeWords(column.declaration)} · ${seen}` : `${seen} · ${column.note ?? "too many values: put them into bins by hand"}`;
}

async function addColumns(columns) {
  try {
    await change("add attributes of a public file", (design) => {
      design.schema = { ...design.schema, ...Object.fromEntries(columns.map((column) => [column.name, column.declaration])) };
    }, { strict: true });
  } catch (error) {
    return error.message;
  }
  announce(`${counted(columns.length, "attribute")} added.`);
  return "";
}
