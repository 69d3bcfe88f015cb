// What is known of one component: figures, findings, its last hour, its tasks.

import { command, find, html, keyed, setText, showFigures } from "./elements.js";
import { UNKNOWN, bytes, count, milliseconds, rate, seconds, share, text } from "./format.js";
import { Plot, logarithmic } from "./plot.js";
import { StateSearch } from "./state.js";
import { quantiles } from "./tables.js";

const perSecond = (word) => ({ name: `${word}_per_second`, title: word });
const latency = (of) => ["p50", "p99"].map((quantile) => ({ name: `${of}_${quantile}`, title: quantile }));
const reasons = (failed) => Object.entries(failed).map(([word, number]) => `${word} ${count(number)}`).join(", ");

function restore({ tasks, done, records_per_second: speed, seconds: since }) {
  return `${share(done)} of tasks ${tasks.join(", ")}, ${count(Math.round(speed))} records/s, for ${seconds(since)} s`;
}

// What else the table has no room for; without a value it is left out.
const FIGURES = [
  ["guarantee", "State", ({ state }) => state?.guarantee ?? ""],
  ["keys", "Keys", ({ state }) => count(state?.keys)],
  ["size", "Size", ({ state }) => bytes(state?.bytes)],
  ["identities", "Identities", ({ state }) => count(state?.identities)],
  ["restore", "Restore", ({ state }) => (state?.restore ? restore(state.restore) : "")],
  ["head", "Chained", ({ name, head }) => (name === head ? "" : `runs in the tasks of ${head}`)],
  ["transferred", "Transferred/s", ({ transferred_per_second: value }) => rate(value)],
  ["failed", "Failed", ({ failed }) => reasons(failed)],
  ["sources", "Reads", ({ sources }) => (sources ?? []).join(", ")],
  [
    "oldest_input",
    "Oldest input",
    ({ oldest_input: place, oldest_input_seconds: age }) => (place ? `${seconds(age)} s, ${place}` : ""),
  ],
  ["process_latency", "Process ms", ({ process_latency: value }) => (value ? quantiles(value) : "")],
  ["dead_letters", "Dead letters", ({ dead_letters: value }) => (value ? count(value) : "")],
  ["undelivered", "Undelivered", ({ undelivered: value }) => (value ? count(value) : "")],
  ["late_tuples", "Late tuples", ({ late_tuples: value }) => (value ? count(value) : "")],
  ["last_error", "Last error", ({ last_error: value }) => value],
];

export class Component {
  // table: of the tasks; ask: requests JSON.
  constructor(table, ask) {
    this.table = table;
    this.search = new StateSearch(ask);
    this.name = null;
    this.plots = [];
  }

  // component: as in the snapshot; null to show none.
  show(component, findings) {
    find("component").hidden = component === null;
    if (component === null) {
      this.name = null;
      return;
    }
    if (component.name !== this.name) {
      this.name = component.name;
      this.#draw(component.kind);
    }
    setText(find("component-title"), `${component.kind} ${component.name}`);
    showFindings(find("component-findings"), findings);
    const figures = FIGURES.map(([name, title, value]) => [name, title, text(value(component))]);
    showFigures(find("component-figures"), figures.filter(([, , value]) => value !== UNKNOWN));
    this.search.show(component);
    find("loads-table").hidden = component.kind === "spout";
    if (component.kind === "bolt") this.table.show(component.loads ?? []);
  }

  // points: of its last hour.
  plot(points, now) {
    this.plots.forEach((plot) => plot.show(points, now));
  }

  #draw(kind) {
    const isBolt = kind === "bolt";
    const counts = ["emitted", ...(isBolt ? ["executed"] : []), "acked", "failed"].map(perSecond);
    const kinds = [
      ["throughput", "Throughput", "tuples/s", counts, rate],
      isBolt
        ? ["latency", "Process latency", "ms", latency("process"), milliseconds, { axis: logarithmic }]
        : ["latency", "Complete latency", "ms", latency("complete"), milliseconds, { axis: logarithmic }],
      ...(isBolt ? [["busy", "Busy", "of the busiest process", [{ name: "busy", title: "busy" }], share, { onAxis: share }]] : []),
    ];
    const figures = kinds.map(([id]) => html("figure", { id: `component-${id}-plot`, class: "plot" }));
    find("component-plots").replaceChildren(...figures);
    this.plots = kinds.map(([, ...how], index) => new Plot(figures[index], ...how));
  }
}

// The first clause of a finding is the cause, the rest its evidence.
const CLAUSE = /^(.*?)([:;]|(?<=\.)) (.*)$/;
// A command in a remedy follows a colon or a comma, and ends before the next mark or word of the sentence.
const COMMAND = /(?<=[:,;] (?:or )?)acker [a-z-]+.*?(?=[.,;](?: |$)| (?:and|or|prints|if) |$)/g;

export function showFindings(list, findings) {
  keyed(
    list,
    findings,
    ({ found }) => found,
    ({ severity, component, found, remedy }) => {
      const [, cause, mark, evidence] = found.match(CLAUSE) ?? ["", found, "", ""];
      return html(
        "li",
        { "data-severity": severity },
        html("b", {}, severity),
        ...(component && list.id === "findings-list" ? [html("a", { href: `#component-${component}` }, component)] : []),
        html(
          "span",
          { class: "found" },
          html("span", { class: "cause" }, cause),
          // For those who hear it.
          html("span", { class: "hidden" }, mark, " "),
          html("span", { class: "evidence" }, evidence),
        ),
        html("span", { class: "remedy" }, remedy),
        ...[...new Set(remedy.match(COMMAND))].map(command),
      );
    },
    () => {},
  );
}
