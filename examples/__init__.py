"""Topologies to read and to run.

- `word_count`: spouts and bolts of the SDK. `acker run examples.word_count:topology --local`
- `spark_word_count`: a bolt in Spark between two components of the SDK.
- `spark_spout_word_count`: a spout over a topic and a bolt, both in Spark. `python -m examples.spark_spout_word_count`
- `database`: payments from a topic into PostgreSQL, each booked once. Its docstring has the command.
- `austen_sentiment`: a whole job, Spark and SDK. `python -m examples.austen_sentiment`
- `compose`: parts of the word count in `docker-compose.yml`.

`one_machine` runs the examples with a part in Spark in one command: a broker, acker workers, the SDK's processes and a
Spark session.
"""
