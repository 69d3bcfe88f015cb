"""`build()` rejects methods that cannot be called as the SDK calls them; a task checks what a function makes."""

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from spout_sdk import AsyncBolt, BasicBolt, BatchBolt, Bolt, KafkaBolt, KafkaSpout, Spout, TopologyBuilder, declare
from spout_sdk.api.signatures import check_signatures
from spout_sdk.arrow import ArrowBolt
from spout_sdk.errors import TopologyError
from spout_sdk.groupings import CustomGrouping
from spout_sdk.hooks import TaskHook
from spout_sdk.windows import WindowedBolt, tumbling
from tests.components import Sink, source
from tests.unit.sdk.bench import Bench

KINDS: tuple[type, ...] = (
    *(Spout, KafkaSpout, Bolt, BasicBolt, BatchBolt, ArrowBolt, AsyncBolt, WindowedBolt, KafkaBolt),
    *(TaskHook, CustomGrouping),
)


def methods() -> list[Any]:
    names = {kind: [name for name in dir(kind) if not name.startswith("_")] for kind in KINDS}
    return [
        pytest.param(kind, name, id=f"{kind.__name__}.{name}")
        for kind in KINDS
        for name in names[kind]
        if inspect.isfunction(inspect.getattr_static(kind, name))
    ]


def _more(self: Any, a: Any, b: Any, c: Any, d: Any) -> None: ...
async def _more_async(self: Any, a: Any, b: Any, c: Any, d: Any) -> None: ...
def _none() -> None: ...
async def _none_async() -> None: ...
def _any(self: Any, *rest: Any) -> None: ...
async def _any_async(self: Any, *rest: Any) -> None: ...
def _generator(self: Any, *rest: Any) -> Iterator[int]:
    yield 1


def _wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*arguments: Any) -> Any:
        return function(*arguments)

    return wrapper


@pytest.mark.parametrize(("kind", "name"), methods())
def test_each_method_of_each_kind_is_checked(kind: type, name: str) -> None:
    def overridden(method: Any) -> Any:
        return type("Mine", (kind,), {name: method})

    is_async = name.endswith("_async")
    refused: list[Any] = [_any, _more, _none] if is_async else [_any_async, _more, _none]
    for method in [*refused, _more_async if is_async else _none_async, staticmethod(_more), 7, _wrapped(refused[0])]:
        with pytest.raises(TopologyError, match=rf"^it: Mine\.{name} .*: write (async )?def {name}\(self"):
            check_signatures("it", overridden(method))
    for method in [_any_async, _wrapped(_any_async)] if is_async else [_any, classmethod(_any), _wrapped(_any)]:
        check_signatures("it", overridden(method))


def test_a_generator_never_runs_unless_it_is_iterated() -> None:
    with pytest.raises(TopologyError, match=r"Mine\.execute has a yield, so calling it would not run it"):
        check_signatures("it", type("Mine", (BasicBolt,), {"execute": _generator}))
    check_signatures("it", type("Mine", (CustomGrouping,), {"choose": _generator}))


def test_an_attribute_of_an_instance_has_no_self() -> None:
    made: Any = type("Mine", (BasicBolt,), {"execute": _any})()
    made.execute = lambda _tuple, _collector: None
    check_signatures("it", made)
    made.execute = lambda _self, _tuple, _collector: None
    with pytest.raises(TopologyError, match=r"Mine.execute takes .* called as execute.*: write def execute"):
        check_signatures("it", made)


Words = source(declare({"word": str}))


class NoCollector(BasicBolt):
    def execute(self, tuple_: Any) -> None: ...  # type: ignore[override]


class Chooses(CustomGrouping):
    def choose(self, values: Sequence[Any], tasks: int) -> Sequence[int]: ...  # type: ignore[override, empty-body]


class Opened(Words):  # type: ignore[misc, valid-type]
    def open(self, context: Any) -> None: ...


class Hook(TaskHook):
    def bolt_ack(self) -> None: ...  # type: ignore[override]


class Waits(AsyncBolt):
    async def execute_async(self, tuple_: Any, collector: Any) -> None: ...

    def prepare(self, context: Any, collector: Any) -> None: ...


class Fires(WindowedBolt):
    window = tumbling(count=2)

    def execute_window(self, window: Any) -> None: ...

    def execute(self, tuple_: Any) -> None: ...


class Reads(KafkaSpout):
    def next_tuple(self) -> None: ...


def builder() -> TopologyBuilder:
    made = TopologyBuilder("words")
    made.set_spout("words", Words)
    return made


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (
            lambda made: made.set_bolt("it", NoCollector),
            r"component 'it': NoCollector.execute takes \(self, tuple_\), .*: write def execute\(self, tuple_, c",
        ),
        (
            lambda made: made.set_spout("it", Opened),
            r"component 'it': Opened.open takes \(self, context\), .*: write def open\(self, context, collector\)$",
        ),
        (lambda made: made.add_hook(Hook), r"hook: Hook.bolt_ack takes .*: write def bolt_ack\(self, tuple_\)$"),
        (
            lambda made: made.set_bolt("it", Sink).custom_grouping("words", Chooses),
            r"custom grouping of bolt 'it': Chooses.choose takes .*: write def choose\(self, values\)$",
        ),
        (
            lambda made: made.set_bolt("it", Waits),
            "component 'it': Waits.prepare is never called, .* AsyncBolt has .*: write async def p",
        ),
        (
            lambda made: made.set_bolt("it", Fires),
            "component 'it': Fires.execute is never called, .* WindowedBolt .*: write def execute_w",
        ),
        (
            lambda made: made.set_spout("it", lambda: Reads("t")),
            "component 'it': Reads.next_tuple is never called, .* derive a Spout",
        ),
    ],
)
def test_the_builder_rejects_it(add: Callable[[TopologyBuilder], object], message: str) -> None:
    with pytest.raises(TopologyError, match=f"^{message}"):
        add(builder())


def test_what_a_function_makes_later_is_checked_in_its_task() -> None:
    made: list[Any] = [Sink, NoCollector]
    words = builder()
    words.set_bolt("count", lambda: made.pop(0)()).shuffle_grouping("words")
    topology = words.build()
    with pytest.raises(TopologyError, match=r"^component 'count': NoCollector.execute takes"):
        Bench(topology).bolt("count")
