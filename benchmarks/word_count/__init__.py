"""The word count of the demo's text, ours beside others: `python -m benchmarks.word_count`.

- `text`: the lines, and their plain count.
- `topology`: ours, by the SDK; the programs of others are in `benchmarks.peers` and `benchmarks/storm`.
- `contestants`: who is compared; `ours`, `kafka_peers` and `storm` run them.
- `watching`: how far a round is, and what its processes take; `rounds`: round by round, in turn.
- `requests`, `observed`: what the clients of ours send and fetch at each hop.
"""
