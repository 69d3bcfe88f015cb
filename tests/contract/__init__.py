"""The promises of broker and ackers to a topology, in memory and on a real Kafka.

`records` and `outcomes` are the suite. `world` is what it needs, `in_memory` and `real` are the two that there are, and
`components` are its spout and bolts. `tests/unit/sdk/test_contract.py` and `tests/kafka/test_contract.py` run it.
"""
