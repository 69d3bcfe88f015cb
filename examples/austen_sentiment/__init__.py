"""The sentiment of Jane Austen's novels: a spout and a bolt in Spark, and a bolt of the SDK that keeps the totals.

    lines (Spark, from files) ──shuffle──▶ sentiment (Spark) ──fields: novel, chapter──▶ totals (SDK, 2 tasks)

`lines` delivers every line of the text until it is acked. `sentiment` splits a micro-batch of lines into words, joins
them with a list of 7,209 rated words and emits a tuple for each rated word of a chapter, anchored to all the lines that
it stood in. `totals` adds them up. Everything on this machine, with a broker of its own:

    python -m examples.austen_sentiment

On a cluster, with DIRECTORY on a file system that all machines see, once:

    export ACKER_KAFKA__BOOTSTRAP_SERVERS=kafka-1:9092,kafka-2:9092
    export AUSTEN_DIRECTORY=/shared/austen
    python -m examples.austen_sentiment.text
    acker topics create examples.austen_sentiment:topology

and each in a terminal, or a container, of its own:

    acker worker --topology austen-sentiment
    acker run examples.austen_sentiment:topology --component totals
    acker spark submit examples.austen_sentiment:topology --component sentiment \
        --master spark://spark:7077 --checkpoint /shared/austen/checkpoints/sentiment
    acker spark submit examples.austen_sentiment:topology --component lines \
        --master spark://spark:7077 --checkpoint /shared/austen/checkpoints/lines

    python -m examples.austen_sentiment.report      # whenever you like

Every line is processed at least once. That each word still counts once is the work of `totals`: a tuple names the
places of its word in the text, the bolt notes the places that it has counted, and it commits note and total in one
transaction before it acks. A replay, a micro-batch that is run again, or a row that landed twice brings places that are
noted already.

Rooms: `text` (novels, chapters, lines), `lexicon` (the rated words), `topology`, `totals` (the bolt and its files),
`report` (the table), `__main__` (the one command).
"""

from examples.austen_sentiment.topology import topology

__all__ = ["topology"]
