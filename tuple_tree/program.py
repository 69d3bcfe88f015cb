"""Programs of a topology: by their streams and groupings, which code runs, and whether two may work together."""

import json
from collections.abc import Iterable, Iterator
from hashlib import blake2b

from tuple_tree.components import BoltManifest
from tuple_tree.manifest import Manifest


def fingerprint(manifest: Manifest) -> str:
    """A short text that differs where components, streams, groupings, tasks or the guarantee differ.

    Versions of the library that write other members into a manifest have the same fingerprint of a topology.
    """
    components = [
        (
            *(each.kind, each.name, each.tasks),
            sorted(
                (stream.name, stream.codec, stream.direct, [(field.name, str(field.type)) for field in stream.fields])
                for stream in each.streams
            ),
            sorted((of.source, of.stream, of.grouping, of.fields) for of in getattr(each, "subscriptions", ())),
        )
        for each in manifest.components
    ]
    of = (manifest.topology, manifest.guarantee, manifest.ack_partitions, sorted(components))
    return blake2b(json.dumps(of).encode(), digest_size=6).hexdigest()


def are_strangers(one: Manifest, other: Manifest) -> bool:
    """Whether no component of one manifest is in the other one."""
    return {each.name for each in one.components}.isdisjoint(each.name for each in other.components)


def differences(own: Manifest, published: Manifest, component: str | None = None) -> list[str]:
    """Why code must not run beside that of a published manifest, in words; empty if it may.

    It may have streams and subscriptions that the other one has not: a change is published, and then processes are
    restarted one after another.

    Args:
        component: the one that runs; None for all.
    """
    names = [each.name for each in own.components] if component is None else [component]
    if component is not None:
        names += [bolt.name for bolt in own.chained_to(component)]
    theirs = {each.name: each for each in published.components}
    found: list[str] = []
    for name in names:
        if name not in theirs:
            found.append(f"it has no component {name!r}")
        elif theirs[name].kind != own.component(name).kind:
            found.append(f"its {name!r} is a {theirs[name].kind}")
    known = [name for name in names if name in theirs]
    found += _other_streams(own, published, known)
    found += _other_groupings(own, published, known)
    return list(dict.fromkeys(found))


def _other_streams(own: Manifest, published: Manifest, names: Iterable[str]) -> Iterator[str]:
    """The streams that components emit or receive, and that have other fields or another codec."""
    received = {each.source for name in names for each in getattr(own.component(name), "subscriptions", ())}
    theirs = {(each.name, stream.name): stream for each in published.components for stream in each.streams}
    for name in sorted({*names, *received}):
        for stream in own.component(name).streams:
            other = theirs.get((name, stream.name))
            if other is not None and (other.fields, other.codec) != (stream.fields, stream.codec):
                shown = ", ".join(f"{field.name}: {field.type}" for field in other.fields)
                yield f"its stream {stream.name!r} of {name!r} has {shown} ({other.codec})"


def _other_groupings(own: Manifest, published: Manifest, names: Iterable[str]) -> Iterator[str]:
    """The subscriptions to, and of, components that have another grouping."""
    ours, theirs = _subscriptions(own), _subscriptions(published)
    for (bolt, source, stream), grouping in ours.items():
        other = theirs.get((bolt, source, stream), grouping)
        if other != grouping and not {bolt, source}.isdisjoint(names):
            kind, fields = other
            shown = f"{kind} by {', '.join(fields)}" if fields else kind
            yield f"its {bolt!r} receives stream {stream!r} of {source!r} by a {shown} grouping"


def _subscriptions(manifest: Manifest) -> dict[tuple[str, str, str], tuple[str, tuple[str, ...]]]:
    bolts: tuple[BoltManifest, ...] = manifest.bolts
    return {
        (bolt.name, each.source, each.stream): (each.grouping, each.fields)
        for bolt in bolts
        for each in bolt.subscriptions
    }
