"""Measures publications into an S3 server: memory with many columns, and reads while the server stalls.

    bench/publish/s3 memory [--gigabytes G] [--rounds N] [--json-file FILE]
    bench/publish/s3 stall [--uploads N] [--seconds S] [--rounds N] [--json-file FILE]

bench/publish/s3 builds ebb with the feature s3, starts SeaweedFS, and calls this. The environment has the server's
address and credentials (AWS_...). README.md has more.
"""

import argparse
import json
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy
from cassandra.cluster import Cluster

from run import TABLE, Ebb, connect
from stalling_proxy import NoUploads, StallingProxy

KEYSPACE = "CREATE KEYSPACE lab WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
TASKS = 4
# An upload into a bucket has at most two parts under way, and a job runs at most one task on a core.
PARTS_PER_TASK = 2
# A job has so many tasks for each core, if it may use all cores.
TASKS_PER_CORE = 4
# Bytes of a task for a stall: more than two parts of 8 MiB.
TASK_BYTES = 24 << 20
NOTE_HASHES = 62
NOTE_BYTES = 16 * NOTE_HASHES
DRAWS = 1000
SEED = 0xEBB
# Ends a hang, and is no measure of speed.
LIMIT_S = 120
# A stall begins at the latest after this time, with the uploads that wait by then.
GATHER_S = 30
# The server's requests to S3 must not time out during a stall.
S3_TIMEOUT = "600s"

# The columns of the wide table in turn: CQL type, mean bytes of a value, and SQL of a value by a hash.
KINDS = [
    ("int", 4, "({hash} % 1000000)::INTEGER"),
    ("bigint", 8, "{hash}"),
    ("double", 8, "({hash} // 7 % 1000000) / 1000.0"),
    ("text", 12, "'value' || ({hash} % 10000000)"),
    ("timestamp", 8, "make_timestamptz(1767225600000000 + 1000 * ({hash} % 100000000))"),
]


def wide_table(columns, rows):
    """Returns the CQL of a table with so many columns beside its key, and the SQL of its rows."""
    kinds = [(f"c{at:03}", *KINDS[at % len(KINDS)]) for at in range(columns)]
    cql = ", ".join(f"{name} {of}" for name, of, _, _ in kinds)
    # Each value has a hash of its own: equal columns would cost less.
    sql = ", ".join(f"{value.format(hash=f'h{at}')} AS {name}" for at, (name, _, _, value) in enumerate(kinds))
    hashes = ", ".join(f"(hash(id * {columns} + {at}) >> 2)::BIGINT AS h{at}" for at in range(columns))
    return (f"CREATE TABLE {TABLE} (id int PRIMARY KEY, {cql})",
            f"SELECT id::INTEGER AS id, {sql} FROM (SELECT id, {hashes} FROM range({rows}) r(id))")


def memory(args, ebb, db):
    """Publishes a wide table several times; returns the memory of each publication."""
    row_bytes = sum(KINDS[at % len(KINDS)][1] for at in range(args.columns))
    rows = max(1000, round(args.gigabytes * 1e9 / row_bytes))
    cql, sql = wide_table(args.columns, rows)
    ebb.start()
    ebb.execute(KEYSPACE, cql)
    # Few rows in a group: DuckDB holds the groups that it writes in memory.
    ebb.load(db, sql, "ROW_GROUP_SIZE 4096")
    runs = []
    for number in range(args.rounds):
        words = ["--full", "--pin-max", "0s", "--cores", str(TASKS)]
        runs.append(ebb.publish(f"wide{number}", f"s3://{args.bucket}/wide{number}", *words))
    return {"columns": args.columns, "rows": rows, "tasks_at_once": min(TASKS, cores()), "publications": runs}


def print_memory(found):
    used = [run["memory_bytes"] / 1e6 for run in found["publications"]]
    seconds = statistics.median(run["seconds"] for run in found["publications"])
    print(f"{found['rows']} rows of {found['columns']} columns to S3, {found['tasks_at_once']} tasks at once, "
          f"{seconds:.1f} s: memory above the resting server {statistics.median(used):.0f} MB "
          f"(median of {len(used)}; at most {max(used):.0f} MB)")
    if found["tasks_at_once"] < TASKS:
        print(f"a job runs one task on a core: this is no measurement of {TASKS} tasks")


class Reads:
    """Reads of random rows at a fixed rate, in a process of their own. Their latency begins when they are due."""

    def __init__(self, address, rows, per_s):
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=read, args=(other, address, rows, per_s), daemon=True)
        self.process.start()
        # So that a read from the pipe fails once the process has ended.
        other.close()
        self.pipe.recv()

    def stop(self):
        """Returns when each read was due, and its latency, both in seconds."""
        self.pipe.send(None)
        found, failure = self.pipe.recv()
        self.process.join()
        if failure:
            sys.exit(f"a read failed: {failure}")
        return numpy.array(found).T


def read(pipe, address, rows, per_s):
    host, _, port = address.rpartition(":")
    drawn = random.Random(SEED)
    found, failures, left = [], [], threading.Semaphore(0)
    with Cluster([host], port=int(port)) as cluster:
        session = cluster.connect()
        select = session.prepare(f"SELECT note FROM {TABLE} WHERE id = ?")
        session.execute(select, [0])

        def send(due_s):
            def returned(page):
                found.append((due_s, time.monotonic() - due_s))
                if len(page) != 1:
                    failures.append("a row is missing")
                left.release()

            def failed(error):
                failures.append(str(error))
                left.release()

            session.execute_async(select, [drawn.randrange(rows)], timeout=LIMIT_S).add_callbacks(returned, failed)

        pipe.send(None)
        begin_s, sent = time.monotonic(), 0
        while not pipe.poll():
            due_s = begin_s + sent / per_s
            time.sleep(max(0, due_s - time.monotonic()))
            send(due_s)
            sent += 1
        for _ in range(sent):
            left.acquire()
    pipe.send((found, failures[0] if failures else None))


def stall(args, ebb, db):
    """Measures windows of reads alone, and during stalls of the S3 server, in turn."""
    endpoint = urlsplit(os.environ["AWS_ENDPOINT_URL"])
    proxy = StallingProxy(endpoint.hostname, endpoint.port)
    # Both are for the server that ebb.start() starts.
    os.environ |= {"AWS_ENDPOINT_URL": proxy.url, "AWS_TIMEOUT": S3_TIMEOUT}
    uploads = min(args.uploads, PARTS_PER_TASK * cores())
    rows = TASKS_PER_CORE * cores() * TASK_BYTES // NOTE_BYTES
    hashes = f"[md5((id * {NOTE_HASHES} + n)::VARCHAR) for n in range({NOTE_HASHES})]"
    ebb.start()
    ebb.execute(KEYSPACE, f"CREATE TABLE {TABLE} (id int PRIMARY KEY, note blob)")
    ebb.load(db, f"SELECT id::INTEGER AS id, unhex(array_to_string({hashes}, '')) AS note FROM range({rows}) r(id)")
    ebb.await_rest()
    run = [ebb.program, "snapshot", "create", "--data", ebb.data, "--keyspace", "lab", "stalled"]
    subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
    reads = Reads(ebb.address, rows, args.reads)
    windows, waiting = {"alone": [], "stalled": []}, []
    for number in range(args.rounds):
        # The first reads of a window come after those that the publication before has delayed.
        time.sleep(1)
        begin_s = time.monotonic()
        time.sleep(args.seconds)
        windows["alone"].append((begin_s, time.monotonic()))
        *times, most = publish_stalled(ebb, proxy, uploads, args, number)
        windows["stalled"].append(times)
        waiting.append(most)
        print(f"round {number + 1} of {args.rounds}", flush=True)
    due_s, latency_s = reads.stop()
    proxy.stop()
    latencies = {name: [latency_s[(due_s >= begin_s) & (due_s < end_s)] for begin_s, end_s in of]
                 for name, of in windows.items()}
    return {
        "rows": rows, "reads_per_s": args.reads, "seconds": args.seconds, "uploads": waiting,
        "p50_us": {name: 1e6 * quantile(of, 0.5) for name, of in latencies.items()},
        "p99_us": {name: 1e6 * quantile(of, 0.99) for name, of in latencies.items()},
        "p99_ratio": ratio(latencies["stalled"], latencies["alone"]),
        "windows_p99_us": {name: [1e6 * quantile([window], 0.99) for window in of] for name, of in latencies.items()},
    }


def publish_stalled(ebb, proxy, uploads, args, number):
    """Publishes to a new place; the server of S3 stalls once the uploads wait. Returns the begin and the end of the
    stall, and the number of uploads that waited."""
    target = f"s3://{args.bucket}/stalled{number}"
    run = [ebb.program, "publish", "--data", ebb.data, "lab@stalled", target, "--full", "--pin-max", "0s", "--json"]
    proxy.begin_stall(uploads, args.seconds, GATHER_S)
    publisher = subprocess.Popen(run, stdout=subprocess.DEVNULL)
    try:
        stalled = proxy.stalled()
    except NoUploads as error:
        publisher.terminate()
        publisher.wait()
        sys.exit(f"{target}: {error}")
    if publisher.wait():
        sys.exit(f"the publication to {target} failed")
    return stalled


def quantile(windows, part):
    return float(numpy.quantile(numpy.concatenate(windows), part))


def ratio(beside, alone):
    """Returns the ratio of the p99 of two lists of windows, and its 95% interval by drawing whole windows again."""
    drawn = random.Random(SEED)
    ratios = sorted(
        quantile(drawn.choices(beside, k=len(beside)), 0.99) / quantile(drawn.choices(alone, k=len(alone)), 0.99)
        for _ in range(DRAWS)
    )
    return {
        "value": quantile(beside, 0.99) / quantile(alone, 0.99),
        "low": ratios[DRAWS * 25 // 1000],
        "high": ratios[DRAWS * 975 // 1000 - 1],
    }


def print_stall(found):
    of = found["p99_ratio"]
    print(f"{found['reads_per_s']} reads/s while {min(found['uploads'])} to {max(found['uploads'])} uploads wait for a "
          f"stalled S3, in windows of {found['seconds']} s: p50 {found['p50_us']['stalled']:.0f} us, "
          f"alone {found['p50_us']['alone']:.0f} us; p99 {found['p99_us']['stalled']:.0f} us, alone "
          f"{found['p99_us']['alone']:.0f} us")
    print(f"p99 / alone: {of['value']:.2f} ({of['low']:.2f} to {of['high']:.2f})")


def cores():
    return len(os.sched_getaffinity(0))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ebb", required=True, help="the program, with the feature s3")
    parser.add_argument("--bucket", default="ebb", help="[default: ebb]")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--dir", help="folder for the database [default: a temporary one]")
    shared.add_argument("--json-file", help="writes all measurements to this file")
    parts = parser.add_subparsers(dest="part", required=True)
    part = parts.add_parser("memory", parents=[shared], help="peak memory of the server")
    part.add_argument("--columns", type=int, default=500, help="[default: 500]")
    part.add_argument("--gigabytes", type=float, default=1, help="bytes of values in the table [default: 1]")
    part.add_argument("--rounds", type=int, default=3, help="publications [default: 3]")
    part = parts.add_parser("stall", parents=[shared], help="reads while S3 stalls")
    part.add_argument("--uploads", type=int, default=16, help="uploads that wait, but at most two for each core, "
                      "because a publication has no more under way [default: 16]")
    part.add_argument("--seconds", type=float, default=10, help="of a stall, and of a window alone [default: 10]")
    part.add_argument("--reads", type=int, default=500, help="reads per second [default: 500]")
    part.add_argument("--rounds", type=int, default=8, help="windows of each kind [default: 8]")
    return parser.parse_args()


def main():
    args = arguments()
    measure, show = {"memory": (memory, print_memory), "stall": (stall, print_stall)}[args.part]
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        ebb = Ebb(Path(args.ebb).resolve(), folder)
        try:
            found = {"cpus": os.cpu_count(), **measure(args, ebb, connect())}
        finally:
            ebb.stop()
    show(found)
    if args.json_file:
        Path(args.json_file).write_text(json.dumps({args.part: found}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
