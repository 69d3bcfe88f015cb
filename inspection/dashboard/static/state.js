// A search for a key in the state of a bolt, which reads its changelog.

import { find, html, setText } from "./elements.js";
import { time } from "./format.js";

export class StateSearch {
  // ask: requests JSON of a path with parameters.
  constructor(ask) {
    this.ask = ask;
    this.bolt = null;
    this.searched = 0;
    find("state-search").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#search();
    });
  }

  // component: as in the snapshot.
  show({ name, state }) {
    const fields = state?.key ?? [];
    find("state-search").hidden = !fields.length;
    const bolt = JSON.stringify([name, fields]);
    if (bolt === this.bolt) return;
    this.bolt = bolt;
    this.name = name;
    this.searched += 1;
    const inputs = fields.map((field) =>
      html("label", {}, `${field} `, html("input", { name: field, autocomplete: "off", spellcheck: "false" })),
    );
    find("state-fields").replaceChildren(...inputs);
    this.#found("", "");
  }

  async #search() {
    const number = (this.searched += 1);
    const key = [...find("state-fields").querySelectorAll("input")].map(({ value }) => value);
    this.#found("reading the changelog …", "");
    let found = [];
    try {
      const { text, task, changed_ms: at } = await this.ask("/api/state", { bolt: this.name, key });
      found = [`task ${task}, changed ${time(at)}`, text];
    } catch (error) {
      found = [error.message, ""];
    }
    // An answer to an earlier question is not shown.
    if (number === this.searched) this.#found(...found);
  }

  #found(message, value) {
    setText(find("state-message"), message);
    setText(find("state-value"), value);
    find("state-value").hidden = value === "";
  }
}
