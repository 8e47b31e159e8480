// Elements from plain calls, and re-rendering in place.
//
// Whatever is shown goes through `textContent` or an attribute, never through HTML, so a label such
// as <script> is a label. `patch` changes the elements that stand instead of making new ones: focus,
// the place of the cursor, what is being typed, and open details stay as they are.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "rect", "line", "circle", "path", "g"]);
const KEPT_OPEN = new Set(["DETAILS", "DIALOG"]);
const TYPED = new Set(["INPUT", "TEXTAREA", "SELECT"]);

/** An element: h("button", { class: "first", onclick: save, key: "save" }, "Save"). */
export function h(tag, given = {}, ...children) {
  const made = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  made.given = given ?? {};
  append(made, children);
  for (const [name, value] of Object.entries(made.given)) setOne(made, name, value);
  return made;
}

function append(parent, children) {
  for (const child of children.flat(9)) {
    if (child === null || child === undefined || child === false || child === true) continue;
    parent.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

function setOne(node, name, value) {
  if (name.startsWith("on")) node[name] = value ?? null;
  else if (name === "key") node.dataset.key = value;
  else if (name === "vars") for (const [v, x] of Object.entries(value)) node.style.setProperty(`--${v}`, x);
  else if (name === "value" || name === "checked" || name === "indeterminate") node[name] = value;
  else if (value === true) node.setAttribute(name, "");
  else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
}

/** Make the children of `parent` those given, keeping every element that can be kept. */
export function patch(parent, ...children) {
  const fresh = document.createElement("div");
  append(fresh, children);
  const focused = document.activeElement;
  patchChildren(parent, fresh);
  // Moving an element takes its focus away.
  if (focused && focused !== document.activeElement && focused !== document.body && focused.isConnected) {
    focused.focus({ preventScroll: true });
  }
}

function patchChildren(parent, fresh) {
  const keyed = new Map();
  for (const child of parent.children) if (child.dataset?.key) keyed.set(child.dataset.key, child);
  let next = parent.firstChild;
  for (const child of [...fresh.childNodes]) {
    const standing = findStanding(child, next, keyed);
    if (!standing) {
      parent.insertBefore(child, next);
      continue;
    }
    if (standing === next) next = next.nextSibling;
    else parent.insertBefore(standing, next);
    patchOne(standing, child);
  }
  while (next) {
    const after = next.nextSibling;
    next.remove();
    next = after;
  }
}

function findStanding(child, next, keyed) {
  const key = child.dataset?.key;
  if (key) {
    const found = keyed.get(key);
    return found?.nodeName === child.nodeName ? found : null;
  }
  return next && next.nodeName === child.nodeName && !next.dataset?.key ? next : null;
}

function patchOne(node, fresh) {
  if (node.nodeType === Node.TEXT_NODE) {
    if (node.data !== fresh.data) node.data = fresh.data;
    return;
  }
  const before = node.given ?? {};
  const now = fresh.given ?? {};
  node.given = now;
  for (const name of new Set([...Object.keys(before), ...Object.keys(now)])) patchGiven(node, name, before, now);
  if (node.nodeName !== "TEXTAREA") patchChildren(node, fresh);
  // A choice is set after its options are there.
  if (node.nodeName === "SELECT" && "value" in now) node.value = now.value;
}

function patchGiven(node, name, before, now) {
  if (name === "key") return;
  if (name === "vars" || name.startsWith("on")) {
    if (name in now) setOne(node, name, now[name]);
    else if (name !== "vars") node[name] = null;
    return;
  }
  if (name === "value" && TYPED.has(node.nodeName)) {
    const typing = node === document.activeElement && node.value !== String(before.value ?? "");
    if (!typing && node.value !== String(now.value ?? "")) node.value = now.value ?? "";
    return;
  }
  if (name === "checked" || name === "indeterminate") {
    node[name] = Boolean(now[name]);
    return;
  }
  if (before[name] === now[name]) return;
  if (name === "open" && KEPT_OPEN.has(node.nodeName) && !now.open) return;
  const value = now[name];
  if (value === false || value === null || value === undefined) node.removeAttribute(name);
  else setOne(node, name, value);
}

/** Put the focus on the element of that key, if there is one. */
export function focusKey(key) {
  const found = document.querySelector(`[data-key="${CSS.escape(key)}"]`);
  found?.focus();
  return found ?? null;
}

let spoken;
/** Say something to those who listen to the page. */
export function announce(text) {
  const region = document.getElementById("status");
  clearTimeout(spoken);
  region.textContent = "";
  spoken = setTimeout(() => { region.textContent = text; }, 60);
}

/** A label with its control: the control is given the id that the label names. */
export function field(label, control, { hint, wide } = {}) {
  const id = control.id || (control.id = `f-${(control.dataset.key ?? label).replace(/[^\w-]+/g, "-")}`);
  control.given.id = id;
  if (hint) {
    control.setAttribute("aria-describedby", `${id}-hint`);
    control.given["aria-describedby"] = `${id}-hint`;
  }
  return h("div", { class: wide ? "field wide" : "field" },
    h("label", { for: id }, label), control,
    hint ? h("p", { class: "hint", id: `${id}-hint` }, hint) : null);
}

/** A choice among [value, words] pairs. */
export function select(given, value, options) {
  const made = h("select", given, options.map(([v, words, off]) => h("option", { value: v, disabled: off }, words)));
  made.value = value;
  made.given.value = value;
  return made;
}

/** Call `act` once calls have stopped coming for `wait` milliseconds. */
export function calmly(wait, act) {
  let timer;
  const calm = (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...given), wait);
  };
  calm.cancel = () => clearTimeout(timer);
  return calm;
}
