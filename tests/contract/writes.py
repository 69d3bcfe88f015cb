"""Records that bolts write, answers for clients, and outcomes."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final, get_args

from tests.contract.bolts import answering, line, writing
from tests.contract.crashes import KEEPS, TIMEOUTS
from tests.contract.scenario import REPLAYING, Part, Scenario, Scene, dies, feed
from tuple_tree.answer_records import kind_of, root_of_key
from tuple_tree.manifest import Guarantee

SPLIT: Final = line()[0]
CHAINED: Final = line("basic", "local")[0]


def twice(scene: Scene, _word: str) -> Sequence[str]:
    return [scene.results_topic, scene.results_topic]


def missing_at_first(scene: Scene, word: str) -> Sequence[str]:
    """The first time that `d` is written, one of its records is for a topic that does not exist."""
    if word != "d" or scene.seen:
        return [scene.results_topic]
    scene.seen.append(word)
    return [scene.results_topic, f"{scene.name}-missing"]


def written() -> Iterator[Scenario]:
    two = Part("end", writing("end", twice))
    two_in_chain = Part("end", writing("end", twice), "local")
    doubled = {part: 2 * times for part, times in Scenario("", ()).words.items()}
    for guarantee in get_args(Guarantee):
        of: dict[str, Any] = {"guarantee": guarantee, "results": doubled}
        yield Scenario(f"two records, {guarantee}", (SPLIT, two), **of)
        yield Scenario(f"two records in a chain, {guarantee}", (CHAINED, two_in_chain), **of)
    for guarantee in REPLAYING:
        settings = {"message_timeout": TIMEOUTS[guarantee]}
        of = {"guarantee": guarantee, "settings": settings, "times": KEEPS[guarantee]}
        for after in (1, 2):
            kill = dies("end", "writes a record", after), feed
            yield Scenario(
                f"killed after {after} records, {guarantee}", (SPLIT, two), kill, results=doubled, deaths=1, **of
            )
        yield Scenario(
            f"one of two is not delivered, {guarantee}",
            (SPLIT, Part("end", writing("end", missing_at_first))),
            # Kafka may reject the transaction of that record: then its inputs are executed again in another one.
            attempts={0: 1, 2: 2} if guarantee == "at_least_once" else {0: 1},
            **{**of, "times": "at least once"},
        )


def answered(scene: Scene) -> None:
    """Each tree that was acked has an answer before its outcome, in the same partition."""
    kinds: defaultdict[int, list[tuple[int, str | None]]] = defaultdict(list)
    values: defaultdict[int, dict[str | None, Any]] = defaultdict(dict)
    for record in scene.running.records(f"{scene.name}.answers"):
        if (root := root_of_key(record.key)) is not None:
            kinds[root].append((record.partition, kind := kind_of(record.header)))
            values[root][kind] = json.loads(record.value or b"")
    ended = {root: of for root, of in values.items() if "outcome" in of}
    assert {of["outcome"]["offset"]: of.get("answer") for of in ended.values()} == {
        number: text.upper() for number, text in enumerate(scene.scenario.texts)
    }
    for root in ended:
        ((partition, first), *_, (last_partition, last)) = kinds[root]
        assert (first, last, partition) == ("answer", "outcome", last_partition)


def answers() -> Iterator[Scenario]:
    for guarantee in REPLAYING:
        of: dict[str, Any] = {"guarantee": guarantee, "results": {}, "check": answered}
        of["settings"] = {"message_timeout": TIMEOUTS[guarantee]}
        for kind, link in (
            *((kind, "shuffle") for kind in ("basic", "by_hand", "batches", "coroutines")),
            ("basic", "local"),
            ("state", "text"),
        ):
            part = Part("end", answering(kind), link)  # type: ignore[arg-type]
            yield Scenario(f"answers of {kind}, {link}, {guarantee}", (part,), is_quick=kind == "by_hand", **of)
        plain, chained = Part("end", answering("basic")), Part("end", answering("basic"), "local")
        replay = {**of, "raises": {("end", "d"): 1}, "attempts": {2: 2}}
        yield Scenario(f"answers, a replay, {guarantee}", (plain,), **replay)
        for name, part, component, step in (
            ("", plain, "end", "writes an answer"),
            ("", plain, "end", "sends acks"),
            (" in a chain", chained, "messages", "writes an answer"),
            (" in a chain", chained, "messages", "writes an outcome"),
        ):
            kill = dies(component, step), feed
            yield Scenario(f"answers{name}, {step}, {guarantee}", (part,), kill, deaths=1, **of)


WRITES = [*written(), *answers()]
