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
# The time that the page promises. A slow machine, or one that is busy with something else, may need longer: the
# variable turns the check off.
PROMISED_S = 300
SLOW_MACHINE = "EBB_SLOW_MACHINE"
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
    # The output of each command, and all commands with the seconds that they took.
    printed, took_s = {}, []
    with tempfile.TemporaryDirectory() as folder:
        shell = Shell(folder, environment | {"HOME": folder})
        server = None
        try:
            for command in commands():
                step, step_began = command, time.monotonic()
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
                took_s.append((step, time.monotonic() - step_began))
                print(f"({took_s[-1][1]:.1f} s)", flush=True)
            all_s = time.monotonic() - began
            check(printed)
            check_time(took_s, all_s)
        finally:
            if server is not None:
                server.send_signal(signal.SIGTERM)
                server.wait(60)
            shell.process.kill()
    return 0


def check(printed):
    """Checks the results that the page describes."""

    def of(start):
        (found,) = [text for command, text in printed.items() if command.startswith(start)]
        return found

    assert "(0 rows)" in of('cqlsh -e "SELECT * FROM shop.orders USING SNAPSHOT'), "it is in the snapshot"
    right = sum(id % 97 for id in range(1, 50001) if id % 1000 == 7)
    rows = of('cqlsh -e "SELECT customer, total_sum')
    assert re.search(rf"customer 7 \| +{right}\n", rows), f"not {right}: {rows}"
    assert re.search(r"^ebb_", of("ebb token create"), flags=re.MULTILINE), "no token"


def check_time(took_s, all_s):
    """Prints the time of each command, the slowest first, and checks that all together took no longer than the
    page promises."""
    for command, seconds in sorted(took_s, key=lambda entry: -entry[1]):
        print(f"{seconds:6.1f} s  {command}")
    print(f"first steps: {len(took_s)} commands in {all_s:.0f} s, the build not counted")
    if all_s > PROMISED_S and SLOW_MACHINE not in os.environ:
        sys.exit(f"the page promises less than {PROMISED_S} s; on a slow machine, set {SLOW_MACHINE}=1")


if __name__ == "__main__":
    sys.exit(main())
