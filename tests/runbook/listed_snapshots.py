"""Drivers that read the schema: 200 tables, 40 snapshots and an idle driver. A driver reads each snapshot that
the schema lists. By default the schema lists none: the driver receives no event of a snapshot, CREATE SNAPSHOT
costs little, and at rest the server uses no CPU."""

import os
import pathlib
import tempfile
import time

import rehearsal

HEADING = "Drivers that read the schema"
TABLES = 200
SNAPSHOTS = 40
# The snapshots that are made while the schema lists some, and the number of those that it lists.
FIRST = 3
LISTED = 2
QUERIES = 'ebb_cql_requests_total{opcode="QUERY"}'
# Bounds far above what a slow machine needs (both are below 0.1 s as a rule), and far below the CPU time of a
# server whose driver reads the tables of all snapshots.
CREATION_CPU_S = 4
REST_CPU_S = 1
REST_S = 10


def cpu_s(server):
    """Returns the seconds of CPU time that the server has used."""
    stat = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text()
    user, system = stat.rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def events_of(server):
    """Opens a connection for the events of the schema, and returns the list that gets them."""
    events = []
    (host,) = server.cluster.metadata.all_hosts()
    connection = server.cluster.connection_factory(host.endpoint)
    connection.register_watcher("SCHEMA_CHANGE", events.append)
    return events


def names(events):
    """Returns the tables that events name, and the keyspaces of events that name no table."""
    return {event.get("table") or event["keyspace"] for event in list(events)}


def create_snapshots(server, numbers):
    """Creates snapshots of all tables."""
    for number in numbers:
        server.session.execute(f"CREATE SNAPSHOT s{number} ON KEYSPACE shop")


def listed_snapshots(server):
    """Returns the snapshots that the schema lists as keyspaces."""
    rows = server.session.execute("SELECT keyspace_name FROM system_schema.keyspaces")
    return {row.keyspace_name for row in rows if "@" in row.keyspace_name}


with tempfile.TemporaryDirectory() as work:
    directory = pathlib.Path(work) / "data"
    (look,) = rehearsal.commands(HEADING)

    def queries():
        """Runs the commands of the page, and returns the number of queries since the start."""
        return rehearsal.metric(rehearsal.run(look, directory), QUERIES)

    server = rehearsal.Server(directory)
    server.make_table()
    for number in range(1, TABLES):
        server.session.execute(f"CREATE TABLE shop.t{number} (id int PRIMARY KEY, v blob)")
    server.stop()

    server = rehearsal.Server(directory, "--schema-snapshots", str(LISTED))
    events = events_of(server)
    before = queries()
    create_snapshots(server, range(FIRST))
    newest = {f"shop@s{number}" for number in range(FIRST)[-LISTED:]}
    # The driver reads these keyspaces with queries that its user did not send.
    # At the event of a keyspace that is no longer listed, this driver looks it up by its name, and finds it.
    rehearsal.until(lambda: newest <= set(server.cluster.metadata.keyspaces))
    rehearsal.until(lambda: newest <= names(events))
    read = queries() - before
    print(f"{read:.0f} queries, {FIRST} of them created snapshots")
    assert read > FIRST
    assert listed_snapshots(server) == newest
    server.stop()

    server = rehearsal.Server(directory)
    events = events_of(server)
    before, begun_s = queries(), cpu_s(server)
    create_snapshots(server, range(FIRST, SNAPSHOTS))
    used_s, read = cpu_s(server) - begun_s, queries() - before
    print(f"{used_s:.2f} s of CPU and {read:.0f} queries for {SNAPSHOTS - FIRST} snapshots")
    assert used_s < CREATION_CPU_S
    assert read < 2 * SNAPSHOTS, "the driver reads the schema"
    # The event of a table comes after those of the snapshots, if there are any.
    server.session.execute("CREATE TABLE shop.last (id int PRIMARY KEY)")
    rehearsal.until(lambda: "last" in names(events))
    assert names(events) == {"last"}, events
    assert not any("@" in name for name in server.cluster.metadata.keyspaces)
    assert listed_snapshots(server) == set()
    assert server.session.execute("SELECT count(*) FROM shop.orders USING SNAPSHOT s0").one()[0] == 0

    begun_s = cpu_s(server)
    time.sleep(REST_S)
    used_s = cpu_s(server) - begun_s
    print(f"{used_s:.2f} s of CPU in {REST_S} s of rest")
    assert used_s < REST_CPU_S
    server.stop()
