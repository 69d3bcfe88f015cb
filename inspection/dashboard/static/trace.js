// The page of one tuple tree: who emitted what, who acked it, what is open. Searched once, and again by a button.

import { command, find, html, setAttribute, setState, setText, showFigures } from "./elements.js";
import { count, text, time } from "./format.js";
import { Table, word } from "./table.js";

const MOST_SIBLINGS = 20;
const MOST_DRAWN = 500;
// Beside the colour: a mark for readers, and a word for screen readers.
const MARKS = { acked: "✓", open: "○", failed: "✗", unclear: "?" };

const address = new URL(location.href);
const topology = address.searchParams.get("topology");

const tables = {
  log: new Table(
    find("log-table"),
    [
      word("kind", "Entry"),
      word("writer", "By"),
      { name: "at_ms", title: "At", kind: "number", value: ({ at }) => at },
      { name: "place", title: "Position", kind: "code", value: ({ partition, offset }) => `[${partition}]@${offset}` },
      { name: "val", title: "Val", kind: "code", value: ({ kind, val }) => (kind === "init" || kind === "ack" ? val : text(null)) },
      word("message", "Message"),
      word("dropped", "Dropped as"),
    ],
    ({ number }) => number,
    "Nothing.",
  ),
  notices: new Table(
    find("notices-table"),
    [
      word("outcome", "Outcome"),
      { name: "at_ms", title: "At", kind: "number", value: ({ at }) => at },
      { name: "place", title: "Position", kind: "code", value: ({ topic, partition, offset }) => `${topic}[${partition}]@${offset}` },
      word("message", "Message"),
    ],
    ({ number }) => number,
    "Nothing yet.",
  ),
};

// The query of /api/trace: a root, or the tree that is open for longest in a partition of the ack log.
const given = Object.fromEntries([...address.searchParams].filter(([name]) => name === "topology" || name === "at"));
const which = decodeURIComponent(address.pathname.split("/").pop());
let query = which === "oldest" ? { oldest: address.searchParams.get("partition") ?? "", ...given } : { root: which, ...given };
let busy = false;

function setQuery(next) {
  query = next;
  find("json").search = new URLSearchParams(query);
}

// Since the init, by the ack log; the time of day where that is not known.
const since = (tree) => (at) => {
  if (tree.began_ms === null) return time(at);
  const passed = at - tree.began_ms;
  return `${passed < 0 ? "−" : "+"}${count(Math.abs(passed))} ms`;
};

function tiles(tree) {
  const [open, failed] = ["open", "failed"].map((state) => tree.tuples.filter((tuple) => tuple.state === state).length);
  const all = [
    ["status", "State", tree.status === "failed" && tree.reason !== "failed" ? `failed, ${tree.reason}` : tree.status],
    ["spout", "Spout", text(tree.spout)],
    ["began", "Begun", time(tree.began_ms)],
    ["took", "Took ms", tree.ended_ms === null || tree.began_ms === null ? text(null) : count(tree.ended_ms - tree.began_ms)],
    ["tuples", "Tuples", count(tree.tuples.length)],
    ["open", "Open", count(open), open > 0],
    ["failed", "Failed", count(failed), failed > 0],
  ];
  showFigures(find("tiles"), all);
}

function standing(tuple, at) {
  if (tuple.acks.length) return `acked ${tuple.acks.map((ack) => `${at(ack.at_ms)} by ${ack.writer}`).join(", ")}`;
  if (tuple.state === "acked" || tuple.state === "failed" || tuple.lag === null) return "";
  return tuple.lag > 0 ? `lag ${count(tuple.lag)}` : `committed ${count(tuple.committed)}`;
}

function remarks(tuple) {
  const notes = [];
  if (tuple.chain.length > 1) notes.push(`through ${tuple.chain.slice(1).join(", ")}`);
  if (tuple.parents.length > 1) notes.push(`child of one or more of ${tuple.parents.join(", ")}`);
  if (tuple.parents_are === "inferred" && tuple.parents.length) notes.push("its parent is not acked");
  if (tuple.parents_are === "unreported") notes.push("no ack holds it: the execution that emitted it was interrupted");
  if (tuple.offsets.length > 1) notes.push(`sent ${tuple.offsets.length} times, at offsets ${tuple.offsets.join(", ")}`);
  if (tuple.roots > 1) notes.push(`in ${tuple.roots} trees`);
  return notes;
}

function label(tuple, at) {
  const notes = [`edge ${tuple.edge}`, `emitted ${at(tuple.emitted_ms)}`, standing(tuple, at), ...remarks(tuple)];
  const stream = tuple.stream === "default" ? [] : [` ${tuple.stream}`];
  return html(
    "div",
    { class: "tuple", "data-tuple": tuple.tuple, "data-state": tuple.state },
    html("span", { class: "state" }, html("span", { "aria-hidden": "true" }, `${MARKS[tuple.state]} `), tuple.state),
    html("code", {}, tuple.tuple, ...stream),
    html("span", { class: "preview" }, tuple.preview),
    html("span", { class: "about" }, notes.filter(Boolean).join(", ")),
  );
}

function draw(tree) {
  const at = since(tree);
  const children = new Map();
  for (const tuple of tree.tuples) {
    const parent = tuple.parents[0] ?? null;
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent).push(tuple);
  }
  const drawn = new Set();
  const branch = (list, members) => {
    // What is open comes first where not all are drawn.
    const chosen = new Set([...members].sort((a, b) => (a.state === "acked") - (b.state === "acked")).slice(0, MOST_SIBLINGS));
    for (const tuple of members) {
      if (!chosen.has(tuple) || drawn.has(tuple.tuple) || drawn.size >= MOST_DRAWN) continue;
      drawn.add(tuple.tuple);
      const item = html("li", {}, label(tuple, at));
      const below = children.get(tuple.tuple);
      if (below) branch(item.appendChild(html("ul")), below);
      list.append(item);
    }
    const left = members.filter((tuple) => !drawn.has(tuple.tuple));
    if (!left.length) return;
    const open = left.filter((tuple) => tuple.state !== "acked").length;
    const what = open ? `${count(open)} of them open` : "all acked";
    list.append(html("li", { class: "more" }, `… and ${count(left.length)} more, ${what}`));
  };
  const list = find("tree");
  list.replaceChildren();
  const tops = children.get(null) ?? [];
  // The emitter of a tuple of a chained bolt is the component in whose task the bolt runs.
  branch(list, tops.filter(({ chain }) => chain[0] === tree.spout));
  const others = tops.filter(({ chain }) => chain[0] !== tree.spout);
  for (const emitter of [...new Set(others.map((tuple) => tuple.chain[0]))].sort()) {
    const item = html("li", { class: "more" }, `emitted by ${emitter || "an unknown component"}, parent tuple unknown`, html("ul"));
    branch(item.lastChild, others.filter((tuple) => tuple.chain[0] === emitter));
    list.append(item);
  }
  if (!tree.tuples.length) list.append(html("li", { class: "more" }, "No tuple is in an inbox."));
}

function show(tree) {
  const at = since(tree);
  setText(find("name"), tree.root);
  document.title = `${tree.root} · ${tree.status} · acker`;
  setText(find("verdict"), tree.verdict);
  setAttribute(find("verdict"), "data-status", tree.status);
  tiles(tree);
  draw(tree);
  tables.log.show(tree.log.map((entry, number) => ({ ...entry, number, at: at(entry.at_ms) })));
  tables.notices.show(tree.notices.map((notice, number) => ({ ...notice, number, at: at(notice.at_ms) })));
}

async function look() {
  // Not disabled meanwhile: who pressed it would lose the place on the page.
  if (busy) return;
  busy = true;
  setAttribute(find("main"), "aria-busy", "true");
  setState("connecting", "looking for it");
  try {
    const answer = await fetch(find("json").href);
    const value = await answer.json();
    if (!answer.ok) throw new Error(value.error);
    const tree = value.trees[0];
    show(tree);
    find("command").replaceChildren(command(`acker trace ${tree.root} --topology ${value.topology}`));
    if (query.oldest !== undefined) {
      // From now on it is this tree, also when another has become the oldest.
      setQuery({ root: tree.root, topology: value.topology });
      history.replaceState(null, "", `/trace/${tree.root}?${new URLSearchParams({ topology: value.topology })}`);
    }
    setState("live", `as of ${time(Date.now())}`);
  } catch (error) {
    setState("problem", error.message);
  } finally {
    busy = false;
    setAttribute(find("main"), "aria-busy", "false");
  }
}

setText(find("name"), query.root ?? `open for longest in partition ${query.oldest}`);
setQuery(query);
if (topology) find("back").search = new URLSearchParams({ topology });
find("back").hash = "failures";
find("again").addEventListener("click", look);
look();
