"""The word count of the demo's text, ours beside others: `python -m benchmarks.word_count`."""
