"""A damaged table: one byte of its file is another. Writes go on, and a copied backup gives it
back; without one all other rows are saved, in the place of the file or in a new directory."""

import pathlib
import re
import shutil
import subprocess
import tempfile

import rehearsal

# From the end of a file: a byte of its footer, without which it does not open.
FOOTER = 20


def damage(directory, from_end=None):
    """Flips a bit in the largest table, in the middle or so far from its end. Returns its name."""
    table = max(directory.rglob("*.sst"), key=lambda file: file.stat().st_size)
    size = table.stat().st_size
    with table.open("r+b") as file:
        file.seek(size // 2 if from_end is None else size - from_end)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))
    return table.name


def refuses_damaged_rows_only(directory):
    """Checks that a server refuses damaged rows, and takes writes."""
    server = rehearsal.Server(directory)
    try:
        server.count()
        raise SystemExit("damaged rows were read")
    except rehearsal.REFUSED as error:
        print(f"as expected: {error}")
    server.write(range(5000, 5100))
    assert server.session.execute("SELECT id FROM shop.orders WHERE id = 5050").one()
    server.stop()


with tempfile.TemporaryDirectory() as work:
    directory = pathlib.Path(work) / "data"
    server = rehearsal.Server(directory)
    server.make_table()
    server.write(range(5000))
    server.stop()
    backup = [rehearsal.EBB, "backup", "backups/linked", "--data", str(directory)]
    subprocess.run(backup, cwd=work, check=True)
    shutil.copytree(f"{work}/backups/linked", f"{work}/backups/copied")
    name = damage(directory)
    refuses_damaged_rows_only(directory)

    alarm, look, restore, list_loss, accept, repair = rehearsal.commands("A damaged table")
    (quarantined,) = rehearsal.texts("A damaged table")
    fails = look.commands[:1]
    printed = rehearsal.run(look, directory, fails=fails)
    assert name in printed, printed
    rehearsal.run(restore, directory)
    server = rehearsal.Server(directory)
    assert server.count() == 5100
    server.stop()

    # The start of the server meets this damage, and the server restores the file while it runs.
    name = damage(directory, FOOTER)
    server = rehearsal.Server(directory)
    server.logs(quarantined)
    printed = rehearsal.run(alarm, directory)
    printed += rehearsal.run(look, directory, fails=fails)
    assert name in printed, printed
    rehearsal.run(restore, directory)
    assert server.count() == 5100
    server.stop()

    name = damage(directory)
    server = rehearsal.Server(directory)
    # The exit code of the list says that something is damaged.
    printed = rehearsal.run(list_loss, directory, fails=list_loss.commands)
    assert name in printed, printed
    # The token on the page is that of another list, which is refused.
    printed = rehearsal.run(accept, directory, fails=accept.commands)
    assert "nothing was changed" in printed, printed
    token = re.search(r"^the token of this list: (\S+)$", printed, flags=re.MULTILINE)[1]
    (command,) = accept.commands
    accept.commands = [f"{command.rsplit(' ', 1)[0]} {token}"]
    rehearsal.run(accept, directory)
    left = server.count()
    print(f"{left} of 5100 rows are left")
    assert 5000 < left < 5100, left
    server.stop()

    name = damage(directory)
    printed = rehearsal.run(look, directory, fails=fails)
    assert name in printed, printed
    # Its exit code says that something is lost.
    printed = rehearsal.run(repair, directory, fails=repair.commands[:1])
    assert "shop" in printed, printed
    server = rehearsal.Server(directory)
    saved = server.count()
    print(f"{saved} of 5100 rows are saved")
    assert 5000 < saved < left, saved
    server.write(range(5000))
    assert 5000 <= server.count() <= 5100
    server.stop()
