//! Publications of several tables, some of which cannot be published.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ebb_storage::FileSystem;

use super::*;

/// Returns the paths of the SSTables on `disk`.
fn sstables(disk: &MemDisk) -> BTreeSet<PathBuf> {
    let files = disk.list(Path::new("/db")).unwrap().into_iter();
    let is_sstable = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "sst");
    files.filter(is_sstable).collect()
}

/// Returns the cause of a job's failure.
fn cause(outcome: Outcome) -> String {
    match outcome {
        Outcome::Failed { cause } => cause,
        outcome => panic!("{outcome:?}"),
    }
}

impl Store {
    fn has_tag(&self, table: &str, tag: &str) -> bool {
        self.metadata(table).refs.contains_key(tag)
    }
}

/// Regression: damage in one table failed the publication of all others, before any of them had the tag.
#[test]
fn a_damaged_table_is_left_out_and_the_next_run_finishes_once_it_is_readable() {
    let disk = MemDisk::new();
    let store = Store::on(&disk);
    let [t, u] = ["t", "u"].map(|name| store.create(name, &NUMBERS));
    let insert = |written: &Written, k, n| {
        written.insert(&[("k", int(k)), ("n", int(n))], at(i64::from(n)));
    };
    for written in [&t, &u] {
        insert(written, 0, 1);
    }
    store.db.flush().unwrap();
    store.keyspace.create_snapshot("monday").unwrap();
    let outcome = store.publish(&["t", "u"], "monday", keeping("1"));
    assert_eq!(outcome, Outcome::Succeeded);

    let before = sstables(&disk);
    for k in 1..2000 {
        insert(&t, k, 2);
    }
    store.db.flush().unwrap();
    insert(&u, 1, 2);
    store.keyspace.create_snapshot("tuesday").unwrap();
    let new = sstables(&disk);
    let new = new.difference(&before);
    let largest = new.max_by_key(|path| disk.file_len(path).unwrap()).unwrap();
    // In the first data block, which is behind a header of 20 bytes.
    let flip = || disk.flip_bit(largest, 24, 3).unwrap();
    flip();
    // Regression: once the other table had the tag, the cause named no remedy.
    for _ in 0..2 {
        let cause = cause(store.publish(&["t", "u"], "tuesday", keeping("1")));
        for part in ["1 of 2 tables", "repair", "--table", "app.t: corrupt file"] {
            assert!(cause.contains(part), "{cause}");
        }
    }
    assert!(!store.has_tag("t", "tuesday"));
    assert_eq!(store.rows("u", "tuesday", &u), ["0, 1", "1, 2"]);
    assert_eq!(store.rows("u", "main", &u), ["0, 1"]);
    // Nothing is removed while the set is not whole.
    assert!(store.has_tag("u", "monday"));
    let records = store.records();
    let is_whole = |snapshot| records.contains(&format!("_ebb/app/{snapshot}.json"));
    assert!(is_whole("monday") && !is_whole("tuesday"), "{records:?}");

    flip();
    let outcome = store.publish(&["t", "u"], "tuesday", keeping("1"));
    assert_eq!(outcome, Outcome::Succeeded);
    assert_eq!(store.rows("t", "main", &t).len(), 2000);
    assert_eq!(store.rows("u", "main", &u), ["0, 1", "1, 2"]);
    assert!(!store.has_tag("t", "monday") && !store.has_tag("u", "monday"));
    assert_eq!(store.records(), ["_ebb/app/tuesday.json"]);
}

/// Regression: damage in the block that has a table's schema refused the publication of all tables.
#[test]
fn a_table_whose_schema_is_damaged_is_left_out_unless_it_is_the_only_one() {
    let disk = MemDisk::new();
    let store = Store::on(&disk);
    let u = store.create("u", &NUMBERS);
    u.insert(&[("k", int(0)), ("n", int(1))], at(1));
    store.db.flush().unwrap();
    let before = sstables(&disk);
    let t = store.create("t", &NUMBERS);
    t.insert(&[("k", int(5)), ("n", int(6))], at(1));
    store.db.flush().unwrap();
    store.keyspace.create_snapshot("monday").unwrap();
    let new = sstables(&disk);
    let damaged = new.difference(&before).next().unwrap();
    // The first data block, which is behind a header of 20 bytes, begins with the schema.
    let flip = || disk.flip_bit(damaged, 24, 3).unwrap();
    let publish = |tables: &[&str]| store.publish(tables, "monday", PublishRequest::default());
    flip();
    // Regression: once the other table had the tag, the publication was refused without a remedy.
    for _ in 0..2 {
        let cause = cause(publish(&["t", "u"]));
        for part in ["1 of 2 tables", "repair", "--table", "app.t: "] {
            assert!(cause.contains(part), "{cause}");
        }
    }
    assert!(newest_metadata(&store.target(), "t").is_none());
    assert_eq!(store.rows("u", "monday", &u), ["0, 1"]);
    assert!(!store.has_tag("u", "main"));
    let refused = store.try_publish(&["t"], "monday", PublishRequest::default());
    let refused = refused.unwrap_err();
    assert!(refused.contains("app.t"), "{refused}");
    // The remedy that the cause names.
    store.publish_successfully(&["u"], "monday");
    assert_eq!(store.rows("u", "main", &u), ["0, 1"]);

    flip();
    assert_eq!(publish(&["t", "u"]), Outcome::Succeeded);
    assert_eq!(store.rows("t", "main", &t), ["5, 6"]);
    assert_eq!(store.rows("u", "main", &u), ["0, 1"]);
    assert_eq!(store.records(), ["_ebb/app/monday.json"]);
}

#[test]
fn tables_with_refused_values_are_all_named_and_another_one_is_published() {
    let store = Store::new();
    let columns = [("k", "int", false), ("n", "varint", false)];
    let names = ["t", "u", "v"];
    let tables = names.map(|name| store.create(name, &columns));
    let number = |text: &str| CqlType::Varint.parse_value(text).unwrap();
    let values = [
        number(&"7".repeat(50)),
        number(&"8".repeat(50)),
        number("9"),
    ];
    for (written, value) in tables.iter().zip(values) {
        written.insert(&[("k", int(1)), ("n", value)], at(1));
    }
    store.keyspace.create_snapshot("monday").unwrap();
    let request = store.request(&names, "monday", PublishRequest::default());
    let runtime = Runtime::start(options(2)).unwrap();
    let spec = store.spec(&request).unwrap();
    let report = runtime.submit(spec).unwrap().wait();
    assert!(report.invalid_input, "{report:?}");
    let cause = cause(report.outcome);
    // The values of a snapshot do not change: the same command would refuse them again.
    for part in ["2 of 3 tables", "options", "new snapshot", "--table"] {
        assert!(cause.contains(part), "{cause}");
    }
    let records = store.records();
    let mut refused = records.iter();
    let refused = refused.find(|name| name.ends_with("/refused.txt"));
    let refused = refused.unwrap();
    let refused = store.target().read(refused).unwrap().unwrap();
    let refused = String::from_utf8(refused.to_vec()).unwrap();
    for (table, digit) in [("t", "7"), ("u", "8")] {
        let named = format!("table app.{table}, column n: ");
        assert!(cause.contains(&named), "{cause}");
        let named = format!("table app.{table}, row k = 1, column n: {digit}");
        assert!(refused.contains(&named), "{refused}");
        assert!(newest_metadata(&store.target(), table).is_none());
    }
    assert_eq!(store.rows("v", "monday", &tables[2]), ["1, 9"]);
    assert!(!store.has_tag("v", "main"));
    assert!(!records.contains(&"_ebb/app/monday.json".to_owned()));

    // Two of the remedies that the cause names.
    store.publish_successfully(&["v"], "monday");
    assert_eq!(store.rows("v", "main", &tables[2]), ["1, 9"]);
    let as_text = PublishRequest {
        varint_as_text: true,
        ..PublishRequest::default()
    };
    assert_eq!(store.publish(&names, "monday", as_text), Outcome::Succeeded);
    for table in names {
        assert!(store.has_tag(table, "main"), "{table}");
    }
    assert_eq!(store.records(), ["_ebb/app/monday.json"]);
}
