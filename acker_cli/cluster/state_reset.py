"""Resetting the state of a stopped bolt: its changelog is deleted and created again."""

import time
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import ConfigResource, ConfigSource, NewTopic, ResourceType

from acker_cli.errors import CliError
from inspection.topology_status import ClusterStatus
from kafka_clients.catalogue import CONTACT_SECONDS, KafkaSettings
from kafka_clients.client_settings import SESSION_MS, for_reported, new_client
from kafka_clients.errors import REFUSED, AccessError, DeliveryError
from spout_sdk.state import StateView
from spout_sdk.state.applied import APPLIED_PREFIX, DONE_PREFIX
from spout_sdk.windows.open_windows import split_key
from spout_sdk.windows.rows import ROW_PREFIX, key_of_row
from tuple_tree.names import component_group, state_topic
from tuple_tree.state_records import ABOUT_KEY, About, KeyCodec, state_of, task_of
from tuple_tree.topics import topic_specs

_LOOK_SECONDS: Final = 0.1
_DELETED_SECONDS: Final = 30.0


class StateReset:
    """Deletes a state, or a key of it.

    Raises `CliError` if the bolt has none, and errors of `ClusterStatus`.
    """

    def __init__(self, kafka: KafkaSettings, topology: str, bolt: str) -> None:
        self._kafka, self._bolt = kafka, bolt
        self._status = ClusterStatus(kafka)
        self._admin = self._status.catalogue.admin
        self._manifest = self._status.catalogue.manifest(topology)
        try:
            self._state = state_of(self._manifest, bolt)
        except ValueError as error:
            raise CliError(str(error)) from error
        self.keys, self.topic = KeyCodec(self._state.key), state_topic(topology, bolt)
        (self._spec,) = (spec for spec in topic_specs(self._manifest) if spec.name == self.topic)

    def check_stopped(self) -> None:
        """Raises `CliError` if a process of the bolt is running."""
        group = component_group(self._manifest.topology, self._bolt)
        members = self._status.members([group])[group]
        if members != 0:
            if members is None:
                raise CliError(
                    f"bolt {self._bolt} may be running: the members of group {group} are not known, as this user may "
                    "not describe it. Give the user Describe of the group"
                )
            raise CliError(
                f"bolt {self._bolt} is running: group {group} has members ({members}). Stop its processes first; one "
                f"that was killed or has crashed leaves the group after session.timeout.ms ({SESSION_MS // 1000} s)"
            )

    def recreate(self) -> None:
        """Deletes the changelog, and creates it with the settings that it had, as that of an empty state."""
        copies, config = self._settings()
        self._ask(self._admin.delete_topics([self.topic], **_BOUNDS), "deleted", KafkaError.UNKNOWN_TOPIC_OR_PART)
        deadline = time.monotonic() + _DELETED_SECONDS
        new = NewTopic(self.topic, self._spec.partitions, replication_factor=copies, config=config)
        # A broker may know the earlier topic for a moment.
        while self._ask(self._admin.create_topics([new], **_BOUNDS), "created", KafkaError.TOPIC_ALREADY_EXISTS):
            if time.monotonic() > deadline:
                raise CliError(f"topic {self.topic} is still being deleted: repeat this command")
            time.sleep(_LOOK_SECONDS)
        about = About.of(self._manifest, self._bolt).to_json()
        self._write([(ABOUT_KEY, about, partition) for partition in range(self._spec.partitions)])

    def forget_identities(self) -> int:
        """Deletes the identities of applied tuples and the done positions, and keeps values; returns how many."""
        with StateView(self._manifest.topology, self._bolt, self._kafka) as view:
            records = [(key, task) for task, key in view.system_keys() if key.startswith((APPLIED_PREFIX, DONE_PREFIX))]
        about = About.of(self._manifest, self._bolt).to_json()
        # The record with the topics of the positions is deleted last, so an interrupted reset is repeated.
        self._write([(key, None, task) for key, task in records])
        self._write([(ABOUT_KEY, about, partition) for partition in range(self._spec.partitions)])
        return len(records)

    def delete(self, key: bytes) -> None:
        """Deletes a key.

        Raises `CliError` for a window that shares collected tuples with others of its key.
        """
        of_tuples = split_key(key)[0] if self._state.windows is not None else b""
        with StateView(self._manifest.topology, self._bolt, self._kafka) as view:
            rows = (found for _, found in view.system_keys() if found.startswith(ROW_PREFIX))
            if self._state.windows is not None and of_tuples in map(key_of_row, rows):
                raise CliError(
                    f"the windows of bolt {self._bolt!r} collect their tuples, and those of a key are in several "
                    "windows: reset the whole state, without a key"
                )
        self._write([(key, None, task_of(self._state, key, self._spec.partitions))])

    def _write(self, records: list[tuple[bytes, bytes | None, int]]) -> None:
        if not records:
            return
        failures: list[tuple[int, KafkaError]] = []
        producer = new_client(Producer, for_reported(self._kafka))

        def report(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                failures.append((message.partition(), error))

        for key, value, partition in records:
            producer.produce(self.topic, value, key, partition, on_delivery=report)
            producer.poll(0)
        left = producer.flush(CONTACT_SECONDS)
        if failures or left:
            partition, error = failures[0] if failures else (records[0][2], KafkaError(KafkaError._TIMED_OUT))
            raise DeliveryError("the reset of the state", self.topic, partition, error, self._bolt)

    def _settings(self) -> tuple[int, dict[str, str]]:
        """The copies of the changelog and its settings; if it does not exist, by default."""
        described = self._status.catalogue.described([self.topic])[self.topic]
        if isinstance(described, KafkaError):
            return -1, self._spec.config
        copies = min(len(partition.replicas) for partition in described.partitions)
        resource = ConfigResource(ResourceType.TOPIC, self.topic)
        config = dict(self._spec.config)
        for answer in self._admin.describe_configs([resource], request_timeout=CONTACT_SECONDS).values():
            own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
            config |= {name: each.value for name, each in answer.result().items() if each.source == own and each.value}
        return copies, config | self._spec.required

    def _ask(self, answers: Any, done: str, *ignored: int) -> bool:
        """Waits for the answers; returns whether an ignored error was among them."""
        found = False
        for answer in answers.values():
            try:
                answer.result()
            except KafkaException as error:
                code = error.args[0].code()
                if code in REFUSED:
                    raise AccessError(
                        f"topic {self.topic} may not be {done} by this user: allow Delete and Create for it, and "
                        "repeat this command"
                    ) from error
                if code not in ignored:
                    raise CliError(
                        f"topic {self.topic} was not {done} ({error.args[0].str()}): repeat this command"
                    ) from error
                found = True
        return found


_BOUNDS: Final = {"operation_timeout": CONTACT_SECONDS, "request_timeout": 2 * CONTACT_SECONDS}
