"""What a topology may expect of the broker and the ackers under it, in memory and for real.

`suite` says it once, in `records` and `outcomes`; `world` is what it needs, `in_memory` and `real` are the two that
there are, and `components` are the spout and the bolts that it watches. `tests/unit/sdk/test_contract.py` and
`tests/kafka/test_contract.py` run it.
"""
