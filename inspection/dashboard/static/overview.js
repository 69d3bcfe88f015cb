// All topologies, each with a light, and the state of the one that is shown.

import { html, keyed, setAttribute, setText } from "./elements.js";

const AGAIN_MS = 5_000;

const stateOf = (control, isRunning) => (control === "running" && !isRunning ? "not running" : control);

// The state of a topology, beside its name.
export function controlOf(element, control, isRunning) {
  const state = stateOf(control, isRunning);
  element.hidden = false;
  setAttribute(element, "data-state", state);
  setText(element, state);
}

export class Overview {
  // ask: requests the topologies; choose: shows one.
  constructor(nav, ask, choose) {
    Object.assign(this, { nav, ask, onChoose: choose, name: null, severity: null, topologies: [] });
  }

  begin() {
    this.#refresh();
    setInterval(() => document.hidden || this.#refresh(), AGAIN_MS);
  }

  // The one that is shown, and the worst of its findings: those of the page are more than those of the statistics.
  show(name, severity) {
    if (name === this.name && severity === this.severity) return;
    Object.assign(this, { name, severity });
    this.#draw();
  }

  async #refresh() {
    try {
      this.topologies = (await this.ask()).topologies;
      this.#draw();
    } catch {
      // The line at the top tells when there is no answer.
    }
  }

  #draw() {
    this.nav.hidden = this.topologies.length < 2;
    keyed(
      this.nav,
      this.topologies,
      ({ topology }) => topology,
      ({ topology }) => {
        const link = html("a", { href: `?topology=${encodeURIComponent(topology)}` }, html("i"), html("span", {}, topology), html("small"));
        link.addEventListener("click", (event) => {
          event.preventDefault();
          this.onChoose(topology);
        });
        return link;
      },
      (link, { topology, control, processes, severity, verdict }) => {
        const isShown = topology === this.name;
        const light = (isShown && this.severity) || severity || stateOf(control, processes > 0);
        setAttribute(link, "data-light", light);
        setAttribute(link, "title", verdict);
        setText(link.lastChild, light === "running" ? "" : light);
        if (isShown) setAttribute(link, "aria-current", "page");
        else link.removeAttribute("aria-current");
      },
    );
  }
}
