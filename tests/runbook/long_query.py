"""A query that takes too long: an operator finds it, and kills it."""

import pathlib
import tempfile

from cassandra import ReadFailure

import rehearsal

with tempfile.TemporaryDirectory() as work:
    directory = pathlib.Path(work) / "data"
    server = rehearsal.Server(directory, "--request-timeout", "10m")
    server.make_table()
    columns = "a int, b int, c int, d int, PRIMARY KEY ((a, b), c, d)"
    server.session.execute(f"CREATE TABLE shop.wide ({columns})")
    # The query looks for four billion rows, and none of them exists.
    some = ", ".join(str(number) for number in range(256))
    conditions = " AND ".join(f"{column} IN ({some})" for column in "abcd")
    statement = f"SELECT count(*) FROM shop.wide WHERE {conditions}"
    query = server.session.execute_async(statement, timeout=None)

    look, kill = rehearsal.commands("A query that takes too long")
    rehearsal.until(lambda: " running " in rehearsal.run(look, directory))
    rehearsal.run(kill, directory)
    try:
        query.result()
        raise SystemExit("the query was not killed")
    except ReadFailure as error:
        assert "an operator killed the query" in str(error), error
    rehearsal.until(lambda: "no query waits or runs" in rehearsal.run(look, directory))
    assert server.count() == 0
    server.stop()
