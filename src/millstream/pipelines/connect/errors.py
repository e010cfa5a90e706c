"""What may go wrong with a connector, and who can help."""


class ConnectError(Exception):
    """The connector cannot go on, in a line; another try may help, and is made, unless it ``is_final``."""

    is_final = False


class Unreachable(ConnectError):
    """A database, a service or a cluster that does not answer now."""


class Misconfigured(ConnectError):
    """No try will help until somebody changes the connector's config."""

    is_final = True


class DataError(ConnectError):
    """This record cannot be converted, transformed or taken; others can.

    It goes to the dead-letter queue, is passed over, or stops the connector, as ``errors.tolerance`` says.
    """
