"""The settings of a run, which each process of a topology reads from its environment to build the same topology."""

import json
import os
from dataclasses import asdict
from typing import Any, Final, Self

_VARIABLE: Final = "ACKER_BENCHMARK_PLAN"


class EnvironmentPlan:
    """The base of dataclasses with the settings of a run."""

    __slots__ = ()

    @property
    def environment(self) -> dict[str, str]:
        settings: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        return {_VARIABLE: json.dumps(settings)}

    @classmethod
    def from_environment(cls) -> Self:
        return cls(**json.loads(os.environ[_VARIABLE]))
