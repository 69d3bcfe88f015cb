"""The exported names, pinned: taking one away breaks somebody's topology."""

import spout_sdk


def test_the_exported_names() -> None:
    assert sorted(spout_sdk.__all__) == [
        "AccessError",
        "BasicBolt",
        "BasicCollector",
        "Bolt",
        "BoltDeclarer",
        "BrokerError",
        "BrokerUnreachableError",
        "ComponentError",
        "ComponentRunner",
        "DeliveryError",
        "EmitError",
        "Exit",
        "FailReason",
        "FailTupleError",
        "Failure",
        "HeldBackError",
        "LatencyHistogram",
        "OutputCollector",
        "ProcessError",
        "Spout",
        "SpoutCollector",
        "SpoutSdkError",
        "Stats",
        "Stream",
        "TaskContext",
        "TopicsError",
        "Topology",
        "TopologyBuilder",
        "TopologyError",
        "TopologyRunner",
        "Tuple",
        "TupleAlreadyDoneError",
        "declare",
        "load_topology",
    ]
    for name in spout_sdk.__all__:
        assert getattr(spout_sdk, name).__doc__ or name == "FailReason", name
