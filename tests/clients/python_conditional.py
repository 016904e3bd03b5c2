"""Python's cassandra-driver: lightweight transactions and counters, over kills of the server.

First, the driver must decode the responses. Then several threads write with IF to the same rows, add to the
same counters and write logged batches, while the server is killed and started again. Each thread records its
requests and responses, with their times. Afterwards, an order of each row's operations must exist that
explains all responses, with each operation between its begin and its end (linearizability). Each counter
must lie between the sum of the acknowledged additions and the sum of all additions, and no batch may be
applied in part.
"""

import itertools
import os
import random
import tempfile
import threading
import time

from cassandra import ConsistencyLevel, InvalidRequest
from cassandra.query import BatchStatement, BatchType, SimpleStatement

from killed import FAILURES, IS_UP, cluster_of, free_address, seed, start, until_it_works

KILLS = int(os.environ.get("EBB_KILLS", "3"))
SEED = seed()
THREADS = 6
OPERATIONS_PER_LIFE = 60
ROWS = [(1, 1), (1, 2), (2, 1)]
# The number of states after which the search for an order is given up: there are many if many operations got
# no response.
STATES_MAX = 300_000


def check_responses(session):
    """Checks how the driver decodes the responses to conditional writes, their batches, and counters."""
    session.execute("CREATE TABLE c.users (name text PRIMARY KEY, mail text, age int)")
    insert = session.prepare("INSERT INTO c.users (name, mail, age) VALUES (?, ?, ?) IF NOT EXISTS")
    assert session.execute(insert, ["ada", "a@b.c", 36]).was_applied
    refused = session.execute(insert, ["ada", "x@y.z", 1])
    assert not refused.was_applied
    row = refused.one()
    assert (row.name, row.mail, row.age) == ("ada", "a@b.c", 36), row
    update = session.prepare("UPDATE c.users SET mail = ? WHERE name = ? IF age IN ? AND mail != ?")
    refused = session.execute(update, ["new", "ada", [1, 2], None])
    assert tuple(refused.one()) == (False, 36, "a@b.c"), refused.one()
    assert session.execute(update, ["new", "ada", [1, 36], None]).was_applied
    assert not session.execute("DELETE FROM c.users WHERE name = 'bob' IF EXISTS").was_applied
    serial = SimpleStatement(
        "UPDATE c.users SET age = 37 WHERE name = 'ada' IF age = 36",
        consistency_level=ConsistencyLevel.ONE,
        serial_consistency_level=ConsistencyLevel.LOCAL_SERIAL,
    )
    assert session.execute(serial).was_applied
    read = SimpleStatement(
        "SELECT mail, age FROM c.users WHERE name = 'ada'",
        consistency_level=ConsistencyLevel.SERIAL,
    )
    assert tuple(session.execute(read).one()) == ("new", 37)
    session.execute("CREATE TABLE c.pairs (k int, r int, v int, PRIMARY KEY (k, r))")
    pair = session.prepare("INSERT INTO c.pairs (k, r, v) VALUES (?, ?, ?) IF NOT EXISTS")
    for kind in (BatchType.LOGGED, BatchType.UNLOGGED):
        batch = BatchStatement(batch_type=kind)
        for r in (1, 2):
            batch.add(pair, (kind.value, r, 5))
        assert session.execute(batch).was_applied
        assert not session.execute(batch).was_applied
    wide = BatchStatement()
    wide.add(pair, (7, 1, 1))
    wide.add(pair, (8, 1, 1))
    try:
        session.execute(wide)
        raise AssertionError("a conditional batch spans partitions")
    except InvalidRequest as error:
        assert "cannot span multiple partitions" in str(error), error
    session.execute("CREATE TABLE c.views (page text PRIMARY KEY, n counter)")
    add = session.prepare("UPDATE c.views SET n = n + ? WHERE page = ?")
    for by in (5, -2):
        session.execute(add, [by, "home"])
    batch = BatchStatement(batch_type=BatchType.COUNTER)
    for page in ("home", "about"):
        batch.add(add, (10, page))
    session.execute(batch)
    views = {row.page: row.n for row in session.execute("SELECT page, n FROM c.views")}
    assert views == {"home": 13, "about": 10}, views


class Operation:
    """A request to a row and its response, with their times. Without a response `ended` is infinite: the
    operation may have taken effect, or may still do so."""

    def __init__(self, kind, argument):
        self.kind, self.argument = kind, argument
        self.response, self.began, self.ended = None, time.monotonic(), float("inf")

    def apply(self, row):
        """Returns a list with the row after the operation; an empty list if the response contradicts `row`."""
        if self.kind == "read":
            return [row] if self.response in (None, ("value", row)) else []
        if self.kind == "insert":
            holds, after = row is None, self.argument[0]
        elif self.kind == "swap":
            holds, after = row is not None and row == self.argument[0], self.argument[1]
        else:
            holds, after = row is not None, None
        if self.response is None:
            return [after if holds else row]
        if self.response == ("applied",):
            return [after] if holds else []
        seen = self.response[1]
        return [row] if not holds and seen == row else []

    def __repr__(self):
        return f"{self.kind}{self.argument} -> {self.response} [{self.began:.6f}, {self.ended:.6f}]"


def is_linearizable(history):
    """Returns whether an order explains the history of a row that does not exist at first, by the search of Wing
    and Gong; None if the search was given up."""
    # A read without a response fits anywhere.
    known = [one for one in history if one.response is not None or one.kind != "read"]
    operations = sorted(known, key=lambda one: one.began)
    left, order, tried, row, start = set(range(len(operations))), [], set(), None, 0
    # The operations that are left, as bits: small enough to remember each state.
    bits = (1 << len(operations)) - 1
    while True:
        if len(tried) > STATES_MAX:
            return None
        if all(operations[at].ended == float("inf") for at in left):
            return True
        first_end = min(operations[at].ended for at in left)
        for at in sorted(left):
            if at < start:
                continue
            if operations[at].began > first_end:
                at = None
                break
            after = operations[at].apply(row)
            state = (bits & ~(1 << at), after[0] if after else None)
            if after and state not in tried:
                tried.add(state)
                break
        else:
            at = None
        if at is not None:
            order.append((at, row))
            left.discard(at)
            bits &= ~(1 << at)
            row, start = after[0], 0
        elif order:
            at, row = order.pop()
            left.add(at)
            bits |= 1 << at
            start = at + 1
        else:
            return False


def request(session, statements, key, operation):
    k, c = key
    if operation.kind == "read":
        row = session.execute(statements["read"], [k, c]).one()
        return ("value", row.v if row else None)
    if operation.kind == "insert":
        arguments = [k, c, operation.argument[0]]
    elif operation.kind == "swap":
        arguments = [operation.argument[1], k, c, operation.argument[0]]
    else:
        arguments = [k, c]
    result = session.execute(statements[operation.kind], arguments)
    row = result.one()
    if row.applied:
        return ("applied",)
    return ("refused", getattr(row, "v", None))


class Client(threading.Thread):
    """One of several clients that write to the same rows and counters."""

    def __init__(self, session, statements, number, life, batches):
        super().__init__()
        self.session, self.statements, self.batches = session, statements, batches
        self.rng = random.Random(SEED * 1_000 + life * 100 + number)
        self.histories = {key: [] for key in ROWS}
        self.counted = [0, 0]
        self.acknowledged = []
        self.failure = None

    def run(self):
        try:
            for _ in range(OPERATIONS_PER_LIFE):
                for step in (self.condition, self.count, self.batch):
                    try:
                        step()
                    except FAILURES:
                        # Otherwise all remaining requests would fail before they are sent.
                        until_it_works(lambda: self.session.execute(IS_UP))
        except Exception as error:  # pylint: disable=broad-except
            self.failure = error

    def condition(self):
        key = self.rng.choice(ROWS)
        kind = self.rng.choice(["insert", "swap", "swap", "swap", "delete", "read"])
        value = self.rng.randrange(4)
        argument = {
            "insert": (value,),
            "swap": (self.rng.randrange(4), value),
            "delete": (),
            "read": (),
        }[kind]
        operation = Operation(kind, argument)
        self.histories[key].append(operation)
        response = request(self.session, self.statements, key, operation)
        operation.ended, operation.response = time.monotonic(), response

    def count(self):
        by = self.rng.randrange(1, 5)
        self.counted[1] += by
        self.session.execute(self.statements["count"], [by])
        self.counted[0] += by

    def batch(self):
        number = next(self.batches)
        batch = BatchStatement()
        for table in ("one", "two"):
            batch.add(self.statements[table], (number,))
        self.session.execute(batch)
        self.acknowledged.append(number)


with tempfile.TemporaryDirectory() as directory:
    address = free_address()
    server = start(directory, address)
    cluster = cluster_of(address)
    try:
        session = cluster.connect()
        for keyspace in ("c", "other"):
            session.execute(
                f"CREATE KEYSPACE {keyspace} WITH replication = "
                "{'class': 'SimpleStrategy', 'replication_factor': 1}"
            )
        check_responses(session)
        session.execute("CREATE TABLE c.t (k int, c int, v int, PRIMARY KEY (k, c))")
        session.execute("CREATE TABLE c.n (k int PRIMARY KEY, c counter)")
        session.execute("CREATE TABLE c.one (n int PRIMARY KEY)")
        session.execute("CREATE TABLE other.two (n int PRIMARY KEY)")
        statements = {
            name: session.prepare(text)
            for name, text in {
                "insert": "INSERT INTO c.t (k, c, v) VALUES (?, ?, ?) IF NOT EXISTS",
                "swap": "UPDATE c.t SET v = ? WHERE k = ? AND c = ? IF v = ?",
                "delete": "DELETE FROM c.t WHERE k = ? AND c = ? IF EXISTS",
                "read": "SELECT v FROM c.t WHERE k = ? AND c = ?",
                "count": "UPDATE c.n SET c = c + ? WHERE k = 0",
                "one": "INSERT INTO c.one (n) VALUES (?)",
                "two": "INSERT INTO other.two (n) VALUES (?)",
            }.items()
        }
        statements["read"].consistency_level = ConsistencyLevel.SERIAL
        histories = {key: [] for key in ROWS}
        counted, acknowledged, batches = [0, 0], set(), itertools.count()
        for life in range(KILLS + 1):
            clients = [Client(session, statements, n, life, batches) for n in range(THREADS)]
            for client in clients:
                client.start()
            if life < KILLS:
                time.sleep(random.Random(SEED + life).uniform(0.05, 0.4))
                server.kill()
                server.wait()
                server = start(directory, address)
            for client in clients:
                client.join()
                if client.failure:
                    raise client.failure
                for key, history in client.histories.items():
                    histories[key] += history
                counted = [sum(both) for both in zip(counted, client.counted)]
                acknowledged.update(client.acknowledged)
            until_it_works(lambda: session.execute(IS_UP))
        applied, unknown, given_up = 0, 0, 0
        for key, history in histories.items():
            found = is_linearizable(history)
            assert found is not False, f"EBB_SEED={SEED}: {key}: no order fits: {history}"
            given_up += found is None
            applied += sum(one.response == ("applied",) for one in history)
            unknown += sum(one.response is None for one in history)
        value = session.execute("SELECT c FROM c.n WHERE k = 0").one().c
        assert counted[0] <= value <= counted[1], (SEED, counted, value)
        one = {row.n for row in session.execute("SELECT n FROM c.one")}
        two = {row.n for row in session.execute("SELECT n FROM other.two")}
        assert one == two, f"EBB_SEED={SEED}: batches in part: {one ^ two}"
        assert acknowledged <= one, f"EBB_SEED={SEED}: lost: {acknowledged - one}"
    finally:
        cluster.shutdown()
        server.kill()
        server.wait()
print(
    f"python: EBB_SEED={SEED}: {sum(map(len, histories.values()))} conditional writes and reads, "
    f"{applied} applied, {unknown} without a response over {KILLS} kills: linearizable"
    f"{f', {given_up} of {len(ROWS)} rows not searched to the end' if given_up else ''}; "
    f"counter {value} of {counted[0]} to {counted[1]}; {len(one)} batches whole"
)
