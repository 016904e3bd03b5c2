"""Runs the commands of the book's first steps, in order, as a newcomer types them."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs/src/guide/first-steps.md"
EBB = pathlib.Path(os.environ["EBB"])
# The time that the page promises. A machine that is busy with something else may need longer.
PROMISED_S = 300
# The command that is not repeated: the program has been built before.
BUILD = "cargo build "
# Each command ends with a line like this, so that its end is seen in the shell's output.
END = "=== ended with"
# The exit code where PyPI does not answer.
NOT_ANSWERED = 75


def commands():
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Shell:
    """A terminal: a variable that one command exports is set for the next ones."""

    def __init__(self, folder, environment):
        self.process = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def run(self, command):
        """Runs a command; returns its exit code and its output."""
        print(f"$ {command}", flush=True)
        self.process.stdin.write(f"{command}\necho; echo {END} $?\n")
        self.process.stdin.flush()
        printed = []
        for line in self.process.stdout:
            if line.startswith(END):
                return int(line.split()[-1]), "".join(printed)
            printed.append(line)
            print(line, end="", flush=True)
        sys.exit("the shell has ended")


def main():
    began = time.monotonic()
    # Free ports instead of the usual ones of the page.
    cql, http = free_port(), free_port()
    environment = os.environ | {
        "EBB_CQL": f"127.0.0.1:{cql}",
        # A pause of the machine is no overload.
        "EBB_OVERLOAD_WAIT": "0s",
        "CQLSH_PORT": str(cql),
        "PATH": f"{EBB.parent}:{os.environ['PATH']}",
    }
    printed = {}
    with tempfile.TemporaryDirectory() as folder:
        shell = Shell(folder, environment | {"HOME": folder})
        server = None
        try:
            for command in commands():
                if command.startswith(BUILD):
                    print(f"$ {command}\n(done before)")
                elif command.startswith("ebb serve "):
                    print(f"$ {command}", flush=True)
                    command = command.replace(":9043", f":{http}")
                    server = subprocess.Popen(
                        command.split(), cwd=folder, env=environment, text=True, stdout=subprocess.PIPE
                    )
                    for line in server.stdout:
                        print(line, end="", flush=True)
                        if line.startswith("connect with"):
                            break
                else:
                    ended, printed[command] = shell.run(command)
                    if ended != 0 and command.startswith("pip install"):
                        return NOT_ANSWERED
                    if ended != 0:
                        sys.exit(f"it ended with {ended}")
            took_s = time.monotonic() - began
            check(printed, took_s)
        finally:
            if server is not None:
                server.send_signal(signal.SIGTERM)
                server.wait(60)
            shell.process.kill()
    return 0


def check(printed, took_s):
    """Checks the results that the page describes."""

    def of(start):
        (found,) = [text for command, text in printed.items() if command.startswith(start)]
        return found

    assert "(0 rows)" in of('cqlsh -e "SELECT * FROM shop.orders USING SNAPSHOT'), "it is in the snapshot"
    right = sum(id % 97 for id in range(1, 50001) if id % 1000 == 7)
    rows = of('cqlsh -e "SELECT customer, total_sum')
    assert re.search(rf"customer 7 \| +{right}\n", rows), f"not {right}: {rows}"
    assert re.search(r"^ebb_", of("ebb token create"), flags=re.MULTILINE), "no token"
    if took_s > PROMISED_S:
        print(f"NOTE: the page promises less than {PROMISED_S} s")
    print(f"first steps: {len(printed) + 2} commands in {took_s:.0f} s, the build not counted")


if __name__ == "__main__":
    sys.exit(main())
