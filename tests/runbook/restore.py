"""Restore from a backup: rows that were deleted by mistake come back."""

import pathlib
import tempfile

import rehearsal

with tempfile.TemporaryDirectory() as work:
    directory = pathlib.Path(work) / "data"
    server = rehearsal.Server(directory)
    server.make_table()
    server.write(range(2000))
    backup, restore, look = rehearsal.commands("Restore from a backup")
    (started,) = rehearsal.texts("Restore from a backup")
    rehearsal.run(backup, directory)
    server.session.execute("TRUNCATE shop.orders")
    server.stop()

    rehearsal.run(restore, directory)
    server = rehearsal.Server(directory)
    server.logs(started)
    rehearsal.run(look, directory)
    assert server.count() == 2000
    server.stop()
