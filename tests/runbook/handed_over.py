"""Commands beside a running server: it has the database open, so they hand their work over to it by its socket.
They print the same as without a server. A backup that the server made restores a damaged file, with the server
and without it."""

import json
import pathlib
import shutil
import subprocess
import tempfile

import rehearsal

KEYSPACES = {"app", "shop"}
DAMAGED = 5
READS = [
    "scan app.users --json",
    "scan app.users --json --snapshot monday",
    "scan app.users --keys-only --reverse --limit 7",
    "scan shop.orders --json",
    "scan shop.orders --json --snapshot tuesday",
    "get app.users user-07",
    "get app.users user-07 --json --snapshot monday",
]


def ebb(directory, line, fails_with=0):
    """Runs a command, checks its exit code, and returns its output."""
    command = [rehearsal.EBB, *line.split(), "--data", str(directory)]
    done = subprocess.run(command, cwd=directory.parent, text=True, stdout=subprocess.PIPE, timeout=120)
    print(f"$ ebb {line}: {len(done.stdout)} characters", flush=True)
    assert done.returncode == fails_with, done
    return done.stdout


def tables(directory):
    """Returns what `ebb stats` prints of the tables that clients have, without what a merge changes."""
    names = ["keyspace", "name", "versions", "bookmarks", "quarantine"]
    found = json.loads(ebb(directory, "stats --json"))["tables"]
    return [{name: one[name] for name in names} for one in found if one["keyspace"] in KEYSPACES]


def snapshots(directory):
    """Returns what `ebb snapshot list` prints, without what a merge changes."""
    names = ["keyspace", "name", "sequence", "tables", "created_unix_ms", "expires_unix_ms"]
    found = json.loads(ebb(directory, "snapshot list --json"))
    return [{name: one[name] for name in names} for one in found]


def printed(directory):
    """Returns the outputs of the commands that only read, after a check that nothing is damaged."""
    checked = json.loads(ebb(directory, "verify --json"))
    assert (checked["findings"], checked["unreadable"]) == ([], []), checked
    reads = {line: ebb(directory, line) for line in READS}
    assert all(reads.values()), reads
    return reads | {"stats": tables(directory), "snapshots": snapshots(directory)}


def restores(directory, copied):
    """Damages a file, and restores it from a copied backup."""
    name = rehearsal.damage(directory)
    findings = json.loads(ebb(directory, "verify --json", fails_with=DAMAGED))["findings"]
    assert any(name in finding["path"] for finding in findings), findings
    restored = json.loads(ebb(directory, f"restore {copied} --json"))
    assert [pathlib.Path(file["path"]).name for file in restored["restored"]] == [name], restored
    assert restored["left"] == [], restored


with tempfile.TemporaryDirectory() as work:
    directory = pathlib.Path(work) / "data"
    users = pathlib.Path(work) / "users.csv"
    rows = "".join(f"user-{number:02},first\n" for number in range(20))
    users.write_text("name,visit\n" + rows)
    ebb(directory, "load --table app.users --key name users.csv")
    ebb(directory, "snapshot create --keyspace app monday")
    ebb(directory, "put app.users user-07 second")
    server = rehearsal.Server(directory)
    server.make_table()
    server.write(range(2000))
    ebb(directory, "snapshot create --table shop.orders tuesday")
    server.write(range(500))
    server.stop()

    offline = printed(directory)
    assert offline[READS[0]] != offline[READS[1]] and offline[READS[3]] != offline[READS[4]]
    assert offline[READS[5]] == "second\n" and "first" in offline[READS[6]], offline
    ebb(directory, "backup backups/offline")
    server = rehearsal.Server(directory)
    online = printed(directory)
    for line, expected in offline.items():
        assert online[line] == expected, (line, online[line], expected)
    made = json.loads(ebb(directory, "backup backups/online --json"))
    assert made["damaged"] == [], made
    server.logs(["INFO jobs: verify 1 found nothing wrong", "INFO jobs: backup 1 succeeded"])

    # The backups are databases with the same rows and snapshots.
    backup = pathlib.Path(work) / "backups/online"
    for made in [backup, backup.with_name("offline")]:
        assert printed(made) == offline, made

    # A backup shares its files with the database by links, and so the damage. A copy does not.
    copied = shutil.copytree(backup, backup.with_name("copied"))
    restores(directory, copied)
    assert printed(directory) == offline
    assert server.count() == 2000
    server.stop()
    restores(directory, copied)
    assert printed(directory) == offline
