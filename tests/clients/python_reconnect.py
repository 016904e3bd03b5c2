"""Python's cassandra-driver over kills of the server: one session, which reconnects by itself.

The server runs with durability `sync`. It is killed while the session writes, and started again on its
port. The session continues, also with its prepared statements and with a result of which it had read the first
page, and all acknowledged writes are there.
"""

import os
import tempfile

from cassandra.query import SimpleStatement

import killed
from killed import FAILURES, free_address
from patient import patient_cluster

KILLS = int(os.environ.get("EBB_KILLS", "3"))
WRITES = 300


def start(directory, address):
    return killed.start(directory, address, "--durability", "sync")


def until_it_works(request):
    """Calls `request` until the driver has reconnected; returns its result, and the number of failures
    before."""
    failures = 0

    def counted():
        nonlocal failures
        try:
            return request()
        except FAILURES:
            failures += 1
            raise

    return killed.until_it_works(counted), failures


with tempfile.TemporaryDirectory() as directory:
    address = free_address()
    server = start(directory, address)
    cluster = patient_cluster(address, protocol_version=4)
    try:
        session = cluster.connect()
        session.execute(
            "CREATE KEYSPACE re WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.execute("CREATE TABLE re.t (k int, n int, v text, PRIMARY KEY (k, n))")
        insert = session.prepare("INSERT INTO re.t (k, n, v) VALUES (0, ?, ?)")
        acknowledged, failures = 0, 0
        for life in range(KILLS):
            for n in range(life * WRITES, (life + 1) * WRITES):
                _, failed = until_it_works(lambda: session.execute(insert, [n, f"v{n}"]))
                acknowledged, failures = acknowledged + 1, failures + failed
            page = session.execute(SimpleStatement("SELECT n FROM re.t", fetch_size=50))
            in_flight = [session.execute_async(insert, [-1 - n, "in flight"]) for n in range(20)]
            server.kill()
            server.wait()
            server = start(directory, address)
            for future in in_flight:
                try:
                    future.result()
                except FAILURES:
                    failures += 1
            # The read continues after the page that it had.
            read = list(page.current_rows)
            state = page.paging_state
            while state is not None:
                again = SimpleStatement("SELECT n FROM re.t", fetch_size=50)
                page, failed = until_it_works(
                    lambda: session.execute(again, paging_state=state)
                )
                failures += failed
                read += page.current_rows
                state = page.paging_state
            numbers = [row.n for row in read if row.n >= 0]
            assert numbers == list(range((life + 1) * WRITES)), f"{len(numbers)} rows in pages"
        rows, _ = until_it_works(lambda: list(session.execute("SELECT n, v FROM re.t WHERE k = 0")))
        kept = {row.n: row.v for row in rows if row.n >= 0}
        assert kept == {n: f"v{n}" for n in range(acknowledged)}, f"{len(kept)} of {acknowledged}"
    finally:
        cluster.shutdown()
        server.kill()
        server.wait()
print(f"python: {acknowledged} acknowledged writes over {KILLS} kills, {failures} failures between")
