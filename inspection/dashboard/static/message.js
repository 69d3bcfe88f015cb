// The search for a message of a spout's source: whether it is done, with a link to its tree.

import { find, html, setText } from "./elements.js";

export class MessageSearch {
  // ask: requests JSON of a path with parameters.
  constructor(ask) {
    this.ask = ask;
    this.searched = 0;
    this.form = find("message-search");
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#search();
    });
  }

  // Another topology is shown.
  clear() {
    this.searched += 1;
    this.form.reset();
    this.#show("", []);
  }

  async #search() {
    const number = (this.searched += 1);
    const { by, text } = this.form.elements;
    this.#show("searching …", []);
    let found = [];
    try {
      const { messages } = await this.ask("/api/message", { [by.value]: text.value });
      found = ["", messages];
    } catch (error) {
      found = [error.message, []];
    }
    // An answer to an earlier question is not shown.
    if (number === this.searched) this.#show(...found);
  }

  #show(note, messages) {
    setText(find("message-note"), note);
    find("message-found").replaceChildren(...messages.map(item));
  }
}

function item(message) {
  const { topology, topic, partition, offset, spout, key, root, sentences } = message;
  const [state, ...more] = sentences;
  const of = `${topic}[${partition}] offset ${offset}${key === null ? "" : `, key ${key}`}, read by ${spout}`;
  const link = root && html("a", { href: `/trace/${root}?${new URLSearchParams({ topology })}` }, "see its tree");
  const lines = [html("b", {}, state), of, ...more, ...(link ? [link] : [])].map((line) => html("div", {}, line));
  return html("li", { "data-severity": severity(message) }, ...lines);
}

// As that of a finding, which gives it its colour.
function severity({ state, outcome }) {
  if (state === "done") return outcome === "dead-letter" ? "problem" : "note";
  return state === "waiting" ? "warning" : "note";
}
