"""Which handler answers which request."""

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from millstream.model.errors import ErrorCode
from millstream.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

#: Given the broker, the request and its call; begun at once, so what it does before it waits keeps its order.
Handler = Callable[[Any, Any, Any], Coroutine[Any, Any, Any]]


@dataclass(frozen=True)
class Route:
    """A request's class, who answers it, and what is said of it in ApiVersions."""

    request: type[Any]
    handler: Handler
    #: Advertise from an older version than is served: some clients read more into the minimum than it says.
    advertised_from: int | None = None
    #: Brokers ask it of each other, and clients are not told of it.
    is_among_brokers: bool = False

    @property
    def key(self) -> int:
        key: int = self.request.API_KEY
        return key

    @property
    def name(self) -> str:
        return self.request.__name__.removesuffix("Request")

    @property
    def versions(self) -> tuple[int, int]:
        versions: tuple[int, int] = self.request.VERSIONS
        return versions

    def refusal(self, code: ErrorCode, message: str | None) -> Any:
        """A response that says no more than the error, or None where this API has no place for one."""
        response = self.request.RESPONSE
        known = {field.name for field in response.FIELDS}
        if "error_code" not in known:
            return None
        return response(error_code=code, **({"error_message": message} if "error_message" in known else {}))


class Router:
    """Routes by key; what is advertised is computed from what is served."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes = {route.key: route for route in routes}
        self._served = {
            (route.key, version): route
            for route in self._routes.values()
            for version in range(route.versions[0], route.versions[1] + 1)
        }

    def find(self, key: int, version: int) -> Route | None:
        """The route that serves this version, if any."""
        return self._served.get((key, version))

    def route_of(self, request: type[Any]) -> Route:
        """Who answers that kind of request."""
        return self._routes[request.API_KEY]

    def advertised(self, *, to_brokers: bool = False) -> list[ApiVersion]:
        """Every API shown to clients, or to other brokers, and the versions they may use."""
        return [
            ApiVersion(
                api_key=route.key,
                min_version=route.versions[0] if route.advertised_from is None else route.advertised_from,
                max_version=route.versions[1],
            )
            for route in sorted(self._routes.values(), key=lambda route: route.key)
            if to_brokers or not route.is_among_brokers
        ]

    def unknown_version(self, key: int) -> ApiVersionsResponse | None:
        """The answer to a version not served, which only ApiVersions has."""
        if key != ApiVersionsRequest.API_KEY:
            return None
        own = [row for row in self.advertised() if row.api_key == key]
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)
