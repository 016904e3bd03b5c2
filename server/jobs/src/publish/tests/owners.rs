//! Publications of databases that were restored or copied, and of others, into one target.

use super::*;

/// The option that takes tables over.
fn taking_over() -> PublishRequest {
    PublishRequest {
        take_over: true,
        ..PublishRequest::default()
    }
}

impl Store {
    /// Creates the table `name` with the rows `keys`, and then a snapshot.
    fn create_with(&self, name: &str, keys: std::ops::Range<i32>, snapshot: &str) -> Written {
        let written = self.create(name, &NUMBERS);
        for k in keys {
            written.insert(&[("k", int(k)), ("n", int(k))], at(1));
        }
        self.keyspace.create_snapshot(snapshot).unwrap();
        written
    }

    fn publish_first(&self, snapshot: &str) {
        let published = self.try_publish(&["t"], snapshot, PublishRequest::default());
        published.unwrap();
    }

    /// Returns the error of a publication without options.
    fn refused(&self, table: &str, snapshot: &str) -> String {
        let published = self.try_publish(&[table], snapshot, PublishRequest::default());
        published.unwrap_err()
    }

    fn epochs(&self) -> Table {
        let own = self.db.existing_keyspace("ebb_system").unwrap();
        own.existing_table("publications").unwrap()
    }
}

/// A restored or repaired database has another id.
#[test]
fn a_restored_database_takes_tables_over_with_all_rows_and_keeps_the_older_tags() {
    let before = Store::new();
    let written = before.create_with("t", 0..5, "monday");
    before.publish_first("monday");
    let mut restored = Store::new();
    restored.dir = before.dir;
    let rows = restored.create_with("t", 0..3, "tuesday");
    let error = restored.refused("t", "tuesday");
    assert!(error.contains("--take-over"), "{error}");
    assert_eq!(restored.metadata("t").snapshots.len(), 1);

    let notes = restored.try_publish(&["t"], "tuesday", taking_over());
    let notes = notes.unwrap();
    let why = "app.t: 3 rows in full, because the table is taken over";
    assert!(notes[0].starts_with(why), "{notes:?}");
    assert_eq!(restored.rows("t", "main", &rows).len(), 3);
    assert_eq!(restored.rows("t", "monday", &written).len(), 5);

    // From then on the table is its own.
    rows.insert(&[("k", int(7)), ("n", int(7))], at(2));
    restored.keyspace.create_snapshot("wednesday").unwrap();
    let notes = restored.try_publish(&["t"], "wednesday", PublishRequest::default());
    let changed = "app.t: 1 row added, 0 replaced, 0 deleted";
    assert_eq!(notes.unwrap(), [changed]);
    assert_eq!(restored.rows("t", "main", &rows).len(), 4);
}

/// A copy of the directory has the same id, and no record of the epochs that the other copy has written since.
#[test]
fn a_copy_of_a_database_stops_where_the_other_copy_has_published_since() {
    let store = Store::new();
    let written = store.create_with("t", 0..3, "monday");
    store.publish_first("monday");
    let records = store.epochs();
    let (key, record) = records.range::<&[u8], _>(..).next().unwrap().unwrap();
    store.keyspace.create_snapshot("tuesday").unwrap();
    store.publish_first("tuesday");
    let newer = records.get(&key).unwrap().unwrap();
    store.keyspace.create_snapshot("wednesday").unwrap();

    // The state of the copy, which was made on monday.
    records.put(&key, &record).unwrap();
    let error = store.refused("t", "wednesday");
    assert!(error.contains("another copy of this database"), "{error}");
    assert!(error.contains("--take-over"), "{error}");
    // Nor is a snapshot accepted that the other copy has published under the same name.
    let error = store.refused("t", "tuesday");
    assert!(error.contains("another copy of this database"), "{error}");
    assert_eq!(store.metadata("t").snapshots.len(), 2);

    let notes = store.try_publish(&["t"], "wednesday", taking_over());
    let notes = notes.unwrap();
    assert!(notes[0].contains("taken over"), "{notes:?}");
    assert_eq!(store.rows("t", "main", &written).len(), 3);
    // The other copy stops now.
    records.put(&key, &newer).unwrap();
    store.keyspace.create_snapshot("thursday").unwrap();
    let error = store.refused("t", "thursday");
    assert!(error.contains("another copy of this database"), "{error}");
}

/// Regression: each of two databases with tables of other names removed the plans and the record of the other.
#[test]
fn a_snapshot_of_which_another_database_has_records_is_refused() {
    let first = Store::new();
    first.create_with("t", 0..3, "monday");
    first.publish_first("monday");
    let mut second = Store::new();
    second.dir = first.dir;
    second.create_with("u", 0..3, "monday");
    let error = second.refused("u", "monday");
    assert!(error.contains("_ebb/app/monday: the database"), "{error}");
    assert_eq!(second.record("monday")["tables"][0]["table"], "app/t");

    // Under another name, both publish.
    second.keyspace.create_snapshot("later").unwrap();
    let published = second.try_publish(&["u"], "later", PublishRequest::default());
    published.unwrap();
    assert_eq!(second.records().len(), 2);
}

/// Regression: such names were compared within one publication only.
#[test]
fn a_table_whose_name_differs_from_a_published_one_only_in_case_is_refused() {
    let store = Store::new();
    store.create_with("T", 0..3, "sunday");
    store.create_with("t", 0..3, "monday");
    store.publish_first("monday");
    let error = store.refused("T", "monday");
    assert!(error.contains("the target has the table app/t"), "{error}");
    // The one that is there goes on.
    store.keyspace.create_snapshot("tuesday").unwrap();
    store.publish_first("tuesday");
}
