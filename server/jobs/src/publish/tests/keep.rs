//! Publications that remove older ones by the option `keep`.

use ebb_publish::commit::sweep;

use super::*;

impl Store {
    /// Publishes tables of a snapshot without a runtime. Returns the lines of the job's report.
    fn publish_now(&self, tables: &[&str], snapshot: &str, of: PublishRequest) -> Vec<String> {
        self.try_publish(tables, snapshot, of).unwrap()
    }

    /// Returns the names of the snapshots with a completion record in the target, sorted.
    fn recorded(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .records()
            .iter()
            .map(|name| {
                let name = name.strip_prefix("_ebb/app/").unwrap();
                name.strip_suffix(".json").unwrap().to_owned()
            })
            .collect();
        names.sort();
        names
    }

    /// Returns the tags of an Iceberg table, sorted.
    fn tags(&self, table: &str) -> Vec<String> {
        let mut tags = self.metadata(table).refs;
        tags.remove("main");
        tags.into_keys().collect()
    }

    /// Returns the versions between which sweeps of an Iceberg table look at no objects.
    fn settled(&self, table: &str) -> (u64, u64) {
        let metadata = self.metadata(table);
        let settled = metadata.properties["ebb.settled-versions"].split_once('-');
        let (after, until) = settled.unwrap();
        (after.parse().unwrap(), until.parse().unwrap())
    }

    /// Returns whether the object at this location is in the target.
    fn has(&self, location: &str) -> bool {
        let target = self.target();
        let name = target.name(location).unwrap();
        target.read(name).unwrap().is_some()
    }
}

#[test]
fn a_publication_removes_older_ones_with_their_records_and_the_next_one_removes_their_files() {
    let store = Store::new();
    let written = store.create("t", &WITH_STATICS);
    let publish = |day: i32, snapshot: &str, of: PublishRequest| {
        let row = [("k", int(day)), ("c", int(1)), ("b", b"new".to_vec())];
        written.insert(&row, at(day.into()));
        store.keyspace.create_snapshot(snapshot).unwrap();
        let notes = store.publish_now(&["t"], snapshot, of);
        let newest = store.metadata("t").newest().unwrap().manifest_list.clone();
        (notes, newest)
    };
    let (_, monday) = publish(1, "monday", PublishRequest::default());
    let (notes, tuesday) = publish(2, "tuesday", keeping("1,7d"));
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert_eq!(store.tags("t"), ["monday", "tuesday"]);

    let (notes, wednesday) = publish(3, "wednesday", keeping("2"));
    let removed = ["t", "t_static"].map(|t| format!("app.{t}: 1 older publication removed"));
    assert_eq!(notes[2..], removed);
    for table in ["t", "t_static"] {
        assert_eq!(store.tags(table), ["tuesday", "wednesday"]);
    }
    assert_eq!(store.recorded(), ["tuesday", "wednesday"]);
    // A reader may have opened it before.
    assert!(store.has(&monday));
    assert_eq!(store.rows("t", "tuesday", &written).len(), 2);
    assert_eq!(store.rows("t", "wednesday", &written).len(), 3);

    let (notes, thursday) = publish(4, "thursday", keeping("1"));
    assert_eq!(notes[2], "app.t: 2 older publications removed");
    assert_eq!(store.tags("t"), ["thursday"]);
    assert_eq!(store.recorded(), ["thursday"]);
    assert!(!store.has(&monday));
    assert!(store.has(&tuesday) && store.has(&wednesday));
    // The next sweep looks at the objects of the removed publications, and the one after it does not.
    let (after, until) = store.settled("t");
    assert!(0 < after && after <= until, "{after}, {until}");
    assert!(sweep(&store.target(), "app/t").unwrap() > 0);
    assert!(!store.has(&tuesday) && !store.has(&wednesday) && store.has(&thursday));
    assert_eq!(store.rows("t", "thursday", &written).len(), 4);

    // Nothing is committed, and so nothing is removed.
    publish(5, "friday", PublishRequest::default());
    let (after, until_now) = store.settled("t");
    assert!(after == 0 && until_now > until, "{after}, {until_now}");
    store.publish_now(&["t"], "friday", keeping("1"));
    assert_eq!(store.tags("t"), ["friday", "thursday"]);
}

#[test]
fn a_record_is_removed_when_one_of_its_tables_loses_the_tag_and_no_other_record_is() {
    let store = Store::new();
    for table in ["t", "u"] {
        let written = store.create(table, &NUMBERS);
        written.insert(&[("k", int(1)), ("n", int(1))], at(0));
    }
    for snapshot in ["monday", "tuesday", "wednesday"] {
        store.keyspace.create_snapshot(snapshot).unwrap();
    }
    store.publish_now(&["t", "u"], "monday", PublishRequest::default());
    store.publish_now(&["u"], "tuesday", PublishRequest::default());
    store.publish_now(&["t"], "wednesday", keeping("1"));
    assert_eq!(store.tags("t"), ["wednesday"]);
    assert_eq!(store.tags("u"), ["monday", "tuesday"]);
    assert_eq!(store.recorded(), ["tuesday", "wednesday"]);

    // The table without the tag is published again, and the other one is published still.
    store.publish_now(&["t", "u"], "monday", PublishRequest::default());
    assert_eq!(store.tags("t"), ["monday", "wednesday"]);
    assert_eq!(store.recorded(), ["monday", "tuesday", "wednesday"]);
}

/// Readers may still read the removed publications until the next publication.
#[test]
fn publishers_of_the_same_snapshot_leave_the_files_that_its_commit_has_removed() {
    let store = Store::new();
    let tables = ["t", "u"].map(|table| store.create(table, &NUMBERS));
    for (k, snapshot) in [(1, "monday"), (2, "tuesday")] {
        for written in &tables {
            written.insert(&[("k", int(k)), ("n", int(1))], at(0));
        }
        store.keyspace.create_snapshot(snapshot).unwrap();
    }
    store.publish_now(&["t", "u"], "monday", PublishRequest::default());
    let list = |table: &str| {
        let newest = store.metadata(table).newest().cloned();
        newest.unwrap().manifest_list
    };
    let [t, u] = ["t", "u"].map(list);
    let late = store.spec(&store.request(&["t"], "tuesday", keeping("1")));
    let late = late.unwrap();
    run_tasks(&late).unwrap();
    store.publish_now(&["t"], "tuesday", keeping("1"));
    assert_eq!(store.tags("t"), ["tuesday"]);
    // Another publisher has committed its table.
    late.output.commit().unwrap();
    assert!(store.has(&t));
    // One of the tables is published already.
    store.publish_now(&["t", "u"], "tuesday", keeping("1"));
    assert_eq!(store.tags("u"), ["tuesday"]);
    assert!(store.has(&t) && store.has(&u));
}

/// The first job has found the snapshot published, and would write its record although its tag is removed.
#[test]
fn no_record_is_written_for_a_publication_that_another_one_has_removed_meanwhile() {
    let store = Store::new();
    let written = store.create("t", &NUMBERS);
    written.insert(&[("k", int(1)), ("n", int(1))], at(0));
    for snapshot in ["monday", "tuesday"] {
        store.keyspace.create_snapshot(snapshot).unwrap();
    }
    store.publish_now(&["t"], "monday", PublishRequest::default());
    let again = store.start(&["t"], "monday");
    store.publish_now(&["t"], "tuesday", keeping("1"));
    let error = again.output.commit().unwrap_err().to_string();
    assert!(error.contains("publish again"), "{error}");
    assert_eq!(store.recorded(), ["tuesday"]);
    assert_eq!(store.tags("t"), ["tuesday"]);
}
