"""Why something could not be done, as an answer's row says it."""

from typing import NamedTuple

from millstream.model.errors import ErrorCode, ProtocolError
from millstream.registry.tree import RegistryError

#: What a handler answers in its rows: the client's mistake, another controller, a registry that cannot write.
REFUSALS = (ProtocolError, RegistryError)


class Refusal(NamedTuple):
    """An error's code and its words."""

    code: ErrorCode
    message: str | None


def refusal(error: ProtocolError | RegistryError) -> Refusal:
    """The code and words of what was caught; a registry that fails is a disk that does."""
    if isinstance(error, ProtocolError):
        return Refusal(error.code, error.detail or None)
    return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"the registry: {error}")
