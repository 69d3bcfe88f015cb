"""Inspection of a running topology: its trees, figures, health and dead letters. A topology does not depend on it.

- `observer`: follows a topology by the statistics of its processes; `topology_status`: topics, groups, committed
  offsets and lags; `topic_status`: the same of a topic; `transaction_markers`: lags without them; `drain`: whether a
  topology is paused, drained or stopped.
- `statistics`: records of processes; `view`: the figures of a topology, from them; `tracks`: rates of each
  process, and the last hour; `state_figures`: states; `state_search`: a key of a state.
- `trace`: tuple trees, pure; `trace_reader`: their records in Kafka; `otel`: trees as traces of OpenTelemetry.
- `message_status`: whether a message of a spout's source is done, open, or waits for a retry.
- `health`: the findings on a running topology, pure; `open_messages`: the oldest ones of sources;
  `unfinished_messages`: all that spouts may have emitted.
- `doctor`: those on the cluster and its topics; `doctor_gathering`: facts for both; `doctor_process`: a process of its
  own for it.
- `dead_letters`: read and decoded; `replay`: writes them to their original topics.
- `notation`: times, roots and positions as text; `previews`: payloads as text.
- `dashboard`: topologies in the browser; `http_server`: the thread that serves it. `errors`: the hierarchy.
"""
