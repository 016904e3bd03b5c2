"""What the rehearsals of the runbook share: a server, its rows, and the commands of a page."""

import atexit
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

from cassandra import DriverException
from cassandra.cluster import Cluster, ExecutionProfile, EXEC_PROFILE_DEFAULT, NoHostAvailable

PAGE = pathlib.Path(__file__).parents[2] / "docs/src/guide/runbook.md"
EBB = os.environ["EBB"]
# What the server refuses, as the driver tells it.
REFUSED = (DriverException, NoHostAvailable)


def commands(heading):
    """The commands of a page, a list for each of its blocks."""
    pages = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    (page,) = [page for page in pages if page.startswith(heading + "\n")]
    blocks = re.findall(r"```console\n(.*?)```", page, flags=re.DOTALL)
    return [re.findall(r"^\$ (.*)$", block, flags=re.MULTILINE) for block in blocks]


def run(block, directory, fails=()):
    """Runs the commands of a block as an operator would; those that `fails` names have to fail.

    Returns what they printed."""
    printed = ""
    environment = os.environ | {
        "EBB_DATA": str(directory),
        "PATH": f"{pathlib.Path(EBB).parent}:{os.environ['PATH']}",
    }
    for command in block:
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
    return printed


class Server:
    """`ebb serve` over a directory, with a session of Python's driver."""

    def __init__(self, directory, *flags):
        command = [EBB, "serve", "--data", str(directory), "--cql", "127.0.0.1:0"]
        command += ["--overload-wait", "0s", *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        # A rehearsal that fails leaves no server behind.
        atexit.register(self.process.kill)
        line = self.process.stdout.readline()
        assert line.startswith("listening for CQL on "), line
        host, port = line.split()[-1].rsplit(":", 1)
        profile = ExecutionProfile(request_timeout=60)
        self.cluster = Cluster(
            [host],
            port=int(port),
            protocol_version=4,
            connect_timeout=60,
            control_connection_timeout=60,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        )
        self.session = self.cluster.connect()

    def stop(self):
        """As a supervisor does it."""
        self.cluster.shutdown()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0

    def make_table(self):
        """The table `shop.orders`, without rows."""
        self.session.execute(
            "CREATE KEYSPACE shop WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        self.session.execute("CREATE TABLE shop.orders (id int PRIMARY KEY, v blob)")

    def write(self, ids, value_bytes=1000):
        """Rows of the table, of bytes that do not compress."""
        insert = self.session.prepare("INSERT INTO shop.orders (id, v) VALUES (?, ?)")
        for id in ids:
            self.session.execute(insert, [id, os.urandom(value_bytes)])

    def count(self):
        """How many rows can be read."""
        return self.session.execute("SELECT count(*) FROM shop.orders").one()[0]


def until(what, give_up_s=180):
    """Waits until something holds, and gives it back."""
    begun = time.monotonic()
    while not (found := what()):
        if time.monotonic() - begun > give_up_s:
            sys.exit("gave up waiting")
        time.sleep(0.2)
    return found
