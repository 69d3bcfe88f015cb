"""`AsyncBolt`: executes many inputs at a time, for work that waits for services."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from spout_sdk.api.components import AnyBolt
from spout_sdk.api.context import TaskContext
from spout_sdk.api.needs import Needs
from spout_sdk.api.topology import STOP_TIMEOUT
from spout_sdk.api.tuples import Tuple
from spout_sdk.operators.async_operator import AsyncOperator
from spout_sdk.operators.running_input import AsyncCollector


class AsyncBolt(AnyBolt, ABC):
    """A bolt that works on many inputs at a time, in coroutines: for requests to services and databases.

    Derive it and define `execute_async`. Its emits are anchored to its input, which is acked when it returns, and
    failed when it raises.

        class Geocode(AsyncBolt):
            concurrency = 50
            streams = (declare({"address": str, "lat": float, "lon": float}),)

            async def prepare_async(self, context: TaskContext) -> None:
                self.client = httpx.AsyncClient()

            async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
                place = (await self.client.get(URL, params={"q": tuple_["address"]})).json()
                collector.emit((tuple_["address"], place["lat"], place["lon"]))

    Inputs end in any order, and so do their outputs, which are sent within 5 ms, or 20 ms in an idle task, or 50 ms
    while many records are in flight. Inputs that are equal in the fields of `ordered_by` are executed one after
    another, in the order of their arrival. The trees of all inputs that a task has taken are kept alive, up to
    `max_tree_age`.

    Attributes:
        streams: the streams that it emits to, made with `declare`.
        concurrency: how many inputs of a task are worked on at a time. In a simulated cluster it is one.
        time_limit: seconds that `execute_async` may take for one input. Then it is cancelled, which raises
            `asyncio.CancelledError` in it, and the input ends as if it had raised a `TimeoutError`. None for 30
            minutes, or for `max_tree_age` of the topology if that was set to less. Unless `max_tree_age` was set, it is
            at least the limit. With a limit, a task that can take no more inputs is not reported as stalled.
        stop_timeout: for how many seconds a stop, and a move of the task to another process, waits for running
            coroutines. The next owner of the task executes unfinished inputs again.
        ordered_by: fields of all streams that it receives. Inputs with equal values in them are executed one after
            another, in the order of their arrival, and others at the same time. A failed input does not
            stop the next one, which is executed; the failed one arrives again later.
        answers: whether it calls `collector.answer`; the topology then has a topic for answers.
    """

    needs = Needs(
        "an AsyncBolt",
        called_by=AsyncOperator,
        answers=True,
        waits=True,
        never_called={name: f"write async def {name}_async" for name in ("prepare", "execute", "cleanup")},
    )
    concurrency: int = 100
    time_limit: float | None = None
    stop_timeout: float = STOP_TIMEOUT
    ordered_by: Sequence[str] | str = ()
    answers: ClassVar[bool] = False

    async def prepare_async(self, context: TaskContext) -> None:
        """Called once, in the event loop, before anything else."""

    @abstractmethod
    async def execute_async(self, tuple_: Tuple, collector: AsyncCollector) -> None:
        """Process a tuple. If it raises, the tuple is failed, unless the bolt was set with another `on_exception`.

        Give requests a shorter time limit than that of the bolt: `asyncio.timeout`. Work that blocks belongs in
        `asyncio.to_thread`.
        """

    async def cleanup_async(self) -> None:
        """Called in the event loop at a clean stop, and when the task moves to another process.

        Inputs that are still running after `stop_timeout` are cancelled before this call, and read again.
        """
