"use strict";
(() => {
  const all = (selector, within = document) => Array.from(within.querySelectorAll(selector));

  // Search, and open or close, the tables.
  const tools = document.querySelector(".tools");
  if (tools) {
    tools.classList.remove("no-script-hidden");
    const tables = all("details.released");
    const search = tools.querySelector("input");
    const count = tools.querySelector("output");
    const shown = () => tables.filter((each) => !each.hidden);
    search.addEventListener("input", () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const each of tables) {
        const name = each.dataset.name.toLowerCase();
        each.hidden = !words.every((word) => name.includes(word));
      }
      for (const group of all(".group")) {
        group.hidden = !all("details.released", group).some((each) => !each.hidden);
      }
      count.textContent = `${shown().length} of ${tables.length} tables`;
    });
    tools.querySelector("button").addEventListener("click", () => {
      const open = shown().some((each) => !each.open);
      for (const each of shown()) each.open = open;
    });
  }

  // A table of three attributes: one list to choose from, in place of a block for each value.
  for (const slices of all(".slices")) {
    const parts = all(":scope > details.slice", slices);
    const label = document.createElement("label");
    const choice = document.createElement("select");
    label.className = "choice no-print";
    label.append(`${slices.dataset.choice} `, choice);
    parts.forEach((part, i) => {
      const title = part.querySelector("summary").textContent;
      choice.append(new Option(title.replace(`${slices.dataset.choice}: `, ""), String(i)));
    });
    const choose = () => parts.forEach((part, i) => {
      part.open = i === choice.selectedIndex;
      part.classList.toggle("other", i !== choice.selectedIndex);
    });
    choice.addEventListener("change", choose);
    slices.classList.add("chosen");
    slices.prepend(label);
    choose();
  }

  // Paper shows everything; the screen is as it was afterwards.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = all("details:not([open])");
    for (const each of closed) each.open = true;
  });
  addEventListener("afterprint", () => {
    for (const each of closed) each.open = false;
  });
})();
