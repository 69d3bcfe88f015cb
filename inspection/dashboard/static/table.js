// A table whose first column names the row.

import { html, keyed, setAttribute, setText } from "./elements.js";
import { UNKNOWN, text } from "./format.js";

export const word = (name, title, kind = "") => ({ name, title, kind, value: (row) => text(row[name]) });

const FEW = 8; // rows, as in dashboard.css

export class Table {
  // columns: [{name, title, kind, value, warns}], where `name` is that of the figure in the JSON, `value` gives the text
  //   of a row or an element to show, `kind` has the words "number", "code" and "text" (which may be long), and `warns`,
  //   if it is there, is whether the figure of a row stands out.
  // key: names a row. nothing: shown where there is none.
  // isDone: whether a row needs no attention any more.
  constructor(table, columns, key, nothing, isDone = () => false) {
    this.isDone = isDone;
    this.columns = columns;
    this.key = key;
    this.nothing = nothing;
    const heads = columns.map(({ title, kind }) => html("th", { scope: "col", class: kind ?? "" }, title));
    table.append(html("thead", {}, html("tr", {}, ...heads)));
    this.body = html("tbody");
    table.append(this.body);
    // Only on a small screen, where a long table shows its first rows.
    const box = table.closest(".scroll");
    this.more = html("button", { type: "button", class: "more" }, "Show all rows");
    this.more.hidden = true;
    this.more.addEventListener("click", () => {
      box.classList.add("all");
      this.more.hidden = true;
    });
    box?.after(this.more);
  }

  show(rows) {
    const items = rows.length ? rows : [null];
    this.more.hidden = rows.length <= FEW || this.more.previousElementSibling?.classList.contains("all");
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
    element.classList.toggle("done", this.isDone(row));
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
