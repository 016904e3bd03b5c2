"""Python's cassandra-driver: transactions made of IF and of logged batches are isolated.

Threads of one session run transactions while the server is killed and started again:

- a batch with IF: it has read some rows of a partition, and is applied if they are unchanged;
  then it appends to the list of each of these rows, and to a list of its thread's own;
- a logged batch: it appends to lists in several partitions, tables and keyspaces. The lists are
  its thread's own, because appends without a condition have no order among each other;
- a read: of a partition, of several partitions by one statement, of several tables at a snapshot.

The responses with their times are a history. They must be as if the transactions had run one after the other,
each at a moment between its begin and its end. (This is strict serializability, and more than a store with
snapshots has to provide; it holds here because each statement is one commit, or reads at one moment.) Two
checkers search for cycles in the order of transactions: the one below, and the published crate `adya`, after
Elle (ADYA is its program). Then the history is changed in ways that no order can explain, and both checkers
must notice each change.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from copy import deepcopy

from cassandra.query import BatchStatement

from killed import FAILURES, IS_UP, cluster_of, free_address, seed, start, until_it_works

KILLS = int(os.environ.get("EBB_KILLS", "3"))
SEED = seed()
ADYA = os.environ.get("ADYA", "adya")
THREADS = 6
TRANSACTIONS_PER_LIFE = 60
# Number of rows of a partition that all threads append to.
SHARED = 4
TABLES = ("one.t", "one.u", "two.w")
INFINITE = float("inf")
# Process numbers: of the reads by refused batches, and of the last read.
SHOWN = 1_000_000
READER = 2_000_000


class Clock:
    """A logical clock for all threads: each time is later than all before."""

    def __init__(self):
        self.lock, self.time = threading.Lock(), 0

    def next(self):
        with self.lock:
            self.time += 1
            return self.time


class Transaction:
    """The reads of a transaction, as (list, elements), and its appends, as (list, element). `outcome` is
    `ok`, `fail` if it was refused, or `info` if there was no response: it may have taken effect."""

    def __init__(self, process, began):
        self.process, self.began, self.ended = process, began, INFINITE
        self.reads, self.appends, self.outcome = [], [], "info"

    def __repr__(self):
        return (
            f"{self.outcome} of {self.process} [{self.began}, {self.ended}] "
            f"read {self.reads} appended {self.appends}"
        )


# ---- A checker.


def wrong(history):
    """Returns the reasons why no order explains a history; none if one does."""
    versions, problems = defaultdict(list), []
    done = [one for one in history if one.outcome == "ok"]
    for one in done:
        for name, elements in one.reads:
            if len(elements) > len(versions[name]):
                versions[name] = elements
    writers = {}
    for one in history:
        for name, element in one.appends:
            writers[name, element] = one
    for one in done:
        for name, elements in one.reads:
            if versions[name][: len(elements)] != elements:
                problems.append(f"{name} was {elements} for {one}, and {versions[name]}")
    seen = {(name, element) for name, elements in versions.items() for element in elements}
    for name, elements in versions.items():
        if len(set(elements)) < len(elements):
            problems.append(f"{name} has an element twice: {elements}")
        for element in elements:
            if (name, element) not in writers or writers[name, element].outcome == "fail":
                problems.append(f"no transaction appended {element} to {name}")
    for one in history:
        found = [append in seen for append in one.appends]
        if any(found) and not all(found):
            problems.append(f"in part: {one}")
        if one.outcome == "ok" and not all(found):
            problems.append(f"lost: {one}")
    if problems:
        return problems
    # Transactions without effect have no place in the order.
    happened = [one for one in history if one.outcome == "ok" or any(a in seen for a in one.appends)]
    return cycles(happened, versions, writers)


def cycles(history, versions, writers):
    """Returns the cycles of transactions each of which must come before the next, and so before itself."""
    after = defaultdict(set)
    number = {id(one): at for at, one in enumerate(history)}
    writer = lambda name, at: number[id(writers[name, versions[name][at]])]
    for name, elements in versions.items():
        for at in range(1, len(elements)):
            after[writer(name, at - 1)].add(writer(name, at))
    for at, one in enumerate(history):
        for name, elements in one.reads:
            if elements:
                after[writer(name, len(elements) - 1)].add(at)
            if len(elements) < len(versions[name]):
                after[at].add(writer(name, len(elements)))
    # A transaction that ended before another began comes before it. A chain of all ends keeps the graph small.
    ends = sorted((one.ended, at) for at, one in enumerate(history) if one.ended < INFINITE)
    link = lambda place: len(history) + place
    for place, (_, at) in enumerate(ends):
        after[at].add(link(place))
        after[link(place)].add(link(place + 1))
    place = 0
    for began, at in sorted((one.began, at) for at, one in enumerate(history)):
        while place < len(ends) and ends[place][0] < began:
            place += 1
        if place:
            after[link(place - 1)].add(at)
    for node, nexts in after.items():
        nexts.discard(node)
    return [
        f"a cycle among {[history[at] for at in sorted(part) if at < len(history)]}"
        for part in components(after, len(history) + len(ends) + 1)
        if len(part) > 1
    ]


def components(after, count):
    """Returns the strongly connected components of a graph (Tarjan 1972), without recursion."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []
    for root in range(count):
        if root in index:
            continue
        work = [(root, iter(after[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, nexts = work[-1]
            for following in nexts:
                if following not in index:
                    index[following] = low[following] = len(index)
                    stack.append(following)
                    on_stack.add(following)
                    work.append((following, iter(after[following])))
                    break
                if following in on_stack:
                    low[node] = min(low[node], index[following])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part = []
                    while not part or part[-1] != node:
                        part.append(stack.pop())
                        on_stack.discard(part[-1])
                    found.append(part)
    return found


def adya(history, directory):
    """Returns whether the published checker finds an order, too, and its output."""
    events = []
    for one in (one for one in history if one.reads or one.appends):
        # Transactions without a response end after all others: they may have taken effect last.
        invoked = [["r", name, None] for name, _ in one.reads]
        completed = [["r", name, elements] for name, elements in one.reads]
        appends = [["append", name, element] for name, element in one.appends]
        events.append((one.began, 0, "invoke", one.process, invoked + appends))
        events.append((one.ended, 1, one.outcome, one.process, completed + appends))
    path = os.path.join(directory, "history.jsonl")
    with open(path, "w") as file:
        events.sort(key=lambda event: event[:2] + event[3:4])
        for index, (_, _, kind, process, value) in enumerate(events):
            event = {"index": index, "type": kind, "process": process, "value": value}
            file.write(json.dumps(event) + "\n")
    arguments = [ADYA, "check", "-m", "list-append", "-c", "strict-serializable", path]
    checked = subprocess.run(arguments, capture_output=True, text=True)
    assert checked.returncode in (0, 1), (checked.returncode, checked.stdout, checked.stderr)
    return checked.returncode == 0, checked.stdout


# ---- Impossible histories.


def lose(rng, history):
    """The last read, of all lists, misses an element that others have read at the end of a list."""
    *others, last = history
    read = {(name, elements[-1]) for one in others for name, elements in one.reads if elements}
    ends = [(at, name, e) for at, (name, elements) in enumerate(last.reads) for e in elements]
    at, name, element = rng.choice([end for end in ends if end[1:] in read])
    elements = last.reads[at][1]
    last.reads[at] = (name, elements[: elements.index(element)])


def halve(rng, history):
    """A read sees a logged batch in one list, and not in another."""
    batches = {e: one for one in history for _, e in one.appends if len(one.appends) > 1}
    for one in rng.sample(history[:-1], len(history) - 1):
        if one.appends:
            continue
        ends = {(name, elements[-1]) for name, elements in one.reads if elements}
        for at, (name, elements) in enumerate(one.reads):
            wrote = batches[elements[-1]].appends if elements and elements[-1] in batches else []
            if len(ends.intersection(wrote)) > 1:
                one.reads[at] = (name, elements[:-1])
                return
    sys.exit("no read has seen a batch in two lists")


def go_back(rng, history):
    """A read misses an append that was acknowledged before it began."""
    ended = {append: one.ended for one in history for append in one.appends}
    for one in rng.sample(history[:-1], len(history) - 1):
        for at, (name, elements) in enumerate(one.reads):
            if one.outcome == "ok" and elements and ended[name, elements[-1]] < one.began:
                one.reads[at] = (name, elements[:-1])
                return
    sys.exit("no read began after what it saw")


def turn(rng, history):
    """Two elements of a list have changed places."""
    for one in rng.sample(history[:-1], len(history) - 1):
        for at, (name, elements) in enumerate(one.reads):
            if one.outcome == "ok" and len(elements) > 2:
                one.reads[at] = (name, elements[:-2] + elements[-1:] + elements[-2:-1])
                return
    sys.exit("no list was read that has three elements")


def revive(rng, history):
    """An append that was refused has taken effect."""
    failed = {append for one in history if one.outcome == "fail" for append in one.appends}
    last = history[-1]
    at, element = rng.choice(
        [(at, e) for at, (name, _) in enumerate(last.reads) for list_, e in failed if list_ == name]
    )
    name, elements = last.reads[at]
    last.reads[at] = (name, elements + [element])


FLAWS = (lose, halve, go_back, turn, revive)


# ---- The clients.


class Client(threading.Thread):
    """One of several clients that run transactions."""

    def __init__(self, session, statements, clock, number, life):
        super().__init__()
        self.session, self.statements, self.clock = session, statements, clock
        self.number, self.life, self.made = number, life, 0
        # Two partitions for each life, so that lists stay short.
        self.partitions = (2 * life, 2 * life + 1)
        self.process = 1000 * life + number
        self.rng = random.Random(SEED * 1_000 + life * 100 + number)
        self.history, self.failure = [], None

    def run(self):
        kinds = [self.swap] * 5 + [self.batch] * 3 + [self.read, self.read_some, self.read_snapshot]
        try:
            for _ in range(TRANSACTIONS_PER_LIFE):
                try:
                    self.rng.choice(kinds)()
                except FAILURES:
                    # After a request without a response the client gets a new process number: in the
                    # history, a process has one open transaction at most.
                    self.process += THREADS
                    until_it_works(lambda: self.session.execute(IS_UP))
        except Exception as error:  # pylint: disable=broad-except
            self.failure = error

    def begin(self):
        transaction = Transaction(self.process, self.clock.next())
        self.history.append(transaction)
        return transaction

    def end(self, transaction, outcome="ok"):
        transaction.ended, transaction.outcome = self.clock.next(), outcome

    def element(self):
        """Returns an element that differs from all others."""
        self.made += 1
        return (self.life * THREADS + self.number) * 10_000 + self.made

    def swap(self):
        """Runs a batch with IF on rows that were read before."""
        k = self.rng.choice(self.partitions)
        known = {name: elements for name, elements in self.read(k)}
        rows = self.rng.sample(range(SHARED), self.rng.randrange(1, 4))
        batch, reads, appends = BatchStatement(), [], []
        for c in rows:
            name = f"one.t/{k}/{c}"
            element, elements = self.element(), known.get(name, [])
            batch.add(self.statements["swap"], ([element], k, c, elements or None))
            reads.append((name, elements))
            appends.append((name, element))
        # An append without a condition, to a list to which no other client appends.
        own, element = SHARED + THREADS + self.number, self.element()
        batch.add(self.statements["one.t"], ([element], k, own))
        appends.append((f"one.t/{k}/{own}", element))
        transaction = self.begin()
        transaction.appends = appends
        answer = self.session.execute(batch).all()
        if answer[0].applied:
            transaction.reads = reads
            return self.end(transaction)
        self.end(transaction, "fail")
        # A refused batch is a read of the rows in its response.
        shown = Transaction(SHOWN + self.process, transaction.began)
        shown.reads = [(f"one.t/{row.k}/{row.c}", list(row.l or [])) for row in answer]
        shown.ended, shown.outcome = transaction.ended, "ok"
        self.history.append(shown)

    def batch(self):
        """Runs a logged batch over partitions, tables and keyspaces."""
        c, batch, appends = SHARED + self.number, BatchStatement(), []
        for table in TABLES:
            for k in self.partitions:
                if self.rng.random() < 0.7:
                    element = self.element()
                    batch.add(self.statements[table], ([element], k, c))
                    appends.append((f"{table}/{k}/{c}", element))
        if appends:
            transaction = self.begin()
            transaction.appends = appends
            self.session.execute(batch)
            self.end(transaction)

    def lists(self, table, partitions, rows):
        """Returns the lists that a read of these partitions returned; rows that do not exist are empty
        lists."""
        found = {(row.k, row.c): list(row.l or []) for row in rows}
        shared = SHARED if table == "one.t" else 0
        own = range(SHARED, SHARED + (2 if table == "one.t" else 1) * THREADS)
        places = [(k, c) for k in partitions for c in [*range(shared), *own]]
        return [(f"{table}/{k}/{c}", found.get((k, c), [])) for k, c in places]

    def read(self, k=None):
        k = self.rng.choice(self.partitions) if k is None else k
        transaction = self.begin()
        rows = self.session.execute(self.statements["read"], [k])
        transaction.reads = self.lists("one.t", [k], rows)
        self.end(transaction)
        return transaction.reads

    def read_some(self):
        """Reads several partitions by one statement."""
        table, transaction = self.rng.choice(TABLES), self.begin()
        text = f"SELECT k, c, l FROM {table} WHERE k IN {self.partitions}"
        transaction.reads = self.lists(table, self.partitions, self.session.execute(text))
        self.end(transaction)

    def read_snapshot(self):
        """Reads two tables at one moment."""
        snapshot, transaction = f"s{self.element()}", self.begin()
        self.session.execute(f"CREATE SNAPSHOT {snapshot} ON KEYSPACE one")
        for table in TABLES[:2]:
            text = f"SELECT k, c, l FROM {table} USING SNAPSHOT {snapshot} WHERE k IN {self.partitions}"
            transaction.reads += self.lists(table, self.partitions, self.session.execute(text))
        self.end(transaction)
        self.session.execute(f"DROP SNAPSHOT {snapshot} ON KEYSPACE one")


def read_all(session, clock):
    """Returns the last transaction, which reads everything."""
    transaction = Transaction(READER, clock.next())
    for table in TABLES:
        for row in session.execute(f"SELECT k, c, l FROM {table}"):
            transaction.reads.append((f"{table}/{row.k}/{row.c}", list(row.l or [])))
    transaction.ended, transaction.outcome = clock.next(), "ok"
    return transaction


def record(directory):
    """Returns the history of the clients of a server that is killed."""
    address = free_address()
    server = start(os.path.join(directory, "data"), address)
    # The clients do not need changes of the schema.
    cluster = cluster_of(address, schema_event_refresh_window=-1, max_schema_agreement_wait=0)
    cluster.schema_metadata_enabled = False
    try:
        session = cluster.connect()
        for keyspace in ("one", "two"):
            session.execute(
                f"CREATE KEYSPACE {keyspace} WITH replication = "
                "{'class': 'SimpleStrategy', 'replication_factor': 1}"
            )
        statements = {}
        for table in TABLES:
            session.execute(f"CREATE TABLE {table} (k int, c int, l list<int>, PRIMARY KEY (k, c))")
            append = f"UPDATE {table} SET l = l + ? WHERE k = ? AND c = ?"
            statements[table] = session.prepare(append)
        statements["swap"] = session.prepare("UPDATE one.t SET l = l + ? WHERE k = ? AND c = ? IF l = ?")
        statements["read"] = session.prepare("SELECT k, c, l FROM one.t WHERE k = ?")
        clock, history = Clock(), []
        for life in range(KILLS + 1):
            clients = [Client(session, statements, clock, n, life) for n in range(THREADS)]
            for client in clients:
                client.start()
            if life < KILLS:
                time.sleep(random.Random(SEED + life).uniform(0.1, 0.5))
                server.kill()
                server.wait()
                server = start(os.path.join(directory, "data"), address)
            for client in clients:
                client.join()
                if client.failure:
                    raise client.failure
                history += client.history
            until_it_works(lambda: session.execute(IS_UP))
        return history + [read_all(session, clock)]
    finally:
        cluster.shutdown()
        server.kill()
        server.wait()


with tempfile.TemporaryDirectory() as directory:
    history = record(directory)
    found = wrong(history)
    assert not found, f"EBB_SEED={SEED}: " + "\n".join(found[:3])
    is_valid, output = adya(history, directory)
    assert is_valid, f"EBB_SEED={SEED}: adya: {output}"
    for flaw in FLAWS:
        changed = deepcopy(history)
        flaw(random.Random(SEED), changed)
        assert wrong(changed), f"EBB_SEED={SEED}: {flaw.__name__} is not noticed"
        is_valid, _ = adya(changed, directory)
        assert not is_valid, f"EBB_SEED={SEED}: {flaw.__name__} is not noticed by adya"
count = lambda outcome: sum(one.outcome == outcome for one in history)
wrote = sum(one.outcome == "ok" and bool(one.appends) for one in history)
print(
    f"python: EBB_SEED={SEED}: {len(history)} transactions, {wrote} of them wrote, {count('fail')} were "
    f"refused, {count('info')} without a response over {KILLS} kills: strictly serializable, also by adya; "
    f"{len(FLAWS)} flaws noticed by both"
)
