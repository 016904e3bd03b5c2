"""A failed write: a file of the server would become longer than a limit allows. The server opens its database
again in the same process, Python's driver connects again by itself, and all acknowledged rows are there."""

import pathlib
import socket
import tempfile

import rehearsal

# In KiB. A write beyond this length of a file fails as on a broken disk, not as on a full one.
FILE_KIB_MAX = 4096
# Bytes that compress, so that only the log reaches the limit.
VALUE = bytes(100_000)
REOPENINGS = 3
AGAIN = "ERROR server: the server stops and starts again, to open its database: ..."


def free_port():
    """Returns a port that is free now. A server at port 0 would have another port after its new start."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


with tempfile.TemporaryDirectory() as work:
    directory = pathlib.Path(work) / "data"
    server = rehearsal.Server(directory, ulimit=f"-f {FILE_KIB_MAX}", port=free_port())
    server.make_table()
    insert = server.session.prepare("INSERT INTO shop.orders (id, v) VALUES (?, ?)")
    acknowledged = set()

    def is_acknowledged(id):
        try:
            server.session.execute(insert, [id, VALUE])
        except rehearsal.REFUSED as error:
            print(f"row {id}: {error}", flush=True)
            return False
        acknowledged.add(id)
        return True

    def check():
        """Checks that the rows are there, and no other one. The row whose write failed has been written again."""
        rows = {row.id: row.v for row in server.session.execute("SELECT id, v FROM shop.orders")}
        assert rows == dict.fromkeys(acknowledged, VALUE), (len(rows), len(acknowledged))

    id = 0
    for reopening in range(1, REOPENINGS + 1):
        while is_acknowledged(id):
            id += 1
            assert id < 1000, "no write fails"
        # The same session goes on, without help.
        rehearsal.until(lambda: is_acknowledged(id))
        assert server.logged().count(AGAIN.removesuffix("...")) == reopening
        assert rehearsal.measured(directory, "ebb_last_reopening_timestamp_seconds") > 0
        print(f"start {reopening} after a failed write: {len(acknowledged)} rows", flush=True)
        check()
    server.logs([AGAIN])
    assert server.process.poll() is None, "the process has ended"
    server.stop()

    server = rehearsal.Server(directory)
    check()
    server.stop()
