"""What a topology may expect of the broker and the ackers, in memory and for real.

`suite` puts it together from `records` and `outcomes`. `world` is what it needs, `in_memory` and `real` are the two
that there are, and `components` are its spout and bolts. `tests/unit/sdk/test_contract.py` and
`tests/kafka/test_contract.py` run it.
"""
