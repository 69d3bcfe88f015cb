"""Sends the emits and answers of an input of an `AsyncBolt`, after all of them are checked."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from spout_sdk.api.tuples import Tuple
from spout_sdk.bolts.answers import answer_payload
from spout_sdk.bolts.settlement import Settlement
from spout_sdk.emitting.emitter import Checked, Emitter
from spout_sdk.emitting.task import Task
from spout_sdk.operators.bolt import places_of

Emitted = tuple[Sequence[Any], str]
"""Values, and the stream that they are emitted to."""


class AsyncEffects(NamedTuple):
    """The effects of an input, which fit: its tuples, with their receivers, and its answers, as JSON."""

    emits: Sequence[tuple[Emitted, Checked]]
    answers: Sequence[bytes]


class AsyncEmitter(Emitter):
    """Checks the effects of an input, and sends them.

    An input with an effect that does not fit stays open, or fails, without any effect. With `exactly_once`, a
    transaction is committed while the input is open.
    """

    def __init__(self, task: Task, settlement: Settlement) -> None:
        super().__init__(task)
        self._settlement = settlement

    def check(self, emits: Sequence[Emitted], answers: Sequence[Any]) -> AsyncEffects:
        """Raises the error of the first tuple or answer that does not fit; sends nothing."""
        checked = [(each, self._check(*each)) for each in emits]
        return AsyncEffects(
            checked, [answer_payload(self._task.topology.manifest, self._component, value) for value in answers]
        )

    def send(self, input_: Tuple, effects: AsyncEffects) -> None:
        """Sends the effects of an input. What it raises is no error of the user's code, and ends the process."""
        batch, place = places_of((input_,), self._settlement)
        for (values, stream), checked in effects.emits:
            packs = self._emit(values, stream, batch, place, checked=checked)
            if self._hooks:
                self._call_hooks(values, stream, packs, (input_,))
        for payload in effects.answers:
            self._settlement.writes.write_answer(input_, payload)
