"""Rounds of random statements, each of them published, and read by other engines.

    rounds.py --ebb EBB --folder FOLDER --target FOLDER|s3://BUCKET/PREFIX [--rounds N] [--seed N] ENGINE...

After each round a snapshot is published in one of these ways: by the server; by two publishers at once; by a
process of its own that is killed by SIGKILL when a drawn number of objects has appeared in the target; or by a
server that is killed so. Most publishers write what changed, and some all rows. After each of these ways,
every engine must have exactly the rows of a SELECT at the snapshot, for the newest tag of each table and for the
tag before it, and the record of the set is there only if all tables have the tag. Then the next run finishes the
publication, and all engines read again. Every fourth round removes all but the newest two publications.
"""

import argparse
import random
import subprocess
import time
from collections import Counter
from pathlib import Path

from lake import Lake
from patient import patient_cluster
from rounds_readers import READERS
from values import checksum, difference, plain
from workload import PLACES, SCHEMA, Workload, first_name

# Fixed, so that a run tells of the code and not of the draw.
SEED = 20
WRITES = 150
# Ends a hang, and is no measure of speed.
LIMIT_S = 120
# Between two looks at the target.
LOOK_S = 0.002
# The part of the publishers that write all rows.
FULL = 0.2
# The objects at whose appearance a first publication may be killed.
OBJECTS = 30
# The tables of the target, with their keys.
KEYS = {"typed": ["k", "c"], "typed_static": ["k"], "counted": ["k"]}


class Server:
    """`ebb serve` over a database, which is stopped, killed and started again."""

    def __init__(self, ebb, folder):
        self.ebb, self.folder = ebb, Path(folder)
        self.start()

    def start(self):
        out = self.folder / "server.out"
        command = [self.ebb, "serve", "--data", self.folder / "data", "--cql", "127.0.0.1:0"]
        with open(out, "w") as stdout, open(self.folder / "server.err", "a") as stderr:
            self.process = subprocess.Popen(
                command + ["--overload-wait", "0s"], stdout=stdout, stderr=stderr
            )
        self.cluster = patient_cluster(self.wait_for_address(out))
        self.session = self.cluster.connect()
        self.prepared = {}

    def wait_for_address(self, out):
        mark = "listening for CQL on "
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            for line in out.read_text().splitlines():
                if line.startswith(mark):
                    return line.removeprefix(mark)
            time.sleep(0.05)
        raise RuntimeError(f"the server does not listen: see {self.folder}/server.err")

    def execute(self, statement, values=()):
        if statement.startswith("ALTER TYPE"):
            # The driver would send values of the type as it was.
            self.prepared.clear()
        if not values:
            return self.session.execute(statement)
        if statement not in self.prepared:
            self.prepared[statement] = self.session.prepare(statement)
        return self.session.execute(self.prepared[statement], values)

    def stop(self):
        self.cluster.shutdown()
        self.process.terminate()
        assert self.process.wait(LIMIT_S) == 0, f"the server failed: see {self.folder}/server.err"

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.cluster.shutdown()


class Rounds:
    def __init__(self, args, server):
        self.args = args
        self.server = server
        self.random = random.Random(f"publish {args.seed}")
        self.workload = Workload(args.seed)
        for statement in SCHEMA:
            self.server.execute(statement)
        self.lake = Lake(args.target)
        self.engines = {name: READERS[name](self.lake) for name in args.engines}
        # By snapshot: the rows of each table, the columns that lake.typed had, and the fields of the type that changes.
        self.expected = {}
        # The objects that the last publication added.
        self.objects = OBJECTS
        self.counts = Counter()

    def run(self):
        ways = [self.publish_at_once, self.kill_publisher, self.kill_server, self.publish]
        for number in range(1, self.args.rounds + 1):
            snapshot = f"r{number}"
            self.write(snapshot)
            before = set(self.lake.names())
            # Each way in turn, so that few rounds have all of them.
            way = ways[number % len(ways)]
            print(f"round {number}: {way.__name__}", flush=True)
            way(snapshot)
            self.publish(snapshot)
            self.objects = max(len(set(self.lake.names()) - before), 2)
            assert self.lake.is_whole(snapshot), f"{snapshot} is published without a record of it"
            probes = [name for name in self.lake.names("_ebb") if name.startswith("_ebb/probe-")]
            assert not probes, f"after {snapshot}, killed publishers have left {probes}"
            self.check(snapshot)
            if keep(snapshot):
                self.check_two_tags()
        self.server.stop()
        for engine in self.engines.values():
            engine.close()
        assert self.counts["kills"] or self.args.rounds < len(ways), "no publisher was killed in time"
        # Of so many rounds, some have no new columns and no --full.
        assert self.counts["changes"] or self.args.rounds < 2 * len(ways), "no publisher wrote changes"
        is_short = self.args.rounds < 4 * len(ways)
        assert self.counts["changed types"] or is_short, "no engine read a tag from before a change of a type"

    def write(self, snapshot):
        """Writes a round, creates the snapshot, and notes what a SELECT returns."""
        for statement, values in self.workload.round(WRITES):
            self.server.execute(statement, values)
        self.server.execute(f"CREATE SNAPSHOT {snapshot} ON KEYSPACE lake")
        typed, statics = [], {}
        for row in self.server.execute(f'SELECT * FROM "lake@{snapshot}".typed'):
            row = row._asdict()
            static = row.pop("s")
            if static is not None:
                statics[row["k"]] = {"k": row["k"], "s": static}
            # A row of null is a partition that has static values alone.
            if row["c"] is not None:
                typed.append(with_parts(row))
        counted = self.server.execute(f'SELECT * FROM "lake@{snapshot}".counted')
        rows = {
            "typed": typed,
            "typed_static": list(statics.values()),
            "counted": [row._asdict() for row in counted],
        }
        self.expected[snapshot] = (rows, self.workload.columns(), tuple(self.workload.fields))

    def command(self, snapshot):
        data = Path(self.args.folder) / "data"
        options = ["--data", data, "--decimal", "18,4", "--json", *extent(self.random), *keep(snapshot)]
        return [self.args.ebb, "publish", f"lake@{snapshot}", self.args.target, *options]

    def start(self, snapshot):
        return subprocess.Popen(
            self.command(snapshot), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def publish(self, snapshot):
        """Publishes to the end."""
        publisher = self.start(snapshot)
        output, _ = publisher.communicate(timeout=LIMIT_S)
        assert publisher.returncode == 0, f"publishing {snapshot} failed: {output}"
        self.count(output)

    def count(self, output):
        """Counts the tables of a report whose rows were all written, and those of which what changed was."""
        self.counts["in full"] += output.count(" in full, because ")
        self.counts["changes"] += output.count(" replaced, ")

    def publish_at_once(self, snapshot):
        """Two publishers in one server. One of them may be overtaken; then it fails and says so."""
        publishers = [self.start(snapshot) for _ in range(2)]
        for publisher in publishers:
            output, _ = publisher.communicate(timeout=LIMIT_S)
            if publisher.returncode != 0:
                self.counts["overtaken"] += 1
                assert "publish again" in output, f"publishing {snapshot} failed: {output}"
            self.count(output)
        self.check(snapshot)

    def kill_publisher(self, snapshot):
        """A publisher in a process of its own. After each kill another one is started at once."""
        self.server.stop()
        for _ in range(3):
            publisher = self.start(snapshot)
            if not self.kills(publisher, publisher.kill):
                break
            self.check(snapshot)
        self.server.start()

    def kill_server(self, snapshot):
        """A publisher in a server that is killed."""
        publisher = self.start(snapshot)
        if self.kills(publisher, self.server.kill):
            self.check(snapshot)
            self.server.start()

    def kills(self, publisher, kill):
        """Kills once a drawn number of objects has appeared; false if the publisher ended before that."""
        limit = len(self.lake.names()) + self.random.randrange(1, self.objects + 1)
        deadline = time.monotonic() + LIMIT_S
        while publisher.poll() is None:
            assert time.monotonic() < deadline, f"the publisher has not ended after {LIMIT_S} s"
            if len(self.lake.names()) >= limit:
                kill()
                publisher.communicate(timeout=LIMIT_S)
                self.counts["kills"] += 1
                return True
            time.sleep(LOOK_S)
        output, _ = publisher.communicate()
        assert publisher.returncode == 0, f"the publisher failed: {output}"
        self.count(output)
        return False

    def check(self, snapshot):
        """Compares the newest tag of each table and the tag before it, in all engines."""
        is_whole = self.lake.is_whole(snapshot)
        for table in KEYS:
            tags = self.lake.tags(table)
            main = tags.pop("main", None)
            shown = sorted(tags, key=number_of)
            assert not is_whole or snapshot in tags, f"{table} lacks {snapshot}, which is whole"
            # Before all tables have the newest tag, main is still that of the publication before.
            newest = next((tag for tag in reversed(shown) if tags[tag] == main), None)
            assert not is_whole or newest == shown[-1], f"main of {table} is not {shown[-1]}"
            assert newest in (*shown[-2:], None), f"main of {table} is {newest}, and not one of the two newest"
            for tag in shown[-2:]:
                self.compare(table, (tag, tags[tag]), newest or shown[-1])

    def check_two_tags(self):
        for table in KEYS:
            tags = self.lake.tags(table)
            assert len(tags) == 3, f"{table} has {sorted(tags)}, not main and the two newest tags"

    def compare(self, table, snapshot, newest):
        """Compares a table at a tag. Some engines read each tag by the columns of the newest publication, so only
        columns are compared that both have. Fields of a type that has changed since are compared by the names that
        they had at first; new ones are not compared while the newest publication, that of main, is an older one."""
        tag = snapshot[0]
        rows, before, fields = self.expected[tag]
        _, after, fields_after = self.expected[newest]
        changed = PLACES if fields != fields_after else set()
        columns = {
            "typed": [name for name, drops in before.items() if after.get(name) == drops],
            "typed_static": ["s"],
            "counted": ["n"],
        }
        columns = KEYS[table] + columns[table]
        if number_of(newest) < number_of(tag):
            columns = [name for name in columns if name not in changed]
        for name, engine in self.engines.items():
            right = sorted_rows(rows[table], columns, lambda value: engine.right(plain(value)), changed)
            found = sorted_rows(engine.rows(table, snapshot, columns), columns, engine.plain, changed)
            if checksum(found, columns) != checksum(right, columns):
                raise AssertionError(f"{name}: {table} at {tag}: {difference(found, right)}")
            if table == "typed" and changed.intersection(columns):
                self.counts["changed types"] += 1
        self.counts["comparisons"] += len(self.engines)
        right = sorted_rows(rows[table], columns, plain)
        print(f"  {table} at {tag}: {len(right)} rows, checksum {checksum(right, columns)}", flush=True)


def extent(random):
    """The option of a publisher that writes all rows, if one is drawn."""
    return ["--full"] if random.random() < FULL else []


def keep(snapshot):
    """The option of a publisher that removes old publications, in every fourth round. No publisher is killed in
    these rounds."""
    return ["--keep", "2"] if number_of(snapshot) % 4 == 3 else []


def number_of(snapshot):
    return int(snapshot.removeprefix("r"))


def with_parts(row):
    """A row whose tuples have the names that their parts have in Iceberg."""
    def named(value):
        is_tuple = isinstance(value, tuple) and not hasattr(value, "_asdict")
        return {f"_{at}": part for at, part in enumerate(value, 1)} if is_tuple else value

    return {name: named(value) for name, value in row.items()}


def sorted_rows(rows, columns, form, changed=()):
    """The values of rows, each a dict, in the order of the keys. In the columns `changed`, the fields of structs have
    their first names."""
    def shown(name, value):
        return by_first_names(form(value)) if name in changed else form(value)

    found = [[shown(name, row[name]) for name in columns] for row in rows]
    keys = [at for at, name in enumerate(columns) if name in ("k", "c")]
    return sorted(found, key=lambda row: [int(row[at]) for at in keys])


def by_first_names(struct):
    """A plain struct whose fields have their first names, without those that are null: an engine may show an older tag
    by the type as it is now."""
    return struct and sorted([first_name(name), value] for name, value in struct if value is not None)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for option in ("--ebb", "--folder", "--target"):
        parser.add_argument(option, required=True)
    parser.add_argument("--rounds", type=int, default=20, help="[default: 20]")
    parser.add_argument("--seed", type=int, default=SEED, help=f"[default: {SEED}]")
    parser.add_argument("--draw", action="store_true", help="draw the seed")
    parser.add_argument("engines", nargs="+", choices=list(READERS), metavar="ENGINE")
    args = parser.parse_args()
    if args.draw:
        args.seed = random.SystemRandom().randrange(2**32)
    return args


def main():
    args = arguments()
    print(f"seed {args.seed}", flush=True)
    server = Server(args.ebb, args.folder)
    try:
        rounds = Rounds(args, server)
        rounds.run()
    finally:
        # Unless it has ended.
        server.process.kill()
    counts = rounds.counts
    print(
        f"{args.rounds} rounds with seed {args.seed}: {counts['comparisons']} equal row counts and checksums, "
        f"{counts['kills']} kills, {counts['overtaken']} publishers were overtaken; "
        f"{counts['changes']} tables were published as changes, {counts['in full']} in full; "
        f"{counts['changed types']} comparisons were of a type that had changed"
    )


if __name__ == "__main__":
    main()
