"""A damaged table: one bit of its file is flipped. Writes go on, and a copied backup restores the file.
Without a backup all other rows are saved, in place of the file or in a new directory."""

import pathlib
import re
import shutil
import subprocess
import tempfile

import rehearsal

# The distance from the end of a file of a byte in its footer. With a damaged footer the file does not open.
FOOTER = 20


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
    name = rehearsal.damage(directory)
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

    # A start of the server finds this damage, and the file is restored while the server runs.
    name = rehearsal.damage(directory, FOOTER)
    server = rehearsal.Server(directory)
    server.logs(quarantined)
    printed = rehearsal.run(alarm, directory)
    printed += rehearsal.run(look, directory, fails=fails)
    assert name in printed, printed
    rehearsal.run(restore, directory)
    assert server.count() == 5100
    server.stop()

    name = rehearsal.damage(directory)
    server = rehearsal.Server(directory)
    # The exit code of the list reports the damage.
    printed = rehearsal.run(list_loss, directory, fails=list_loss.commands)
    assert name in printed, printed
    # The token on the page belongs to another list, so it is refused.
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

    name = rehearsal.damage(directory)
    printed = rehearsal.run(look, directory, fails=fails)
    assert name in printed, printed
    # The exit code of the repair reports the loss.
    printed = rehearsal.run(repair, directory, fails=repair.commands[:1])
    assert "shop" in printed, printed
    server = rehearsal.Server(directory)
    saved = server.count()
    print(f"{saved} of 5100 rows are saved")
    assert 5000 < saved < left, saved
    server.write(range(5000))
    assert 5000 <= server.count() <= 5100
    server.stop()
