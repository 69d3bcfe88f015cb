"""`acker demo`: the word count of a real text, and the proof that it is right.

- `text`: the text, and what a word is.
- `word_count`: the topology: a spout, a bolt that splits, a bolt that counts; `spark_word_count`: the same in Spark.
- `stores`: what spout and count bolt keep on disk, where no kill loses it and no replay counts twice.
- `session`: one run from start to end; on a cluster that is not its own it leaves nothing. `chaos`: what it kills.
- `report`: the result of a run, compared with a plain count; `verification`: the same of a word count whose parts are
  services, as in `docker-compose.yml`; `spark_verification`: of one in Spark.
"""
