"""Which settings are secrets: they are never shown."""

import re
from typing import Final

MASK: Final = "********"

_SECRET: Final = re.compile(
    r"passw|secret|token|credential|private|key\.pem|keystore\.key$|sasl\.jaas|oauthbearer\.(config|assertion)|(^|[._])pin$",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """Whether a setting of this name, such as `kafka.sasl.password`, holds a secret."""
    return _SECRET.search(name) is not None


def shown(name: str, value: object) -> object:
    """The value as people may see it."""
    return MASK if is_secret(name) and value is not None else value
