"""Too few file descriptors: more clients connect than the limit of open files allows. Those that are
connected are served, also their writes. With a higher limit the others are served, too."""

import pathlib
import socket
import tempfile

import rehearsal

CLIENTS = 200
REFUSED = "ebb_cql_connections_refused_total"


def connect(server):
    """Opens connections that send nothing, and returns them."""
    return [socket.create_connection(server.address) for _ in range(CLIENTS)]


with tempfile.TemporaryDirectory() as work:
    directory = pathlib.Path(work) / "data"
    flags = ["--connections-max", "500", "--startup-timeout", "10m"]
    server = rehearsal.Server(directory, *flags, files_max=256)
    look, after = rehearsal.commands("Too few file descriptors")
    (shares,) = rehearsal.texts("Too few file descriptors")
    server.logs(shares)
    server.make_table()
    clients = connect(server)
    refused = lambda: rehearsal.metric(rehearsal.run(look, directory), REFUSED)
    rehearsal.until(lambda: refused() > 0)
    server.write(range(2000))
    assert server.count() == 2000
    for client in clients:
        client.close()
    server.stop()

    server = rehearsal.Server(directory, *flags, files_max=1024)
    clients = connect(server)
    # The connections of the driver and those of the other clients.
    served = lambda: rehearsal.metric(rehearsal.run(look, directory), "ebb_cql_connections")
    rehearsal.until(lambda: served() > CLIENTS)
    printed = rehearsal.run(after, directory)
    assert rehearsal.metric(printed, "process_max_fds") == 1024, printed
    assert rehearsal.metric(printed, REFUSED) == 0, printed
    assert server.count() == 2000
    for client in clients:
        client.close()
    server.stop()
