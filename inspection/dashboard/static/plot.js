// A plot of some figures over time. Its cursor is moved by the mouse, by a finger, or by the arrow keys.

import { html, setAttribute, setText, svg } from "./elements.js";
import { minutes, time } from "./format.js";

const HEIGHT = 200;
const EDGE = { left: 46, right: 10, top: 10, bottom: 24 };
const SPANS_MS = [5, 15, 30, 60].map((span) => span * 60_000);
const TICKS_MS = [1, 5, 10].map((step) => step * 60_000);
const HOLE_MS = 15_000;

export class Plot {
  // series: [{name, title}], where `name` is that of the figure in a point; write: a figure as text;
  //   onAxis: the same where there is little room; axis: `linear`, or `logarithmic`, which one peak does not flatten.
  constructor(figure, title, unit, series, write, { onAxis = short, axis = linear } = {}) {
    Object.assign(this, { series, write, onAxis, axis, unit, points: [], cursor: null });
    const keys = series.map(({ name, title: of }) => {
      const value = html("b", { "data-figure": name });
      return { name, value, key: html("span", { class: `key ${name}` }, html("i"), `${of} `, value) };
    });
    this.values = keys;
    this.when = html("span", { class: "when" });
    this.legend = html("p", { class: "legend" }, ...keys.map(({ key }) => key), this.when);
    const id = `${figure.id}-title`;
    figure.append(html("figcaption", { id }, title, html("small", {}, ` ${unit}`)), this.legend);
    this.drawing = svg("svg", { role: "slider", tabindex: "0", "aria-labelledby": id, height: HEIGHT });
    figure.append(this.drawing);
    this.drawing.addEventListener("pointermove", (event) => this.#point(event));
    this.drawing.addEventListener("pointerdown", (event) => this.#point(event));
    this.drawing.addEventListener("pointerleave", () => this.#move(null));
    this.drawing.addEventListener("blur", () => this.#move(null));
    this.drawing.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.#draw()).observe(figure);
  }

  // points: as in `history`, the oldest first; now: when the plot ends.
  show(points, now) {
    this.points = points;
    this.now = now;
    if (this.cursor !== null && !points.some(({ at }) => at === this.cursor)) this.cursor = null;
    this.#draw();
  }

  #draw() {
    const width = this.drawing.clientWidth;
    if (!width || this.now === undefined) return;
    const oldest = this.points[0]?.at ?? this.now;
    const span = SPANS_MS.find((one) => this.now - oldest <= one) ?? SPANS_MS.at(-1);
    const begin = this.now - span;
    const shown = this.points.filter(({ at }) => at >= begin);
    const { ticks, share } = this.axis(shown.flatMap((point) => this.series.map(({ name }) => point[name] ?? 0)));
    const x = (at) => EDGE.left + ((at - begin) / span) * (width - EDGE.left - EDGE.right);
    const y = (value) => HEIGHT - EDGE.bottom - share(value) * (HEIGHT - EDGE.top - EDGE.bottom);
    this.x = x;
    this.shown = shown;
    const lines = [];
    for (const value of ticks) {
      lines.push(svg("path", { class: "rule", d: `M${EDGE.left} ${y(value)}H${width - EDGE.right}` }));
      lines.push(svg("text", { class: "tick", x: EDGE.left - 8, y: y(value) + 4, "text-anchor": "end" }, this.onAxis(value)));
    }
    const every = TICKS_MS.find((one) => span <= 6 * one);
    for (let at = Math.ceil(begin / every) * every; at <= this.now; at += every) {
      const anchor = x(at) > width - 24 ? "end" : "middle";
      lines.push(svg("text", { class: "tick", x: x(at), y: HEIGHT - 6, "text-anchor": anchor }, minutes(at)));
    }
    const curves = this.series.map(({ name }) => svg("path", { class: `curve ${name}`, d: curve(shown, name, x, y) }));
    this.rule = svg("path", { class: "cursor" });
    setAttribute(this.drawing, "viewBox", `0 0 ${width} ${HEIGHT}`);
    this.drawing.replaceChildren(...lines, ...curves, this.rule);
    this.#read();
  }

  // The point under the cursor, or the latest.
  #read() {
    const point = this.shown.find(({ at }) => at === this.cursor) ?? this.shown.at(-1);
    const at = point ? time(point.at) : "";
    for (const { name, value } of this.values) setText(value, point ? this.write(point[name]) : "–");
    setText(this.when, this.cursor === null ? "" : at);
    const line = this.cursor === null ? "" : `M${this.x(this.cursor)} ${EDGE.top}V${HEIGHT - EDGE.bottom}`;
    setAttribute(this.rule, "d", line);
    const texts = this.series.map(({ name, title }) => `${title} ${point ? this.write(point[name]) : "unknown"}`);
    setAttribute(this.drawing, "aria-valuemin", String(this.shown[0]?.at ?? 0));
    setAttribute(this.drawing, "aria-valuemax", String(this.shown.at(-1)?.at ?? 0));
    setAttribute(this.drawing, "aria-valuenow", String(point?.at ?? 0));
    setAttribute(this.drawing, "aria-valuetext", point ? `${at}: ${texts.join(", ")} ${this.unit}` : "nothing yet");
  }

  #move(at) {
    this.cursor = at;
    if (this.rule) this.#read();
  }

  #point(event) {
    if (!this.shown?.length) return;
    const here = event.clientX - this.drawing.getBoundingClientRect().left;
    const distance = ({ at }) => Math.abs(this.x(at) - here);
    this.#move(this.shown.reduce((best, one) => (distance(one) < distance(best) ? one : best)).at);
  }

  #key(event) {
    const last = (this.shown?.length ?? 0) - 1;
    if (last < 0) return;
    const now = this.cursor === null ? last : this.shown.findIndex(({ at }) => at === this.cursor);
    const next = { ArrowLeft: now - 1, ArrowRight: now + 1, PageUp: now - 12, PageDown: now + 12, Home: 0, End: last };
    if (event.key === "Escape") this.#move(null);
    else if (event.key in next) this.#move(this.shown[Math.min(last, Math.max(0, next[event.key]))].at);
    else return;
    event.preventDefault();
  }
}

// An axis: the values with a line, and the share of the height at which a value is.

// From 0 on; the lines are 1, 2 or 5 of a power of ten apart.
export function linear(values) {
  const most = Math.max(0, ...values);
  const power = 10 ** Math.floor(Math.log10((most || 1) / 4));
  const step = [1, 2, 5, 10].map((n) => n * power).find((one) => one >= (most || 1) / 4);
  const top = Math.ceil((most || 1) / step) * step;
  return { ticks: Array.from({ length: Math.round(top / step) + 1 }, (_, n) => n * step), share: (value) => value / top };
}

// Whole powers of ten; what is smaller than the lowest is drawn there.
export function logarithmic(values) {
  const some = values.filter((value) => value > 0);
  const low = Math.floor(Math.log10(some.length ? Math.min(...some) : 1));
  const high = Math.max(low + 1, Math.ceil(Math.log10(some.length ? Math.max(...some) : 1)));
  const share = (value) => Math.max(0, (Math.log10(Math.max(value, 10 ** low)) - low) / (high - low));
  return { ticks: Array.from({ length: high - low + 1 }, (_, n) => 10 ** (low + n)), share };
}

const compact = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 });
const short = (value) => compact.format(value);

// A line that is broken where nothing is known, or no process reported for a while; a dot for a point that stands alone.
function curve(points, name, x, y) {
  const runs = [];
  let before = null;
  for (const point of points) {
    const value = point[name] ?? null;
    if (value === null) {
      before = null;
      continue;
    }
    const spot = `${x(point.at).toFixed(1)} ${y(value).toFixed(1)}`;
    if (before !== null && point.at - before <= HOLE_MS) runs.at(-1).push(spot);
    else runs.push([spot]);
    before = point.at;
  }
  return runs.map((run) => `M${run.join("L")}${run.length > 1 ? "" : "m-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0"}`).join("");
}
