"""Runs the command of the systemd unit as systemd would, with the directories of /var/lib below another one,
and then the commands of the book's page, which an operator runs as the user of the unit.

    unit.py DIRECTORY [--mounts]

DIRECTORY has no file `lib` or `notify`. With --mounts each directory of the unit becomes a mount of its own,
as systemd makes it one, so that no file of one has a hard link in another. The environment variable EBB names
the program."""

import argparse
import atexit
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess

ROOT = pathlib.Path(__file__).parents[2]
UNIT = ROOT / "docs/service/ebb.service"
PAGE = ROOT / "docs/src/guide/service.md"
EBB = pathlib.Path(os.environ["EBB"])
# The file that is loaded, as an argument of `ebb load` in the root of the repository.
TEXT = "README.md"
# The time after which a server hangs.
HANG_S = 180


def unit_settings():
    """Returns the values of each setting of the unit, by its name."""
    found = {}
    for line in UNIT.read_text().splitlines():
        name, is_set, value = line.partition("=")
        if is_set and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def page_commands():
    """Returns the commands of the page that run as the user of the unit."""
    return re.findall(r"^# runuser -u ebb -- (ebb .*)$", PAGE.read_text(), flags=re.MULTILINE)


class Unit:
    """The unit with `lib` in place of /var/lib."""

    def __init__(self, work):
        self.lib = work / "lib"
        self.settings = unit_settings()
        self.umask = int(self.one("UMask"), 8)
        self.folders = [self.lib / name for name in self.one("StateDirectory").split()]
        environment = dict(self.moved(text).split("=", 1) for text in self.settings["Environment"])
        # The operator's settings: a port that no other program has.
        self.environment = os.environ | environment | {"EBB_CQL": "127.0.0.1:0"}
        # systemd's end of the notifications.
        self.supervisor = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.supervisor.bind(str(work / "notify"))
        self.supervisor.settimeout(HANG_S)

    def one(self, name):
        """Returns the value of a setting that the unit has once."""
        (value,) = self.settings[name]
        return value

    def moved(self, text):
        """Returns a text of the unit or of the page with the paths that it has here."""
        return text.replace("/var/lib/", f"{self.lib}/")

    def make_folders(self, are_mounts):
        """Makes the directories of the unit's state."""
        for folder in self.folders:
            folder.mkdir(parents=True)
            folder.chmod(int(self.one("StateDirectoryMode"), 8))
            if are_mounts:
                subprocess.run(["mount", "--bind", folder, folder], check=True)

    def start(self):
        """Starts the server, and waits until it notifies systemd that it is ready."""
        program, *arguments = self.one("ExecStart").split()
        assert program == "/usr/local/bin/ebb", program
        process = subprocess.Popen(
            [EBB, *arguments],
            env=self.environment | {"NOTIFY_SOCKET": self.supervisor.getsockname()},
            umask=self.umask,
        )
        # A rehearsal that fails leaves no server behind.
        atexit.register(process.kill)
        message = self.supervisor.recv(4096).decode()
        assert message.startswith("READY=1\n"), message
        return process

    def run(self, command):
        """Runs a command as an operator would, and returns its output."""
        command = self.moved(command)
        print(f"$ {command}", flush=True)
        program, *arguments = command.split()
        assert program == "ebb", program
        # Without the unit's environment: an operator's shell does not have it.
        done = subprocess.run(
            [EBB, *arguments],
            cwd=ROOT,
            text=True,
            check=True,
            timeout=HANG_S,
            stdout=subprocess.PIPE,
        )
        print(done.stdout, end="", flush=True)
        return done.stdout


def check_closed(folder):
    """Checks that only the owner has permissions for a directory and all that is in it."""
    for path in [folder, *folder.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode & 0o077 == 0, f"{path} has mode {mode:o}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--mounts", action="store_true")
    args = parser.parse_args()

    unit = Unit(args.directory)
    unit.make_folders(args.mounts)
    data, backups, outputs = unit.folders
    unit.run(f"ebb load --data {data} --table app.lines {TEXT}")
    server = unit.start()

    running = unit.run(f"ebb config running --data {data}")
    for folder in unit.folders:
        assert f'"{folder}" # environment' in running, f"{folder} is in no setting"
    commands = page_commands()
    (backup,) = [command for command in commands if command.startswith("ebb backup ")]
    printed = [unit.run(command) for command in commands]
    if args.mounts:
        assert ": 0 B linked" in printed[commands.index(backup)], "a file has a link in another mount"

    # The backup is a database, with the rows of the one that is served.
    (copy,) = backups.iterdir()
    first = (ROOT / TEXT).read_text().splitlines()[0]
    assert unit.run(f"ebb get --data {copy} app.lines {TEXT}:000000000001") == f"{first}\n"
    words = outputs / "words.tsv"
    unit.run(f"ebb run wordcount --data {data} --table app.lines --output {words}")
    assert words.stat().st_size > 0

    server.send_signal(signal.SIGTERM)
    assert server.wait(HANG_S) == 0
    # After the end of the server, which makes and removes files.
    for folder in unit.folders:
        check_closed(folder)


main()
