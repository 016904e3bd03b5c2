#!/usr/bin/env bash
# cqlsh: DESCRIBE, SOURCE, paging, COPY TO and FROM, TRACING, snapshots.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME=$work
cql() {
    cqlsh --no-color --connect-timeout=60 --request-timeout=60 "$CQL_HOST" "$CQL_PORT" "$@" \
        >"$work/out" 2>"$work/err" ||
        { cat "$work/out" "$work/err" >&2; return 1; }
    # cqlsh prints this warning on its standard output.
    sed '/^WARNING: cqlsh was built against/d' "$work/out"
}
expect() {
    if ! grep -qF -- "$2" <<<"$1"; then
        printf 'expected %s in:\n%s\n' "$2" "$1"
        exit 1
    fi
}

cat >"$work/schema.cql" <<'CQL'
DROP KEYSPACE IF EXISTS shell;
CREATE KEYSPACE shell WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
CREATE TYPE shell.place (street text, number int);
CREATE TABLE shell.people (id int PRIMARY KEY, name text, home frozen<place>, tags set<text>);
INSERT INTO shell.people (id, name, home, tags)
    VALUES (1, 'Ada', {street: 'Main', number: 7}, {'a', 'b'});
CREATE TABLE shell.copied (id int PRIMARY KEY, v text, w double);
CREATE TABLE shell.again (id int PRIMARY KEY, v text, w double);
CQL
cql -e "SOURCE '$work/schema.cql'"

expect "$(cql -e 'DESCRIBE KEYSPACES')" shell
expect "$(cql -e 'DESCRIBE TABLES')" people
expect "$(cql -e 'DESCRIBE KEYSPACE shell')" 'CREATE TYPE shell.place'
expect "$(cql -e 'DESCRIBE TABLE shell.people')" 'CREATE TABLE shell.people'
expect "$(cql -e 'DESCRIBE CLUSTER')" Murmur3Partitioner
expect "$(cql -e 'SELECT * FROM shell.people')" "{street: 'Main', number: 7}"

# The output of DESCRIBE creates the same keyspace again.
cql -e 'DESCRIBE KEYSPACE shell' >"$work/described.cql"
cql -e 'DROP KEYSPACE shell'
cql -f "$work/described.cql"
cql -e 'DESCRIBE KEYSPACE shell' | diff "$work/described.cql" -

seq 1 20000 | awk '{ printf "%d,value %d,%.2f\n", $1, $1, $1 / 4 }' >"$work/rows.csv"
cql -e "COPY shell.copied (id, v, w) FROM '$work/rows.csv'" >/dev/null
cql -e "COPY shell.copied (id, v, w) TO '$work/copied.csv'" >/dev/null
[ "$(wc -l <"$work/copied.csv")" = 20000 ]
cql -e "COPY shell.again (id, v, w) FROM '$work/copied.csv'" >/dev/null
cql -e "COPY shell.again (id, v, w) TO '$work/again.csv'" >/dev/null
diff <(sort "$work/copied.csv") <(sort "$work/again.csv")
expect "$(cql -e 'SELECT count(*) FROM shell.again')" 20000

rows=$(cql -e 'PAGING 100; SELECT id FROM shell.again LIMIT 950;' | grep -cE '^ +[0-9]+$')
[ "$rows" = 950 ] || { echo "$rows rows of 950 in pages of 100"; exit 1; }

expect "$(cql -e 'TRACING ON; SELECT * FROM shell.again WHERE id = 7;')" 'Tracing session'
# A listed snapshot is a keyspace: a cqlsh that starts later finds the tables as they were. The server lists
# the latest snapshots (--schema-snapshots).
cql -e "INSERT INTO shell.people (id, name, home) VALUES (1, 'Ada', {street: 'Main', number: 7})"
cql -e 'CREATE SNAPSHOT monday ON KEYSPACE shell'
cat >"$work/later.cql" <<'CQL'
INSERT INTO shell.people (id, name) VALUES (2, 'Grace');
ALTER TABLE shell.people ADD later int;
DELETE FROM shell.again WHERE id = 7;
CQL
cql -e "SOURCE '$work/later.cql'"
shown=$(cql -e 'SELECT * FROM "shell@monday".people')
expect "$shown" "{street: 'Main', number: 7}"
expect "$shown" '(1 rows)'
# cqlsh does not know this form, and so not the type of the value.
shown=$(cql -e 'SELECT * FROM shell.people USING SNAPSHOT monday')
expect "$shown" 'Ada'
expect "$shown" '(1 rows)'
if grep -q 'Grace' <<<"$shown"; then
    printf 'the snapshot shows what came later:\n%s\n' "$shown"
    exit 1
fi
expect "$(cql -e 'USE "shell@monday"; SELECT count(*) FROM again;')" 20000
expect "$(cql -e 'DESCRIBE KEYSPACE "shell@monday"')" 'CREATE TABLE shell.people'
expect "$(cql -e 'DESCRIBE SNAPSHOTS')" 'CREATE SNAPSHOT monday ON KEYSPACE shell;'
expect "$(cql -e 'LIST SNAPSHOTS')" monday
expect "$(cql -e 'SELECT snapshot_name FROM system_views.snapshots')" monday
cql -e "COPY \"shell@monday\".again (id, v, w) TO '$work/monday.csv'" >/dev/null
diff <(sort "$work/copied.csv") <(sort "$work/monday.csv")
cql -e 'DROP SNAPSHOT monday ON KEYSPACE shell'

echo "cqlsh: DESCRIBE, SOURCE, COPY, PAGING, TRACING, snapshots: passed"
