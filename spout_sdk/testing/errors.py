"""What the testing kit raises.

SpoutSdkError
└── SimulationError    something that a simulated cluster cannot do, or is not asked to
    └── NotIdleError   there was always something left to do
"""

from spout_sdk.errors import SpoutSdkError


class SimulationError(SpoutSdkError):
    """Something that a simulated cluster cannot do, or a component that it does not have."""


class NotIdleError(SimulationError):
    """There was always something left to do."""
