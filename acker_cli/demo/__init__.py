"""`acker demo`: the word count of a real text, compared with a plain count.

- `text`: the text, what a word is, and how a count compares with a plain count.
- `word_count`: the topology: a spout, a step that splits, and a state that counts.
- `progress`: the text in a topic, the lines that are acked, and the counts.
- `session`: one run from start to end, with its kills and its report; it leaves nothing on your cluster.
"""
