// The page: requests the figures, and shows them. The topology is a part of its address.

import { Component, showFindings } from "./component.js";
import { find, html, keyed, setAttribute, setState, setText, showFigures } from "./elements.js";
import { count, milliseconds, rate, seconds, time } from "./format.js";
import { Graph } from "./graph.js";
import { MessageSearch } from "./message.js";
import { Overview, controlOf } from "./overview.js";
import { Plot, logarithmic } from "./plot.js";
import { tables } from "./tables.js";

const STALE_MS = 10_000;
const HISTORY_MS = 5_000;
const FEW = 5; // failures of each reason that are shown where there are several

const total = (counts) => Object.values(counts ?? {}).reduce((sum, one) => sum + one, 0);

const shown = tables(find);
const component = new Component(shown.loads, ask);
const message = new MessageSearch(ask);
const graph = new Graph(find("drawing"));
const overview = new Overview(find("overview"), () => ask("/api/overview"), choose);
const plots = [
  new Plot(
    find("throughput"),
    "Throughput",
    "tuples/s",
    [
      { name: "emitted_per_second", title: "emitted" },
      { name: "acked_per_second", title: "acked" },
      { name: "failed_per_second", title: "failed" },
    ],
    rate,
  ),
  new Plot(
    find("latency"),
    "Complete latency",
    "ms",
    [
      { name: "complete_p50", title: "p50" },
      { name: "complete_p99", title: "p99" },
    ],
    milliseconds,
    { axis: logarithmic },
  ),
];

let topology = null;
let stream = null;
let snapshot = null;
let failures = [];
let reason = null;
let requests = {};
let receivedAt = 0;
let points = [];
let wasUnowned = false;

async function ask(path, more = {}) {
  // A parameter may have several values.
  const query = Object.entries({ topology, ...more }).flatMap(([name, value]) => [value].flat().map((one) => [name, one]));
  const answer = await fetch(topology ? `${path}?${new URLSearchParams(query)}` : path);
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error);
  return value;
}

// Asks again only if the figures say that there is more, and never before the last answer is there.
async function refresh(name, mark, path, show, more) {
  const last = (requests[name] ??= { mark: undefined, busy: false, until: 0 });
  if (last.busy || last.mark === mark || Date.now() < last.until) return;
  Object.assign(last, { busy: true, until: Date.now() + HISTORY_MS });
  const of = requests;
  try {
    const value = await ask(path, more);
    if (of !== requests) return;
    show(value);
    last.mark = mark;
  } catch (error) {
    if (of === requests) setState("problem", error.message);
  } finally {
    last.busy = false;
  }
}

function show(next) {
  snapshot = next;
  const { components, edges, acker, workers } = snapshot;
  setText(find("at"), time(snapshot.at));
  controlOf(find("control"), snapshot.control, components.some(({ processes }) => processes > 0));
  tiles();
  judged();
  shown.edges.show(edges);
  // Those with open trees first.
  const isOpen = ({ pending }) => Number(pending > 0);
  shown.partitions.show([...acker].sort((a, b) => isOpen(b) - isOpen(a)).map((row) => ({ ...row, topology })));
  shown.workers.show(workers);
  ackers(acker, workers);
  setText(find("dead-count"), snapshot.dead_letters ? count(snapshot.dead_letters) : "");
  reasons();
  const failed = components.map((component) => total(component.failed)).join();
  refresh("history", snapshot.at, "/api/history", (value) => {
    points = value.points;
    plots.forEach((plot) => plot.show(points, snapshot.at));
  });
  hour();
  refresh("failures", failed, "/api/failures", (value) => {
    failures = value.failures;
    reasons();
  });
  refresh("dead", snapshot.dead_letters, "/api/dead-letters", (value) => shown.dead.show(value.dead_letters));
  // Last, so that the figures are not older than the time.
  setAttribute(find("at"), "datetime", new Date(snapshot.at).toISOString());
  setAttribute(document.body, "data-at", String(snapshot.at));
  find("main").classList.remove("waiting");
}

// All ackers in a line; their tables open by themselves where a partition has no owner.
function ackers(partitions, workers) {
  const owned = partitions.filter(({ owner }) => owner !== null).length;
  const open = partitions.reduce((total, { pending }) => total + (pending ?? 0), 0);
  const ages = partitions.map(({ oldest_seconds: age }) => age ?? 0);
  const named = `${count(workers.length)} worker${workers.length === 1 ? "" : "s"}, `;
  const oldest = open ? `, the oldest ${seconds(Math.max(...ages))} s old` : "";
  setText(find("ackers-line"), `${named}${owned} of ${partitions.length} partitions, ${count(open)} open trees${oldest}`);
  const isUnowned = owned < partitions.length;
  if (isUnowned && !wasUnowned) find("ackers-details").open = true;
  wasUnowned = isUnowned;
}

// Of the topics and brokers, which the doctor checks now and then.
function looked({ at, problem }) {
  if (problem) return problem;
  return at === null ? "the first check of topics and brokers is running" : `topics and brokers as of ${time(at)}`;
}

// The verdict: the first cause first, and each finding beside the figures of its component.
function judged() {
  const { findings, checked } = snapshot;
  const problems = findings.filter(({ severity }) => severity === "problem").length;
  // Without figures that change: it is read out when it changes.
  if (problems) setState("unhealthy", `${problems} problem${problems === 1 ? "" : "s"}`);
  else setState("live", "live");
  overview.show(topology, findings.find(({ severity }) => severity !== "note")?.severity ?? null);
  setText(find("looked"), looked(checked));
  find("healthy").hidden = findings.length > 0;
  const of = (name) => findings.filter(({ component }) => component === name);
  const components = snapshot.components.map((each) => {
    const own = of(each.name);
    // The worst comes first.
    return { ...each, findings: own.length, severity: own[0]?.severity };
  });
  graph.show({ ...snapshot, components });
  shown.components.show(components);
  for (const row of find("components-table").tBodies[0].rows) {
    setAttribute(row, "id", `component-${row.dataset.key}`);
    setAttribute(row, "tabindex", "-1");
  }
  showFindings(find("findings-list"), findings);
  const chosen = components.find(({ name }) => location.hash === `#component-${name}`) ?? null;
  component.show(chosen, chosen ? of(chosen.name) : []);
}

// The last hour of the component that is chosen.
function hour() {
  const { name } = component;
  if (name === null) return;
  const show = ({ points }) => name === component.name && component.plot(points, snapshot.at);
  refresh(`history of ${name}`, snapshot.at, "/api/history", show, { component: name });
}

addEventListener("hashchange", () => {
  if (!snapshot) return;
  judged();
  hour();
});

const spouts = () => snapshot.components.filter(({ kind }) => kind === "spout");

// Of the spouts; null if none has it.
function sum(name) {
  const values = spouts().map((spout) => spout[name]).filter((value) => value !== null);
  return values.length ? values.reduce((a, b) => a + b, 0) : null;
}

function tiles() {
  // Quantiles cannot be added: the slowest spout counts.
  const most = (quantile) => {
    const values = spouts().map((spout) => spout.complete_latency?.[quantile]).filter((value) => value != null);
    return values.length ? Math.max(...values) : null;
  };
  const ages = snapshot.acker.map(({ oldest_seconds: age }) => age).filter((age) => age !== null);
  const lags = snapshot.components.map(({ lag }) => lag).filter((lag) => lag !== null);
  const all = [
    ["pending", "Open trees", count(sum("pending"))],
    ["oldest", "Oldest open (s)", seconds(ages.length ? Math.max(...ages) : null)],
    ["lag", "Lag", count(lags.length ? lags.reduce((a, b) => a + b, 0) : null)],
    ["emitted", "Emitted/s", rate(sum("emitted_per_second"))],
    ["acked", "Acked/s", rate(sum("acked_per_second"))],
    ["failed", "Failed/s", rate(sum("failed_per_second"))],
    ["p50", "Complete p50 (ms)", milliseconds(most("p50"))],
    ["p99", "Complete p99 (ms)", milliseconds(most("p99"))],
    ["dead", "Dead letters", count(snapshot.dead_letters)],
  ];
  showFigures(find("tiles"), all);
}

function reasons() {
  const counts = new Map();
  for (const { kind, failed } of snapshot?.components ?? []) {
    if (kind !== "spout") continue;
    for (const [word, number] of Object.entries(failed)) counts.set(word, (counts.get(word) ?? 0) + number);
  }
  for (const failure of failures) if (!counts.has(failure.reason)) counts.set(failure.reason, null);
  const all = [[null, counts.size ? null : 0], ...[...counts].sort()];
  keyed(
    find("reasons"),
    all,
    ([word]) => word ?? "",
    ([word]) => {
      const button = html("button", { type: "button" }, word ?? "latest", html("b", { "data-reason": word ?? "" }));
      button.addEventListener("click", () => {
        reason = word;
        reasons();
      });
      return button;
    },
    (button, [word, number]) => {
      setAttribute(button, "aria-pressed", String(word === reason));
      setText(button.lastChild, word === null || number === null ? "" : ` ${count(number)}`);
    },
  );
  // A wave of time-outs does not hide what failed before it.
  const seen = {};
  const isShown = ({ reason: word }) =>
    reason === null ? counts.size < 2 || (seen[word] = (seen[word] ?? 0) + 1) <= FEW : word === reason;
  const chosen = failures.filter(isShown);
  shown.failures.show(chosen.map((row) => ({ ...row, topology })));
}

function follow(name) {
  topology = name;
  overview.show(name, null);
  find("main").classList.add("waiting");
  message.clear();
  snapshot = null;
  points = [];
  failures = [];
  reason = null;
  requests = {};
  stream?.close();
  setText(find("name"), name);
  document.title = `${name} · acker`;
  for (const link of document.querySelectorAll("footer a")) {
    link.search = `?topology=${encodeURIComponent(name)}`;
  }
  stream = new EventSource(`/api/events?topology=${encodeURIComponent(name)}`);
  stream.addEventListener("snapshot", ({ data }) => {
    receivedAt = Date.now();
    show(JSON.parse(data));
  });
  stream.addEventListener("problem", ({ data }) => setState("problem", JSON.parse(data).error));
  stream.addEventListener("error", ({ target }) => {
    if (target.readyState === EventSource.CLOSED) answers();
    else setState("lost", "the dashboard does not answer; trying again");
  });
}

// A browser takes an answer with an error for the end of the stream; the reason is in the answer.
async function answers() {
  try {
    await ask("/api/snapshot");
    return true;
  } catch (error) {
    setState("problem", error.message);
    return false;
  }
}

setInterval(async () => {
  if (stream?.readyState !== EventSource.CLOSED) {
    if (snapshot && ["live", "unhealthy"].includes(find("status").dataset.state) && Date.now() - receivedAt > STALE_MS) {
      setState("stale", "nothing new for a while");
    }
    return;
  }
  if (await answers()) follow(topology);
}, 3000);

function choose(name) {
  history.pushState(null, "", `?topology=${encodeURIComponent(name)}`);
  follow(name);
}

async function begin() {
  // The token has done its work, and must not be seen over a shoulder or in a bookmark.
  const address = new URL(location.href);
  if (address.searchParams.has("token")) {
    address.searchParams.delete("token");
    history.replaceState(null, "", address);
  }
  try {
    const { topologies, chosen, version } = await ask("/api/topologies");
    setText(find("version"), version);
    const names = chosen ? [chosen] : topologies;
    const wanted = address.searchParams.get("topology") ?? names[0];
    if (wanted === undefined) {
      setState("problem", "no topology is published here yet; trying again");
      setTimeout(begin, 3000);
      return;
    }
    overview.begin();
    addEventListener("popstate", () => {
      const back = new URL(location.href).searchParams.get("topology") ?? names[0];
      if (back !== topology) follow(back);
    });
    follow(wanted);
  } catch (error) {
    setState("problem", error.message);
    setTimeout(begin, 3000);
  }
}

begin();
