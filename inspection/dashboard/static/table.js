// A table whose first column names the row.

import { html, keyed, setAttribute, setText } from "./elements.js";
import { UNKNOWN, text } from "./format.js";

export const word = (name, title, kind = "") => ({ name, title, kind, value: (row) => text(row[name]) });

export class Table {
  // columns: [{name, title, kind, value, warns}], where `name` is that of the figure in the JSON, `value` gives the text
  //   of a row or an element to show, `kind` has the words "number", "code" and "text" (which may be long), and `warns`,
  //   if it is there, is whether the figure of a row stands out.
  // key: names a row. nothing: shown where there is none.
  constructor(table, columns, key, nothing) {
    this.columns = columns;
    this.key = key;
    this.nothing = nothing;
    const heads = columns.map(({ title, kind }) => html("th", { scope: "col", class: kind ?? "" }, title));
    table.append(html("thead", {}, html("tr", {}, ...heads)));
    this.body = html("tbody");
    table.append(this.body);
  }

  show(rows) {
    const items = rows.length ? rows : [null];
    keyed(
      this.body,
      items,
      (row) => (row ? String(this.key(row)) : ""),
      (row) => (row ? this.#row() : this.#none()),
      (element, row) => row && this.#update(element, row),
    );
  }

  #none() {
    return html("tr", { class: "none" }, html("td", { colspan: this.columns.length }, this.nothing));
  }

  #row() {
    const cells = this.columns.map(({ name, title, kind }, index) =>
      html(index ? "td" : "th", {
        class: kind ?? "",
        "data-figure": name,
        "data-title": title,
        ...(index ? {} : { scope: "row" }),
      }),
    );
    return html("tr", {}, ...cells);
  }

  #update(element, row) {
    this.columns.forEach(({ value, warns }, index) => {
      const cell = element.children[index];
      const shown = value(row);
      if (typeof shown === "string") setText(cell, shown);
      // An element of a row never changes: it is of this row only.
      else if (!cell.firstElementChild) cell.replaceChildren(shown);
      // Left out where there is no room for columns.
      setAttribute(cell, "data-nothing", String(index > 0 && (shown === UNKNOWN || shown === "0")));
      if (warns) cell.classList.toggle("warns", warns(row));
    });
  }
}
