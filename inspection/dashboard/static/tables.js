// The tables of the page: their columns, and how a row is shown.

import { html } from "./elements.js";
import { count, milliseconds, rate, seconds, share, text, time, times } from "./format.js";
import { Table, word } from "./table.js";

const figure = (name, title, write = rate) => ({ name, title, kind: "number", value: (row) => write(row[name]) });

export const quantiles = (latency) =>
  latency ? `${milliseconds(latency.p50)} / ${milliseconds(latency.p99)}` : text(null);

function componentLink({ name }) {
  return html("a", { href: `#component-${name}` }, name);
}

// The page of a tree. The time of its notice bounds the search, which a root alone does not.
function traceLink({ root, at, topology }, words = root) {
  return html("a", { href: `/trace/${root}?${new URLSearchParams({ topology, ...(at ? { at } : {}) })}` }, words);
}

// No bolt has failed a tree that timed out; the page of the tree shows which one holds it.
function failedBy(row) {
  return row.by === null && row.reason === "timeout" ? traceLink(row, "see its tree") : text(row.by);
}

// The root is unknown here: the page of the tree searches for it.
function oldestLink({ partition, pending, topology }) {
  if (!pending) return text(null);
  const href = `/trace/oldest?${new URLSearchParams({ topology, partition })}`;
  return html("a", { href, "aria-label": `Show the oldest open tree of partition ${partition}` }, "show");
}

function rebuild({ rebuilding, rebuild_left: left }) {
  if (rebuilding === null) return text(null);
  return rebuilding ? `${count(left)} left` : "no";
}

function position({ topic, of_partition: partition, of_offset: offset }) {
  return topic === null ? text(null) : `${topic}/${partition}/${offset}`;
}

export const tables = (find) => ({
  components: new Table(
    find("components-table"),
    [
      { name: "name", title: "Component", value: componentLink },
      { name: "kind", title: "Kind", kind: "", value: ({ kind, name, head }) => (name === head ? kind : `${kind} in ${head}`) },
      {
        name: "tasks",
        title: "Tasks",
        kind: "number",
        value: (row) => `${count(row.owned_tasks)}/${count(row.tasks)}`,
      },
      figure("processes", "Processes", count),
      figure("emitted_per_second", "Emitted/s"),
      figure("executed_per_second", "Executed/s"),
      figure("acked_per_second", "Acked/s"),
      figure("failed_per_second", "Failed/s"),
      figure("pending", "Pending", count),
      figure("lag", "Lag", count),
      figure("done_ahead", "Done past offset", count),
      figure("busy", "Busy", share),
      figure("skew", "Skew", times),
      {
        name: "latency",
        title: "Latency (ms)",
        kind: "number",
        value: (row) => quantiles(row.kind === "spout" ? row.complete_latency : row.process_latency),
      },
      figure("errors", "Errors", count),
      { ...figure("findings", "Findings", count), warns: ({ findings }) => findings > 0 },
    ],
    ({ name }) => name,
    "The topology has no components.",
  ),
  loads: new Table(
    find("loads-table"),
    [
      figure("task", "Task", count),
      word("process", "Process"),
      figure("executed_per_second", "Executed/s"),
      figure("busy", "Busy", share),
      figure("lag", "Lag", count),
      figure("keys", "Keys", count),
    ],
    ({ task }) => task,
    "What its tasks do is not known.",
  ),
  edges: new Table(
    find("edges-table"),
    [
      word("source", "From"),
      word("stream", "Stream"),
      word("target", "To"),
      word("grouping", "Grouping"),
      figure("tuples_per_second", "Tuples/s"),
    ],
    ({ source, stream, target }) => `${source} ${stream} ${target}`,
    "The components are not connected.",
  ),
  partitions: new Table(
    find("partitions-table"),
    [
      figure("partition", "Partition", count),
      word("owner", "Owner", "text"),
      figure("pending", "Pending", count),
      figure("orphans", "Orphans", count),
      figure("oldest_seconds", "Oldest (s)", seconds),
      { name: "oldest_tree", title: "Oldest tree", value: oldestLink },
      figure("clock_lag_seconds", "Clock lag (s)", seconds),
      { name: "rebuild", title: "Rebuild", value: rebuild },
    ],
    // The link in a row is of this topology only.
    ({ partition, topology }) => `${topology} ${partition}`,
    "No acker owns a partition.",
  ),
  workers: new Table(
    find("workers-table"),
    [
      word("name", "Worker", "text"),
      { name: "partitions", title: "Partitions", kind: "text", value: ({ partitions }) => text(partitions.join(", ")) },
      figure("entries_per_second", "Entries/s"),
      figure("seen_seconds_ago", "Seen (s ago)", seconds),
    ],
    ({ name }) => name,
    "No acker worker is running.",
  ),
  failures: new Table(
    find("failures-table"),
    [
      { name: "root", title: "Root", kind: "code", value: (row) => traceLink(row) },
      word("reason", "Reason"),
      { name: "by", title: "Failed by", value: failedBy },
      { name: "at", title: "When", value: ({ at }) => time(at) },
      { name: "spout", title: "Spout", value: ({ spout, task }) => `${spout}/${task}` },
      word("source", "Message of the source", "text"),
      word("message", "Error", "text"),
    ],
    ({ root, at }) => `${root} ${at}`,
    "No tree has failed lately.",
  ),
  dead: new Table(
    find("dead-table"),
    [
      figure("offset", "Offset", count),
      { name: "at", title: "When", value: ({ at }) => time(at) },
      word("reason", "Reason"),
      word("detail", "Detail", "text"),
      word("by", "By"),
      { name: "position", title: "Position", kind: "code text", value: position },
      { name: "value", title: "Value", kind: "code text", value: ({ value }) => text(value) },
      { name: "replayed", title: "Replayed", value: ({ replayed }) => time(replayed) },
    ],
    ({ offset }) => offset,
    "There are no dead letters.",
    ({ replayed }) => replayed !== null,
  ),
});
