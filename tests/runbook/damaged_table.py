"""A damaged table: one byte of its file is another. Writes go on, and a copied backup gives it
back; without one all other rows are saved."""

import pathlib
import shutil
import subprocess
import tempfile

import rehearsal


def damage(directory):
    """Flips a bit in the largest table, and gives its name."""
    table = max(directory.rglob("*.sst"), key=lambda file: file.stat().st_size)
    with table.open("r+b") as file:
        file.seek(table.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))
    return table.name


def refuses_damaged_rows_only(directory):
    """Rows are refused, and written."""
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

    look, restore, repair = rehearsal.commands("A damaged table")
    told = rehearsal.run(look, directory, fails=look[:1])
    assert name in told, told
    rehearsal.run(restore, directory)
    server = rehearsal.Server(directory)
    assert server.count() == 5100
    server.stop()

    name = damage(directory)
    told = rehearsal.run(look, directory, fails=look[:1])
    assert name in told, told
    # It says by its exit code that something is lost.
    told = rehearsal.run(repair, directory, fails=repair[:1])
    assert "shop" in told, told
    server = rehearsal.Server(directory)
    saved = server.count()
    print(f"{saved} of 5100 rows are saved")
    assert 5000 < saved < 5100, saved
    server.write(range(5000))
    assert 5000 <= server.count() <= 5100
    server.stop()
