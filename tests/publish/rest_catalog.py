"""A REST catalog over PyIceberg's SQL catalog: PyIceberg checks the requirements of a commit, applies its
updates and writes the metadata. Requests need a bearer token, which is issued to the OAuth2 client `ebb` whose
secret is the token too. Prints its URL once it listens.

    rest_catalog.py FOLDER TOKEN
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from pyiceberg import exceptions
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import CommitTableRequest, StagedTable

WAREHOUSE = "lake"
STATUSES = [
    (exceptions.NoSuchNamespaceError, 404),
    (exceptions.NoSuchTableError, 404),
    (exceptions.NamespaceAlreadyExistsError, 409),
    (exceptions.TableAlreadyExistsError, 409),
    (exceptions.CommitFailedException, 409),
]


class Catalog(BaseHTTPRequestHandler):
    """The routes that a publisher and a reader use."""

    sql = None
    token = None

    def do_GET(self):
        self.answer(None)

    def do_HEAD(self):
        self.answer(None)

    def do_POST(self):
        self.answer(self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self, body):
        try:
            status, result = self.route(body)
        except Exception as error:
            found = [status for kind, status in STATUSES if isinstance(error, kind)]
            status, kind = (found or [400])[0], type(error).__name__
            result = json.dumps({"error": {"message": str(error), "type": kind, "code": status}})
        result = result.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(result)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(result)

    def route(self, body):
        if self.command == "POST" and self.path == "/v1/oauth/tokens":
            return self.issue(parse_qs(body.decode()))
        if self.headers["Authorization"] != f"Bearer {self.token}":
            return 401, json.dumps({"error": {"message": "no token", "type": "NotAuthorized", "code": 401}})
        url = urlsplit(self.path)
        parts = [unquote(part) for part in url.path.strip("/").split("/")]
        match self.command, parts:
            case "GET", ["v1", "config"]:
                assert parse_qs(url.query)["warehouse"] == [WAREHOUSE], url.query
                return 200, json.dumps({"defaults": {}, "overrides": {"prefix": f"of/{WAREHOUSE}"}})
            case method, ["v1", "of", "lake", "namespaces", *rest]:
                return self.namespaces(method, rest, body)
        return 404, json.dumps({"error": {"message": self.path, "type": "NoSuchRoute", "code": 404}})

    def issue(self, form):
        client = {"grant_type": ["client_credentials"], "client_id": ["ebb"], "client_secret": [self.token]}
        if form != client | {"scope": ["catalog"]}:
            return 401, json.dumps({"error": "invalid_client", "error_description": "no such client"})
        return 200, json.dumps({"access_token": self.token, "token_type": "bearer", "expires_in": 3600})

    def namespaces(self, method, parts, body):
        match method, parts:
            case "POST", []:
                name = json.loads(body)["namespace"]
                self.sql.create_namespace(tuple(name))
                return 200, json.dumps({"namespace": name, "properties": {}})
            case "POST", [namespace, "tables"]:
                return 200, self.create(namespace, CreateTableRequest.model_validate_json(body))
            case "GET" | "HEAD", [namespace, "tables", table]:
                return 200, loaded(self.sql.load_table((namespace, table)))
            case "POST", [namespace, "tables", table]:
                return 200, self.commit((namespace, table), CommitTableRequest.model_validate_json(body))
        raise ValueError(f"{method} {self.path}")

    def create(self, namespace, request):
        if not self.sql.namespace_exists(namespace):
            raise exceptions.NoSuchNamespaceError(namespace)
        assert request.stage_create, "a publisher prepares tables"
        if self.sql.table_exists((namespace, request.name)):
            raise exceptions.TableAlreadyExistsError(request.name)
        return loaded(
            self.sql._create_staged_table(
                (namespace, request.name),
                request.table_schema,
                request.location,
                request.partition_spec,
                request.write_order,
                request.properties,
            )
        )

    def commit(self, identifier, request):
        staged = StagedTable(identifier, None, None, None, self.sql)
        done = self.sql.commit_table(staged, request.requirements, request.updates)
        return done.model_dump_json(by_alias=True)

    def log_message(self, *_):
        pass


def loaded(table):
    """The answer that has a table, or a staged one."""
    metadata = table.metadata.model_dump_json(by_alias=True)
    return f'{{"metadata-location": {json.dumps(table.metadata_location)}, "metadata": {metadata}}}'


def main():
    folder, Catalog.token = Path(sys.argv[1]), sys.argv[2]
    folder.mkdir(parents=True, exist_ok=True)
    Catalog.sql = SqlCatalog("ebb", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/unused")
    server = HTTPServer(("127.0.0.1", 0), Catalog)
    print(f"http://127.0.0.1:{server.server_port}?warehouse={WAREHOUSE}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
