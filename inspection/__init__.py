"""Looking into a running topology: its trees, its figures, its health and its dead letters.

Everything here reads what lies in Kafka; nothing of a topology depends on it.

Rooms:

- `observer`: follows a running topology; `stats_log`: the statistics of its processes; `topology_status`: topics,
  groups and lags; `group_commits`: committed offsets.
- `view`: the figures of a topology, from its statistics; `tracks`: rates of each process; `history`: the last hour.
- `trace`: where a tuple tree is stuck, pure; `trace_reader`: finding its records in Kafka;
  `otel`: trees as traces of OpenTelemetry.
- `doctor`: what is wrong, and what to do; `doctor_gathering`: its facts; `doctor_process`: it, in a process of its own.
- `dead_letters`: shown, and put back.
- `moments`: times as people write them, and the brokers' clock; `previews`: a tuple's payload on a line.
- `dashboard`: topologies in the browser. `errors`: the hierarchy.
"""
