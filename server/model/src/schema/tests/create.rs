use ebb_test_support::cases::parse_cases;

use super::{definition, replication, schema, table};
use crate::key::Order;
use crate::schema::{ColumnKind, KeyspaceSchema, OptionValue, TableDefinition, TableSchema};

#[test]
fn columns_come_in_the_order_of_select_star() {
    let table = table();
    let names: Vec<&str> = table.columns().iter().map(|c| &*c.name).collect();
    assert_eq!(names, ["A", "b", "c", "d", "s", "u", "v"]);
    let ids: Vec<u32> = table.columns().iter().map(|c| c.id.0).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(table.columns_of(ColumnKind::Clustering).len(), 2);
    assert_eq!(table.columns_of(ColumnKind::Regular)[0].name, "u".into());
    assert_eq!(table.layout().clustering()[0].order, Order::Desc);
    assert_eq!(table.layout().partition().len(), 2);
    assert_eq!(table.options().gc_grace_secs(), 3600);
    assert!(table.has_static_columns() && !table.is_counter());
}

#[test]
fn describe_prints_as_cassandra_does() {
    let schema = schema();
    let keyspace = schema.keyspace("ks").unwrap();
    assert_eq!(
        keyspace.describe(),
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', \
         'replication_factor': '1'}  AND durable_writes = true;"
    );
    let types: Vec<String> = keyspace.user_types().iter().map(|t| t.describe()).collect();
    assert_eq!(
        types[0],
        "CREATE TYPE ks.phone (\n    country int,\n    number text\n);"
    );
    assert_eq!(
        types[1],
        "CREATE TYPE ks.address (\n    street text,\n    phones set<frozen<phone>>\n);"
    );
    // The defaults of Cassandra 4.1, except for gc_grace_seconds: see `OPTIONS`.
    let options = "additional_write_policy = '99p'
    AND bloom_filter_fp_chance = 0.01
    AND caching = {'keys': 'ALL', 'rows_per_partition': 'NONE'}
    AND cdc = false
    AND comment = 'it''s'
    AND compaction = {'class': 'org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy', \
'max_threshold': '32', 'min_threshold': '4'}
    AND compression = {'chunk_length_in_kb': '16', \
'class': 'org.apache.cassandra.io.compress.LZ4Compressor'}
    AND memtable = 'default'
    AND crc_check_chance = 1.0
    AND default_time_to_live = 0
    AND extensions = {'a': 0xff}
    AND gc_grace_seconds = 3600
    AND max_index_interval = 2048
    AND memtable_flush_period_in_ms = 0
    AND min_index_interval = 128
    AND read_repair = 'BLOCKING'
    AND speculative_retry = '99p';";
    let extensions = OptionValue::Map([("a".to_owned(), "0xff".to_owned())].into());
    let with = |table: TableSchema| {
        table
            .alter_options([
                ("comment".to_owned(), OptionValue::Text("it's".to_owned())),
                ("extensions".to_owned(), extensions.clone()),
            ])
            .unwrap()
    };
    let wide = "CREATE TABLE ks.t (
    \"A\" int,
    b text,
    c timeuuid,
    d frozen<phone>,
    s decimal static,
    u list<int>,
    v map<text, frozen<address>>,
    PRIMARY KEY ((\"A\", b), c, d)
) WITH CLUSTERING ORDER BY (c DESC, d ASC)
    AND ";
    assert_eq!(with(table()).describe(false), format!("{wide}{options}"));
    let id = "WITH ID = 00000000-0000-0000-0000-000000000007\n    AND CLUSTERING";
    assert_eq!(
        with(table()).describe(true),
        format!("{wide}{options}").replace("WITH CLUSTERING", id)
    );
    let narrow = TableSchema::create(definition(&["k int", "v text"], &["k"], &[])).unwrap();
    let printed = "CREATE TABLE ks.t (\n    k int PRIMARY KEY,\n    v text\n) WITH ";
    assert_eq!(with(narrow).describe(false), format!("{printed}{options}"));
    let pair = TableSchema::create(definition(&["k int", "c text"], &["k"], &["c"])).unwrap();
    assert!(pair.describe(false).contains("    PRIMARY KEY (k, c)\n"));
}

#[test]
fn invalid_tables_are_refused_in_cassandras_words() {
    let refusal = |d: TableDefinition| TableSchema::create(d).unwrap_err().to_string();
    let cases = "
        a int => b => Unknown column 'b' referenced in PRIMARY KEY for table 't'
        a list<int> => a
        => Invalid non-frozen collection type list<int> for PRIMARY KEY column 'a'
        a phone => a
        => Invalid non-frozen user-defined type \"ks.phone\" for PRIMARY KEY column 'a'
        a counter => a => counter type is not supported for PRIMARY KEY column 'a'
        a tuple<duration> => a => duration type is not supported for PRIMARY KEY column 'a'
        a int static => a => Static column 'a' cannot be part of the PRIMARY KEY
        a int, b int static => a
        => Static columns are only useful (and thus allowed) if the table has at least one \
           clustering column
        a int, b int, c counter => a
        => Cannot mix counter and non counter columns in the same table
    ";
    for [columns, key, message] in parse_cases(cases) {
        let columns: Vec<&str> = columns.split(", ").collect();
        assert_eq!(refusal(definition(&columns, &[key], &[])), message);
    }
    let twice = definition(&["a int"], &["a"], &["a"]);
    let message = "Duplicate column 'a' in PRIMARY KEY clause for table 't'";
    assert_eq!(refusal(twice), message);
    let keyspace = schema();
    let address = keyspace.keyspace("ks").unwrap().parse_type("address");
    assert_eq!(
        address.unwrap_err().to_string(),
        "Non-frozen UDTs with nested non-frozen collections are not supported"
    );
    let ordered = |order: &[&str]| {
        let mut d = definition(&["a int", "b int", "c int"], &["a"], &["b", "c"]);
        d.order = order.iter().map(|c| (c.to_string(), Order::Desc)).collect();
        TableSchema::create(d).map(drop).map_err(|e| e.to_string())
    };
    assert_eq!(ordered(&["b"]), Ok(()));
    assert_eq!(
        ordered(&["c"]),
        Err("Missing CLUSTERING ORDER for column b".to_owned())
    );
    assert_eq!(
        ordered(&["c", "b"]),
        Err("The order of columns in the CLUSTERING ORDER directive must match that of the clustering columns (b must appear before c)".to_owned())
    );
    assert_eq!(
        ordered(&["b", "c", "a"]),
        Err(
            "Only clustering key columns can be defined in CLUSTERING ORDER directive: [a] are not \
             clustering columns"
                .to_owned()
        )
    );
    for name in ["", "a-b", &"x".repeat(49)] {
        let mut d = definition(&["a int"], &["a"], &[]);
        d.name = name.to_owned();
        assert!(
            refusal(d).starts_with("Table name must not be empty"),
            "{name}"
        );
        assert!(KeyspaceSchema::new(name, replication(), true).is_err());
    }
}

/// Regression: CLUSTERING ORDER BY could name a clustering column twice, and the second order was
/// ignored.
#[test]
fn an_order_longer_than_the_clustering_is_invalid() {
    for (clustering, message) in [
        (
            &["b"][..],
            "Only clustering columns can be defined in CLUSTERING ORDER directive",
        ),
        (&["b", "c"], "Missing CLUSTERING ORDER for column c"),
    ] {
        let mut d = definition(&["a int", "b int", "c int"], &["a"], clustering);
        d.order = [Order::Asc, Order::Desc]
            .map(|order| ("b".to_owned(), order))
            .to_vec();
        let refused = TableSchema::create(d).unwrap_err().to_string();
        assert_eq!(refused, message);
    }
}

#[test]
fn options_are_held_to_their_kind() {
    let cases = "
        nothing => 1 => Unknown property 'nothing'
        gc_grace_seconds => x => Invalid integer value x for 'gc_grace_seconds'
        gc_grace_seconds => -1 => gc_grace_seconds must be greater than or equal to 0 (got -1)
        default_time_to_live => 630720001
        => default_time_to_live must be less than or equal to 630720000 (got 630720001)
        cdc => maybe
        => Invalid boolean value maybe for 'cdc'. Positive values can be '1', 'true' or 'yes'. \
           Negative values can be '0', 'false' or 'no'.
        crc_check_chance => 2
        => crc_check_chance must be larger than or equal to 0 and smaller than or equal to 1.0 \
           (got 2)
        compaction => x => Invalid value for property 'compaction'. It should be a map.
    ";
    for [name, value, message] in parse_cases(cases) {
        let value = OptionValue::Text(value.to_owned());
        let error = table()
            .alter_options([(name.to_owned(), value)])
            .unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    let map = OptionValue::Map([("class".to_owned(), "X".to_owned())].into());
    assert!(
        table()
            .alter_options([("comment".to_owned(), map.clone())])
            .is_err()
    );
    let next = table()
        .alter_options([("compaction".to_owned(), map.clone())])
        .unwrap();
    assert_eq!(next.options().get("compaction"), Some(&map));
    let ttl = OptionValue::Text("60".to_owned());
    let next = table()
        .alter_options([("default_time_to_live".to_owned(), ttl)])
        .unwrap();
    assert_eq!(next.options().default_time_to_live_secs(), 60);
}

/// DESCRIBE once printed `'+128'` as `+128`, which is not a number in CQL.
#[test]
fn options_are_kept_and_printed_as_cql_reads_them_without_quotes() {
    let text = |value: &str| OptionValue::Text(value.to_owned());
    for (name, written, normal) in [
        ("min_index_interval", "+128", "128"),
        ("gc_grace_seconds", "007", "7"),
        ("memtable_flush_period_in_ms", "-0", "0"),
        ("crc_check_chance", ".5", "0.5"),
        ("crc_check_chance", "1", "1.0"),
        ("crc_check_chance", "+5.e-1", "0.5"),
        ("crc_check_chance", "-0", "0.0"),
        ("bloom_filter_fp_chance", "0.0001", "1.0E-4"),
        ("bloom_filter_fp_chance", "1.25e-7", "1.25E-7"),
        ("cdc", "TRUE", "true"),
        ("cdc", "Yes", "true"),
        ("cdc", "0", "false"),
    ] {
        let changed = table().alter_options([(name.to_owned(), text(written))]);
        let changed = changed.unwrap();
        assert_eq!(
            changed.options().get(name),
            Some(&text(normal)),
            "{written}"
        );
        let line = format!(" {name} = {normal}\n");
        let described = changed.describe(false);
        assert!(described.contains(&line), "{line} in {described}");
        // The printed value is already in normal form.
        let again = changed.alter_options([(name.to_owned(), text(normal))]);
        assert_eq!(again.unwrap(), changed);
        assert_eq!(TableSchema::decode(&changed.encode()).unwrap(), changed);
    }
    let blobs = |value: &str| OptionValue::Map([("a".to_owned(), value.to_owned())].into());
    let changed = table().alter_options([("extensions".to_owned(), blobs("0XFf"))]);
    assert_eq!(
        changed.unwrap().options().get("extensions"),
        Some(&blobs("0xff"))
    );
}

#[test]
fn options_that_an_earlier_version_stored_as_they_were_written_are_read() {
    let record = String::from_utf8(table().encode()).unwrap();
    let old = "\"crc_check_chance\":\".5\"";
    let record = record.replace("\"crc_check_chance\":\"1.0\"", old);
    assert!(record.contains(old), "{record}");
    let table = TableSchema::decode(record.as_bytes()).unwrap();
    assert!(table.describe(false).contains("crc_check_chance = 0.5\n"));
}
