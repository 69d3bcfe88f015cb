"""The builder of topologies, which rejects invalid topologies before they run."""

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from spout_sdk.api.context import HookFactory
from spout_sdk.api.needs import needs_of
from spout_sdk.api.retry import RetryPolicy
from spout_sdk.api.signatures import check_signatures
from spout_sdk.api.topology import (
    BoltOptions,
    Factory,
    OnConsecutiveFailures,
    OnException,
    OnExhausted,
    Topology,
)
from spout_sdk.arguments import as_topology_error, check_count, check_seconds
from spout_sdk.errors import TopologyError
from spout_sdk.groupings import BoltDeclarer
from spout_sdk.kafka_spout.spout import KafkaSpout
from spout_sdk.steps.bolt import has_context, step_bolt
from spout_sdk.steps.function import is_function_of_a_row, step_function
from spout_sdk.steps.resources import Resource, resource
from spout_sdk.steps.stream import Stream
from spout_sdk.topologies.bolt_options import check_options, check_retries, check_retry
from spout_sdk.topologies.chaining import with_chains
from spout_sdk.topologies.component_checks import (
    BOLTS,
    SPOUTS,
    check_component,
    check_function,
    check_outcomes,
    check_positions,
    check_source,
)
from spout_sdk.topologies.derived import component_settings, default_tick_ms, default_tree_age_ms, longest_stop
from spout_sdk.topologies.row_type_checks import checked_row_types
from spout_sdk.topologies.state_manifests import state_guarantees, with_states
from spout_sdk.topologies.subscriptions import subscribed
from spout_sdk.topologies.unmet_needs import check_needs
from spout_sdk.topologies.window_manifests import check_aggregate_bolt, results_spouts
from tuple_tree.components import BoltManifest, OutcomesCodec, SpoutManifest
from tuple_tree.manifest import DEFAULT_ACK_PARTITIONS, Guarantee, Manifest
from tuple_tree.names import check_name
from tuple_tree.packs import MAX_ROWS
from tuple_tree.streams import DEFAULT_STREAM, StreamDeclaration, Streams

AnyFactory = Factory | Callable[[Any], Any] | Callable[[Any, Any], Any]
"""Creates the instance of a task; for an external component, a function that its runner calls, such as Spark."""

T = TypeVar("T")

_MAX_PENDING: Final = 10_000
_MAX_PENDING_EXTERNAL: Final = 200_000
_TRANSACTION_TUPLES: Final = 100  # default of `pack_tuples` with `exactly_once`


class TopologyBuilder:
    """Collects spouts, bolts and their subscriptions.

    Args:
        name: name of the topology, the first part of the names of its topics.
        guarantee: with `at_least_once`, trees are followed and failed messages are replayed; with `at_most_once`, no
            trees are followed, a spout's `ack` is called at once, and a bolt's input is committed before it is
            executed; with `exactly_once`, each process of a bolt consumes, produces, acks and commits in one Kafka
            transaction.
        ack_partitions: number of partitions of the ack log; it cannot be changed later.
        message_timeout: seconds without progress after which a tree fails.
        max_tree_age: seconds after which a tree fails in any case; by default 10 message timeouts plus the `time_limit`
            of each `AsyncBolt`.
        tick: seconds; a timeout fires at most one tick late, or two if it is not a multiple of the tick. By default the
            largest part of the smallest message timeout that is no longer than a second.
        max_spout_pending: largest number of open trees of a spout task; by default 10,000, and 200,000 for a spout with
            `external=True`: in Spark, half of them are a micro-batch.
        pack_tuples: largest number of tuples in a record between components; a record has fewer if it would exceed
            256 KiB. By default 1,000; with `exactly_once` 100, because a bolt must execute a record in one transaction.

    Attributes:
        resources: type → what tasks open for steps.

    Raises:
        TopologyError: for an invalid name or number.
    """

    def __init__(
        self,
        name: str,
        *,
        guarantee: Guarantee = "at_least_once",
        ack_partitions: int = DEFAULT_ACK_PARTITIONS,
        message_timeout: float = 30.0,
        max_tree_age: float | None = None,
        tick: float | None = None,
        max_spout_pending: int | None = None,
        pack_tuples: int | None = None,
    ) -> None:
        with as_topology_error():
            check_name("topology", name)
        self._name = name
        self._guarantee: Guarantee = guarantee
        self._ack_partitions = check_count("ack_partitions", ack_partitions)
        self._timeout_ms = _milliseconds("message_timeout", message_timeout)
        self._max_age_ms = None if max_tree_age is None else _milliseconds("max_tree_age", max_tree_age)
        self._tick_ms = None if tick is None else _milliseconds("tick", tick)
        self._max_pending = None if max_spout_pending is None else check_count("max_spout_pending", max_spout_pending)
        if pack_tuples is None:
            pack_tuples = _TRANSACTION_TUPLES if guarantee == "exactly_once" else MAX_ROWS
        self._pack_tuples = check_count("pack_tuples", pack_tuples)
        self._spouts: list[SpoutManifest] = []
        # Manifests without subscriptions, each with the declarer of its subscriptions.
        self._bolts: list[tuple[BoltManifest, BoltDeclarer]] = []
        self._factories: dict[str, Any] = {}
        self._made: dict[str, Any] = {}  # component → its class, or an instance if constructor arguments matter
        self._options: dict[str, BoltOptions] = {}
        self._hooks: list[HookFactory] = []
        self.resources: dict[Any, Resource] = {}

    def add_hook(self, factory: HookFactory) -> None:
        """Adds a hook to every task of the SDK's components.

        Args:
            factory: a `TaskHook` class, or a callable without arguments that returns one; called once for each task.
        """
        if isinstance(factory, type):
            check_signatures("hook", factory)
        self._hooks.append(factory)

    def spout(self, name: str, spout: KafkaSpout[T], tasks: int = 1, **options: Any) -> Stream[T]:
        """Adds a spout, and returns its rows; call `step` of these.

            shop = TopologyBuilder("shop")
            shop.spout("orders", KafkaSpout("orders", value=Order)).step(items).key_by("name").step(ship, tasks=3)

        Args:
            name: unique within the topology.
            spout: reads topics.
            tasks: number of tasks.
            options: as of `set_spout`, which it calls.
        """
        self.set_spout(name, spout, tasks, **options)
        return self.stream(name)

    def resource(self, function: Callable[[], Any]) -> None:
        """Adds what each task opens for its steps, such as a client of a service; a step gets it by its type.

            async def open_http() -> AsyncIterator[httpx.AsyncClient]:
                async with httpx.AsyncClient() as client:
                    yield client

            shop.resource(open_http)

            async def price(item: Item, http: httpx.AsyncClient) -> Price: ...

        Args:
            function: a generator with one `yield`, synchronous or asynchronous, or a function that returns a context
                manager; its annotation says the type. A task opens it before its first row, and closes it at a clean
                stop and when the task moves to another process.

        Raises:
            TopologyError: if the annotation says no type, or the type of another resource.
        """
        made = resource(function, self.resources)
        self.resources[made.type] = made

    def stream(self, component: str) -> Stream[Any]:
        """The rows of a component that was added before; the type is that of its declaration, if it has one."""
        if component not in self._factories:
            raise TopologyError(f"no component {component!r} was added before: there are {', '.join(self._factories)}")
        row_types = getattr(self._made[component], "row_types", {})
        return Stream(self, (component,), row_types.get(DEFAULT_STREAM))

    def tasks_of(self, component: str) -> int:
        """The number of tasks of a component."""
        tasks = {each.name: each.tasks for each in self._spouts} | {each.name: each.tasks for each, _ in self._bolts}
        return tasks[component]

    def free_name(self, name: str) -> str:
        """A name that no component has: the one given, or with a number behind it."""
        names = (name, *(f"{name}-{number}" for number in range(2, 2 + len(self._factories))))
        return next(each for each in names if each not in self._factories)

    def set_spout(
        self,
        name: str,
        factory: AnyFactory | str,
        tasks: int = 1,
        message_timeout: float | None = None,
        max_spout_pending: int | None = None,
        *,
        external: bool = False,
        streams: Streams | None = None,
        outcomes: str | None = None,
        outcomes_codec: OutcomesCodec = "json",
    ) -> None:
        """Adds a spout.

        Args:
            name: unique within the topology.
            factory: a `Spout` class, or a callable without arguments that returns one; called once for each task.
            tasks: number of tasks.
            message_timeout: seconds without progress after which a tree fails; by default the topology's.
            max_spout_pending: largest number of open trees of a task; by default the topology's.
            external: whether another program runs it, such as Spark. Then the factory is its source: the name of a
                topic, or a function that is called there; in Spark, `source(spark)`.
            streams: the streams of an external spout; a single stream if its source is a topic.
            outcomes: for a spout that reads topics: an existing topic to which the spout writes a record for each
                message that has ended, with the message's key, its outcome, the time, and the number of attempts. See
                `outcome_stream`.
            outcomes_codec: the codec of these records: `json` or `avro`.

        Raises:
            TopologyError: if the spout is invalid.
        """
        declared = self._add(name, factory, SPOUTS, external, streams)
        made = self._made[name]
        if needs_of(made).positions:
            check_positions(1 + len(self._spouts))
        if external:
            check_source(name, factory, declared)
        if max_spout_pending is None:
            max_spout_pending = self._max_pending or (_MAX_PENDING_EXTERNAL if external else _MAX_PENDING)
        timeout_ms = self._timeout_ms if message_timeout is None else _milliseconds("message_timeout", message_timeout)
        spout = SpoutManifest(
            name=name,
            tasks=check_count(f"tasks of spout {name!r}", tasks),
            streams=declared,
            timeout_ms=timeout_ms,
            max_pending=check_count("max_spout_pending", max_spout_pending),
            external=external,
            outcomes=check_outcomes(
                name, factory if external else made, outcomes, outcomes_codec, self._guarantee, external=external
            ),
        )
        self._spouts.append(spout)

    def set_bolt(
        self,
        name: str,
        factory: AnyFactory,
        tasks: int = 1,
        *,
        on_exception: OnException | None = None,
        retry: RetryPolicy | None = None,
        on_exhausted: OnExhausted = "fail",
        max_consecutive_failures: int | None = None,
        on_consecutive_failures: OnConsecutiveFailures = "pause",
        tick_interval: float | None = None,
        external: bool = False,
        streams: Streams | None = None,
    ) -> BoltDeclarer:
        """Adds a bolt.

        Args:
            name: unique within the topology.
            factory: a function of a row, as for `Stream.step`; or a class of a bolt, such as `Bolt` or `BasicBolt`,
                or a callable without arguments that returns an instance, called once for each task.
            tasks: number of tasks.
            on_exception: what to do with a tuple whose `execute` raised: `fail` it, which is the default, `retry` it in
                its task, `crash` the process, or write its record to the dead letters and ack it (`dead_letter`).
            retry: when a tuple is executed again, with `on_exception="retry"`, `collector.retry` and `RetryTupleError`.
                By default after 0, 0.2, 0.4 … 10 seconds, until it is acked.
            on_exhausted: what to do with a tuple after `max_retries` of the policy: `fail` it, or `dead_letter`.
            max_consecutive_failures: number of messages in a row for whose tuples `execute` raised, after which the
                task pauses; 0 for no limit. By default 10 with `fail` and `retry`, and no limit otherwise.
            on_consecutive_failures: `pause` the task, or `stop` the component permanently.
            tick_interval: seconds between tick tuples, with which `execute` is also called; by default the class's.
            external: whether another program runs it, such as Spark. Then the factory is a function that is called
                there; in Spark, `transform(rows)`, or `sink(rows, batch_id)` for a bolt without streams.
            streams: the streams of an external bolt.

        Returns:
            The declarer of the bolt's subscriptions.

        Raises:
            TopologyError: if the bolt is invalid.
        """
        if not external and is_function_of_a_row(factory):
            factory = cast(AnyFactory, step_bolt(step_function(name, factory, self.resources)))
        declared = self._add(name, factory, BOLTS, external, streams)
        if external:
            check_function("bolt", name, factory, "a function, such as transform(rows) in Spark")
        options = BoltOptions(
            *(
                on_exception or "fail",
                retry or RetryPolicy(),
                on_exhausted,
                max_consecutive_failures,
                on_consecutive_failures,
            ),
            tick_interval,
        )
        if external and options != BoltOptions():
            raise TopologyError(
                f"bolt {name!r} is external and given on_exception, max_consecutive_failures, tick_interval or another "
                "option that only bolts of the SDK have: leave them out"
            )
        if needs_of(made := self._made[name]).windows:
            check_aggregate_bolt(name, made, declared)
        check_options(name, options)
        check_retry(name, on_exception, retry, on_exhausted)
        self._options[name] = options
        tasks = check_count(f"tasks of bolt {name!r}", tasks)
        bolt = BoltManifest(
            name=name,
            tasks=tasks,
            streams=declared,
            subscriptions=(),
            external=external,
            answers=getattr(made, "answers", False),
        )
        self._bolts.append((bolt, declarer := BoltDeclarer(name)))
        return declarer

    def build(self) -> Topology:
        """Checks the topology, and returns it.

        Raises:
            TopologyError: if the topology is invalid; the message says what to change.
        """
        if not self._spouts:
            raise TopologyError(f"topology {self._name!r} has no spout: add one with set_spout()")
        results = results_spouts(
            *(self._name, [(bolt, declarer.subscriptions) for bolt, declarer in self._bolts], self._made),
            *(self._timeout_ms, self._max_pending or _MAX_PENDING),
        )
        spouts = [*self._spouts, *(spout for spout, _ in results.values())]
        reading = {spout.name: instance for spout, instance in results.values()}
        made = {**self._made, **reading}
        if reading:
            check_positions(len(spouts))

        # A `StepContext` answers wherever messages have outcomes and positions.
        answers = self._guarantee != "at_most_once" and all(needs_of(made[spout.name]).positions for spout in spouts)
        declared = [
            (bolt.model_copy(update={"answers": answers}) if has_context(made[bolt.name]) else bolt, declarer)
            for bolt, declarer in self._bolts
        ]
        bolts, groupings, even_shuffles = subscribed(
            declared, {name: spout.name for name, (spout, _) in results.items()}
        )
        bolts = with_chains(spouts, bolts, made)
        tick_ms = default_tick_ms(spouts) if self._tick_ms is None else self._tick_ms
        age_ms = self._max_age_ms
        if age_ms is None:
            age_ms = default_tree_age_ms(spouts, tick_ms, self._guarantee, made)
        with as_topology_error():
            manifest = Manifest.of(
                topology=self._name,
                guarantee=self._guarantee,
                ack_partitions=self._ack_partitions,
                tick_ms=tick_ms,
                max_tree_age_ms=age_ms,
                components=(*spouts, *bolts),
            )
        manifest = with_states(manifest, made)
        check_needs(manifest, made, self._options)
        row_types = checked_row_types(manifest, made)
        for bolt in bolts:
            check_retries(manifest, bolt.name, self._options[bolt.name])
        targets = {name: each.topic for name, each in made.items() if needs_of(each).writes}
        return Topology(
            manifest,
            {**self._factories, **reading},
            dict(self._options),
            groupings,
            tuple(self._hooks),
            {name: each.topics for name, each in made.items() if needs_of(each).positions},
            {name: topic for name, topic in targets.items() if isinstance(topic, str)},
            self._pack_tuples,
            any(bolt.external for bolt in bolts),
            even_shuffles,
            longest_stop(manifest, made),
            state_guarantees(manifest, made),
            component_settings(made, self._options),
            row_types,
        )

    def _add(
        self,
        name: str,
        factory: AnyFactory | str,
        kinds: tuple[type, ...],
        external: bool,
        streams: Streams | None,
    ) -> tuple[StreamDeclaration, ...]:
        """Adds a component; returns the streams that it declares."""
        with as_topology_error():
            check_name("component", name)
        if name in self._factories:
            raise TopologyError(f"two components are named {name!r}: names must be unique within a topology")
        declared, self._made[name] = check_component(name, factory, kinds, external, streams)
        self._factories[name] = factory
        return declared


def _milliseconds(name: str, seconds: float) -> int:
    return round(1000 * check_seconds(name, seconds))
