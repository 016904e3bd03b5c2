"""Types the book's four commands from a loaded table to a result of Spark, and checks the result.

tests/publish/newcomer starts the server and calls this; `--help` lists the options.
"""

import argparse
import csv
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

from patient import patient_cluster

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/src/guide/more-machines.md"
SECTION = "## From a table to Spark in four commands"
LOCKED = ROOT / "tests/publish/requirements.txt"
# The directory of the server's database in the folder, as in the first steps.
DATA = "shop-data"
# Rows of the result that the page's query prints.
ROWS = 5
# The exit code where PyPI does not answer.
NOT_ANSWERED = 75
SCHEMA = [
    "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE shop.orders (id int PRIMARY KEY, customer text, total int)",
]
# An order after the snapshot, for which its customer would come first.
LATE_ORDER = "INSERT INTO shop.orders (id, customer, total) VALUES (0, 'customer 7', 1000000000)"


def commands(page):
    """Returns the commands of the section in the text of the page. A line that ends in a backslash and the next
    one are the same command."""
    section = page.partition(f"\n{SECTION}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    assert len(blocks) == 1, f"{PAGE} has {len(blocks)} blocks of commands in {SECTION!r}"
    found = re.findall(r"(?:.*\\\n)*.+", blocks[0])
    assert len(found) == 4, f"{PAGE} has {len(found)} commands in {SECTION!r}"
    return found


def unlocked(install, locked):
    """Returns the packages of the command `install` that are not in the text of a requirements file at the same
    version."""
    packages = [word for word in shlex.split(install)[2:] if not word.startswith("-")]
    return [package for package in packages if package not in locked.splitlines()]


def top(totals):
    """Returns the rows that the page's query prints: customer, number of orders and their sum, the largest sum
    first. `totals` has the lines of the CSV file of `ebb run aggregate`."""
    rows = [(row["customer"], int(row["rows"]), int(row["total_sum"])) for row in csv.DictReader(totals)]
    rows.sort(key=lambda row: (-row[2], row[0]))
    return rows[:ROWS]


def printed_rows(text):
    """Returns the rows that spark-sql has printed, as `top` returns them."""
    rows = [line.split("\t") for line in text.splitlines()]
    return [(customer, int(orders), int(spent)) for customer, orders, spent in rows]


def fill(ebb, session, path, orders):
    """Makes the table of the first steps and fills it with orders from 1 on, through a CSV file at `path`."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("id,customer,total\n")
        # Some customers have more orders than others.
        file.writelines(f"{n},customer {n * n % 1009},{n % 97}\n" for n in range(1, orders + 1))
    for statement in SCHEMA:
        session.execute(statement)
    ebb("run", "select", "--csv", str(path), "--output", "shop.orders")


def type_command(command, folder, environment):
    """Runs a command in the folder; returns its exit code, its output and its seconds."""
    print(f"$ {command}", flush=True)
    began_s = time.monotonic()
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
    )
    took_s = time.monotonic() - began_s
    print(done.stdout, end="", flush=True)
    return done.returncode, done.stdout, took_s


def newcomers_environment(args):
    """Returns the environment of the commands: ebb and the virtual environment, and nothing of this check's."""
    environment = {
        name: value for name, value in os.environ.items()
        if not name.startswith(("SPARK_", "PYSPARK_", "EBB_", "PYTHON"))
    }
    path = f"{args.venv}/bin:{args.ebb.parent}:{environment['PATH']}"
    return environment | {"PATH": path, "PIP_NO_CACHE_DIR": "1"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--ebb", "--folder", "--venv"):
        parser.add_argument(option, required=True, type=lambda path: Path(path).absolute())
    parser.add_argument("--address", required=True, help="of the server that has the database, for CQL")
    parser.add_argument("--orders", type=int, default=1_000_000, help="in the table [default: 1000000]")
    return parser.parse_args()


def main():
    args = arguments()

    def ebb(*words):
        command = [args.ebb, *words, "--data", args.folder / DATA]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    create, publish, install, query = commands(PAGE.read_text(encoding="utf-8"))
    # If pip fails with packages that exist, PyPI does not answer.
    other = unlocked(install, LOCKED.read_text(encoding="utf-8"))
    assert not other, f"{LOCKED} does not have {other} of {PAGE}"
    cluster = patient_cluster(args.address)
    session = cluster.connect()
    fill(ebb, session, args.ebb.parent / "orders.csv", args.orders)
    environment = newcomers_environment(args)
    times = []
    for command in (create, publish, install, query):
        code, printed, took_s = type_command(command, args.folder, environment)
        times.append(took_s)
        if code != 0 and command == install:
            return NOT_ANSWERED
        if code != 0:
            sys.exit(f"it ended with {code}")
        if command == create:
            session.execute(LATE_ORDER)
    cluster.shutdown()

    totals = args.ebb.parent / "totals.csv"
    snapshot = shlex.split(create)[-1]
    ebb("run", "aggregate", "--table", "shop.orders", "--snapshot", snapshot, "--by", "customer", "--of", "total",
        "--output", str(totals))
    with open(totals, encoding="utf-8", newline="") as lines:
        ours = top(lines)
    theirs = printed_rows(printed)
    assert len(ours) == ROWS, f"ebb has only {ours}"
    assert ours == theirs, f"ebb has {ours}, and Spark {theirs}"

    for command, took_s in zip((create, publish, install, query), times):
        print(f"{took_s:6.1f} s  {' '.join(command.split()[:3])} ...")
    print(f"from a table of {args.orders:,} orders to the result of Spark: {sum(times):.0f} s "
          f"({sum(times) / 60:.1f} minutes) with {len(times)} commands; ebb has the same rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
