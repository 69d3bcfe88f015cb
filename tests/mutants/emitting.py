"""Mutants of the way from an emit or an ack to the log: edges, vals, packs, the order of a flush."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from spout_sdk.api.tuples import Tuple
from spout_sdk.emitting.ack_log import AckLog
from spout_sdk.emitting.buffer import MultiAnchor
from spout_sdk.emitting.emitter import Emitter
from spout_sdk.emitting.open_pack import OpenPack
from spout_sdk.emitting.outbox import Outbox
from spout_sdk.emitting.task import Task
from spout_sdk.operators import bolt as bolt_module
from spout_sdk.operators.bolt import OutputCollector
from spout_sdk.statistics import task_shares
from tests.mutants.patches import Patches, fixed, mutant, register, replaces, wrapped
from tuple_tree import shuffle
from tuple_tree.anchors import AnchorColumns, Columns
from tuple_tree.input_batch import PLACE_MASK, InputBatch

_CONTRACT: Final = "tests/unit/sdk/test_contract.py::TestInMemory"
_SDK: Final = "tests/unit/sdk"


@mutant("anchors", f"{_CONTRACT}::test_several_anchors_put_a_tuple_into_all_their_trees")
def several_anchors_in_a_tree_each_get_the_edge(patches: Patches) -> None:
    others: dict[tuple[int, int], list[tuple[InputBatch, int]]] = defaultdict(list)
    kept: list[InputBatch] = []  # so that no other one gets its id

    @patches.wrap(OutputCollector, "emit")
    def emit(original: Any, collector: Any, values: Any, *, anchors: Any = None, **named: Any) -> Any:
        first: dict[int, tuple[int, int]] = {}
        for anchor in () if anchors is None or isinstance(anchors, Tuple) else anchors:
            batch = anchor.pack.batch
            for place in anchor.pack.places(anchor.index):
                at = first.setdefault(int(batch.roots[place]), (id(batch), place))
                others[at].append((batch, place))
                kept.append(batch)
        return original(collector, values, anchors=anchors, **named)

    @patches.wrap(InputBatch, "join")
    def join(original: Any, batch: InputBatch, places: Any, edges: Any) -> None:
        original(batch, places, edges)
        for at, edge in zip(np.asarray(places).tolist(), edges, strict=True):
            for other, place in others[id(batch), at][1:]:
                original(other, [place], edge)


@mutant("anchors", f"{_SDK}/test_emitting.py::test_an_emit_after_the_ack_fails_the_tree")
@replaces(OutputCollector, "emit")
def an_emit_may_be_anchored_to_a_settled_tuple(
    original: Any, collector: Any, values: Any, *, anchors: Any = None, **named: Any
) -> Any:
    each = [anchors] if isinstance(anchors, Tuple) else [*(anchors or ())]
    before = [anchor.pack.settled[anchor.index] for anchor in each]
    for anchor in each:
        anchor.pack.settled[anchor.index] = 0
    try:
        return original(collector, values, anchors=anchors, **named)
    finally:
        for anchor, settled in zip(each, before, strict=True):
            anchor.pack.settled[anchor.index] = settled


@mutant("outbox", f"{_SDK}/test_tangled_trees.py::test_a_tree_completes_when_all_of_it_is_sent_and_acked[Batched]")
def vals_are_computed_before_the_edges_of_open_packs_are_joined(patches: Patches) -> None:
    flushing: list[list[Callable[[], object]]] = []

    @patches.wrap(InputBatch, "join")
    def join(original: Any, batch: InputBatch, places: Any, edges: Any) -> None:
        if flushing:
            flushing[-1].append(lambda: original(batch, places, edges))
        else:
            original(batch, places, edges)

    @patches.wrap(Outbox, "flush")
    def flush(original: Any, outbox: Outbox) -> None:
        flushing.append([])
        try:
            original(outbox)
        finally:
            for joined in flushing.pop():
                joined()


@mutant("outbox", f"{_SDK}/test_tangled_trees.py::test_a_tree_completes_when_all_of_it_is_sent_and_acked[Batched]")
def acks_are_sent_before_packs(patches: Patches) -> None:
    waiting: dict[int, list[Callable[[], object]]] = {}

    @patches.wrap(Outbox, "__init__")
    def init(original: Any, outbox: Outbox, component: str, environment: Any, *rest: Any, **named: Any) -> None:
        packs: list[Callable[[], object]] = waiting.setdefault(id(outbox), [])

        class Late(_Sink):
            def send(self, *record: Any) -> None:
                packs.append(lambda: self.sink.send(*record))

        original(outbox, component, replace(environment, sink=Late(environment.sink)), *rest, **named)

    @patches.wrap(Outbox, "flush")
    def flush(original: Any, outbox: Outbox) -> None:
        original(outbox)
        packs = waiting[id(outbox)]
        while packs:
            packs.pop(0)()


@mutant("spout", f"{_SDK}/test_spout_task.py::test_no_tuple_is_sent_before_the_init_of_its_tree_if_a_bolt_acks_ahead")
@replaces(Emitter, "__init__")
def a_full_pack_is_sent_between_two_deliveries_of_a_tuple(original: Any, emitter: Emitter, task: Task) -> Any:
    original(emitter, task)

    class Between(tuple[OpenPack, ...]):
        def __iter__(self) -> Iterator[OpenPack]:
            for pack in super().__iter__():
                yield pack
                if pack.size >= pack.limit:
                    task.outbox._send_full((pack,))

    def interrupted(choose: Any) -> Any:
        def targets(values: Any) -> Any:
            return Between(choose(values))

        return targets

    for plan in task.plans.values():
        plan.choose = interrupted(plan.choose)


@mutant("packs", f"{_SDK}/test_sends.py::test_parts_of_a_pack_that_is_too_large_have_the_edges_that_were_joined")
@replaces(AnchorColumns, "part")
def the_halves_of_a_pack_have_the_same_edges(original: Any, whole: AnchorColumns, begin: int, end: int) -> Any:
    half = original(whole, begin, end)
    return replace(half, first=whole.first)


@mutant("packs", f"{_SDK}/test_false_acks.py::test_children_of_two_packs_do_not_cancel")
def a_seed_is_drawn_once_for_each_receiver(patches: Patches) -> None:
    seeds: dict[int, int] = {}
    kept: list[OpenPack] = []  # so that no other one gets its id

    @patches.wrap(OpenPack, "seal")
    def seal(original: Any, pack: OpenPack, new_seed: Callable[[], int]) -> Columns:
        kept.append(pack)
        columns: Columns = original(pack, lambda: seeds.setdefault(id(pack), new_seed()))
        return columns


@mutant("identities", f"{_SDK}/test_identified_inputs.py::test_only_tuples_for_one_input_have_an_identity")
@replaces(bolt_module, "places_of")
def a_tuple_for_several_inputs_of_a_tree_has_the_identity_of_the_first(
    original: Any, anchors: Sequence[Tuple], outcomes: Any
) -> Any:
    batch, place = original(anchors, outcomes)
    return batch.places[0] if isinstance(batch, MultiAnchor) and len(batch.places) == 1 else (batch, place)


@mutant("ack log", f"{_SDK}/test_sends.py::test_inputs_are_settled_when_all_batches_of_their_flush_are_delivered")
@replaces(AckLog, "send")
def an_input_is_settled_before_its_acks_are_delivered(
    original: Any, log: AckLog, entries: Any, fully_settled: Sequence[Any] = ()
) -> Any:
    original(log, entries)
    log.inputs.settle(fully_settled)


class _Sink:
    """A sink that sends to another one."""

    def __init__(self, sink: Any) -> None:
        self.sink = sink

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sink, name)


@mutant("shuffle", "tests/unit/tuple_tree/test_shuffle.py::test_a_round_has_the_shares_of_the_tasks_and_a_turn_of_each")
@replaces(shuffle, "turns_of")
def a_slow_task_has_no_turn(original: Any, shares: Sequence[float]) -> Any:
    turns = original(shares)
    return turns and [turn - (turn == 1) for turn in turns]


register(
    {
        f"{_CONTRACT}::test_several_anchors_put_a_tuple_into_all_their_trees": {
            "anchors: only the first anchor gets the edge": wrapped(
                InputBatch, "join", lambda original, batch, places, edges: original(batch, places[:1], edges[:1])
            ),
        },
        f"{_SDK}/test_sends.py::test_parts_of_a_pack_that_is_too_large_have_the_edges_that_were_joined": {
            "packs: the halves of a pack keep the anchors of the whole": wrapped(
                Columns,
                "part",
                lambda original, whole, begin, end: Columns(original(whole, begin, end).rows, whole.anchors),
            ),
        },
        f"{_SDK}/test_false_acks.py::test_children_of_an_earlier_attempt_do_not_cancel": {
            "packs: two attempts have the same seed": wrapped(
                OpenPack,
                "seal",
                lambda original, pack, new_seed: original(pack, lambda: hash((pack.topic, pack.task)) % 2**64),
            ),
        },
        f"{_SDK}/test_identities.py::test_each_attempt_has_the_same_identities[basic]": {
            "identities: all tuples of an input have one path": wrapped(
                InputBatch, "identities", lambda original, batch, places, numbers: original(batch, places, numbers * 0)
            ),
        },
        f"{_SDK}/test_identities.py::test_each_attempt_has_the_same_identities[by_hand]": {
            "identities: what a retry emits is counted behind what was emitted before": fixed(
                InputBatch, "reset_emit_sequence"
            ),
        },
        f"{_SDK}/test_task_shares.py::test_statistics_that_are_stale_or_of_an_ended_process_count_for_nothing": {
            "shuffle: stale statistics count": wrapped(
                task_shares._Task, "load", lambda original, task, _now, overhead: original(task, task._at, overhead)
            ),
        },
    }
)


@mutant("outbox", f"{_SDK}/test_contract.py::test_scenario[failures: dead letter of end, plain, at_least_once]")
@replaces(Outbox, "mark")
def a_mark_is_no_child_of_its_tuple(original: Any, outbox: Outbox, places: Any, message: str) -> None:
    places = [*places]
    original(outbox, places, message)
    marks = outbox._marks[len(outbox._marks) - len(places) :]
    for (batch, place), (_, edge, _) in zip(places, marks, strict=True):
        batch.join([place & PLACE_MASK], np.array([edge], np.uint64))


@mutant("outbox", f"{_SDK}/test_contract.py::test_scenario[failures: dead letter of end, plain, at_least_once]")
@replaces(Outbox, "mark")
def a_dead_letter_leaves_no_mark(_original: Any, _outbox: Outbox, _places: Any, _message: str) -> None:
    """Its tree is acked as if all of it were processed."""
