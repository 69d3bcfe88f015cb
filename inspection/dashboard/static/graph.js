// The topology as a graph: spouts first, with the rates on the edges. A component and the bolts that are chained to it
// have a frame around them.

import { Graph as Plan, layout } from "./dagre.js";
import { setAttribute, setText, svg } from "./elements.js";
import { count, rate, share } from "./format.js";

const NODE = { width: 162, height: 64 };
const LABEL = { width: 60, height: 16 };
const NARROW = 640;
const MARGIN = 12;

const pair = ({ source, target }) => `${source} ${target}`;

export class Graph {
  constructor(element) {
    this.element = element;
    this.drawn = "";
    new ResizeObserver(() => this.snapshot && this.show(this.snapshot)).observe(element);
  }

  show(snapshot) {
    this.snapshot = snapshot;
    const narrow = this.element.clientWidth < NARROW;
    const links = new Map(snapshot.edges.map((edge) => [pair(edge), edge]));
    const names = snapshot.components.map(({ name }) => name);
    const known = [...links.values()].filter(({ source, target }) => names.includes(source) && names.includes(target));
    const boxes = snapshot.components.map(({ name, kind, head }) => [name, kind, head]);
    const shape = JSON.stringify([narrow, boxes, [...links.keys()]]);
    if (shape !== this.drawn) {
      this.drawn = shape;
      this.#draw(snapshot.components, names, known, narrow);
    }
    this.#update(snapshot);
  }

  #draw(components, names, links, narrow) {
    const plan = new Plan({ compound: true });
    const rankdir = narrow ? "TB" : "LR";
    plan.setGraph({ rankdir, nodesep: 20, edgesep: 16, ranksep: narrow ? 40 : 60, marginx: MARGIN, marginy: MARGIN });
    for (const name of names) plan.setNode(name, { ...NODE });
    const heads = new Set(components.filter(({ name, head }) => name !== head).map(({ head }) => head));
    for (const head of heads) plan.setNode(frame(head), {});
    for (const { name, head } of components) if (heads.has(head)) plan.setParent(name, frame(head));
    for (const { source, target } of links) plan.setEdge(source, target, { ...LABEL, labelpos: "c" });
    layout(plan);
    const { width, height } = plan.graph();
    this.labels = new Map();
    this.lines = new Map();
    const edges = svg("g", { class: "edges" });
    const labels = svg("g", { class: "labels" });
    for (const link of links) {
      const edge = plan.edge(link.source, link.target);
      const d = path(edge, plan.node(link.source), plan.node(link.target), narrow);
      const line = svg("path", { d, "marker-end": "url(#arrow)" });
      const label = svg("text", { "text-anchor": "middle", x: edge.x, y: edge.y + 4 });
      edges.append(line);
      labels.append(label);
      this.lines.set(pair(link), line);
      this.labels.set(pair(link), label);
    }
    this.nodes = new Map();
    const boxes = components.map((component) => this.#node(component, plan.node(component.name)));
    const arrow = svg("path", { d: "M0 0 8 4 0 8z" });
    const frames = [...heads].map((head) => chain(head, plan.node(frame(head))));
    const marker = { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8 };
    const tip = svg("marker", { ...marker, markerUnits: "userSpaceOnUse", orient: "auto" }, arrow);
    const drawing = svg(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Components, and what flows between them" },
      svg("defs", {}, tip),
      svg("g", { class: "chains" }, ...frames),
      edges,
      svg("g", { class: "nodes" }, ...boxes),
      labels,
    );
    drawing.style.maxWidth = `${Math.round(width * 1.15)}px`;
    this.element.replaceChildren(drawing);
    // Letters have different widths, which are known once they are drawn.
    for (const title of drawing.querySelectorAll(".name")) {
      while (title.getComputedTextLength() > NODE.width - 24) setText(title, title.textContent.replace(/.…?$/, "…"));
    }
  }

  #node({ name, kind }, { x, y }) {
    const title = svg("text", { x: 14, y: 24, class: "name" }, clipped(name, 40));
    const note = svg("text", { x: 14, y: 42, class: "note" });
    // A bolt's share of the time, and how many findings the doctor has.
    const busy = svg("rect", { x: 14, y: 51, height: 5, width: 0, rx: 2.5, class: "share" });
    const round = svg("circle", { cx: NODE.width - 4, cy: 4, r: 10 });
    const number = svg("text", { x: NODE.width - 4, y: 8, "text-anchor": "middle" });
    const badge = svg("g", { class: "badge" }, round, number);
    const box = svg("rect", { width: NODE.width, height: NODE.height, rx: 10 });
    const bar = svg("rect", { width: 4, height: NODE.height - 20, x: 0, y: 10, rx: 2, class: "bar" });
    const link = svg(
      "a",
      {
        href: `#component-${name}`,
        class: `node ${kind}`,
        transform: `translate(${x - NODE.width / 2} ${y - NODE.height / 2})`,
      },
      svg("title", {}, name),
      box,
      bar,
      title,
      note,
      busy,
      badge,
    );
    this.nodes.set(name, { link, note, busy, badge });
    return link;
  }

  #update(snapshot) {
    for (const component of snapshot.components) {
      const { link, note, busy, badge } = this.nodes.get(component.name);
      const rated = component.kind === "spout" ? component.emitted_per_second : component.executed_per_second;
      const verb = component.kind === "spout" ? "emitted" : "executed";
      const lag = component.lag ? `lag ${count(component.lag)}` : "";
      setText(note, clipped(`${rate(rated)}/s${lag && ` · ${lag}`}`, 24));
      const parts = [`${rate(rated)}/s ${verb}`, ...(lag ? [lag] : [])];
      if (component.busy != null) parts.push(`busy ${share(component.busy)}`);
      if (component.findings) parts.push(`findings: ${component.findings}`);
      const where = component.head === component.name ? "" : ` in the tasks of ${component.head}`;
      setAttribute(link, "aria-label", `${component.kind} ${component.name}${where}: ${parts.join(", ")}`);
      setAttribute(busy, "width", String(Math.round((component.busy ?? 0) * (NODE.width - 28))));
      busy.classList.toggle("warns", Boolean(component.findings));
      setText(badge.lastChild, component.findings ? String(component.findings) : "");
      setAttribute(badge, "data-severity", component.severity ?? "");
      link.classList.toggle("idle", component.processes === 0);
    }
    // Several streams of one component to another are one line.
    const sums = new Map();
    for (const edge of snapshot.edges) {
      const sum = sums.get(pair(edge));
      const value = edge.tuples_per_second;
      sums.set(pair(edge), sum === undefined || value === null ? value : sum === null ? null : sum + value);
    }
    const most = Math.max(1, ...[...sums.values()].map((value) => value ?? 0));
    for (const [key, line] of this.lines) {
      const value = sums.get(key);
      setText(this.labels.get(key), value === null ? rate(value) : `${rate(value)}/s`);
      setAttribute(line, "class", value ? "busy" : "quiet");
      setAttribute(line, "stroke-width", (1.5 + 3 * Math.sqrt((value ?? 0) / most)).toFixed(1));
    }
  }
}

// The name of a frame in the plan, which no component has.
const frame = (head) => `tasks of ${head}`;

// Around a component and the bolts that run in its tasks.
function chain(head, { x, y, width, height }) {
  const box = { x: x - width / 2, y: y - height / 2, width, height, rx: 14 };
  return svg("rect", { ...box, class: "chain", "data-head": head }, svg("title", {}, `one task: ${head} and the bolts chained to it`));
}

// A curve through the points of an edge, which leaves and reaches the boxes in the direction of the flow. A bolt that
// receives its own tuples has a loop at its side.
function path(edge, source, target, narrow) {
  const [along, across, size, breadth] = narrow ? ["y", "x", NODE.height, NODE.width] : ["x", "y", NODE.width, NODE.height];
  const at = ({ x, y }) => `${x} ${y}`;
  if (source === target) {
    const border = source[across] + breadth / 2;
    const deep = border + ((edge[across] - border) * 4) / 3;
    const [from, to] = [size / 4, -size / 4].map((off) => ({ [along]: source[along] + off, [across]: border }));
    return `M${at(from)}C${at({ ...from, [across]: deep })} ${at({ ...to, [across]: deep })} ${at(to)}`;
  }
  const side = Math.sign(target[along] - source[along]) * (size / 2);
  const end = (node, side, next) => {
    const most = breadth / 2 - 12;
    const off = Math.min(most, Math.max(-most, next[across] - node[across]));
    return { [along]: node[along] + side, [across]: node[across] + off };
  };
  const between = edge.points.slice(1, -1);
  const ends = [end(source, side, between[0]), ...between, end(target, -side, between.at(-1))];
  let drawn = `M${at(ends[0])}`;
  for (let i = 1; i < ends.length; i++) {
    const [from, to] = [ends[i - 1], ends[i]];
    const middle = { [along]: (from[along] + to[along]) / 2 };
    drawn += `C${at({ ...from, ...middle })} ${at({ ...to, ...middle })} ${at(to)}`;
  }
  return drawn;
}

const clipped = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
