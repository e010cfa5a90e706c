"""Options that connectors by JDBC's names share."""

from millstream.config.setting import PASSWORD, STRING, Check
from millstream.pipelines.connect.errors import ConnectError, Unreachable
from millstream.pipelines.connect.options import REQUIRED, Config, Option
from millstream.pipelines.connect.postgres.connection import Database, Session, database_of

_GROUP = "Database"


def _is_url(text: str) -> bool:
    try:
        database_of(text)
    except ValueError:
        return False
    return True


URL = Option[str](
    "connection.url",
    STRING,
    default=REQUIRED,
    check=Check("jdbc:postgresql://HOST:PORT/DATABASE", _is_url),
    doc="The database, as JDBC names it: jdbc:postgresql://HOST:PORT/DATABASE.",
    importance="HIGH",
    group=_GROUP,
    width="LONG",
)
USER = Option[str]("connection.user", STRING, default="", doc="As whom to connect.", importance="HIGH", group=_GROUP)
SECRET = Option[str](
    "connection.password", PASSWORD, default="", doc="What to show for it.", importance="HIGH", group=_GROUP
)

#: How a refusal to let us in begins or what it holds -> the option to blame.
BLAMED = (("password", "connection.password"), ("role ", "connection.user"))


def database(config: Config) -> Database:
    """Where the config says."""
    return database_of(config[URL], config[USER], config[SECRET])


def refusal(session: Session) -> dict[str, str] | None:
    """What is wrong with the way to the database, by option; none, and None, while it does not answer at all."""
    try:
        session.rows("SELECT 1")
    except Unreachable:
        return None  # Not the config's fault for all we know: it is tried again and again.
    except ConnectError as error:
        text = str(error)
        return {next((name for mark, name in BLAMED if mark in text), URL.name): text}
    return {}
