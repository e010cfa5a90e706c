"""What a worker refuses, with the status that Connect gives it."""

from http import HTTPStatus


class Refused(Exception):
    """A request that cannot be granted, and why."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


def not_found(message: str) -> Refused:
    """There is no such thing."""
    return Refused(HTTPStatus.NOT_FOUND, message)


def bad_request(message: str) -> Refused:
    """Nobody could do that."""
    return Refused(HTTPStatus.BAD_REQUEST, message)


def unreadable(message: str) -> Refused:
    """It cannot be told what is asked for: a fault of the server's, as Connect sees it."""
    return Refused(HTTPStatus.INTERNAL_SERVER_ERROR, message)


def conflict(message: str) -> Refused:
    """Something stands in its way."""
    return Refused(HTTPStatus.CONFLICT, message)
