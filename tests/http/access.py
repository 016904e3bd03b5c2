"""Checks the documented statuses of requests whose token has less than all permissions, and the stream of events.

Usage: access.py URL

Reads the tokens from the variables TOKEN_READ, TOKEN_JOBS, TOKEN_ADMIN, and TOKEN_ROLE, which has scope admin and
belongs to a role without permissions. The server must have the table shop.reviews.
"""

import http.client
import json
import os
import re
import sys
import urllib.parse

TOKENS = {name: os.environ[f"TOKEN_{name.upper()}"] for name in ["read", "jobs", "admin", "role"]}
# Needs scope admin, or for the role: that it is a superuser.
NEED_ADMIN = [
    ("GET", "/v1/stats", None),
    ("GET", "/v1/config", None),
    ("GET", "/v1/queries", None),
    ("DELETE", "/v1/queries/1", None),
    ("POST", "/v1/tables/shop/reviews/loss", None),
    ("POST", "/v1/tables/shop/reviews/scan", {}),
]
# Needs permissions on a table or a keyspace, which a token without a role has.
NEED_PERMISSIONS = [
    ("POST", "/v1/snapshots", {"keyspace": "shop", "name": "of_the_role"}),
    (
        "POST",
        "/v1/jobs",
        {
            "application": {"wordcount": {"reduces": 1}},
            "inputs": [{"table": {"table": "shop.reviews"}}],
            "output": {"to": {"table": "shop.words"}},
            "directory": "/",
        },
    ),
]
# Every token may send these requests, or no token is needed.
OPEN = ["/v1/session", "/health/live", "/health/ready"]
EVENTS = "/v1/events"
# The kinds of events of the book's page.
KINDS = ["sample", "coarse", "job", "guard", "snapshot", "reset"]
# Longer than any pause of the machine: a sample comes each second.
TIMEOUT_S = 120


class Server:
    def __init__(self, url):
        self.address = urllib.parse.urlsplit(url).netloc

    def request(self, method, path, token, body=None):
        """Sends a request; returns the connection and the response, whose body is not read yet."""
        connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT_S)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(body)
        connection.request(method, path, body, headers)
        return connection, connection.getresponse()

    def check(self, name, token, request, expected):
        """Checks that the status of the response to a request is one of those in `expected`."""
        method, path, body = request
        connection, response = self.request(method, path, token, body)
        text = response.read().decode(errors="replace")
        connection.close()
        assert response.status in expected, f"{name}: {method} {path}: {response.status} {text}"


def operations(server):
    """Returns the method and the path of each described operation, with a name for each parameter of the path."""
    connection, response = server.request("GET", "/openapi.json", TOKENS["read"])
    description = json.load(response)
    connection.close()
    for path, item in description["paths"].items():
        for method in item.keys() & {"get", "post", "put", "delete"}:
            yield method.upper(), re.sub(r"\{[^}]*\}", "absent", path)


def check_scopes(server):
    need_admin = [(method, path) for method, path, _ in NEED_ADMIN]
    checked = 0
    for method, path in operations(server):
        if path in OPEN or path == EVENTS:
            continue
        request = (method, path, None)
        server.check("no token", None, request, [401])
        if method != "GET" or (method, path) in need_admin:
            expected = [403]
        else:
            # The path has names that are not there.
            expected = [200, 400, 404, 422]
        server.check("read", TOKENS["read"], request, expected)
        if expected != [403]:
            server.check("role", TOKENS["role"], request, expected)
        checked += 1
    assert checked > 20, f"only {checked} operations are described"
    for name in ["read", "jobs", "role"]:
        for request in NEED_ADMIN:
            server.check(name, TOKENS[name], request, [403])
    for request in NEED_PERMISSIONS:
        server.check("role", TOKENS["role"], request, [403])
    print(f"{checked} operations refuse tokens as described")


def first_event(response):
    """Returns the fields of the first event; comments, which begin with a colon, are none."""
    fields = {}
    for line in response:
        line = line.decode().rstrip("\n")
        if not line and fields:
            return fields
        if line and not line.startswith(":"):
            field, value = line.split(": ", 1)
            fields[field] = value
    sys.exit("the stream of events ended before its first event")


def check_events(server):
    server.check("no token", None, ("GET", EVENTS, None), [401])
    for name, token in TOKENS.items():
        connection, response = server.request("GET", EVENTS, token)
        assert response.status == 200, f"{name}: {response.status}"
        content_type = response.getheader("Content-Type")
        assert content_type == "text/event-stream", f"{name}: {content_type}"
        event = first_event(response)
        connection.close()
        assert event["event"] in KINDS, f"{name}: {event}"
        assert isinstance(json.loads(event["data"]), dict), f"{name}: {event}"
        print(f"the first event of a token with {name}: {event['event']}")


if __name__ == "__main__":
    server = Server(sys.argv[1])
    check_scopes(server)
    check_events(server)
