//! Publications that stop and go on, and two publishers at once.

use super::large_table::Large;
use super::*;
use crate::publish::records::Records;

#[test]
fn a_task_that_is_done_is_not_done_again_and_nothing_shows_before_the_commit() {
    let large = Large::new();
    let store = &large.store;
    let first = large.start();
    let splits = first.input.splits().unwrap();
    run_task(&first, &splits[1]).unwrap();
    // An attempt that does not end.
    let mut writer = first.output.open(0, 1).unwrap();
    let mut rows = 0;
    let read = first.input.read(&splits[0], &mut |key, value| {
        rows += 1;
        writer.write(key, value)
    });
    read.unwrap();
    assert!(rows > 0);
    drop(writer);
    // A cancelled job, or a server that stops.
    first.output.abort();
    assert_eq!(store.target().list("app/t/metadata").unwrap(), [""; 0]);

    let second = large.start();
    assert_eq!(second.input.splits().unwrap().len(), splits.len() - 1);
    run_tasks(&second).unwrap();
    // The process ends before the commit.
    drop(second);
    let third = large.start();
    assert!(third.input.splits().unwrap().is_empty());
    third.output.commit().unwrap();
    large.check();
    store.check_swept("t");
    assert_eq!(store.records(), ["_ebb/app/monday.json"]);

    // Once more, there is nothing to do but the hint, which a killed publisher may have left out.
    let hint = "app/t/metadata/version-hint.text";
    store.target().remove(hint).unwrap();
    store.publish_successfully(&["t"], "monday");
    assert_eq!(store.metadata("t").snapshots.len(), 1);
    // The tag and `main` were committed one after the other.
    assert_eq!(store.target().read(hint).unwrap().unwrap(), "2");
}

/// Regression: the split of the unknown table was left out without an error, so rows could be
/// missing in the publication.
#[test]
fn a_stored_plan_with_a_split_of_an_unknown_table_is_not_continued_and_its_task_fails() {
    let large = Large::new();
    let first = large.start();
    let splits = first.input.splits().unwrap();
    run_task(&first, &splits[0]).unwrap();
    let mut unknown = splits[1].clone();
    unknown.payload[..4].copy_from_slice(&9_u32.to_le_bytes());
    let error = run_task(&first, &unknown).unwrap_err();
    assert!(error.is_final());
    let text = "split 1 is of table 9, which the job does not have";
    assert_eq!(error.to_string(), text);
    drop(first);

    let (target, records) = (large.store.target(), Records::new("app", "monday"));
    let mut stored = records.plans(&target).unwrap().remove(0);
    stored.splits.push(unknown);
    records.write_plan(&target, &stored).unwrap();

    let second = large.start();
    assert_eq!(second.input.splits().unwrap(), splits);
    run_tasks(&second).unwrap();
    second.output.commit().unwrap();
    large.check();
}

/// Regression: if a split was missing in the stored plan, or a key between two splits was wrong,
/// the plan was continued, and the publication lacked rows without an error.
#[test]
fn a_stored_plan_whose_splits_do_not_have_each_key_once_is_not_continued() {
    let large = Large::new();
    let first = large.start();
    let splits = first.input.splits().unwrap();
    assert!(splits.len() > 2);
    run_task(&first, &splits[0]).unwrap();
    drop(first);

    let (target, records) = (large.store.target(), Records::new("app", "monday"));
    let whole = records.plans(&target).unwrap().remove(0);
    type Fault = (&'static str, fn(&mut Vec<Split>));
    let faults: [Fault; 7] = [
        ("none", |of| of.clear()),
        ("no first one", |of| drop(of.remove(0))),
        ("no second one", |of| drop(of.remove(1))),
        ("no last one", |of| drop(of.pop())),
        ("one twice", |of| of.insert(1, of[0].clone())),
        ("another order", |of| of.swap(0, 1)),
        ("another end of a range", |of| {
            *of[1].payload.last_mut().unwrap() ^= 1;
        }),
    ];
    for (fault, make) in faults {
        let mut stored = whole.clone();
        make(&mut stored.splits);
        records.write_plan(&target, &stored).unwrap();
        assert_eq!(large.start().input.splits().unwrap(), splits, "{fault}");
    }
    let second = large.start();
    run_tasks(&second).unwrap();
    second.output.commit().unwrap();
    large.check();
}

#[test]
fn a_start_goes_on_where_a_commit_of_several_tables_stopped() {
    let large = Large::new();
    let first = large.start();
    run_tasks(&first).unwrap();
    // The commit of the second table is refused: something is in its way.
    let target = large.store.target();
    let obstacle = "app/t_static/metadata/v1.metadata.json";
    target.create(obstacle, "{".into()).unwrap();
    let error = first.output.commit().unwrap_err().to_string();
    assert!(error.contains("1 of 2 tables are published"), "{error}");
    assert_eq!(target.read("_ebb/app/monday.json").unwrap(), None);
    assert_eq!(large.rows("t"), large.expected);

    target.remove(obstacle).unwrap();
    let second = large.start();
    assert!(second.input.splits().unwrap().is_empty());
    second.output.commit().unwrap();
    large.check();
    assert!(target.read("_ebb/app/monday.json").unwrap().is_some());
}

/// Regression: a publication of one table removed the plan and the records of finished tasks of a
/// publication of another table of the same snapshot.
#[test]
fn publications_of_two_tables_of_one_snapshot_at_once_can_both_be_continued() {
    let store = Store::new();
    for table in ["t", "u"] {
        let written = store.create(table, &NUMBERS);
        written.insert(&[("k", int(1)), ("n", int(1))], at(0));
    }
    store.keyspace.create_snapshot("monday").unwrap();
    let spec = |table: &str| store.start(&[table], "monday");
    let is_done = |spec: &JobSpec| spec.input.splits().unwrap().is_empty();
    let both = ["t", "u"].map(spec);
    for started in &both {
        assert!(!is_done(started));
        run_tasks(started).unwrap();
    }
    // The process ends before the commits.
    drop(both);
    let (t, u) = (spec("t"), spec("u"));
    assert!(is_done(&t) && is_done(&u));
    t.output.commit().unwrap();
    // The process ends once more.
    drop(u);
    let u = spec("u");
    assert!(is_done(&u));
    u.output.commit().unwrap();
    assert_eq!(store.records(), ["_ebb/app/monday.json"]);
}

#[test]
fn of_two_publishers_at_once_one_commits_and_the_other_publishes_again() {
    let large = Large::new();
    let store = &large.store;
    let row = [("k", int(9)), ("c", int(9)), ("b", b"new".to_vec())];
    large.written.insert(&row, at(1));
    store.keyspace.create_snapshot("tuesday").unwrap();
    let (monday, tuesday) = (large.start(), store.start(&["t"], "tuesday"));
    run_tasks(&monday).unwrap();
    run_tasks(&tuesday).unwrap();
    monday.output.commit().unwrap();
    let error = tuesday.output.commit().unwrap_err().to_string();
    assert!(error.contains("another publisher"), "{error}");
    assert_eq!(store.metadata("t").snapshots.len(), 1);

    store.publish_successfully(&["t"], "tuesday");
    large.check();
    let newest = store.rows("t", "main", &large.written);
    assert_eq!(newest.len(), large.expected.len() + 1);
    store.check_swept("t");
    store.check_swept("t_static");
}
