// Node's cassandra-driver: metadata, prepared statements, paging, batches, types.

const assert = require("assert");
const { Client, types } = require("cassandra-driver");

const ROWS = 5000;

async function main() {
  const client = new Client({
    contactPoints: [`${process.env.CQL_HOST}:${process.env.CQL_PORT}`],
    localDataCenter: "datacenter1",
    // These limits only end a hang.
    socketOptions: { connectTimeout: 60_000, readTimeout: 60_000 },
  });
  await client.connect();
  await client.execute("DROP KEYSPACE IF EXISTS node");
  await client.execute(
    "CREATE KEYSPACE node WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
  );
  await client.execute(
    "CREATE TABLE node.events (day text, at timeuuid, size bigint, tags map<text, int>, PRIMARY KEY (day, at))",
  );
  const table = await client.metadata.getTable("node", "events");
  assert.deepStrictEqual(table.partitionKeys.map((column) => column.name), ["day"]);
  assert.deepStrictEqual(table.clusteringKeys.map((column) => column.name), ["at"]);

  const insert = "INSERT INTO node.events (day, at, size, tags) VALUES (?, ?, ?, ?)";
  const at = types.TimeUuid.now();
  const size = types.Long.fromString("9223372036854775807");
  await client.execute(insert, ["first", at, size, { a: 1 }], { prepare: true });
  const select = "SELECT at, size, tags FROM node.events WHERE day = ?";
  const [row] = (await client.execute(select, ["first"], { prepare: true })).rows;
  assert(row.at.equals(at) && row.size.equals(size));
  assert.deepStrictEqual(row.tags, { a: 1 });

  for (let from = 0; from < ROWS; from += 50) {
    const queries = [];
    for (let i = from; i < from + 50; i++) {
      queries.push({ query: insert, params: ["many", types.TimeUuid.now(), i, null] });
    }
    await client.batch(queries, { prepare: true, logged: false });
  }
  const seen = new Set();
  const paged = { prepare: true, fetchSize: 333 };
  for await (const row of client.stream(select, ["many"], paged)) {
    seen.add(row.size.toNumber());
  }
  assert.strictEqual(seen.size, ROWS);

  await assert.rejects(client.execute("SELECT * FROM node.nothing"), /nothing/);
  await client.shutdown();
  console.log(`Node cassandra-driver: ${ROWS} rows: passed`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
