"""What talks to Kafka, for acker workers, the SDK, Spark jobs and the commands alike.

- `client_settings`: which librdkafka properties are for whom; `client_logs`: log lines of clients, without repeats.
- `contact`: requests to a cluster, whose silence and refusals become our errors; `catalogue`: topics and manifests.
- `access`: the roles of a topology and the ACLs that each needs.
- `group_consumer`: a member of a consumer group; `log_reader`: reads partitions without joining one.
- `watermarks`: where a partition begins and ends; `topic_watch`: topics that are deleted or recreated while in use.
- `broker_monitor`: what a client's statistics say about its brokers; `bounded_calls`: calls that may hang;
  `forgotten_clients`: where clients end that are no longer referenced.
- `stats_publisher`: sends a process's statistics to `{topology}.stats`.
- `supervisor`: keeps processes running; `child_process`: one of them; `supervision`: the process's own end.
- `errors`: the hierarchy.
"""
