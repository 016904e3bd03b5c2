"""Python's cassandra-driver and cqlsh log in, and have the permissions that were granted to them.

The server runs with --auth. The password of the first superuser is in a file, and the driver creates the
other roles. Connections with bad credentials are refused, cqlsh shows LIST, and revoking a permission takes
effect in sessions that are open.
"""

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

from cassandra import AuthenticationFailed, InvalidRequest, Unauthorized
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import NoHostAvailable
from cassandra.query import BatchStatement, SimpleStatement

from patient import LIMIT_S, patient_cluster


def refused(kind, statement, *values):
    try:
        statement(*values)
    except kind as error:
        return str(error)
    sys.exit(f"{values} was not refused")


with tempfile.TemporaryDirectory() as directory:
    server = subprocess.Popen(
        [os.environ["EBB"], "serve", "--data", directory, "--cql", "127.0.0.1:0", "--auth"]
        + ["--overload-wait", "0s"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        line = server.stdout.readline()
        assert line.startswith("listening for CQL on "), line
        host, port = line.split()[-1].rsplit(":", 1)
        password_file = Path(directory, "superuser-password")
        assert stat.S_IMODE(password_file.stat().st_mode) == 0o600
        password = password_file.read_text().strip()

        def cluster(name, password):
            credentials = PlainTextAuthProvider(username=name, password=password)
            return patient_cluster(
                f"{host}:{port}", protocol_version=5, auth_provider=credentials
            )

        def fails_to_connect(name, password):
            with cluster(name, password) as wrong:
                try:
                    wrong.connect()
                except NoHostAvailable as error:
                    return [*error.errors.values()][0]
            sys.exit(f"{name} was let in")

        with cluster("ebb", password) as own:
            root = own.connect()
            for statement in [
                "CREATE KEYSPACE shop WITH replication = "
                "{'class': 'SimpleStrategy', 'replication_factor': 1}",
                "CREATE TABLE shop.orders (id int PRIMARY KEY, total int)",
                "CREATE TABLE shop.secrets (id int PRIMARY KEY)",
                "CREATE ROLE reader",
                "CREATE ROLE ada WITH PASSWORD = 'it''s hers' AND LOGIN = true",
                "CREATE USER bob WITH PASSWORD 'his'",
                "GRANT SELECT ON KEYSPACE shop TO reader",
                "GRANT MODIFY ON TABLE shop.orders TO ada",
                "GRANT reader TO ada",
            ]:
                root.execute(statement)
            rows = root.execute(
                "SELECT role, is_superuser, can_login, member_of, salted_hash "
                "FROM system_auth.roles WHERE role = 'ada'"
            )
            row = rows.one()
            assert (row.is_superuser, row.can_login, set(row.member_of)) == (
                False,
                True,
                {"reader"},
            )
            assert row.salted_hash is None
            listed = {row.role for row in root.execute("LIST ROLES OF ada")}
            assert listed == {"ada", "reader"}, listed

            for name, wrong in [("ada", "wrong"), ("nobody", "wrong"), ("reader", "")]:
                error = fails_to_connect(name, wrong)
                assert isinstance(error, AuthenticationFailed), error
                if wrong:
                    message = f"Provided username {name} and/or password are incorrect"
                    assert message in str(error), error

            with cluster("ada", "it's hers") as hers:
                ada = hers.connect()
                insert = ada.prepare("INSERT INTO shop.orders (id, total) VALUES (?, ?)")
                for n in range(100):
                    ada.execute(insert, [n, n * n])
                assert ada.execute("SELECT count(*) FROM shop.orders").one()[0] == 100
                error = refused(Unauthorized, ada.execute, "TRUNCATE shop.secrets")
                assert "User ada has no MODIFY permission on <table shop.secrets>" in error, error
                refused(Unauthorized, ada.execute, "CREATE ROLE eve")
                refused(Unauthorized, ada.execute, "SELECT * FROM system_auth.roles")
                refused(InvalidRequest, ada.execute, "SELECT * FROM shop.nothing")
                refused(
                    Unauthorized,
                    lambda: ada.execute(SimpleStatement("SELECT * FROM shop.orders"), trace=True),
                )
                root.execute("REVOKE MODIFY ON shop.orders FROM ada")
                refused(Unauthorized, ada.execute, insert, [1, 1])
                batch = BatchStatement()
                batch.add(insert, [1, 1])
                refused(Unauthorized, ada.execute, batch)
                root.execute("DROP ROLE reader")
                refused(Unauthorized, ada.execute, "SELECT * FROM shop.orders")
                ada.execute("ALTER ROLE ada WITH PASSWORD = 'new'")
            fails_to_connect("ada", "it's hers")
            with cluster("ada", "new") as again:
                again.connect()

            cqlsh = Path(sys.executable).parent / "cqlsh"

            def shell(name, password, statement):
                return subprocess.run(
                    [cqlsh, "--no-color", "-u", name, "-p", password, host, port]
                    + [f"--connect-timeout={LIMIT_S}", f"--request-timeout={LIMIT_S}"]
                    + ["-e", statement],
                    capture_output=True,
                    text=True,
                    env={**os.environ, "HOME": directory},
                )

            shown = shell("ebb", password, "LIST USERS; LIST ALL PERMISSIONS OF ebb")
            assert shown.returncode == 0, shown
            assert "bob" in shown.stdout and "<table shop.orders>" in shown.stdout, shown
            shown = shell("bob", "his", "DESCRIBE KEYSPACE shop")
            assert "CREATE TABLE shop.orders" in shown.stdout, shown
            shown = shell("bob", "his", "SELECT * FROM shop.orders")
            assert "Unauthorized" in shown.stderr, shown
            shown = shell("bob", "hers", "LIST ROLES")
            assert shown.returncode != 0 and "incorrect" in shown.stderr, shown
            print("logins, permissions, a revoked one, and cqlsh")
    finally:
        server.terminate()
        server.wait()
