"""Logs in as the superuser that the server made, and makes the superuser that the suites log in as."""

import sys
from pathlib import Path

from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster

credentials = PlainTextAuthProvider("ebb", Path(sys.argv[1]).read_text().strip())
with Cluster(["127.0.0.1"], protocol_version=5, auth_provider=credentials) as cluster:
    cluster.connect().execute(
        "CREATE ROLE cassandra WITH PASSWORD = 'cassandra' AND SUPERUSER = true AND LOGIN = true"
    )
