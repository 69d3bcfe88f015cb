"""The messages that spouts may have emitted and that are not done, by the commits of their groups."""

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Final

from confluent_kafka import TopicPartition

from inspection.topology_status import ClusterStatus
from kafka_clients.access import VIEWER, remedy
from kafka_clients.errors import AccessError
from kafka_clients.log_reader import Place
from tuple_tree.errors import CommitError
from tuple_tree.manifest import Manifest
from tuple_tree.names import component_group, notices_topic
from tuple_tree.offsets import Runs
from tuple_tree.positions import MAX_OFFSET
from tuple_tree.source_commits import SourceCommit

_INTERNAL: Final = "__"

Unfinished = Mapping[str, Mapping[Place, Runs]]
"""Spout → source partition → runs of offsets; without partitions that have none."""


class UnfinishedMessages:
    """Reads the commits of a topology's spouts for any topic: a manifest does not name the topics that they read."""

    def __init__(self, status: ClusterStatus, manifest: Manifest) -> None:
        self._status, self._manifest = status, manifest
        self._spouts = {component_group(manifest.topology, each.name): each.name for each in manifest.spouts}
        self._places: dict[str, list[Place]] = {}

    def read(self, running: Container[str]) -> Unfinished:
        """The messages that are not done now; `running` are the spouts with processes.

        Raises `AccessError` or `BrokerUnreachableError`.
        """
        existing = self._status.catalogue.topics()
        if not self._places:
            # A spout commits where it begins before it emits, so only these partitions can have emitted messages.
            notices = {notices_topic(self._manifest.topology, spout) for spout in self._spouts.values()}
            names = [each for each in existing if each not in notices and not each.startswith(_INTERNAL)]
            self._places = {key: [(each, at) for each in names for at in range(existing[each])] for key in self._spouts}
        commits = self._status.commits.of(self._places)
        if self._status.commits.refused:
            group = min(self._status.commits.refused)
            raise AccessError(f"group {group} has no DESCRIBE ACL for this user: {remedy(VIEWER)}")
        self._places = {group: [*of_group] for group, of_group in commits.items()}
        ends = self._status.offset_ranges(
            [place for of_group in commits.values() for place in of_group], only_known=True
        )
        found: dict[str, dict[Place, Runs]] = {}
        for group, of_group in commits.items():
            for place, commit in of_group.items():
                # A partition without a leader has no end now, and is not finished.
                end = ends[place][1] if place in ends else MAX_OFFSET
                if place[0] in existing and (
                    runs := _open_runs(commit, end, is_running=self._spouts[group] in running)
                ):
                    found.setdefault(self._spouts[group], {})[place] = runs
        return found


def _open_runs(commit: TopicPartition, end: int, *, is_running: bool) -> Runs:
    try:
        read = SourceCommit.read(commit.offset, commit.metadata)
        # A driver that runs reports what is open: it may be of an earlier version, which does not commit that.
        return replace(read, is_complete=read.is_complete or is_running).open_runs(end)
    except CommitError:  # another version has committed, and it may have emitted everything
        return [(commit.offset, end)] if commit.offset < end else []
