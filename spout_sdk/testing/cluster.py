"""The simulated cluster: runs a whole topology in one process, with a broker in memory and simulated time."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import TracebackType
from typing import Any, Final

from kafka_clients import repeated_lines
from spout_sdk.api.topology import Factory, Topology
from spout_sdk.arguments import check_choice
from spout_sdk.records import Headers
from spout_sdk.statistics.stats import Stats
from spout_sdk.testing.broker import MemoryBroker, NotIdleError, SimulationError
from spout_sdk.testing.chance import Chance, SimulatedClock
from spout_sdk.testing.readable import Journal, JournalHook, Readable
from spout_sdk.testing.sources import NUMBERED, FixedTuple, MockedMessages, replaced
from spout_sdk.testing.tasks import RequestedState, SimulatedAcker, SimulatedProcess
from spout_sdk.topologies.builder import TopologyBuilder
from tuple_tree.control import Control, ControlState
from tuple_tree.names import state_topic
from tuple_tree.state_records import ABOUT_KEY, About, KeyCodec, ValueCodec, task_of
from tuple_tree.streams import DEFAULT_STREAM
from tuple_tree.topics import TopicSpec, topic_specs

LARGEST_TURN: Final = 16
"""Largest number of records that a task reads, and of tuples that a spout emits, in a turn."""

LIMIT: Final = 100_000
"""Largest number of records sent plus rounds before `NotIdleError` is raised."""


class SimulatedCluster(Readable):
    """Runs the real tasks and ackers of a topology with a broker in memory and simulated time.

    The cluster runs only during `run_until_idle`, `run_until` and `advance`. Tasks and ackers take turns in a random
    order that repeats with the seed. Each task runs as in its own process.

    All methods raise `SimulationError` for a component or task that the topology does not have. Methods that run the
    cluster raise `ComponentError` if a component raised outside of `execute`, and `NotIdleError` if the work does not
    end, or if the cluster is idle before a condition holds.

    Args:
        topology: a builder, or the result of its `build`.
        seed: seed of all random choices: the order of turns, and all ids.
        sources: mocked spout → the messages that it emits: values, or `FixedTuple`s. Messages that fail are not emitted
            again.
        bolts: bolt → another class or callable that replaces it, for instance if the bolt is external.
        topics: topics besides the topology's own, and their numbers of partitions. Topics that a `KafkaSpout` reads, or
            a `KafkaBolt` names, have one partition by default; a topic that a function chooses must be given.
        paused: components that do not run until `resume` is called; `acker` for the ackers.
        step: how far `advance` moves the time in one step, in seconds.

    Raises:
        SimulationError: if `sources` or `bolts` names a component that does not exist, or lacks an external one.
        ComponentError: if a component cannot be created, opened or prepared.
    """

    def __init__(
        self,
        topology: Topology | TopologyBuilder,
        *,
        seed: int = 0,
        sources: Mapping[str, Iterable[Sequence[Any] | FixedTuple]] | None = None,
        bolts: Mapping[str, Factory] | None = None,
        topics: Mapping[str, int] | None = None,
        paused: Iterable[str] = (),
        step: float = 0.1,
    ) -> None:
        # Each cluster logs as a process that has just started, even lines that another cluster has logged.
        repeated_lines.forget()
        self._sources = {name: MockedMessages(messages) for name, messages in (sources or {}).items()}
        built = topology.build() if isinstance(topology, TopologyBuilder) else topology
        self.topology = replaced(built, self._sources, bolts or {})
        manifest = self.topology.manifest
        self.clock = SimulatedClock()
        targets = chain(self.topology.kafka_targets.values(), manifest.outcome_topics.values())
        known = dict.fromkeys(chain(targets, *self.topology.kafka_sources.values()), 1)
        own = topic_specs(manifest)
        # The results topics of windows are sources of spouts, too, but belong to the topology.
        others = [TopicSpec(name, partitions, {}) for name, partitions in {**known, **(topics or {})}.items()]
        specs = [*(each for each in others if each.name not in {spec.name for spec in own}), *own]
        self.broker = MemoryBroker(specs, lambda: self.clock.broker_ms)
        self._step_ms = _millis("step", step)
        self._closed = False
        self._chance = Chance(seed)
        self._journals = {one.name: Journal() for one in manifest.components}
        hooks = (lambda: JournalHook(self._journals, self.clock), *self.topology.hooks)
        self.topology = replace(self.topology, hooks=hooks)
        self._control = RequestedState()
        self._paused: set[str] = set()
        for name in paused:
            self.pause(name)
        self._retired: dict[str, Stats] = {one.name: Stats(one.name) for one in manifest.components}
        self._tasks: dict[tuple[str, int], SimulatedProcess] = {}
        self._acker: SimulatedAcker | None = None
        self.kill_acker()
        # Bolts first, because a spout may emit when it is opened.
        for one in sorted(manifest.heads, key=lambda each: each.kind):
            for number in range(one.tasks):
                self._begin(one.name, number)

    def __enter__(self) -> "SimulatedCluster":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stops every task cleanly, spouts first: sends acks, commits offsets, and calls `close` or `cleanup`."""
        if not self._closed:
            self._closed = True
            for task in reversed(self._tasks.values()):
                task.end()

    # Methods that run the cluster.

    def run_until_idle(self, limit: int = LIMIT) -> None:
        """Runs until no work is left, for at most `limit` records and rounds; no time passes."""
        self._run(lambda: False, limit, idle_is_enough=True)

    def run_until(self, condition: Callable[[], object], limit: int = LIMIT) -> None:
        """Runs until a condition holds, for at most `limit` records and rounds; no time passes.

        The condition is called after every turn of a task; its exceptions are raised here.
        """
        self._run(condition, limit, idle_is_enough=False)

    def advance(self, seconds: float) -> None:
        """Moves the time in steps, and runs until idle after each step.

        A tree fails between its message timeout and a tick later, as in a real cluster.
        """
        self.run_until_idle()
        left = _millis("seconds", seconds)
        while left:
            passed = min(left, self._step_ms)
            left -= passed
            self.clock.elapsed_ms += passed
            self.run_until_idle()

    def feed(
        self,
        spout: str,
        values: Sequence[Any],
        message_id: Any = NUMBERED,
        stream: str = DEFAULT_STREAM,
    ) -> Any:
        """Gives a mocked spout another message, and returns the message id; the spout emits it when the cluster runs.

        Args:
            spout: one of `sources`.
            values: a value for each field of the stream.
            message_id: the id that `ack` or `fail` gets; by default the number of the message, from 0; None for an
                untracked tuple.
            stream: one of the spout's streams.
        """
        source = self._sources.get(spout)
        if source is None:
            self._known(spout)
            raise SimulationError(
                f"{spout!r} cannot be fed, because it runs for real: mock it, SimulatedCluster(…, "
                f"sources={{{spout!r}: []}})"
            )
        return source.add(FixedTuple(values, stream, message_id))

    def produce(
        self,
        topic: str,
        value: bytes | str | None,
        key: bytes | str | None = None,
        headers: Headers | None = None,
        partition: int = 0,
    ) -> int:
        """Appends a message to a topic that a `KafkaSpout` reads, and returns its offset; text is encoded as UTF-8.

        The spout reads it when the cluster runs. Messages that are appended before the cluster first runs are in the
        topic before the spout's first poll.

        Raises:
            SimulationError: if the topic or partition does not exist, or the message is too large.
        """
        record = self.broker.append(topic, partition, _bytes(key), _bytes(value), headers)
        return record.offset_  # type: ignore[no-any-return]

    def request(self, state: ControlState) -> None:
        """Requests a state of the topology, as `acker topologies pause`, `drain`, `stop` and `resume` do.

        Args:
            state: `paused`, `draining`, `stopped`, or `running`. No process ends, also with `stopped`.
        """
        check_choice("the requested state", state, ControlState)
        self._control.control = Control(state)

    def set_state(self, bolt: str, values: Mapping[Any, Any]) -> None:
        """Sets values of a bolt's state; its tasks start again, as after a kill, and restore them.

        Args:
            bolt: a bolt with a state.
            values: key → value; a key of several fields is a tuple; the value None deletes a key.
        """
        declared = self._state_of(bolt)
        keys, codec = KeyCodec(declared.key), ValueCodec.of(declared)
        tasks = self.topology.manifest.component(bolt).tasks
        topic = state_topic(self.topology.name, bolt)
        about = About.of(self.topology.manifest, bolt).to_json()
        for task in range(tasks):
            self.broker.append(topic, task, ABOUT_KEY, about, None)
        for given, value in values.items():
            key = keys.of(given)
            payload = None if value is None else codec.encode(value)
            self.broker.append(topic, task_of(declared, key, tasks), key, payload, None)
        for task in range(tasks):
            self.kill(bolt, task)

    # Methods that simulate failures.

    def kill(self, component: str, task: int = 0) -> None:
        """Ends a task as SIGKILL would; a new one starts at once from the committed offset.

        A bolt commits about every second, and executes tuples since the last commit again. A spout forgets its open
        trees.
        """
        self._check_open()
        component = self._head(component)
        self._retire(component, task)
        self._begin(component, task)

    def restart(self, component: str, task: int = 0) -> None:
        """Stops a task cleanly, and starts it again, as when it moves to another process."""
        self._check_open()
        component = self._head(component)
        self._task(component, task).end()
        self._retire(component, task)
        self._begin(component, task)

    def kill_acker(self) -> None:
        """Ends all ackers as SIGKILL would; new ones start, and rebuild their ledgers from the log."""
        if self.topology.manifest.acking:
            self._acker = SimulatedAcker(self.topology.manifest, self.broker, self.clock)

    def pause(self, component: str) -> None:
        """Stops a component as SIGSTOP would: it emits, executes and reads nothing; `acker` for the ackers."""
        if component != SimulatedAcker.name:
            self._known(component)
        self._paused.add(component)

    def resume(self, component: str) -> None:
        """Lets a paused component continue."""
        if component not in self._paused:
            raise SimulationError(f"{component!r} is not paused: {', '.join(sorted(self._paused)) or 'nothing'} is")
        self._paused.remove(component)

    def _head(self, component: str) -> str:
        """The head of the chain that a component runs in; the component itself if it is not chained."""
        self._known(component)
        return self.topology.manifest.head(component).name

    def _run(self, condition: Callable[[], object], limit: int, *, idle_is_enough: bool) -> None:
        self._check_open()
        broker, chance = self.broker, self._chance
        began = broker.appended
        rounds = 0
        while not condition():
            before = broker.appended
            turns = self._turns()
            busy = []
            for number in chance.order(len(turns)):
                name, turn = turns[number]
                if turn(chance.up_to(LARGEST_TURN)):
                    busy.append(name)
                if not idle_is_enough and condition():
                    return
            if not busy and broker.appended == before:
                if idle_is_enough:
                    return
                raise NotIdleError(f"nothing is left to do, and the condition does not hold; {self._state()}")
            rounds += 1
            if rounds + broker.appended - began > limit:
                raise NotIdleError(
                    f"after {broker.appended - began:,} records and {rounds:,} rounds there is still something to do, "
                    f"for {', '.join(sorted({*busy})) or 'nothing'}; {self._state()}. A spout that emits "
                    "without end, or at once what always fails, is never idle: mock it with sources={…}, use "
                    "run_until(), or raise the limit"
                )

    def _turns(self) -> list[tuple[str, Callable[[int], bool]]]:
        paused = self._paused
        turns: list[tuple[str, Callable[[int], bool]]]
        turns = [(task.name, task.turn) for task in self._tasks.values() if task.name not in paused]
        if self._acker is not None and self._acker.name not in paused:
            turns.append((self._acker.name, self._acker.turn))
        return turns

    def _check_open(self) -> None:
        if self._closed:
            raise SimulationError("the cluster is closed: it can be read, but it cannot run")

    def _begin(self, component: str, number: int) -> None:
        self._tasks[component, number] = SimulatedProcess(
            *(self.topology, component, number), *(self.broker, self.clock, self._chance.entropy()), self._control
        )

    def _retire(self, component: str, number: int) -> None:
        running = self._task(component, number)
        for name in (component, *(bolt.name for bolt in self.topology.manifest.chained_to(component))):
            self._retired[name] = self._retired[name].merge(running.stats(name).retired())

    def _state(self) -> str:
        """Describes the open trees, for an error."""
        spouts = [spout.name for spout in self.topology.manifest.spouts]
        stats = {name: self.stats(name) for name in spouts}
        open_trees = (f"{name} emitted {one.emitted:,}, {one.pending:,} are pending" for name, one in stats.items())
        return f"{self.now:g} s after the beginning {'; '.join(open_trees)}"


def complete_topology(
    topology: Topology | TopologyBuilder,
    *,
    sources: Mapping[str, Iterable[Sequence[Any] | FixedTuple]] | None = None,
    bolts: Mapping[str, Factory] | None = None,
    seed: int = 0,
) -> SimulatedCluster:
    """Runs a topology until every message has an outcome, which may be a timeout, and stops it cleanly.

    Args:
        topology: a builder, or the result of its `build`.
        sources: mocked spout → the messages that it emits: values, or `FixedTuple`s.
        bolts: bolt → another class or callable that replaces it.
        seed: seed of all random choices.

    Returns:
        The closed cluster, from which you can read emitted, executed, acked and failed tuples, and the instances.

    Raises:
        NotIdleError: if the work does not end, for instance because a spout emits without end.
        SimulationError: if `sources` or `bolts` names a component that does not exist, or lacks an external one.
        ComponentError: if a component raised outside of `execute`.
    """
    with SimulatedCluster(topology, sources=sources, bolts=bolts, seed=seed) as cluster:
        manifest = cluster.topology.manifest
        cluster.run_until_idle()
        while any(cluster.pending(spout.name) for spout in manifest.spouts):
            cluster.advance(manifest.tick_ms / 1000)
        return cluster


def _bytes(text: bytes | str | None) -> bytes | None:
    if text is not None and not isinstance(text, bytes | str):
        raise TypeError(f"a message takes bytes, text or None, not {type(text).__name__}: json.dumps() makes text")
    return text.encode() if isinstance(text, str) else text


def _millis(what: str, seconds: float) -> int:
    millis = round(seconds * 1000)
    if millis < 1:
        raise SimulationError(f"{what} is {seconds}: it must be at least a millisecond")
    return millis
