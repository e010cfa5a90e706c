"""Everything the API answers, as a table; what is not in it is refused from it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from millstream.net.http import Page
from millstream.pipelines.connect.rest import connectors, loggers, offsets, plugins, root
from millstream.pipelines.connect.rest.exchange import Call

if TYPE_CHECKING:
    from millstream.pipelines.connect.rest.api import Api

Handler = Callable[["Api", Call], Awaitable[Page]]


@dataclass(frozen=True, slots=True)
class Route:
    """A method on a path whose words in braces name things."""

    method: str
    path: str
    handle: Handler

    def matches(self, words: Sequence[str]) -> dict[str, str] | None:
        """What the path's words name; None when it is another path."""
        own = self.path.split("/")[1:]
        if len(own) != len(words):
            return None
        named = {}
        for mine, word in zip(own, words, strict=True):
            if mine.startswith("{"):
                named[mine.strip("{}")] = unquote(word)
            elif mine != word:
                return None
        return named


CONNECTOR = "/connectors/{connector}"

ROUTES: Sequence[Route] = (
    Route("GET", "/", root.info),
    Route("GET", "/health", root.health),
    Route("GET", "/metrics", root.metrics),
    Route("GET", "/connectors", connectors.listed),
    Route("POST", "/connectors", connectors.create),
    Route("GET", CONNECTOR, connectors.info),
    Route("DELETE", CONNECTOR, connectors.delete),
    Route("GET", f"{CONNECTOR}/config", connectors.config),
    Route("PUT", f"{CONNECTOR}/config", connectors.put_config),
    Route("PATCH", f"{CONNECTOR}/config", connectors.patch_config),
    Route("GET", f"{CONNECTOR}/status", connectors.status),
    Route("GET", f"{CONNECTOR}/tasks", connectors.tasks),
    Route("GET", f"{CONNECTOR}/tasks-config", connectors.tasks_config),
    Route("GET", f"{CONNECTOR}/tasks/{{task}}/status", connectors.task_status),
    Route("POST", f"{CONNECTOR}/tasks/{{task}}/restart", connectors.restart_task),
    Route("POST", f"{CONNECTOR}/restart", connectors.restart),
    Route("PUT", f"{CONNECTOR}/pause", connectors.pause),
    Route("PUT", f"{CONNECTOR}/resume", connectors.resume),
    Route("PUT", f"{CONNECTOR}/stop", connectors.stop),
    Route("GET", f"{CONNECTOR}/topics", connectors.topics),
    Route("PUT", f"{CONNECTOR}/topics/reset", connectors.reset_topics),
    Route("GET", f"{CONNECTOR}/offsets", offsets.get),
    Route("PATCH", f"{CONNECTOR}/offsets", offsets.alter),
    Route("DELETE", f"{CONNECTOR}/offsets", offsets.reset),
    Route("GET", "/connector-plugins", plugins.listed),
    Route("GET", "/connector-plugins/{plugin}/config", plugins.config),
    Route("PUT", "/connector-plugins/{plugin}/config/validate", plugins.validate),
    Route("GET", "/admin/loggers", loggers.listed),
    Route("GET", "/admin/loggers/{logger}", loggers.level),
    Route("PUT", "/admin/loggers/{logger}", loggers.set_level),
)


def words_of(path: str) -> list[str]:
    """A path's words, still escaped; a slash at its end says nothing."""
    return path.rstrip("/").split("/")[1:] or [""]


def found(path: str) -> dict[str, tuple[Route, dict[str, str]]]:
    """The routes of a path by their methods, and what the path names."""
    words = words_of(path)
    matching = ((route, route.matches(words)) for route in ROUTES)
    return {route.method: (route, named) for route, named in matching if named is not None}
