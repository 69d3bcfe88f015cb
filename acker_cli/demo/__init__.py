"""`acker demo`: the word count of a real text, and the proof that it is right.

- `text`: the text, and what a word is.
- `word_count`: the topology: a spout, a bolt that splits, a bolt that counts.
- `stores`: what spout and count bolt keep on disk, where no kill loses it and no replay counts twice.
- `chaos`: who is killed, and when.
- `session`: one run from start to end; `cleanup`: what it leaves on a cluster that is not its own: nothing.
- `report`: what came out, and whether it is what a plain count says.
"""
