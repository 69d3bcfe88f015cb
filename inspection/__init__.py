"""Looking into a running topology: its trees, its figures, its health and its dead letters.

Everything here reads what lies in Kafka; nothing of a topology depends on it.

Rooms:

- `observer`: follows a running topology; `stats_log`: what its processes say; `lags`: what waits; `topology_status`:
  its topics and groups; `group_commits`: how far those are; `broker_clock`: what time it is there.
- `view`: the figures of a topology, from what its processes say; `tracks`: of one process; `flows`: along each edge;
  `history`: of the last hour; `loads`: how busy the tasks of a bolt are.
- `trace`: where a tuple tree is stuck, pure; `trace_reader`: finding its records in Kafka;
  `otel`: trees as traces of OpenTelemetry.
- `doctor`: what is wrong, and what to do; `doctor_gathering`: what it looks at; `doctor_process`: it, in a process of
  its own; `dead_letters`: seen, and put back.
- `moments`: times as people write them; `previews`: what a tuple's payload looks like.
- `record_scan`: reading stretches of many partitions.
- `dashboard`: topologies in the browser.
"""
