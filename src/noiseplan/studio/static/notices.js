// What must be seen first: a lost server, problems of the study, work that another tab left.

import { tryNow } from "./api.js";
import { confirm } from "./dialogs.js";
import { h } from "./dom.js";
import { clock } from "./numbers.js";
import { WARNING } from "./public_file.js";
import { callPublic, state, takeUp } from "./store.js";
import { showLine } from "./study_text.js";

export function notices() {
  return [connection(), problems(), leftBehind(), state.keptHere ? null : h("p", { class: "notice" }, "This browser keeps no copy of your work: save often.")];
}

function connection() {
  if (state.connection === "there") return null;
  const words = state.connection === "lost"
    ? "The studio does not answer. Your work is kept in this browser; the page goes on as soon as the studio is back. Start it again as before, with the name of the study."
    : "This tab has no key of the studio that runs now: each address is good for one tab, once. Copy the last address that the studio printed into this tab; your work is kept, and goes on then.";
  return h("div", { class: "notice bad", key: "connection" }, h("p", {}, words), h("button", { type: "button", onclick: tryNow, key: "try-now" }, "Try now"));
}

function problems() {
  const found = (state.view?.problems ?? []).filter((problem) => problem.kind !== "missing");
  if (!found.length) return null;
  return h("div", { class: "notice bad", key: "problems" },
    h("p", {}, h("b", {}, found.length === 1 ? "The study has a problem." : `The study has ${found.length} problems.`)),
    h("ul", {}, found.slice(0, 6).map((problem) => h("li", {},
      problem.line ? h("button", { type: "button", class: "small", onclick: () => showLine(problem.line), key: `line:${problem.line}:${problem.message.slice(0, 40)}` }, `Line ${problem.line}`) : null, " ",
      h("span", {}, problem.message), " ", publicButton(problem)))));
}

function publicButton(problem) {
  const name = problem.kind === "not public" ? fileAt(problem.place) : null;
  if (!name) return null;
  const call = async () => {
    if (await confirm(`Is ${name} public?`, WARNING, "It is public")) await callPublic(name);
  };
  return h("button", { type: "button", class: "small", onclick: call, key: `public:${name}` }, `${name} is public`);
}

/** The file that a place of the design names, there or in what holds it. */
function fileAt(place) {
  let [here, found] = [state.design, null];
  for (const step of place ?? []) {
    here = here?.[step];
    if (typeof here === "string") found = here;
    else if (typeof here?.file === "string") found = here.file;
  }
  return found;
}

function leftBehind() {
  return state.left.map((draft) => h("div", { class: "notice", key: `left:${draft.id}` },
    h("p", {}, `A tab that is closed left work that was not saved: ${draft.file.name}, ${clock(draft.when)}.`),
    h("button", { type: "button", onclick: () => takeUp(draft, true) }, "Take it up"),
    h("button", { type: "button", onclick: () => takeUp(draft, false) }, "Let it go")));
}
