"""A catalog of Iceberg that is spoken to by REST: as much of the protocol as tables need, over a SQL catalog."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NamespaceAlreadyExistsError, NoSuchTableError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from tests.pipelines.connect.web_server import Answer, Request, WebServer

_JSON = (("Content-Type", "application/json"),)
_REFUSALS: dict[type[Exception], tuple[int, str]] = {
    NoSuchTableError: (404, "NoSuchTableException"),
    NamespaceAlreadyExistsError: (409, "AlreadyExistsException"),
    CommitFailedException: (409, "CommitFailedException"),
}


class RestCatalog(WebServer):
    """Its tables are those of a SQL catalog in a folder; ``token`` must come with each request."""

    def __init__(self, folder: Path, token: str) -> None:
        super().__init__()
        self.catalog = SqlCatalog("behind", uri=f"sqlite:///{folder}/behind.db", warehouse=f"file://{folder}")
        self._token = token
        self.answer = self._answer

    def _answer(self, request: Request) -> Answer:
        if request.headers.get("Authorization") != f"Bearer {self._token}":
            return _refused(401, "NotAuthorizedException", "who are you?")
        words = urlsplit(request.path).path.strip("/").split("/")
        try:
            return Answer(200, _JSON, json.dumps(self._carried_out(request, words)).encode())
        except tuple(_REFUSALS) as error:
            return _refused(*_REFUSALS[type(error)], str(error))

    def _carried_out(self, request: Request, words: list[str]) -> Any:
        match request.method, words:
            case "GET", ["v1", "config"]:
                return {"defaults": {}, "overrides": {}}
            case "POST", ["v1", "namespaces"]:
                self.catalog.create_namespace(tuple(request.json["namespace"]))
                return {"namespace": request.json["namespace"], "properties": {}}
            case "GET", ["v1", "namespaces", space, "tables", name]:
                return _shown(self.catalog.load_table((space, name)))
            case "POST", ["v1", "namespaces", space, "tables"]:
                return _shown(self._staged(space, CreateTableRequest.model_validate_json(request.body)))
            case "POST", ["v1", "namespaces", space, "tables", name]:
                return self._committed((space, name), CommitTableRequest.model_validate_json(request.body))
        raise AssertionError(f"{request.method} {request.path}")

    def _staged(self, space: str, wanted: CreateTableRequest) -> Table:
        return self.catalog._create_staged_table(
            (space, wanted.name),
            wanted.table_schema,
            wanted.location,
            wanted.partition_spec or UNPARTITIONED_PARTITION_SPEC,
            wanted.write_order or UNSORTED_SORT_ORDER,
            wanted.properties,
        )

    def _committed(self, identifier: tuple[str, str], wanted: CommitTableRequest) -> Any:
        try:
            table = self.catalog.load_table(identifier)
        except NoSuchTableError:
            location = next(update.location for update in wanted.updates if update.action == "set-location")
            table = self.catalog._create_staged_table(
                identifier, Schema(), location, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, {}
            )
        done = self.catalog.commit_table(table, wanted.requirements, wanted.updates)
        return {"metadata-location": done.metadata_location, "metadata": json.loads(done.metadata.model_dump_json())}


def _shown(table: Table) -> Any:
    metadata = json.loads(table.metadata.model_dump_json())
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}


def _refused(status: int, kind: str, words: str) -> Answer:
    return Answer(status, _JSON, json.dumps({"error": {"message": words, "type": kind, "code": status}}).encode())
