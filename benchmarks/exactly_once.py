"""What the guarantees cost: a bolt's throughput, and the latency of a tuple through two bolts, with each of the three.

    python -m benchmarks.exactly_once
    python -m benchmarks.exactly_once --records 500000 --rate 20 --rate 500 --seconds 30
    python -m benchmarks.exactly_once --quick

Throughput is that of the comparison `stage` of `benchmarks.topology`. Latency is that of a whole topology at a low
rate: from the intended emit of the spout to the `execute` of the second bolt (delivery), and to the `ack` (complete).
"""

from functools import partial
from typing import Any

from benchmarks import harness
from benchmarks.harness import Spread
from benchmarks.latency import measure, quantiles
from benchmarks.topics import broker
from benchmarks.topology import GUARANTEES, StageRounds
from tuple_tree.manifest import DEFAULT_ACK_PARTITIONS


def _p50_and_p99(latencies: list[float]) -> dict[str, float] | None:
    return {name: round(quantiles(latencies)[name], 1) for name in ("p50", "p99")} if latencies else None


def main() -> None:
    parser = harness.parser(__doc__, "few records, one round, short runs")
    parser.add_argument("--records", type=int, help="a third of the tuples of an inbox; 1,000,000 unless given")
    parser.add_argument("--rounds", type=int, help="throughput runs of each guarantee; 3 unless given")
    parser.add_argument("--seconds", type=float, help="length of each latency run; 15 unless given")
    parser.add_argument(
        "--rate", type=float, action="append", help="tuples a second; may be repeated; 20 and 500 unless given"
    )
    given = parser.parse_args()
    records = given.records or (200_000 if given.quick else 1_000_000)
    rounds = given.rounds or (1 if given.quick else 3)
    seconds = given.seconds or (5.0 if given.quick else 15.0)
    host = harness.machine()
    with broker() as topics:
        stage = StageRounds(topics, records, longest=10.0, ack_partitions=DEFAULT_ACK_PARTITIONS)
        bolts = {guarantee: partial(stage.bolt, guarantee) for guarantee in GUARANTEES}
        flows = harness.in_turn(bolts, rounds, shown="{0.rate:,.0f}/s".format)
        rates = {guarantee: Spread.of([flow.rate for flow in of]) for guarantee, of in flows.items()}
        rows: list[dict[str, Any]] = [
            {"comparison": "throughput", "guarantee": guarantee, "tuples_per_s": of} for guarantee, of in rates.items()
        ]
        for rate in given.rate or ([20] if given.quick else [20, 500]):
            for guarantee in GUARANTEES:
                harness.say(f"latency at {rate:g}/s: {guarantee}")
                result = measure(topics, rate, seconds, 2.0, hops=2, guarantee=guarantee)
                rows.append(
                    {
                        "comparison": "latency",
                        "guarantee": guarantee,
                        "rate": rate,
                        "tuples": len(result["delivery_ms"]),
                        "delivery_ms": _p50_and_p99(result["delivery_ms"]),
                        "complete_ms": _p50_and_p99(result["complete_ms"]),
                        "failed": result["failed"],
                    }
                )
    base = rates.pop("at_most_once").median
    ratios = {f"{guarantee} to at_most_once": round(of.median / base, 3) for guarantee, of in rates.items()}
    settings = {"records": records, "rounds": rounds, "seconds_of_latency": seconds}
    harness.publish("exactly_once", host, rows, settings, harness.directory(given), ratios=ratios)


if __name__ == "__main__":
    harness.run(main)
