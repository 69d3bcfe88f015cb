"""The bolt side.

- `head_task`: a task, and the steps that run in it; `bolt_task`: the task of a bolt, without I/O; `step`: a bolt in a
  task; `tuple_reader`: records into tuples or columns; `chain_reader`: the same for what the step before has emitted.
- `operator`: the base of operators, which call bolts; `executor`: calls the operator of a step; `call_sizes`: how many
  tuples at once; `running_call`: the call that has not returned; `input_rows`: rows of a record.
- `execute_failures`: handles calls that raise; `retries`: tuples that are executed again; `pause`: the pause of a task
  whose calls all raise.
- `settlement`: acks, fails and dead letters of inputs; `ack_times`: how long acks take; `written_records`: records that
  are written for inputs; `unread_record`: a record that may be of another version.
- `answers`: the records of answers.
"""
