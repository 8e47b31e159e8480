// Dialogs: one at a time, closed by Escape, the focus back where it was.

import { h, patch } from "./dom.js";

let open = null;

/**
 * Show a dialog. `render(close, redraw)` gives its content, and is called again by `redraw`.
 * The promise is what `close` was given; undefined where the dialog was dismissed.
 */
export function dialog(title, render, { wide = false } = {}) {
  open?.close();
  return new Promise((resolve) => {
    const body = h("div", { class: "dialog-body" });
    const heading = h("h2", { id: "dialog-title", tabindex: "-1" }, title);
    const shut = h("button", { type: "button", class: "quiet close", "aria-label": "Close", onclick: () => box.close() }, "✕");
    const box = h("dialog", { class: wide ? "wide" : "", "aria-labelledby": "dialog-title" }, h("div", { class: "dialog-head" }, heading, shut), body);
    let answer;
    const end = () => {
      if (open === box) open = null;
      box.remove();
      resolve(answer);
    };
    // The event comes some time after: what was chosen begins at once, so that nobody sees a page
    // on which nothing is open and nothing has begun.
    const close = (given) => {
      answer = given;
      box.close();
      end();
    };
    const redraw = () => patch(body, render(close, redraw));
    box.addEventListener("close", end);
    document.body.append(box);
    redraw();
    box.showModal();
    open = box;
    (body.querySelector("[data-first]") ?? heading).focus();
  });
}

/** Ask whether to do something that cannot be taken back lightly. */
export function confirm(title, words, yes, { danger = false } = {}) {
  return dialog(title, (close) => [
    [words].flat().map((each) => h("p", {}, each)),
    actions(
      h("button", { type: "button", class: danger ? "danger" : "main", onclick: () => close(true) }, yes),
      h("button", { type: "button", "data-first": true, onclick: () => close(false) }, "Cancel"),
    ),
  ]);
}

/** Ask for one line of text. */
export function ask(title, label, value, yes, hint) {
  let typed = value;
  return dialog(title, (close) => h("form", { method: "dialog", onsubmit: (event) => { event.preventDefault(); if (typed.trim()) close(typed.trim()); } },
    h("div", { class: "field wide" }, h("label", { for: "asked" }, label),
      h("input", { id: "asked", value, "data-first": true, autocomplete: "off", required: true, oninput: (event) => { typed = event.target.value; } }),
      hint ? h("p", { class: "hint" }, hint) : null),
    actions(h("button", { class: "main" }, yes), h("button", { type: "button", onclick: () => close() }, "Cancel"))));
}

/** Tell something that went wrong. */
export function tell(title, words) {
  return dialog(title, (close) => [
    [words].flat().map((each) => h("p", {}, each)),
    actions(h("button", { type: "button", class: "main", "data-first": true, onclick: () => close() }, "Close")),
  ]);
}

export const actions = (...buttons) => h("div", { class: "actions" }, buttons);

/** Hand a text over as a file. */
export function download(name, content, type) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
