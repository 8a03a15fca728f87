"use strict";
// Sorts and searches tables. Rows are texts, put in as text: a name can do nothing.
for (const section of document.querySelectorAll("[data-table]")) {
  const rows = JSON.parse(section.querySelector("script").textContent);
  const heads = [...section.querySelectorAll("thead th")];
  const body = section.querySelector("tbody");
  const search = section.querySelector("input");
  const status = section.querySelector("[role=status]");
  const most = Number(section.dataset.most);
  let sorted = rows;

  const key = (text, order) => {
    if (order === "text") return text;
    const number = text === "inf" ? Infinity : text === "-inf" ? -Infinity : parseFloat(text);
    return order === "size" ? Math.abs(number) : number;
  };
  const show = () => {
    const wanted = search ? search.value.trim().toLowerCase() : "";
    const found = sorted.filter((row) => row[0].toLowerCase().includes(wanted));
    body.replaceChildren(...found.slice(0, most).map((row) => {
      const line = document.createElement("tr");
      row.forEach((text, column) => {
        const cell = document.createElement(column ? "td" : "th");
        if (!column) cell.scope = "row";
        if (heads[column].classList.contains("text")) cell.className = "text";
        cell.textContent = text === null ? "\u2013" : text;
        line.append(cell);
      });
      return line;
    }));
    if (status) {
      const shown = Math.min(most, found.length);
      status.textContent = `${shown} of ${found.length} shown` +
        (found.length < rows.length ? `, of ${rows.length} in all` : "");
    }
  };
  const sortBy = (column, direction) => {
    const order = heads[column].dataset.order;
    const sign = direction === "ascending" ? 1 : -1;
    sorted = [...rows].sort((one, other) => {
      if (one[column] === null || other[column] === null) {
        return (one[column] === null) - (other[column] === null); // the unknown comes last
      }
      const a = key(one[column], order), b = key(other[column], order);
      return sign * (order === "text" ? a.localeCompare(b, undefined, { numeric: true }) : a - b);
    });
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", direction);
    show();
  };
  heads.forEach((head, column) => {
    const small = ["text", "smallest"].includes(head.dataset.order);
    const [first, second] = small ? ["ascending", "descending"] : ["descending", "ascending"];
    head.querySelector("button").addEventListener("click", () => {
      sortBy(column, head.getAttribute("aria-sort") === first ? second : first);
    });
  });
  section.querySelector(".reset").addEventListener("click", () => {
    sorted = rows;
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    show();
  });
  if (search) search.addEventListener("input", show);
}
