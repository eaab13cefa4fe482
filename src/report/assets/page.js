// The switch of schemes and the sorting of tables.
"use strict";

(() => {
  const root = document.documentElement;
  const darkPreferred = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : darkPreferred.matches);

  // ?theme=dark or ?theme=light behind the address chooses a scheme.
  const asked = new URLSearchParams(location.search).get("theme");
  if (asked === "dark" || asked === "light") root.dataset.theme = asked;

  const button = document.createElement("button");
  button.type = "button";
  button.className = "scheme";
  const name = () => { button.textContent = isDark() ? "Light colours" : "Dark colours"; };
  const changed = () => {
    name();
    document.dispatchEvent(new Event("schemechange"));
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    changed();
  });
  darkPreferred.addEventListener("change", changed);
  name();
  document.querySelector("header").append(button);

  const collator = new Intl.Collator("en", { numeric: true });

  // Rows without a value come last in either direction.
  function compare(a, b, column, sign) {
    const x = a.cells[column], y = b.cells[column];
    const p = x.dataset.value, q = y.dataset.value;
    if (p !== undefined && q !== undefined) return sign * (Number(p) - Number(q));
    if (p !== undefined || q !== undefined) return p !== undefined ? -1 : 1;
    return sign * collator.compare(x.textContent, y.textContent);
  }

  function makeSortable(table) {
    const body = table.tBodies[0];
    const original = [...body.rows];
    const headers = [...table.tHead.rows[0].cells];
    headers.forEach((header, column) => {
      const control = document.createElement("button");
      control.type = "button";
      control.append(...header.childNodes);
      header.append(control);
      control.addEventListener("click", () => {
        const next = { none: "ascending", ascending: "descending", descending: "none" };
        const order = next[header.getAttribute("aria-sort") || "none"];
        headers.forEach((other) => other.removeAttribute("aria-sort"));
        const rows = [...original];
        if (order !== "none") {
          header.setAttribute("aria-sort", order);
          const sign = order === "ascending" ? 1 : -1;
          rows.sort((a, b) => compare(a, b, column, sign));
        }
        body.append(...rows);
      });
    });
  }
  document.querySelectorAll("table.data").forEach(makeSortable);
})();
