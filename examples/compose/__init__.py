"""The word count of `acker demo` as services, for `docker-compose.yml`.

- `spark_word_count`: the topology in Spark, and the text in the topic that its spout reads.
- `verification`: whether every line is acked, and the counts match.
"""
