"""Access to Kafka for acker workers, the SDK, Spark jobs and the commands.

- `client_settings`: which librdkafka properties are for whom.
- `repeated_lines`: loggers that log one line of each kind a minute.
- `catalogue`: requests to a cluster, topics and manifests; no answer and refusals become our errors; `new_topics`:
  creates topics.
- `access`: the roles of a topology and the ACLs that each needs.
- `group_consumer`: a member of a consumer group; `log_reader`: reads partitions without joining one;
  `topic_tail`: follows small topics; `group_commits`: the committed offsets of groups.
- `producer`: a producer whose queue may be full, and which a fatal error ends; `delivery_monitor`: partitions whose
  leader it has lost.
- `background`: calls that wait, in a thread of their own, and for answers of admin clients.
- `loop_runner`: runs the loop of a process, and reports how it does.
- `topic_watch`: topics that are deleted or recreated while in use.
- `librdkafka_bugs`: calls that may hang, clients that have lost all brokers, clients that are garbage.
- `metrics`: statistics for Prometheus; `stats_publisher`: sends a process's statistics to `{topology}.stats`;
  `control_reader`: follows the requested state of a topology;
  `published_manifest`: reads its manifest when a process needs it.
- `supervision`: keeps processes running; both sides of the pipes between.
- `topology_reference`: imports the topology that `module:attribute` names.
- `errors`: the hierarchy; `retriable`: requests that are made again while their errors pass.
"""
