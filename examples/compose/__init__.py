"""The word count of `acker demo` as services, for `docker-compose.yml`.

- `text`: writes the text into the topic that the spout reads.
- `spark_word_count`: the topology in Spark.
- `verification`: whether every line is acked, and the counts match.
"""
