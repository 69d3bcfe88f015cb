"""The plan of `acker topics create` for a published topology: steps in words, by the two manifests."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from inspection.notation import counted, show_writers
from tuple_tree.components import BoltManifest, Component, StateManifest, Subscription
from tuple_tree.manifest import Manifest
from tuple_tree.names import tuples_topic
from tuple_tree.outcome_records import other_writers
from tuple_tree.pages import page
from tuple_tree.program import are_strangers, fingerprint
from tuple_tree.streams import StreamDeclaration
from tuple_tree.topics import topic_specs

_HOW_TO: Final = "how-to/change-a-topology.md"


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a plan.

    Attributes:
        by: `command` for what the command does, `user` for what is left to do afterwards, `refused` for a change that
            is not made.
        text: the step in words.
    """

    by: Literal["command", "user", "refused"]
    text: str


@dataclass(frozen=True, slots=True)
class Running:
    """The running processes of a topology, and the lags of its inboxes.

    Attributes:
        processes: component → how many processes report statistics.
        lags: bolt → records of its inbox that are not done; without a bolt whose lag is not known.
        programs: component → fingerprints of the code of its processes, where they report them.
    """

    processes: Mapping[str, int] = field(default_factory=dict)
    lags: Mapping[str, int] = field(default_factory=dict)
    programs: Mapping[str, Collection[str]] = field(default_factory=dict)


def change_plan(
    published: Manifest | None,
    manifest: Manifest,
    topics: Collection[str],
    running: Running,
    *,
    force: bool = False,
    replace: bool = False,
) -> list[Step]:
    """The steps from a published manifest to another one, in the order in which they are safe.

    Args:
        published: what is published; None if the topology is new.
        manifest: the new one.
        topics: names of the topics that exist.
        running: what runs.
        force: whether changes that running processes misunderstand are made all the same.
        replace: whether another program of the same name is replaced.
    """
    others = [] if published is None or replace else [*_other_programs(published, manifest, running)]
    refused = others or ([] if published is None else _refused(published, manifest, running, force=force))
    if refused:
        return [Step("refused", text) for text in refused]
    new = [spec for spec in topic_specs(manifest) if spec.name not in topics]
    steps = [Step("command", f"create topic {spec.name} with {counted(spec.partitions, 'partition')}") for spec in new]
    if published is not None:
        before = {each.name: each.tasks for each in published.inboxes}
        steps += [
            Step(
                "command",
                f"give {tuples_topic(manifest.topology, bolt)} {tasks} partitions; it has {before[bolt]}",
            )
            for bolt, tasks in grown_bolts(published, manifest).items()
        ]
    if published == manifest:
        return [*steps, Step("command", f"publish the manifest of {manifest.topology}, which has not changed")]
    if published is not None and are_strangers(published, manifest):
        steps.append(Step("command", f"replace another program: {_lost(published, running)}"))
    steps.append(Step("command", f"publish the manifest of {manifest.topology}"))
    todo = [] if published is None else _todo(published, manifest, running)
    return [*steps, *(Step("user", text) for text in todo)]


def _second() -> str:
    return f"Set it back, or run a second topology: see {page(_HOW_TO)}"


def grown_bolts(published: Manifest, manifest: Manifest) -> dict[str, int]:
    """Bolts that get more tasks, and how many: partitions of their inboxes can be added, as they have no state."""
    before = {each.name: each.tasks for each in published.inboxes}
    return {
        bolt.name: bolt.tasks
        for bolt in manifest.inboxes
        if bolt.state is None and bolt.tasks > before.get(bolt.name, bolt.tasks)
    }


def sharing_steps(manifest: Manifest, published: Mapping[str, object]) -> list[Step]:
    """A step for each topic of outcomes to which other topologies write as well.

    `published` has the manifests of all topologies, by name.
    """
    return [
        Step(
            "user",
            f"check the readers of topic {topic}, to which spout {spout} and {others} write outcomes: the headers "
            "topology and spout of a record name its spout; or give each topology a topic of its own",
        )
        for spout, topic in manifest.outcome_topics.items()
        if (others := show_writers(manifest.topology, other_writers(manifest, spout, published)))
    ]


@dataclass(frozen=True, slots=True)
class _Breaking:
    """A difference that processes with one manifest misunderstand in what those with the other one send."""

    what: str
    components: tuple[str, ...]  # whose processes are concerned
    inboxes: tuple[str, ...]  # bolts whose inboxes may have earlier tuples


def _refused(published: Manifest, manifest: Manifest, running: Running, *, force: bool) -> list[str]:
    found = [*_other_partitions(published, manifest), *_more_tasks(published, manifest, running)]
    for change in () if force else _breaking(published, manifest):
        runs = [f"{name}: {count}" for name in change.components if (count := running.processes.get(name))]
        waits = [f"{name}: {lag}" for name in change.inboxes if (lag := running.lags.get(name))]
        if runs:
            found.append(
                f"{change.what}. Processes that must be stopped first are running ({', '.join(runs)}): acker "
                f"topologies stop {manifest.topology} --wait drains and stops them; then repeat this command. Or keep "
                f"the earlier one and add a second stream: see {page(_HOW_TO)}. --force publishes it all the same"
            )
        elif waits:
            found.append(
                f"{change.what}. Inboxes have earlier records that would become dead letters (bad-payload), or would "
                f"not be read ({', '.join(waits)}). Start the processes with the earlier code, and acker topologies "
                f"resume {manifest.topology}; acker topologies stop {manifest.topology} --wait then ends them when "
                f"nothing is open: see {page(_HOW_TO)}. --force publishes it all the same"
            )
    return found


def _other_programs(published: Manifest, manifest: Manifest, running: Running) -> Iterable[str]:
    """Refusals to take over the name of another program, or of processes whose code is not the published one."""
    topology, names = manifest.topology, ", ".join(each.name for each in published.components)
    if are_strangers(published, manifest):
        yield (
            f"another program has this name: it has the components {names}, and your code has none of them. Give your "
            f"topology another name. --replace publishes it all the same: {_lost(published, running)}"
        )
        return
    known = {fingerprint(published), fingerprint(manifest)}
    if others := [name for name, programs in running.programs.items() if not known.issuperset(programs)]:
        yield (
            f"processes run with code that is neither the published one nor yours: {_counted(others, running)}. "
            f"Restart them with the published code, or stop them: acker topologies stop {topology} --wait; then repeat "
            "this command. --replace publishes yours all the same: what these processes send may become dead letters"
        )


def _lost(published: Manifest, running: Running) -> str:
    """The loss with a program that is replaced, in words."""
    lags = [f"{name}: {lag}" for name, lag in running.lags.items() if lag]
    states = [bolt.name for bolt in published.bolts if bolt.state is not None]
    words = [f"the records in its inboxes are not processed ({', '.join(lags) or 'none waits'})"]
    if states:
        words.append(f"the states of {', '.join(states)} are not used")
    words.append("its open messages get no outcome")
    runs = [name for name in running.processes if running.processes[name]]
    if runs:
        words.append(f"its processes run ({_counted(runs, running)}) until you stop them")
    return f"{'; '.join(words)}. Its topics stay until you delete them"


def _other_partitions(published: Manifest, manifest: Manifest) -> Iterable[str]:
    if published.acking and manifest.acking and published.ack_partitions != manifest.ack_partitions:
        yield (
            f"ack_partitions is {manifest.ack_partitions}, and was {published.ack_partitions}: the root of a tree, "
            f"modulo it, is the partition of its acks. {_second()}"
        )
    before, grown = {each.name: each for each in published.heads}, grown_bolts(published, manifest)
    for each in manifest.heads:
        old = before.get(each.name)
        if old is None or old.kind != each.kind or old.tasks == each.tasks or each.name in grown:
            continue
        if not isinstance(each, BoltManifest):
            why = "its notices topic has a partition for each task, and open trees name theirs"
        elif each.tasks < old.tasks:
            why = "Kafka cannot remove partitions of its inbox"
        else:
            why = "its state is kept by partition, and keys would be in other ones"
        yield f"{each.name!r} has {counted(each.tasks, 'task')}, and had {old.tasks}: {why}. {_second()}"


def _more_tasks(published: Manifest, manifest: Manifest, running: Running) -> Iterable[str]:
    """Refusals of more tasks while processes run, or tuples are under way: those emit by the earlier number."""
    runs = [f"{name}: {count}" for name, count in running.processes.items()]
    for bolt, tasks in grown_bolts(published, manifest).items():
        lag = running.lags.get(bolt)
        if not runs and not lag:
            continue
        why = f"processes run ({', '.join(runs)})" if runs else f"its inbox has {counted(lag or 0, 'record')}"
        yield (
            f"{bolt!r} has {counted(tasks, 'task')}, and had {published.component(bolt).tasks}, while {why}: a "
            "fields grouping would send a key to two tasks. Stop the topology first, with acker topologies stop "
            f"{manifest.topology} --wait, and repeat this command"
        )


def _breaking(published: Manifest, manifest: Manifest) -> list[_Breaking]:
    everything = tuple(each.name for each in published.components)
    changes = []
    if published.guarantee != manifest.guarantee:
        inboxes = tuple(each.name for each in published.inboxes)
        what = f"the guarantee is {manifest.guarantee}, and was {published.guarantee}"
        changes.append(_Breaking(what, everything, inboxes))
    bolts = {bolt.name: bolt for bolt in published.bolts}
    for bolt in manifest.bolts:
        if (old := bolts.get(bolt.name)) is None:
            continue
        if old.state != bolt.state:
            what = f"the state of {bolt.name!r} is {_state(bolt.state)}, and was {_state(old.state)}"
            changes.append(_Breaking(what, (bolt.name,), (bolt.name,)))
        changes += _changed_chain(published, manifest, bolt, old)
    streams = {(each.name, stream.name): stream for each in published.components for stream in each.streams}
    for component in manifest.components:
        for stream in component.streams:
            earlier = streams.get((component.name, stream.name), stream)
            if (earlier.fields, earlier.codec) != (stream.fields, stream.codec):
                receivers = _receivers(published, component.name, stream.name)
                what = f"stream {stream.name!r} of {component.name!r} has {_shown(stream)}, and had {_shown(earlier)}"
                changes.append(_Breaking(what, (component.name, *receivers), receivers))
    return changes


def _changed_chain(
    published: Manifest, manifest: Manifest, bolt: BoltManifest, old: BoltManifest
) -> Iterable[_Breaking]:
    """A bolt that has an inbox in only one of the manifests: tuples in it would not be read."""
    if bolt.is_chained and not old.is_chained:
        head = manifest.head(bolt.name).name
        what = f"{bolt.name!r} is chained to {head!r}, and had an inbox"
        yield _Breaking(what, (bolt.name, head, *_sources(old)), (bolt.name,))
    elif old.is_chained and not bolt.is_chained:
        head = published.head(bolt.name).name
        yield _Breaking(f"{bolt.name!r} has an inbox, and was chained to {head!r}", (bolt.name, head), ())


def _todo(published: Manifest, manifest: Manifest, running: Running) -> list[str]:
    """The steps of the user: restart receivers of new streams before their emitters, emitters of removed ones first."""
    old, new = _by_name(published), _by_name(manifest)
    added = _subscriptions(manifest) - _subscriptions(published)
    removed = _subscriptions(published) - _subscriptions(manifest)
    lags, topology = f"acker topologies show {manifest.topology}", manifest.topology

    def restarts(names: Iterable[str], why: str) -> list[str]:
        heads = {manifest.head(name).name for name in names if name in old and name in new}
        fresh = [name for name in new if name in heads and name not in done and running.processes.get(name)]
        done.update(fresh)
        return [f"restart {_counted(fresh, running)}: {why}"] if fresh else []

    done: set[str] = set()
    bolts = [name for name in new if name not in old and isinstance(new[name], BoltManifest)]
    spouts = [name for name in new if name not in old and name not in bolts]
    steps = [f"start processes of {name}" for name in bolts if not new[name].external and _is_head(manifest, name)]
    steps += restarts((bolt for bolt, _ in added), "their new code reads what is new in their inboxes")
    emitters = [each.source for _, each in (*added, *removed)]
    steps += restarts(emitters, "their new code sends what is new, and no longer what is removed")
    ending = {bolt for bolt, _ in removed if _is_head(published, bolt)}
    waiting = [name for name in old if name in ending and running.processes.get(name)]
    if waiting:
        steps.append(f"wait until there is no lag of {', '.join(waiting)} ({lags})")
    steps += restarts(
        waiting, "their new code does not read what is removed; tuples of it that still come are replayed"
    )
    for name in (each for each in old if each not in new):
        if running.processes.get(name):
            steps.append(f"stop {_counted([name], running)}")
        if isinstance(old[name], BoltManifest) and _is_head(published, name):
            steps.append(f"delete topic {tuples_topic(topology, name)} when it has no lag")
    steps += [f"start processes of {name}" for name in spouts if not new[name].external]
    changed = [name for name in new if name in old and _settings(new[name]) != _settings(old[name])]
    steps += restarts(changed, "their settings have changed")
    if (published.tick_ms, published.max_tree_age_ms) != (manifest.tick_ms, manifest.max_tree_age_ms):
        steps.append(
            f"restart acker workers that were started with --topology {topology}: tick or max_tree_age changed"
        )
    return steps


def _by_name(manifest: Manifest) -> dict[str, Component]:
    return {each.name: each for each in manifest.components}


def _subscriptions(manifest: Manifest) -> set[tuple[str, Subscription]]:
    return {(bolt.name, each) for bolt in manifest.bolts for each in bolt.subscriptions}


def _receivers(manifest: Manifest, component: str, stream: str) -> tuple[str, ...]:
    found = (
        bolt.name
        for bolt in manifest.bolts
        if any((each.source, each.stream) == (component, stream) for each in bolt.subscriptions)
    )
    return tuple(found)


def _sources(bolt: BoltManifest) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.source for each in bolt.subscriptions))


def _is_head(manifest: Manifest, name: str) -> bool:
    return manifest.head(name).name == name


def _settings(component: Component) -> dict[str, Any]:
    """The members of a component that do not concern streams."""
    return component.model_dump(exclude={"streams", "subscriptions"})


def _counted(names: Sequence[str], running: Running) -> str:
    return ", ".join(f"{name} ({counted(running.processes.get(name, 0), 'process', 'processes')})" for name in names)


def _state(state: StateManifest | None) -> str:
    if state is None:
        return "none"
    key = ", ".join(f"{each.name}: {each.type}" for each in state.key)
    expires = "" if state.expire_after_ms is None else f", expires after {state.expire_after_ms} ms"
    return f"{key} → {_shown(state.value)}{expires}"


def _shown(stream: StreamDeclaration) -> str:
    return f"{', '.join(f'{each.name}: {each.type}' for each in stream.fields)} ({stream.codec})"
