//! Publications of changes compare with the snapshot that a pin keeps. Without the pin they write all rows; if the
//! pin goes while they run, they fail.

use super::*;

#[test]
fn without_a_fitting_pin_all_rows_are_written_and_the_report_has_the_reason() {
    let store = Store::new();
    let written = store.create("t", &COLUMNS);
    let insert = |c, s| written.insert(&Written::row(1, c, "b".to_owned()), at(s));
    insert(1, 1);
    store.next("t", "first");
    let holds = store.keyspace.holds();
    assert_eq!(holds.len(), 1);
    assert_eq!(store.keyspace.snapshot_names(), ["first"]);
    store.keyspace.delete_snapshot(&holds[0].name).unwrap();
    insert(2, 2);
    let notes = store.next("t", "second");
    let why = "2 rows in full, because the snapshot that was published before is not kept any more";
    assert_eq!(notes[0], format!("app.t: {why}"));
    store.check(&written, "second");

    store.keyspace.create_snapshot("third").unwrap();
    let full = PublishRequest {
        full: true,
        pin_max: Some(PinMax::Nothing),
        ..PublishRequest::default()
    };
    let notes = store.publish_noting("t", "third", full);
    assert_eq!(notes[0], "app.t: 2 rows in full, because --full was given");
    assert!(store.keyspace.holds().is_empty());

    // Another option, after a publication that keeps its snapshot.
    let notes = store.next("t", "fourth");
    assert!(notes[0].contains("not kept any more"), "{notes:?}");
    store.keyspace.create_snapshot("fifth").unwrap();
    let as_null = PublishRequest {
        empty_as_null: true,
        ..PublishRequest::default()
    };
    let notes = store.publish_noting("t", "fifth", as_null);
    assert!(notes[0].contains("had other options"), "{notes:?}");
    // An earlier snapshot adds its tag only, and its pin goes: the next one is compared with the newest one.
    let replacing = PublishRequest {
        replace: true,
        ..PublishRequest::default()
    };
    store.keyspace.create_snapshot("old").unwrap();
    store.next("t", "sixth");
    let notes = store.publish_noting("t", "old", replacing);
    assert!(notes[0].contains("of a later snapshot"), "{notes:?}");
    store.check(&written, "sixth");
    assert_eq!(store.keyspace.holds().len(), 1);
    insert(3, 3);
    let notes = store.next("t", "seventh");
    assert_eq!(notes[0], "app.t: 1 row added, 0 replaced, 0 deleted");
    store.check(&written, "seventh");
}

#[test]
fn a_publisher_of_changes_that_was_overtaken_names_the_other_publisher() {
    let store = Store::new();
    let (written, _) = large(&store);
    store.next("t", "monday");
    for (c, snapshot) in [(1000, "tuesday"), (1001, "wednesday")] {
        written.insert(&Written::row(0, c, "new".into()), at(1));
        store.keyspace.create_snapshot(snapshot).unwrap();
    }
    let spec = |snapshot| store.start(&["t"], snapshot);
    let (tuesday, wednesday) = (spec("tuesday"), spec("wednesday"));
    // Both begin, and so the first to commit lets go what was published before.
    run_tasks(&tuesday).unwrap();
    run_tasks(&wednesday).unwrap();
    tuesday.output.commit().unwrap();
    let error = wednesday.output.commit().unwrap_err().to_string();
    assert!(error.contains("another publisher"), "{error}");
    assert_eq!(store.metadata("t").snapshots.len(), 2);
}

/// The store releases the pins (kept snapshots) of a table before it drops rows of the table that it cannot
/// read. A publication that is under way must then not pin its own snapshot at its end. If it has compared
/// with a snapshot whose pin was released, it must fail.
#[test]
fn a_pin_that_goes_during_a_publication_is_not_made_at_its_end_and_not_compared_with() {
    let store = Store::new();
    let written = store.create("t", &COLUMNS);
    let insert = |c, s| written.insert(&Written::row(1, c, "b".to_owned()), at(s));
    let begin = |snapshot: &str| {
        store.keyspace.create_snapshot(snapshot).unwrap();
        let request = store.request(&["t"], snapshot, PublishRequest::default());
        let (spec, noted) = store.open(&request).unwrap();
        run_tasks(&spec).unwrap();
        assert!(!store.keyspace.holds().is_empty());
        for hold in store.keyspace.holds() {
            store.keyspace.delete_snapshot(&hold.name).unwrap();
        }
        (spec, noted)
    };
    insert(1, 1);
    let (first, noted) = begin("first");
    first.output.commit().unwrap();
    assert!(store.keyspace.holds().is_empty());
    let notes = noted.notes();
    assert!(notes.last().unwrap().contains("is not kept"), "{notes:?}");
    store.check(&written, "first");

    insert(2, 2);
    let notes = store.next("t", "second");
    assert!(notes[0].contains("2 rows in full"), "{notes:?}");
    insert(3, 3);
    let (third, _) = begin("third");
    let error = third.output.commit().unwrap_err().to_string();
    assert!(error.contains("is not kept any more"), "{error}");
    drop(third);
    let notes = store.publish_noting("t", "third", PublishRequest::default());
    assert!(notes[0].contains("3 rows in full"), "{notes:?}");
    store.check(&written, "third");
    insert(4, 4);
    let notes = store.next("t", "fourth");
    assert_eq!(notes[0], "app.t: 1 row added, 0 replaced, 0 deleted");
    store.check(&written, "fourth");
}

#[test]
fn a_table_that_was_dropped_and_created_again_is_refused_as_before() {
    let store = Store::new();
    let create = || {
        let table = store.keyspace.table("lines", TableOptions::default());
        let table = table.unwrap();
        table.put(b"1", b"one").unwrap();
        table
    };
    drop(create());
    store.next("lines", "monday");
    assert_eq!(store.keyspace.holds().len(), 1);
    store.keyspace.drop_table("lines").unwrap();
    assert!(store.keyspace.holds().is_empty());
    create();
    store.keyspace.create_snapshot("tuesday").unwrap();
    let request = store.request(&["lines"], "tuesday", PublishRequest::default());
    let error = store.spec(&request).err().unwrap().to_string();
    assert!(error.contains("dropped and created again"), "{error}");
}
