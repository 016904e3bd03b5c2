use super::*;
use crate::executor::harness::Server;
use crate::testing::{BEGIN_MS, open};
use ebb_cql::protocol::{BatchKind, Consistency, ErrorKind, QueryParameters, Values};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{CompactionOptions, CompactionPicker, ManualClock, Options, Pick, TableShape};
use ebb_test_support::cases::parse_cases;
use std::sync::Arc;

const TABLES: [&str; 2] = [
    "CREATE TABLE a (k int PRIMARY KEY, v int)",
    "CREATE TABLE c (k int, c int, t text, l list<int>, m map<int, text>, f frozen<set<int>>, \
     g frozen<map<int, int>>, s set<text>, n map<decimal, int>, PRIMARY KEY (k, c))",
];

fn guarded(settings: &str) -> Server {
    let mut server = Server::with(&TABLES);
    let executor = std::mem::replace(&mut server.executor, Server::new().executor);
    server.executor = executor.guarded_by(settings.parse().unwrap());
    server
}

/// Executes the statements of a table of cases. The case `S => settings` begins a new server with
/// the settings S. Each other case has a statement and the message that the statement must return as
/// its only warning or as an error; `none` stands for no message.
#[track_caller]
fn check(cases: &str) {
    let mut server = guarded("none");
    for [text, expected] in parse_cases(cases) {
        if expected == "settings" {
            server = guarded(text);
            continue;
        }
        let warnings = match server.warnings_of(text, QueryParameters::default()) {
            Ok(warnings) => warnings,
            Err(error) => vec![error.message],
        };
        let expected = if expected == "none" {
            vec![]
        } else {
            vec![expected]
        };
        assert_eq!(warnings, expected, "{text}");
    }
}

#[test]
fn the_page_size_is_limited() {
    let server = &mut guarded("page_size_warn_threshold=10,page_size_fail_threshold=20");
    let warnings = |text: &str, rows: u32| {
        let parameters = QueryParameters {
            page_size_rows: Some(rows),
            ..QueryParameters::default()
        };
        server
            .warnings_of(text, parameters)
            .map_err(|error| error.message)
    };
    let select = "SELECT * FROM a WHERE k = 1";
    assert_eq!(warnings(select, 10), Ok(vec![]));
    assert_eq!(
        warnings(select, 11),
        Ok(vec![
            "Guardrail page_size violated: Query for table a with page size 11 exceeds warning \
             threshold of 10."
                .to_owned()
        ])
    );
    assert_eq!(
        warnings(select, 21),
        Err(
            "Guardrail page_size violated: Aborting query for table a, page size 21 exceeds fail \
             threshold of 20."
                .to_owned()
        )
    );
    // Guardrails do not hold for the server's own tables.
    let own = "SELECT key FROM system.local";
    assert_eq!(warnings(own, 5000), Ok(vec![]));
}

#[test]
fn the_values_of_in_are_limited() {
    let cases = "
        partition_keys_in_select_warn_threshold=2,partition_keys_in_select_fail_threshold=3
        => settings
        SELECT * FROM a WHERE k IN (1, 2) => none
        SELECT * FROM a WHERE k IN (1, 2, 3)
        => Guardrail partition_keys_in_select violated: Query with partition keys in IN clause on \
           table a, with number of partition keys 3 exceeds warning threshold of 2.
        SELECT * FROM a WHERE k IN (1, 2, 3, 4)
        => Guardrail partition_keys_in_select violated: Aborting query with partition keys in IN \
           clause on table a, number of partition keys 4 exceeds fail threshold of 3.
        in_select_cartesian_product_warn_threshold=1,in_select_cartesian_product_fail_threshold=2
        => settings
        SELECT * FROM c WHERE k = 1 AND c = 1 => none
        SELECT * FROM c WHERE k = 1 AND c IN (1, 2)
        => Guardrail in_select_cartesian_product violated: The cartesian product of the IN \
           restrictions on clustering key produces 2 values, this exceeds warning threshold of 1.
        SELECT * FROM a WHERE k IN (1, 2, 3)
        => Guardrail in_select_cartesian_product violated: Aborting query because the cartesian \
           product of the IN restrictions on partition key produces 3 values, this exceeds fail \
           threshold of 2.
    ";
    check(cases);
}

#[test]
fn keyspaces_tables_columns_fields_and_indexes_are_limited() {
    let cases = "
        keyspaces_warn_threshold=1,keyspaces_fail_threshold=2 => settings
        CREATE KEYSPACE two WITH replication = {'class': 'SimpleStrategy'}
        => Guardrail keyspaces violated: Creating keyspace two, current number of keyspaces 2 \
           exceeds warning threshold of 1.
        CREATE KEYSPACE three WITH replication = {'class': 'SimpleStrategy'}
        => Guardrail keyspaces violated: Cannot have more than 2 keyspaces, aborting the creation \
           of keyspace three
        tables_warn_threshold=2,tables_fail_threshold=3 => settings
        CREATE TABLE b (k int PRIMARY KEY)
        => Guardrail tables violated: Creating table b, current number of tables 3 exceeds warning \
           threshold of 2.
        CREATE TABLE d (k int PRIMARY KEY)
        => Guardrail tables violated: Cannot have more than 3 tables, aborting the creation of \
           table d
        columns_per_table_warn_threshold=2,columns_per_table_fail_threshold=3 => settings
        CREATE TABLE b (k int PRIMARY KEY, v int, w int)
        => Guardrail columns_per_table violated: The table b has 3 columns, this exceeds the \
           warning threshold of 2.
        ALTER TABLE b ADD x int
        => Guardrail columns_per_table violated: Tables cannot have more than 3 columns, but 4 \
           provided for table b
        fields_per_udt_warn_threshold=1,fields_per_udt_fail_threshold=2 => settings
        CREATE TYPE one (a int) => none
        ALTER TYPE one ADD b int
        => Guardrail fields_per_udt violated: The user type one has 2 columns, this exceeds the \
           warning threshold of 1.
        // A repeated statement adds nothing.
        ALTER TYPE one ADD IF NOT EXISTS b int => none
        CREATE TYPE three (a int, b int, c int)
        => Guardrail fields_per_udt violated: User types cannot have more than 2 columns, but 3 \
           provided for user type three.
        secondary_indexes_per_table_warn_threshold=0,secondary_indexes_per_table_fail_threshold=1
        => settings
        CREATE INDEX i ON c (t)
        => Guardrail secondary_indexes_per_table violated: Creating secondary index i on table c, \
           current number of indexes 1 exceeds warning threshold of 0.
        CREATE INDEX ON c (l)
        => Guardrail secondary_indexes_per_table violated: Tables cannot have more than 1 \
           secondary indexes, aborting the creation of secondary index on table c
        CREATE INDEX IF NOT EXISTS i ON c (t) => none
        // The keyspace of the index is that of its table.
        CREATE KEYSPACE two WITH replication = {'class': 'SimpleStrategy'} => none
        CREATE TABLE two.d (k int PRIMARY KEY, a int, b int) => none
        CREATE INDEX two.i ON d (a)
        => Guardrail secondary_indexes_per_table violated: Creating secondary index i on table d, \
           current number of indexes 1 exceeds warning threshold of 0.
        CREATE INDEX two.j ON d (b)
        => Guardrail secondary_indexes_per_table violated: Tables cannot have more than 1 \
           secondary indexes, aborting the creation of secondary index j on table d
    ";
    check(cases);
}

#[test]
fn the_sizes_of_values_and_collections_are_limited() {
    let cases = "
        column_value_size_warn_threshold=4B,column_value_size_fail_threshold=5 => settings
        INSERT INTO c (k, c, t) VALUES (1, 1, 'four') => none
        INSERT INTO c (k, c, t) VALUES (1, 1, 'fives')
        => Guardrail column_value_size violated: Value of column 't' has size 5, this exceeds the \
           warning threshold of 4.
        UPDATE c SET m = {1: 'sixsix'} WHERE k = 1 AND c = 1
        => Guardrail column_value_size violated: Value of column 'm' has size 6, this exceeds the \
           failure threshold of 5.
        // A map key counts as the client wrote it, and not with the bytes of its stored form.
        UPDATE c SET m = {1: 'a'} WHERE k = 1 AND c = 1 => none
        UPDATE c SET m[2] = 'a' WHERE k = 1 AND c = 1 => none
        UPDATE c SET s = {'four'} WHERE k = 1 AND c = 1 => none
        UPDATE c SET s = s + {'fives'} WHERE k = 1 AND c = 1
        => Guardrail column_value_size violated: Value of column 's' has size 5, this exceeds the \
           warning threshold of 4.
        // 4 bytes of scale, and 2 of digits: the stored form has no trailing zeros.
        UPDATE c SET n = {100.0: 1} WHERE k = 1 AND c = 1
        => Guardrail column_value_size violated: Value of column 'n' has size 6, this exceeds the \
           failure threshold of 5.
        // The place of an element in a list is no value of the client.
        UPDATE c SET l = [1, 2] WHERE k = 1 AND c = 1 => none
        // A failed condition writes nothing, so the value is not checked. The condition below
        // holds.
        INSERT INTO c (k, c, t) VALUES (1, 1, 'sixsix') IF NOT EXISTS => none
        UPDATE c SET t = 'fives' WHERE k = 1 AND c = 1 IF EXISTS
        => Guardrail column_value_size violated: Value of column 't' has size 5, this exceeds the \
           warning threshold of 4.
        items_per_collection_warn_threshold=2,items_per_collection_fail_threshold=3 => settings
        UPDATE c SET l = [1, 2] WHERE k = 1 AND c = 1 => none
        // The stored elements are not read for the check.
        UPDATE c SET l = l + [1, 2] WHERE k = 1 AND c = 1 => none
        UPDATE c SET l = [1, 2, 3] WHERE k = 1 AND c = 1
        => Guardrail items_per_collection violated: Detected collection l with 3 items, this \
           exceeds the warning threshold of 2.
        UPDATE c SET f = {1, 2, 3, 4} WHERE k = 1 AND c = 1
        => Guardrail items_per_collection violated: Detected collection f with 4 items, this \
           exceeds the failure threshold of 3.
        // A frozen map is a single value.
        UPDATE c SET g = {1: 1, 2: 2} WHERE k = 1 AND c = 1 => none
        UPDATE c SET g = {1: 1, 2: 2, 3: 3} WHERE k = 1 AND c = 1
        => Guardrail items_per_collection violated: Detected collection g with 3 items, this \
           exceeds the warning threshold of 2.
        UPDATE c SET g = {1: 1, 2: 2, 3: 3, 4: 4} WHERE k = 1 AND c = 1
        => Guardrail items_per_collection violated: Detected collection g with 4 items, this \
           exceeds the failure threshold of 3.
    ";
    check(cases);
    // The size of 1029 is the value's 1025 bytes, and the 4 bytes of the key.
    let (long, ones) = ("x".repeat(1025), ["1"; 256].join(", "));
    let cases = format!(
        "
        collection_size_warn_threshold=1KiB => settings
        UPDATE c SET m = {{1: 'x'}} WHERE k = 1 AND c = 1 => none
        UPDATE c SET m = {{1: '{long}'}} WHERE k = 1 AND c = 1
        => Guardrail collection_size violated: Detected collection m of size 1029, this exceeds \
           the warning threshold of 1024.
        // 256 elements of 4 bytes; their places do not count.
        UPDATE c SET l = [{ones}] WHERE k = 1 AND c = 1 => none
        "
    );
    check(&cases);
}

#[test]
fn forbidden_features_are_rejected() {
    let cases = "
        allow_filtering => SELECT * FROM a WHERE v = 1 ALLOW FILTERING
        => Guardrail allow_filtering violated: Querying with ALLOW FILTERING is not allowed. ALLOW \
           FILTERING can potentially visit all the data in the table and have unpredictable \
           performance.
        group_by => SELECT k, count(*) FROM c GROUP BY k
        => Guardrail group_by violated: GROUP BY functionality is not allowed
        user_timestamps => INSERT INTO a (k) VALUES (1) USING TIMESTAMP 5
        => Guardrail user_timestamps violated: User provided timestamps (USING TIMESTAMP) is not \
           allowed
        user_timestamps => BEGIN BATCH USING TIMESTAMP 5 INSERT INTO a (k) VALUES (1); APPLY BATCH
        => Guardrail user_timestamps violated: User provided timestamps (USING TIMESTAMP) is not \
           allowed
        read_before_write_list_operations => UPDATE c SET l = l - [1] WHERE k = 1 AND c = 1
        => Guardrail read_before_write_list_operations violated: List operation requiring read \
           before write is not allowed
        secondary_indexes => CREATE INDEX ON c (t)
        => Guardrail secondary_indexes violated: User creation of secondary indexes is not allowed
        alter_table => ALTER TABLE a DROP v
        => Guardrail alter_table violated: ALTER TABLE changing columns is not allowed
        // As in Cassandra, the messages of these two guardrails have the name of the setting.
        drop_truncate_table => TRUNCATE a
        => Guardrail drop_truncate_table_enabled violated: DROP and TRUNCATE TABLE functionality \
           is not allowed
        drop_truncate_table => DROP TABLE a
        => Guardrail drop_truncate_table_enabled violated: DROP and TRUNCATE TABLE functionality \
           is not allowed
        drop_keyspace => DROP KEYSPACE ks
        => Guardrail drop_keyspace_enabled violated: DROP KEYSPACE functionality is not allowed
    ";
    for [feature, text, expected] in parse_cases(cases) {
        check(&format!("none => settings\n{text} => none"));
        check(&format!(
            "{feature}_enabled=false => settings\n{text} => {expected}"
        ));
    }
    // Appending to a list does not read the list.
    let cases = "
        read_before_write_list_operations_enabled=false => settings
        UPDATE c SET l = l + [1] WHERE k = 1 AND c = 1 => none
    ";
    check(cases);
}

#[test]
fn the_size_and_the_partitions_of_a_batch_are_limited() {
    let long = "x".repeat(1024);
    let cases = format!(
        "
        batch_size_warn_threshold=100B,batch_size_fail_threshold=1KiB,\
           unlogged_batch_across_partitions_warn_threshold=2
        => settings
        BEGIN UNLOGGED BATCH INSERT INTO a (k) VALUES (1); \
           INSERT INTO a (k) VALUES (2); APPLY BATCH
        => none
        BEGIN UNLOGGED BATCH INSERT INTO a (k) VALUES (1); INSERT INTO a (k) VALUES (2); \
           INSERT INTO a (k) VALUES (3); APPLY BATCH
        => Unlogged batch covering 3 partitions detected against table [ks.a]. You should use a \
           logged batch for atomicity, or asynchronous writes for performance.
        BEGIN BATCH INSERT INTO a (k) VALUES (1); \
           INSERT INTO c (k, c, t) VALUES (2, 1, '{long}'); APPLY BATCH
        => Batch too large
        "
    );
    check(&cases);
    let server = &mut guarded("batch_size_warn_threshold=20B");
    let insert = |k: i32| {
        Arc::new(
            server
                .prepare(&format!("INSERT INTO a (k) VALUES ({k})"))
                .unwrap(),
        )
    };
    let statements = [
        (insert(1), Values::default()),
        (insert(2), Values::default()),
    ];
    let warnings = server.batch_warnings(BatchKind::Logged, &statements);
    let [warning] = &warnings[..] else {
        panic!("{warnings:?}");
    };
    let begin = "Batch for [ks.a] is of size ";
    assert!(warning.starts_with(begin), "{warning}");
    assert!(
        warning.contains(", exceeding specified threshold of 20 by "),
        "{warning}"
    );
}

/// Returns a server with ten rows in one partition. Seven of them are deleted.
fn with_tombstones(settings: &str) -> Server {
    let mut server = guarded(settings);
    for c in 0..10 {
        server.run(&format!("INSERT INTO c (k, c, t) VALUES (1, {c}, 'x')"));
    }
    for c in 0..7 {
        server.run(&format!("DELETE FROM c WHERE k = 1 AND c = {c}"));
    }
    server
}

#[test]
fn tombstones_that_a_read_passes_cause_warnings_and_errors() {
    let settings = "tombstone_warn_threshold=6,tombstone_failure_threshold=7";
    let server = &mut with_tombstones(settings);
    let warnings = server.warnings_of("SELECT c FROM c WHERE k = 1", QueryParameters::default());
    assert_eq!(
        warnings.unwrap(),
        [
            "Read 3 live rows and 7 tombstone cells for query on ks.c (see \
             tombstone_warn_threshold)"
        ]
    );
    // A read of one live row passes no tombstone.
    let warnings = server.warnings_of(
        "SELECT c FROM c WHERE k = 1 AND c = 8",
        QueryParameters::default(),
    );
    assert!(warnings.unwrap().is_empty());
    // A range tombstone counts as well.
    server.run("DELETE FROM c WHERE k = 1 AND c > 100");
    for select in ["SELECT c FROM c WHERE k = 1", "SELECT c FROM c"] {
        let error = server
            .warnings_of(select, QueryParameters::default())
            .unwrap_err();
        let is_failure = matches!(error.kind, ErrorKind::ReadFailure { .. });
        assert!(is_failure, "{error:?}");
        assert_eq!(
            error.message,
            "Operation failed - received 0 responses and 1 failures: READ_TOO_MANY_TOMBSTONES: \
             scanned over 7 tombstones of ks.c (see tombstone_failure_threshold)"
        );
    }
    // An expired row counts as well.
    server.run("INSERT INTO a (k) VALUES (1) USING TTL 10");
    server.clock.advance_ms(11_000);
    let executor = std::mem::replace(&mut server.executor, Server::new().executor);
    let settings = "tombstone_failure_threshold=0,tombstone_warn_threshold=0";
    server.executor = executor.guarded_by(settings.parse().unwrap());
    assert!(
        server
            .refused("SELECT * FROM a")
            .contains("scanned over 0 tombstones of ks.a")
    );
    // The limit does not hold for the server's own tables.
    assert_eq!(server.refusal("SELECT key FROM system.local"), None);
}

/// Cassandra reads the rows of an aggregate in internal pages, and counts the tombstones of each
/// page.
#[test]
fn tombstones_that_an_aggregate_passes_are_counted_by_page() {
    let settings = "tombstone_warn_threshold=4,tombstone_failure_threshold=7";
    let mut server = guarded(settings);
    // Twice five deleted rows, then two live ones.
    for c in 0..14 {
        server.run(&format!("INSERT INTO c (k, c, t) VALUES (1, {c}, 'x')"));
    }
    for c in (0..14).filter(|c| c % 7 < 5) {
        server.run(&format!("DELETE FROM c WHERE k = 1 AND c = {c}"));
    }
    let in_pages = QueryParameters {
        page_size_rows: Some(2),
        ..QueryParameters::default()
    };
    for select in [
        "SELECT count(*) FROM c",
        "SELECT count(*) FROM c WHERE k = 1",
        "SELECT k, max(c) FROM c GROUP BY k",
        "SELECT count(*) FROM c WHERE t = 'x' ALLOW FILTERING",
    ] {
        assert_eq!(
            server.warnings_of(select, in_pages).unwrap(),
            [
                "Read 2 live rows and 5 tombstone cells for query on ks.c (see \
                 tombstone_warn_threshold)"
            ],
            "{select}"
        );
        // Without paging by the client an internal page has ten thousand rows.
        let error = server
            .warnings_of(select, QueryParameters::default())
            .unwrap_err();
        let is_failure = matches!(error.kind, ErrorKind::ReadFailure { .. });
        assert!(is_failure, "{select}: {error:?}");
    }
}

#[test]
fn consistency_levels_cause_warnings_or_errors() {
    let server = &mut guarded(
        "read_consistency_levels_warned=ONE,read_consistency_levels_disallowed=ALL+TWO,\
         write_consistency_levels_warned=SERIAL,write_consistency_levels_disallowed=ANY",
    );
    let warnings = |text: &str, consistency, serial_consistency| {
        let parameters = QueryParameters {
            consistency,
            serial_consistency,
            ..QueryParameters::default()
        };
        server
            .warnings_of(text, parameters)
            .map_err(|error| error.message)
    };
    use Consistency::{All, Any, LocalSerial, One, Quorum};
    let select = "SELECT * FROM a WHERE k = 1";
    assert_eq!(warnings(select, Quorum, None), Ok(vec![]));
    let warning = "Guardrail read_consistency_levels violated: Provided values [ONE] are not \
                   recommended for read consistency levels (warned values are: [ONE])";
    assert_eq!(warnings(select, One, None), Ok(vec![warning.to_owned()]));
    let refusal = "Guardrail read_consistency_levels violated: Provided values [ALL] are not \
                   allowed for read consistency levels (disallowed values are: [TWO, ALL])";
    assert_eq!(warnings(select, All, None), Err(refusal.to_owned()));
    assert_eq!(
        warnings("SELECT key FROM system.local", All, None),
        Ok(vec![])
    );
    let insert = "INSERT INTO a (k) VALUES (1)";
    assert_eq!(warnings(insert, One, Some(LocalSerial)), Ok(vec![]));
    // A request without a serial consistency level has SERIAL.
    let warning = "Guardrail write_consistency_levels violated: Provided values [SERIAL] are not \
                   recommended for write consistency levels (warned values are: [SERIAL])";
    assert_eq!(warnings(insert, One, None), Ok(vec![warning.to_owned()]));
    let refusal = "Guardrail write_consistency_levels violated: Provided values [ANY] are not \
                   allowed for write consistency levels (disallowed values are: [ANY])";
    for write in [
        insert,
        "BEGIN BATCH INSERT INTO a (k) VALUES (2); APPLY BATCH",
    ] {
        assert_eq!(warnings(write, Any, None), Err(refusal.to_owned()));
    }
}

/// A picker that merges all runs of a table.
#[derive(Debug)]
struct All;

impl CompactionPicker for All {
    fn pick(&self, table: &TableShape<'_>) -> Option<Pick> {
        (table.runs.len() > 1).then(|| Pick::merge(table.runs))
    }
}

#[test]
fn too_large_partitions_are_reported_when_they_are_written() {
    let clock = ManualClock::at_ms(BEGIN_MS);
    let catalog = open(&MemDisk::new(), &clock, |options| Options {
        compaction: CompactionOptions {
            picker: Arc::new(All),
            ..options.compaction
        },
        ..options
    });
    let mut server = Server::over(catalog.clone(), clock, None);
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', \
         'replication_factor': 1}",
        "USE ks",
        "CREATE TABLE a (k int PRIMARY KEY, v text)",
        "CREATE TABLE b (k text, l int, c int, v text, PRIMARY KEY ((k, l), c))",
    ] {
        server.run(text);
    }
    let settings = "partition_size_warn_threshold=1KiB,partition_size_fail_threshold=3KiB";
    let guardrails: Guardrails = settings.parse().unwrap();
    let (sender, reports) = std::sync::mpsc::channel();
    let counts = guardrails.watch_partitions(&catalog, move |large: &LargePartition| {
        sender.send(large.clone()).unwrap();
    });
    let half = "x".repeat(512);
    let mut insert = |key: &str, rows: std::ops::Range<i32>| {
        for c in rows {
            server.run(&format!(
                "INSERT INTO b (k, l, c, v) VALUES ('{key}', 7, {c}, '{half}')"
            ));
            // Each row of `a` is a partition of its own, and no partition is large.
            server.run(&format!("INSERT INTO a (k, v) VALUES ({c}, '{half}')"));
        }
        catalog.db().flush().unwrap();
    };
    insert("ada", 0..1);
    assert_eq!(reports.try_iter().count(), 0);

    insert("bob", 1..3);
    let large = reports.try_recv().unwrap();
    assert!((1025..2048).contains(&large.bytes), "{large:?}");
    let bytes = large.bytes;
    assert_eq!(
        large,
        LargePartition {
            keyspace: "ks".into(),
            table: "b".into(),
            key: "bob:7".into(),
            bytes,
            threshold_bytes: 1024,
            is_warning: true,
            message: format!(
                "Guardrail partition_size violated: Partition ks.b:bob:7 has size {bytes}, this \
                 exceeds the warning threshold of 1024."
            ),
        }
    );
    // Each flush stays below the failure threshold; their merge exceeds it.
    insert("bob", 3..7);
    assert!(reports.try_recv().unwrap().is_warning);
    assert_eq!(reports.try_iter().count(), 0);
    catalog.db().compact().unwrap();
    let large = reports.try_recv().unwrap();
    assert!(!large.is_warning && large.bytes > 3 << 10, "{large:?}");
    assert_eq!(large.threshold_bytes, 3 << 10);
    assert_eq!(reports.try_iter().count(), 0);
    assert_eq!((counts.warnings(), counts.failures()), (2, 1));
}

#[test]
fn the_older_name_of_the_partition_size_setting_is_accepted() {
    let text = "compaction_large_partition_warning_threshold=100MiB";
    let guardrails: Guardrails = text.parse().unwrap();
    assert_eq!(
        guardrails.to_string(),
        "partition_size_warn_threshold=100MiB"
    );
}

#[test]
fn superusers_are_subject_to_the_older_limits_only() {
    let guardrails: Guardrails = "tombstone_failure_threshold=7000,tables_fail_threshold=1,\
                                  group_by_enabled=false"
        .parse()
        .unwrap();
    let held = guardrails.of_superusers().to_string();
    assert_eq!(held, "tombstone_failure_threshold=7000");
}

#[test]
fn displayed_guardrails_parse_to_the_same_guardrails() {
    for text in [
        "none",
        "tables_fail_threshold=0",
        "group_by_enabled=false,read_consistency_levels_warned=ANY+LOCAL_ONE,\
         write_consistency_levels_disallowed=QUORUM",
        "keyspaces_warn_threshold=1,keyspaces_fail_threshold=2,page_size_warn_threshold=10,\
         column_value_size_warn_threshold=64KiB,collection_size_fail_threshold=1025B,\
         partition_size_warn_threshold=100MiB,partition_size_fail_threshold=1GiB,\
         batch_size_fail_threshold=-1,unlogged_batch_across_partitions_warn_threshold=100,\
         tombstone_warn_threshold=-1,tombstone_failure_threshold=5,\
         allow_filtering_enabled=false,drop_keyspace_enabled=false",
    ] {
        let guardrails: Guardrails = text.parse().unwrap();
        assert_eq!(guardrails.to_string(), text);
    }
    let same: Guardrails = "batch_size_warn_threshold=5120".parse().unwrap();
    assert_eq!(same, Guardrails::default());
    let cases = r#"
        tables=1 => there is no guardrail "tables"
        tables_warn_threshold=x => expected a number
        tables_warn_threshold=1KiB => expected a number
        batch_size_warn_threshold=x => expected a size
        unlogged_batch_across_partitions_fail_threshold=1 => there is no guardrail
        allow_filtering_enabled=no => expected true or false
        x => is not NAME=VALUE
        read_consistency_levels_warned=SOME => expected consistency levels
        tables_warn_threshold=2,tables_fail_threshold=1 => is above tables_fail_threshold 1
    "#;
    for [text, expected] in parse_cases(cases) {
        let error = text.parse::<Guardrails>().unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
