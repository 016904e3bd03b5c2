"""A pinned disk: a snapshot keeps rows that were overwritten. An operator finds the snapshot and deletes it,
and the bytes become free."""

import pathlib
import tempfile

import rehearsal

HEADING = "What pins the disk"
ROWS = range(5000)
PINNED = "ebb_snapshots_pinned_bytes"
FILES = 'ebb_table_file_bytes{keyspace="shop",table="orders"}'

with tempfile.TemporaryDirectory() as work:
    directory = pathlib.Path(work) / "data"
    server = rehearsal.Server(directory)
    server.make_table()
    server.write(ROWS)
    server.session.execute("CREATE SNAPSHOT monday ON KEYSPACE shop")
    server.write(ROWS)

    look, delete, after = rehearsal.commands(HEADING)
    listing = rehearsal.quoted(HEADING, "LIST SNAPSHOTS")

    def numbers():
        printed = rehearsal.run(after, directory)
        return [rehearsal.metric(printed, name) for name in (PINNED, FILES)]

    # There are no more writes, so the rows are soon flushed to files.
    rehearsal.until(lambda: numbers()[0] > 4e6)
    rehearsal.run(look, directory)
    (snapshot,) = server.session.execute(listing)
    print(snapshot)
    assert (snapshot.keyspace_name, snapshot.snapshot_name) == ("shop", "monday")
    pinned, before = numbers()
    assert 0.9 < snapshot.pinned_bytes / pinned < 1.1, pinned
    rehearsal.run(delete, directory)

    def came_back():
        left, now = numbers()
        return left == 0 and 0.9 < (before - now) / pinned < 1.1

    rehearsal.until(came_back)
    assert server.count() == len(ROWS)
    server.stop()
