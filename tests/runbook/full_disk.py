"""A full disk: a small file system is filled. Once the ballast is removed, the server accepts writes again.

Runs in a mount namespace of its own, see `run`."""

import pathlib
import subprocess
import sys
import tempfile

import rehearsal

with tempfile.TemporaryDirectory() as work:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512m", "tmpfs", work], check=True)
    directory = pathlib.Path(work) / "data"
    prepare, look, free = rehearsal.commands("A full disk")
    full, freed = rehearsal.texts("A full disk")
    rehearsal.run(prepare, directory)
    server = rehearsal.Server(directory)
    server.make_table()
    written = 0
    try:
        while written < 10_000:
            server.write([written], 200_000)
            written += 1
        sys.exit("the disk did not become full")
    except rehearsal.REFUSED as error:
        print(f"as expected after {written} rows: {error}")
        assert "disk is full" in str(error), error
    server.logs(full)
    assert server.count() >= written
    rehearsal.run(look, directory)
    rehearsal.run(free, directory)

    def writes_again():
        try:
            server.write([written], 200_000)
            return True
        except rehearsal.REFUSED:
            return False

    rehearsal.until(writes_again)
    server.logs(freed)
    assert server.count() == written + 1
    server.stop()
    subprocess.run(["umount", work], check=True)
