"""Too few file descriptors: more clients connect than the limit of open files allows. Those that are
connected are served, also their writes. With a higher limit the others are served, too. At a usual limit, a
server that refused clients serves the next ones and merges its tables once those are gone, without a restart."""

import pathlib
import resource
import socket
import tempfile

import rehearsal

REFUSED = "ebb_cql_connections_refused_total"
CONNECTIONS = "ebb_cql_connections"
MERGES = "ebb_compactions_total"
# The clients at a limit of 256 open files, and at the limit of 1,024 that most systems set.
CLIENTS, MANY_CLIENTS = 200, 1100
ROWS = range(2000)


def connect(server, clients):
    """Opens connections that send nothing, and returns them."""
    return [socket.create_connection(server.address) for _ in range(clients)]


# This process has one descriptor for each client, and some of its own.
needed, (_, hard) = MANY_CLIENTS + 100, resource.getrlimit(resource.RLIMIT_NOFILE)
assert hard == resource.RLIM_INFINITY or hard >= needed, f"`ulimit -Hn` is {hard}: raise it to {needed}"
resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))

with tempfile.TemporaryDirectory() as work:
    directory = pathlib.Path(work) / "data"
    flags = ["--connections-max", "500", "--startup-timeout", "10m"]
    server = rehearsal.Server(directory, *flags, ulimit="-n 256")
    look, after = rehearsal.commands("Too few file descriptors")
    (shares,) = rehearsal.texts("Too few file descriptors")
    server.logs(shares)
    server.make_table()
    clients = connect(server, CLIENTS)
    refused = lambda: rehearsal.metric(rehearsal.run(look, directory), REFUSED)
    rehearsal.until(lambda: refused() > 0)
    server.write(ROWS)
    assert server.count() == len(ROWS)
    for client in clients:
        client.close()
    server.stop()

    server = rehearsal.Server(directory, *flags, ulimit="-n 1024")
    clients = connect(server, CLIENTS)
    # The connections of the driver and those of the other clients.
    served = lambda: rehearsal.metric(rehearsal.run(look, directory), CONNECTIONS)
    rehearsal.until(lambda: served() > CLIENTS)
    printed = rehearsal.run(after, directory)
    assert rehearsal.metric(printed, "process_max_fds") == 1024, printed
    assert rehearsal.metric(printed, REFUSED) == 0, printed
    assert server.count() == len(ROWS)
    for client in clients:
        client.close()
    server.stop()

    # Memtables are small, so that there are files to merge.
    flags = ["--startup-timeout", "10m", "--memtables-bytes", str(4 << 20)]
    server = rehearsal.Server(directory, *flags, ulimit="-n 1024")
    measured = lambda name: rehearsal.measured(directory, name)
    own = measured(CONNECTIONS)
    clients = connect(server, MANY_CLIENTS)
    # Each client has been accepted or refused.
    rehearsal.until(lambda: measured(CONNECTIONS) + measured(REFUSED) == own + MANY_CLIENTS)
    assert measured(REFUSED) > 0
    server.write(ROWS)
    assert server.count() == len(ROWS)
    for client in clients:
        client.close()
    rehearsal.until(lambda: measured(CONNECTIONS) == own)
    merges, refused_before = measured(MERGES), measured(REFUSED)
    for _ in range(5):
        server.write(ROWS)
    assert server.count() == len(ROWS)
    rehearsal.until(lambda: measured(MERGES) > merges)
    # As many clients as before the crowd are served again.
    clients = connect(server, CLIENTS)
    rehearsal.until(lambda: measured(CONNECTIONS) == own + CLIENTS)
    assert measured(REFUSED) == refused_before
    for client in clients:
        client.close()
    server.stop()
