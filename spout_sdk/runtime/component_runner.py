"""Runs one component in this process and thread."""

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from kafka_clients.control_reader import ControlReader
from kafka_clients.loop_runner import LoopRunner, broker_errors, describe_error
from kafka_clients.published_manifest import PublishedManifest
from kafka_clients.repeated_lines import get_logger
from kafka_clients.stats_publisher import StatsPublisher, producer_settings
from kafka_clients.topic_watch import TopicWatch
from spout_sdk.api.topology import Topology
from spout_sdk.delivery.transactional_sink import TransactionalSink
from spout_sdk.errors import TopologyError
from spout_sdk.kafka.kafka_checks import check_topics, topics_of
from spout_sdk.kafka.kafka_settings import KafkaSettings, checked, watching_client
from spout_sdk.kafka.kafka_sink import KafkaSink
from spout_sdk.records import Clock, Entropy
from spout_sdk.runtime.bolt_loop import BoltLoop
from spout_sdk.runtime.execute_watch import ExecuteWatch, Limits, end_process
from spout_sdk.runtime.share_watch import ShareWatch
from spout_sdk.runtime.spout_loop import SpoutLoop
from spout_sdk.runtime.task_loop import ComponentProcess
from spout_sdk.runtime.timeout_resets import TimeoutResets
from spout_sdk.statistics.stats import Counters, Stats
from tuple_tree.components import SpoutManifest

logger = get_logger("spout_sdk.runner")

_SLOT_BYTES: Final = 8


class ComponentRunner:
    """Runs the tasks of a component that its consumer group assigns to this process.

    Several processes of a component, up to its number of tasks, share its tasks.

    Args:
        topology: the topology of the component.
        component: name of a spout or bolt.
        kafka: librdkafka properties; they override the SDK's settings, except the group.
        on_stats: called with a `Stats` of each component that runs here, chained bolts included, about every half
            second and at the end. It is called in the thread of `run`; while an `execute` takes more than two seconds,
            in another thread, but never in both at once.
        on_hanging: called with the reason before the process is ended because an `execute` takes longer than
            `max.poll.interval.ms`, 30 minutes unless set.
        slot: name of the place that this process fills: its `group.instance.id`, and with `exactly_once` the end of a
            bolt's transactional id. If the process fails, the next process with this slot gets the tasks and ends the
            open transaction at once, instead of after the session and transaction timeouts. Processes that run at the
            same time must not share a slot. Without a slot, the process is a dynamic member of its group, with its own
            transactional id.
        is_new_slot: True if no process has had that slot before; otherwise the process joins its group twice, which
            starts a rebalance.
        members: the processes of the component that start together. A spout emits nothing while it has more than its
            share of the tasks, for 10 seconds at most: the others get them as they join the group.
        state_directory: directory of the stores of states; the next process on this disk continues with them. Without
            it, stores are in memory. Processes of one bolt may share it.
        clock: monotonic seconds.
        entropy: returns a given number of random bytes.

    Raises:
        TopologyError: if there is no such component.
        SpoutSdkError: if the Kafka settings do not say where Kafka is.
    """

    def __init__(
        self,
        topology: Topology,
        component: str,
        kafka: KafkaSettings,
        *,
        on_stats: Callable[[Stats], None] | None = None,
        on_hanging: Callable[[str], None] | None = None,
        slot: str | None = None,
        is_new_slot: bool = False,
        members: int = 1,
        state_directory: str | os.PathLike[str] | None = None,
        clock: Clock = time.monotonic,
        entropy: Entropy = os.urandom,
    ) -> None:
        topology.factory(component)
        head = topology.manifest.head(component).name
        if head != component:
            raise TopologyError(f"{component!r} is chained: it runs in the tasks of {head!r}, so run {head!r}")
        self._slot = slot or entropy(_SLOT_BYTES).hex()
        self._runner = LoopRunner(on_stats or (lambda _stats: None), clock)
        self._process = ComponentProcess(
            *(topology, component, checked(kafka), clock, entropy, Counters()),
            *(self._tick, lambda: self._runner.stopping),
            instance=slot,
            is_new_instance=is_new_slot,
            members=members,
            state_directory=None if state_directory is None else Path(state_directory),
        )
        self._on_hanging = on_hanging
        self._shares: ShareWatch | None = None

    def run(self) -> None:
        """Runs until `stop` is called; then flushes, commits, and leaves the group.

        Raises:
            BrokerUnreachableError: if no broker answers at the start.
            AccessError: if Kafka does not authenticate this user, or the user may not use the component's group.
            TopicsError: if the topics are not as the manifest says, if this user may not use them, or if one is
                deleted while the component runs.
            ComponentError: if the component raised outside of `execute`.
            BrokerError: if a request to Kafka fails; after a restart, records that were not committed are read again.
        """
        process = self._process
        topology, component, kafka = process.topology, process.component, process.kafka
        with broker_errors(component):
            uses = topics_of(topology, component)
            admin = watching_client(kafka)
            producer = Producer(producer_settings(kafka))
            publishers = [
                StatsPublisher(topology.name, "component", name, producer, admin, process.clock())
                for name in (component, *process.chained)
            ]
            reader: ControlReader | PublishedManifest
            try:
                check_topics(kafka, topology, component, uses)
                if isinstance(topology.manifest.component(component), SpoutManifest):
                    reader = ControlReader(topology.name, component, kafka)
                    process = replace(process, control=reader)
                else:
                    reader = PublishedManifest(topology.name, component, kafka)
                    process = replace(process, published=reader)
                loop = component_loop(process, self._slot)
            except Exception as error:
                for publisher in publishers:
                    publisher.end(process.clock(), self.stats.to_dict(), describe_error(error))
                raise
            self._shares = ShareWatch(topology, component, kafka, loop.set_shares)
            logger.info("%s of %s started", component, topology.name)
            with closing(self._shares), closing(reader), self._watched(loop):
                self._runner.run(loop, TopicWatch(admin, list(uses)), *publishers)

    def stop(self) -> None:
        """Asks `run` to end; may be called from any thread or a signal handler, and more than once."""
        self._runner.stop()

    @property
    def stats(self) -> Stats:
        """Statistics so far; exact only in the thread of `run`."""
        return self._runner.stats or Stats(self._process.component, (os.getpid(),))

    def _tick(self, now: float) -> None:
        self._runner.tick(now)
        if self._shares is not None:
            self._shares.look(now)

    def _watched(self, loop: SpoutLoop | BoltLoop) -> AbstractContextManager[object]:
        """Watches the bolts' calls of `execute` while the block runs."""
        process, manifest, bolt = self._process, self._process.topology.manifest, self._process.component
        is_spout = isinstance(loop, SpoutLoop)
        if is_spout and not process.chained:
            return nullcontext()
        return ExecuteWatch(
            bolt,
            Limits.of(manifest, bolt, process.kafka),
            loop.tasks,
            TimeoutResets(manifest, bolt, process.kafka, process.entropy) if manifest.acking and not is_spout else None,
            lambda seconds, what: self._runner.report((seconds, what)),
            self._end_hanging,
            process.clock,
        )

    def _end_hanging(self, why: str) -> None:
        if self._on_hanging is not None:
            # The loop may continue at this moment, and report on the same pipe.
            with self._runner.reporting:
                self._on_hanging(why)
        end_process(why)


def component_loop(process: ComponentProcess, slot: str) -> SpoutLoop | BoltLoop:
    """Creates the loop of a component, with its producer."""
    manifest, component, kafka = process.topology.manifest, process.component, process.kafka
    if isinstance(manifest.component(component), SpoutManifest):
        if manifest.guarantee == "exactly_once" and process.chained:
            return SpoutLoop(process, TransactionalSink(kafka, manifest.topology, component, slot))
        return SpoutLoop(process, KafkaSink(kafka, never_twice=not manifest.acking))
    if manifest.guarantee_of(component) == "exactly_once":
        return BoltLoop(process, TransactionalSink(kafka, manifest.topology, component, slot))
    return BoltLoop(process, KafkaSink(kafka, never_twice=not manifest.acking))
