"""A lost manifest: the server does not start. If both copies of CURRENT are lost, a repair restores everything.
If both copies of the manifest are missing, the error names the manifest. If they are damaged, a repair saves
the rows, and finds the names of their tables in the SSTables."""

import pathlib
import re
import shutil
import subprocess
import tempfile

import rehearsal

HEADING = "A lost manifest"
# The offset of a byte in the first record, which has all names: behind the headers of the file and of the
# record, which have 40 bytes.
FIRST_RECORD = 60


def refuses_to_start(directory, shown):
    """Checks that a server does not start, and prints an error like the one on the page."""
    command = rehearsal.serve_command(directory)
    started = subprocess.run(command, text=True, stderr=subprocess.PIPE, timeout=120)
    print(started.stderr, end="", flush=True)
    assert started.returncode == 5, started.returncode
    assert rehearsal.has_line(started.stderr, shown), shown


with tempfile.TemporaryDirectory() as work:
    directory = pathlib.Path(work) / "data"
    server = rehearsal.Server(directory)
    server.make_table()
    server.write(range(2000))
    server.stop()
    rescue, replace = rehearsal.commands(HEADING)
    ((current_missing, manifest_missing, damaged),) = rehearsal.texts(HEADING)

    for copy in ["CURRENT", "CURRENT.copy"]:
        (directory / copy).unlink()
    refuses_to_start(directory, current_missing)
    # Only the check reports damage.
    rehearsal.run(rescue, directory, fails=rescue.commands[:1])
    rehearsal.run(replace, directory)
    server = rehearsal.Server(directory)
    assert server.count() == 2000
    server.stop()
    shutil.rmtree(directory.with_suffix(".damaged"))

    manifests = list(directory.glob("MANIFEST-*"))
    for copy in manifests:
        copy.rename(directory.parent / copy.name)
    refuses_to_start(directory, manifest_missing)
    for copy in manifests:
        (directory.parent / copy.name).rename(copy)

    for copy in manifests:
        contents = bytearray(copy.read_bytes())
        contents[FIRST_RECORD] ^= 1
        copy.write_bytes(contents)
    refuses_to_start(directory, damaged)
    printed = rehearsal.run(rescue, directory, fails=rescue.commands)
    (saved,) = re.findall(r"saved ([\d,]+) versions of shop\.orders", printed)
    assert int(saved.replace(",", "")) >= 2000, printed
    rehearsal.run(replace, directory)
    server = rehearsal.Server(directory)
    assert server.count() == 2000
    server.stop()
