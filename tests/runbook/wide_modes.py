"""Who may open the files: whatever the umask, a server gives other users no permission on its files. The start
warns of wider modes, and the command that its warning names takes them away."""

import contextlib
import os
import pathlib
import re
import stat
import tempfile

import rehearsal

HEADING = "Who may open the files"
FILE = rehearsal.GUIDE / "operations.md"
WARNING = "users other than the owner have permissions"


def modes(directory):
    """Returns the modes of a directory and of everything in it, with the bits of the kind of file, by path."""
    found = {}
    for path in [directory, *directory.rglob("*")]:
        # A server removes files meanwhile.
        with contextlib.suppress(FileNotFoundError):
            found[path] = path.lstat().st_mode
    return found


def check_private(directory):
    """Checks that directories have mode 0700 and all else has 0600. Prints the number of files."""
    found = modes(directory)
    for path, mode in found.items():
        expected = 0o700 if stat.S_ISDIR(mode) else 0o600
        assert stat.S_IMODE(mode) == expected, f"{path} has mode {stat.S_IMODE(mode):04o}"
    print(f"{len(found)} files of {directory.name} are private")


# The widest umask. The servers inherit it.
os.umask(0)
assert "New files have mode 0600 and new directories 0700" in rehearsal.page_of(HEADING, FILE)
((printed,),) = rehearsal.texts(HEADING, FILE)
shown = printed.removeprefix("ebb: ")

with tempfile.TemporaryDirectory() as work:
    directory = pathlib.Path(work) / "data"
    server = rehearsal.Server(directory, "--auth")
    server.make_table()
    server.write(range(1000))
    check_private(directory)
    backup = rehearsal.Block(["ebb backup copied"], [])
    rehearsal.run(backup, directory)
    check_private(directory.parent / "copied")
    server.stop()
    check_private(directory)
    assert WARNING not in server.logged(), "the server warns of modes that are right"

    # An older version, `mkdir` or `cp` left wider modes.
    directory.chmod(0o755)
    (directory / "LOCK").chmod(0o644)
    server = rehearsal.Server(directory, "--auth")
    server.logs([shown])
    assert server.count() == 1000
    assert f"{directory} (mode 0755), {directory}/LOCK (mode 0644)" in server.logged()
    (command,) = re.findall(r"to take them away: (chmod .*)", server.logged())
    wide = [stat.S_IMODE(path.stat().st_mode) for path in (directory, directory / "LOCK")]
    assert wide == [0o755, 0o644], f"the server changed modes: {wide}"
    rehearsal.run(rehearsal.Block([command], []), directory)
    check_private(directory)
    server.stop()

    server = rehearsal.Server(directory, "--auth")
    assert server.count() == 1000
    server.stop()
    assert WARNING not in server.logged(), "the server warns of modes that are right"
