"""`acker demo`: the word count of a real text, compared with a plain count.

- `text`: the text, what a word is, and how a count compares with a plain count.
- `word_count`: the topology: a spout, a bolt that splits, a bolt that counts.
- `stores`: the files of spout and count bolt.
- `session`: one run from start to end, with its kills and its report; it leaves nothing on your cluster.
"""
