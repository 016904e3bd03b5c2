"""Restore from a backup: rows that were deleted by mistake come back."""

import pathlib
import subprocess
import tempfile

import rehearsal

with tempfile.TemporaryDirectory() as work:
    directory = pathlib.Path(work) / "data"
    server = rehearsal.Server(directory)
    server.make_table()
    server.write(range(2000))
    server.stop()
    backup = [rehearsal.EBB, "backup", "backups/monday", "--data", str(directory)]
    subprocess.run(backup, cwd=work, check=True)
    server = rehearsal.Server(directory)
    server.session.execute("TRUNCATE shop.orders")
    server.stop()

    verify, restore = rehearsal.commands("Restore from a backup")
    rehearsal.run(verify, directory)
    rehearsal.run(restore, directory)
    server = rehearsal.Server(directory)
    assert server.count() == 2000
    server.stop()
