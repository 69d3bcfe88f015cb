"""The promises of broker, ackers and SDK to a topology, in memory and on a real Kafka.

`themes` has the scenarios, one module for each theme: a scenario is a small topology, what happens to it, and what must
come out of it (`scenario`). `bolts` are those of the scenarios; `lives` kills and suspends processes at chosen steps.
`records` and `outcomes` have the promises about records in topics and about the calls of spouts and bolts.
`world` is what all of these need, and `in_memory` and `real` are the two worlds. `tests/unit/sdk/test_contract.py` and
`tests/kafka/test_contract.py` run everything.
"""
