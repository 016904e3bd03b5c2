"""The code that the rehearsals of the runbook share: a server, its rows, and the blocks of a page."""

import atexit
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

from cassandra import DriverException
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster, ExecutionProfile, EXEC_PROFILE_DEFAULT, NoHostAvailable

GUIDE = pathlib.Path(__file__).parents[2] / "docs/src/guide"
PAGE = GUIDE / "runbook.md"
EBB = os.environ["EBB"]
# The exceptions with which the driver reports that the server refuses a request.
REFUSED = (DriverException, NoHostAvailable)


@dataclasses.dataclass
class Block:
    """The commands of a block, and the lines of their output that the page shows."""

    commands: list
    shown: list


def page_of(heading, file=PAGE):
    """Returns the text of the page of a problem: a section of a file of the book."""
    pages = re.split(r"^## ", file.read_text(), flags=re.MULTILINE)
    (page,) = [page for page in pages if page.startswith(heading + "\n")]
    return page


def blocks(heading, kind, file=PAGE):
    """Returns the texts of the blocks of one kind on a page."""
    page = page_of(heading, file)
    return re.findall(rf"```{kind}\n(.*?)```", page, flags=re.DOTALL)


def commands(heading):
    """Returns the blocks of commands of a page."""
    lines = [block.splitlines() for block in blocks(heading, "console")]
    return [
        Block(
            [line[2:] for line in block if line.startswith("$ ")],
            [line for line in block if not line.startswith("$ ")],
        )
        for block in lines
    ]


def texts(heading, file=PAGE):
    """Returns the blocks of a page that show lines of the log, or of an error: the lines of each."""
    return [block.splitlines() for block in blocks(heading, "text", file)]


def quoted(heading, begin):
    """Returns the only text between backticks on a page that begins with `begin`."""
    (found,) = set(re.findall(rf"`({re.escape(begin)}[^`]*)`", page_of(heading)))
    return found


def has_line(text, shown):
    """Returns whether a text has a line like the one that the page shows. A word with a digit or a slash
    stands for any word, and such a value after `=` for any value. Three dots stand for any text."""

    def pattern(part):
        has_value = re.search(r"[\d/]", part)
        return r"\S+" if has_value else re.escape(part).replace(r"\.\.\.", ".*")

    words = ["=".join(pattern(part) for part in word.split("=")) for word in shown.split()]
    return re.search(r"[^\S\n]+".join(words), text) is not None


def run(block, directory, fails=()):
    """Runs the commands of a block as an operator would; the commands in `fails` must fail. Checks that the
    output has the lines that the page shows, and returns the output."""
    printed = ""
    environment = os.environ | {
        "EBB_DATA": str(directory),
        "PATH": f"{pathlib.Path(EBB).parent}:{os.environ['PATH']}",
    }
    for command in block.commands:
        print(f"$ {command}", flush=True)
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=directory.parent,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
        )
        print(done.stdout, end="", flush=True)
        if (done.returncode != 0) != (command in fails):
            sys.exit(f"it ended with {done.returncode}")
        printed += done.stdout
    for line in block.shown:
        if not has_line(printed, line):
            sys.exit(f"the page shows a line that was not printed: {line}")
    return printed


def metric(printed, name):
    """Returns the value of a metric in the output of a command."""
    (line,) = [line for line in printed.splitlines() if line.startswith(f"{name} ")]
    return float(line.split()[-1])


def fetch(directory, path):
    """Returns the text of the server's response to a GET request at its socket."""
    command = ["curl", "-sf", "--unix-socket", str(directory / "jobs.sock")]
    command.append(f"http://localhost{path}")
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def get(directory, path):
    """Returns the response of the server to a GET request at its socket."""
    return json.loads(fetch(directory, path))


def measured(directory, name):
    """Returns the value of a metric of the server."""
    return metric(fetch(directory, "/metrics"), name)


def damage(directory, from_end=None):
    """Flips a bit of the largest table, in its middle or `from_end` bytes before its end. Returns the name of
    the file."""
    table = max(directory.rglob("*.sst"), key=lambda file: file.stat().st_size)
    size = table.stat().st_size
    with table.open("r+b") as file:
        file.seek(size // 2 if from_end is None else size - from_end)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))
    return table.name


def serve_command(directory, *flags, port=0):
    """Returns the command that serves a directory. With port 0 the system chooses a free port."""
    command = [EBB, "serve", "--data", str(directory), "--cql", f"127.0.0.1:{port}"]
    return [*command, "--overload-wait", "0s", "--log-format", "human", *flags]


class Server:
    """`ebb serve` over a directory, with a session of Python's driver. `ulimit` has the arguments of the shell's
    command of this name, for a limit of the server, such as `-n 256`."""

    def __init__(self, directory, *flags, ulimit=None, port=0):
        command = serve_command(directory, *flags, port=port)
        if ulimit is not None:
            command = ["bash", "-c", f'ulimit {ulimit} && exec "$@"', "bash", *command]
        # The log is not beside the database, because a rehearsal may fill that disk. The server appends, so
        # that this process can read the file meanwhile.
        self.log = tempfile.NamedTemporaryFile("ab", prefix="ebb-log-")
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        # A rehearsal that fails leaves no server behind.
        atexit.register(self.end)
        line = self.process.stdout.readline()
        assert line.startswith("listening for CQL on "), line
        host, port = line.split()[-1].rsplit(":", 1)
        self.address = (host, int(port))
        profile = ExecutionProfile(request_timeout=60)
        login = None
        if "--auth" in flags:
            password = (directory / "superuser-password").read_text().strip()
            login = PlainTextAuthProvider("ebb", password)
        self.cluster = Cluster(
            [host],
            port=int(port),
            protocol_version=4,
            connect_timeout=60,
            control_connection_timeout=60,
            auth_provider=login,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        )
        self.session = self.cluster.connect()

    def stop(self):
        """Stops the server as a supervisor does."""
        self.cluster.shutdown()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0
        self.end()

    def end(self):
        """Kills the server if it runs, and prints its log."""
        atexit.unregister(self.end)
        self.process.kill()
        self.process.wait()
        print(f"the log of the server:\n{self.logged()}", flush=True)

    def logged(self):
        """Returns the log so far."""
        return pathlib.Path(self.log.name).read_text()

    def logs(self, lines):
        """Waits until the log has lines like these, which the page shows."""
        for line in lines:
            print(f"waits for a line of the log: {line}", flush=True)
            until(lambda: has_line(self.logged(), line))

    def make_table(self):
        """Creates the table `shop.orders`, without rows."""
        self.session.execute(
            "CREATE KEYSPACE shop WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        self.session.execute("CREATE TABLE shop.orders (id int PRIMARY KEY, v blob)")

    def write(self, ids, value_bytes=1000):
        """Writes rows of the table, of bytes that do not compress."""
        insert = self.session.prepare("INSERT INTO shop.orders (id, v) VALUES (?, ?)")
        for id in ids:
            self.session.execute(insert, [id, os.urandom(value_bytes)])

    def count(self):
        """Returns the number of rows that can be read."""
        return self.session.execute("SELECT count(*) FROM shop.orders").one()[0]


def until(condition, give_up_s=180):
    """Waits until `condition` returns a true value, and returns that value."""
    begun = time.monotonic()
    while not (found := condition()):
        if time.monotonic() - begun > give_up_s:
            sys.exit("gave up waiting")
        time.sleep(0.2)
    return found
