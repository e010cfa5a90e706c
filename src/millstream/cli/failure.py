"""What a command says when it cannot do its work: one line, and what to do about it."""

from collections.abc import Callable, Mapping
from shlex import quote


class CommandFailed(Exception):
    """The work could not be done; the message says why, and what would help."""

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


#: Refusals for which there is something useful to say besides their name; the topic or group is filled in.
ADVICE = {
    "UNKNOWN_TOPIC_OR_PARTITION": "see what there is with: millstream topic list",
    "UNKNOWN_TOPIC_ID": "see what there is with: millstream topic list",
    "TOPIC_ALREADY_EXISTS": "leave it as it is with --if-not-exists, or see it with: millstream topic describe {topic}",
    "INVALID_REPLICATION_FACTOR": "see how many brokers there are with: millstream cluster info",
    "MESSAGE_TOO_LARGE": (
        "raise the topic's limit, say to 4 MiB, with: millstream topic alter {topic} -c max.message.bytes=4194304"
    ),
    "UNSUPPORTED_VERSION": "the broker is too old or too new for this command",
    "REQUEST_TIMED_OUT": "the broker is slow or its replicas are down; see: millstream cluster info",
    "NOT_ENOUGH_REPLICAS": "fewer replicas are in sync than min.insync.replicas asks for",
    "TOPIC_AUTHORIZATION_FAILED": "this user may not use the topic",
    "GROUP_ID_NOT_FOUND": "see what there is with: millstream group list",
    "NON_EMPTY_GROUP": "stop its members first; see them with: millstream group describe {group} --members",
    "UNKNOWN_MEMBER_ID": "the group has members again; stop them first",
    "GROUP_SUBSCRIBED_TO_TOPIC": "stop the members that read the topic first",
    "COORDINATOR_LOAD_IN_PROGRESS": "the coordinator still reads its log; try again, or wait longer with --timeout",
    "COORDINATOR_NOT_AVAILABLE": "no broker coordinates it now; see: millstream cluster info",
    "TRANSACTIONAL_ID_NOT_FOUND": "see what there is with: millstream txn list",
    "CONCURRENT_TRANSACTIONS": "its last transaction is still being ended; try again, or wait longer with --timeout",
    "GROUP_AUTHORIZATION_FAILED": "this user may not use the group",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "this user may not use the transactional id",
    "CLUSTER_AUTHORIZATION_FAILED": "this user may not change the cluster",
}


#: What stands for a name that is not known.
_UNNAMED = {"topic": "TOPIC", "group": "GROUP"}


def refusal(name: str, detail: str, about: Mapping[str, str] | None = None) -> str:
    """A broker's refusal in a line: what it said, its name, and advice where there is some.

    ``about`` names the ``topic`` or ``group`` that was refused, so that a command in the advice can be pasted.
    """
    said = detail.strip() or name.replace("_", " ").lower()
    if name not in ADVICE:
        return f"{said} ({name})"
    quoted = {noun: quote(named) for noun, named in (about or {}).items()}
    return f"{said} ({name}); {ADVICE[name].format_map(_UNNAMED | quoted)}"


def _of_refusal(error: Exception) -> str | None:
    from millstream.model.errors import ProtocolError

    if isinstance(error, ProtocolError):
        return refusal(error.code.name, error.detail)
    return None


def _of_system(error: Exception) -> str | None:
    """Files that are not there and brokers that do not answer; both are OSErrors."""
    if isinstance(error, TimeoutError):
        return f"{error or 'no answer came in time'}; a longer wait can be given with --timeout"
    if isinstance(error, OSError):
        if error.filename is not None:
            return f"{error.filename}: {error.strerror}"
        return str(error.strerror or error)
    return None


def _of_bytes(error: Exception) -> str | None:
    from millstream.model.errors import CorruptFrame

    if isinstance(error, CorruptFrame):
        return f"the broker's answer could not be read ({error}); is it a Kafka-compatible broker?"
    return None


_EXPLAINERS: tuple[Callable[[Exception], str | None], ...] = (_of_refusal, _of_system, _of_bytes)


def explain(error: Exception) -> str | None:
    """The error in one line for whoever typed the command, or None when it is our own bug."""
    for explainer in _EXPLAINERS:
        if sentence := explainer(error):
            return sentence
    return None
