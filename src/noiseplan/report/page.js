"use strict";
(() => {
  const tools = document.querySelector(".tools");
  if (!tools) return;
  tools.classList.remove("no-script-hidden");
  const tables = Array.from(document.querySelectorAll("details.released"));
  const search = tools.querySelector("input");
  const count = tools.querySelector("output");
  const shown = () => tables.filter((each) => !each.hidden);
  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const each of tables) {
      const name = each.dataset.name.toLowerCase();
      each.hidden = !words.every((word) => name.includes(word));
    }
    count.textContent = `${shown().length} of ${tables.length} tables`;
  });
  tools.querySelector("button").addEventListener("click", () => {
    const open = shown().some((each) => !each.open);
    for (const each of shown()) each.open = open;
  });
})();
