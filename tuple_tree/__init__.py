"""The domain of tuple-tree acking, pure: no Kafka, no clock, no I/O.

- `ids`: random root ids, packing of id columns; `edges`: edge ids of the tuples of a pack; `positions`: positional root
  ids.
- `input_batch`: the anchors of a task's inputs as columns, from which ack vals are computed; `chained_batch`: the same
  for inputs of chained bolts.
- `anchors`: the `anchors` header, anchoring and ack vals, of tuples and of columns; `identities`: what the tuples of a
  message keep when it is replayed; `packs`: columns into records.
- `messages`: ack batches and notice batches, with their Avro form (contract in `schemas/`); `entries`: the entries of
  ack batches as columns, and their shares among the partitions; `edge_runs`: vals as runs of edges.
- `names`: what topologies, components and topics may be called.
- `manifest`: what a topology is, as published in `acker.topologies`; `components`: its spouts and bolts; `topics`: its
  topics.
- `answer_records`: the records of `{topology}.answers`, for clients that wait for the outcomes of messages.
- `routing`: which acker partition owns a root, which tasks receive which tuples; `shuffle`: tasks in turn, by shares.
- `state_records`: keys and values of the changelog of a state; `state_zeros`: initial
  values; `state_fields`: the fields of values; `state_guarantees`: how often a message changes a state, in words.
- `streams`: declared streams; `fields`: the values of a field; `payloads`: their codecs; `arrow_packs`: that of packs,
  which loads Arrow.
- `rotating_map`: a map whose entries expire in cohorts; `offsets`: open offsets of a
  partition; `done_sets`: what is done of it, as `commit_metadata` has it; `source_commits`: the commit of a
  spout.
- `source_messages`: the messages of a spout's source that are not done; `source_partition`: those of a partition, and
  what its owner has reserved; `retry_queues`: when failed messages are emitted again.
- `control`: pausing, draining and stopping a topology, as a record; `versions`: records that one of two versions of a
  topology cannot read.
- `program`: the code of a topology, by its streams and groupings. `pages`: addresses of the documentation.
- `outcome_records`: what became of a spout's messages, as records of a topic.
- `process_stats`: the statistics of a process, sent once a second; `latency`: durations; `timing`: time in loops.
- `headers`: headers of dead letters and of traces.
- `errors`: the base class of everything raised here.
"""
