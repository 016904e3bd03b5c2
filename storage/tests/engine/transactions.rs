//! Transactions: they read at one instant, with their own writes on top, and the first committer of
//! a key wins.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::one_table::{merging, text};
use crate::common::{DIR, SetOnDrop, clocked, for_seeds, manual, rng};
use ebb_storage::simulation::MemDisk;
use ebb_storage::{
    Db, Entry, Error, ErrorKind, ManualClock, Options, Result, Table, Transaction, WriteBatch,
};
use rand::RngExt;

fn open(options: Options) -> (Db, Table, Table) {
    let db = Db::open(DIR, options).unwrap();
    let app = db.keyspace("app").unwrap();
    let table = |name| app.table(name, Default::default()).unwrap();
    let (users, mails) = (table("users"), table("mails"));
    (db, users, mails)
}

fn in_memory() -> (Db, Table, Table) {
    open(manual(&MemDisk::new()))
}

fn keys(entries: impl Iterator<Item = Result<Entry>>) -> Vec<String> {
    let key = |entry: Result<Entry>| String::from_utf8(entry.unwrap().0.to_vec()).unwrap();
    entries.map(key).collect()
}

/// Returns the table and the key on which a commit had a conflict; `None` if the commit succeeded.
fn contested(outcome: Result<ebb_storage::SeqNo>) -> Option<String> {
    match outcome {
        Ok(_) => None,
        Err(Error::Conflict { table, key }) => {
            Some(format!("{table} {}", String::from_utf8(key).unwrap()))
        }
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn a_transaction_reads_at_one_instant_whatever_is_written_flushed_and_merged() {
    let (db, users, mails) = in_memory();
    users.put(b"a", b"old").unwrap();
    mails.put(b"m", b"old").unwrap();
    let txn = db.begin();
    for _ in 0..3 {
        users.put(b"a", b"new").unwrap();
        users.put(b"b", b"new").unwrap();
        mails.delete(b"m").unwrap();
        db.flush().unwrap();
        db.compact().unwrap();
        assert_eq!(text(txn.get(&users, b"a").unwrap()).unwrap(), "old");
        assert_eq!(txn.get(&users, b"b").unwrap(), None);
        let many = txn.get_many(&mails, &["m", "n"]).unwrap();
        assert_eq!(
            many.into_iter().map(text).collect::<Vec<_>>(),
            [Some("old".into()), None]
        );
        assert_eq!(keys(txn.range::<&str, _>(&users, ..).unwrap()), ["a"]);
    }
    let read_at = txn.seq();
    assert_eq!(txn.commit().unwrap(), read_at);
}

#[test]
fn own_writes_are_read_and_no_other_reader_sees_them_before_the_commit() {
    let (db, users, mails) = in_memory();
    users.put(b"a", b"1").unwrap();
    users.put(b"c", b"1").unwrap();
    let mut txn = db.begin();
    txn.put(&users, b"b", b"2").unwrap();
    txn.delete(&users, b"a").unwrap();
    txn.put(&mails, b"m", b"2").unwrap();
    assert_eq!(txn.get(&users, b"a").unwrap(), None);
    assert_eq!(text(txn.get(&users, b"b").unwrap()).unwrap(), "2");
    assert_eq!(keys(txn.range::<&str, _>(&users, ..).unwrap()), ["b", "c"]);
    assert_eq!(keys(users.range::<&str, _>(..)), ["a", "c"]);
    assert_eq!(mails.get(b"m").unwrap(), None);
    let at = txn.commit().unwrap();
    assert_eq!(db.view().seq(), at);
    assert_eq!(keys(users.range::<&str, _>(..)), ["b", "c"]);
    assert_eq!(text(mails.get(b"m").unwrap()).unwrap(), "2");
}

#[test]
fn a_transaction_that_is_dropped_leaves_nothing() {
    let (db, users, _) = in_memory();
    let mut txn = db.begin();
    txn.put(&users, b"a", b"1").unwrap();
    drop(txn);
    assert_eq!(users.get(b"a").unwrap(), None);
    assert_eq!(db.view().seq(), ebb_storage::SeqNo(0));
}

#[test]
fn the_first_committer_wins_and_the_other_gets_the_key_in_its_error() {
    let (db, users, mails) = in_memory();
    let (mut one, mut two, mut three) = (db.begin(), db.begin(), db.begin());
    one.put(&users, b"a", b"1").unwrap();
    two.delete(&users, b"a").unwrap();
    two.put(&mails, b"m", b"2").unwrap();
    three.put(&mails, b"a", b"3").unwrap();
    two.commit().unwrap();
    assert_eq!(contested(one.commit()).unwrap(), "app.users a");
    assert_eq!(contested(three.commit()), None, "another table");
    assert_eq!(users.get(b"a").unwrap(), None);
    assert_eq!(text(mails.get(b"a").unwrap()).unwrap(), "3");
}

#[test]
fn a_plain_write_is_a_committer_like_any_other() {
    let (db, users, mails) = in_memory();
    let mut txn = db.begin();
    txn.put(&users, b"a", b"1").unwrap();
    users.put(b"a", b"2").unwrap();
    assert_eq!(contested(txn.commit()).unwrap(), "app.users a");

    let mut txn = db.begin();
    txn.put(&mails, b"m", b"1").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&users, b"b", b"2");
    batch.delete(&mails, b"m");
    db.write(batch).unwrap();
    assert_eq!(contested(txn.commit()).unwrap(), "app.mails m");
}

#[test]
fn a_guarded_key_prevents_write_skew() {
    let (db, users, _) = in_memory();
    for guard in [false, true] {
        users.put(b"ada", b"on call").unwrap();
        users.put(b"bob", b"on call").unwrap();
        let (mut one, mut two) = (db.begin(), db.begin());
        for (txn, other, own) in [(&mut one, b"bob", b"ada"), (&mut two, b"ada", b"bob")] {
            let other = if guard {
                txn.get_for_update(&users, other).unwrap()
            } else {
                txn.get(&users, other).unwrap()
            };
            assert!(other.is_some(), "another one is on call");
            txn.delete(&users, own).unwrap();
        }
        one.commit().unwrap();
        let second = contested(two.commit());
        let left = users.range::<&str, _>(..).count();
        if guard {
            assert_eq!((second.as_deref(), left), (Some("app.users ada"), 1));
        } else {
            assert_eq!((second, left), (None, 0), "snapshot isolation allows it");
        }
    }
}

/// At most one person may be on call. A guard of single keys would not do, because the transactions
/// add keys.
#[test]
fn a_guarded_range_prevents_write_skew_by_new_keys() {
    let (db, users, _) = in_memory();
    for guard in [false, true] {
        users.truncate().unwrap();
        let (mut one, mut two) = (db.begin(), db.begin());
        for (txn, own) in [(&mut one, b"ada"), (&mut two, b"bob")] {
            if guard {
                txn.guard_range(&users, "a".."c").unwrap();
            }
            let others = txn.range(&users, "a".."c").unwrap();
            assert_eq!(others.count(), 0, "nobody else is on call");
            txn.put(&users, own, b"on call").unwrap();
        }
        two.commit().unwrap();
        let first = contested(one.commit());
        let there = keys(users.range::<&str, _>(..));
        if guard {
            assert_eq!(first.as_deref(), Some("app.users bob"));
            assert_eq!(there, ["bob"]);
        } else {
            assert_eq!(first, None, "snapshot isolation allows it");
            assert_eq!(there, ["ada", "bob"]);
        }
    }
}

#[test]
fn a_guarded_range_is_in_conflict_with_merges_and_range_deletes_inside_it_only() {
    let (db, users, _) = in_memory();
    let log = log_table(&db);
    let guarding = |range: std::ops::Range<&str>| {
        let mut txn = db.begin();
        txn.guard_range(&log, range.clone()).unwrap();
        txn.put(&users, range.start.as_bytes(), b"1").unwrap();
        txn
    };
    let three = || [guarding("b".."d"), guarding("d".."e"), guarding("e".."b")];
    let [inside, beside, empty] = three();
    log.merge(b"c", b"1").unwrap();
    assert_eq!(contested(inside.commit()).unwrap(), "app.log c");
    assert_eq!(contested(beside.commit()), None);
    assert_eq!(contested(empty.commit()), None);

    let [inside, beside, empty] = three();
    log.delete_range("c".."d").unwrap();
    assert_eq!(contested(inside.commit()).unwrap(), "app.log c");
    assert_eq!(contested(beside.commit()), None);
    assert_eq!(contested(empty.commit()), None);
}

#[test]
fn a_guard_is_no_write() {
    let (db, users, _) = in_memory();
    let (mut one, mut two) = (db.begin(), db.begin());
    one.guard(&users, b"a").unwrap();
    one.put(&users, b"b", b"1").unwrap();
    two.put(&users, b"a", b"2").unwrap();
    one.commit().unwrap();
    assert_eq!(contested(two.commit()), None);
    assert_eq!(text(users.get(b"a").unwrap()).unwrap(), "2");

    // A transaction that writes nothing has no conflicts.
    let mut reader = db.begin();
    reader.get_for_update(&users, b"a").unwrap();
    users.put(b"a", b"3").unwrap();
    assert_eq!(contested(reader.commit()), None);
}

#[test]
fn a_transaction_refuses_tables_of_another_database_and_what_is_too_long() {
    let (db, users, _) = in_memory();
    let (_other, stranger, _) = in_memory();
    let mut txn = db.begin();
    let too_long = vec![b'k'; ebb_storage::MAX_KEY_BYTES + 1];
    let refusals = [
        txn.get(&stranger, b"a").map(drop),
        txn.range::<&str, _>(&stranger, ..).map(drop),
        txn.put(&stranger, b"a", b"1"),
        txn.guard(&stranger, b"a"),
        txn.guard_range(&stranger, "a".."b"),
        txn.put(&users, &too_long, b"1"),
        txn.delete(&users, &too_long),
    ];
    for refusal in refusals {
        assert_eq!(refusal.unwrap_err().kind(), ErrorKind::InvalidRequest);
    }
    txn.put(&users, &too_long[1..], b"1").unwrap();
    txn.commit().unwrap();
    assert_eq!(users.range::<&str, _>(..).count(), 1);
}

#[test]
fn own_merges_and_expiring_puts_are_read_like_committed_ones() {
    let clock = ManualClock::at_ms(1_000);
    let (db, _, _) = open(clocked(&MemDisk::new(), &clock));
    let log = log_table(&db);
    log.put(b"a", b"0").unwrap();
    log.put(b"d", b"0").unwrap();
    let mut txn = db.begin();
    let second = std::time::Duration::from_secs(1);
    for (key, value) in [(b"a", b"1"), (b"a", b"2"), (b"b", b"1"), (b"d", b"1")] {
        txn.merge(&log, key, value).unwrap();
    }
    txn.put_with_ttl(&log, b"c", b"c", second).unwrap();
    txn.merge(&log, b"c", b"1").unwrap();
    txn.delete(&log, b"d").unwrap();
    txn.merge(&log, b"d", b"2").unwrap();
    txn.put_with_ttl(&log, b"e", b"e", std::time::Duration::ZERO)
        .unwrap();
    let all = |entries: &mut dyn Iterator<Item = Result<Entry>>| -> Vec<String> {
        let entries = entries.map(Result::unwrap);
        let pair = |(key, value)| text(Some(key)).unwrap() + "=" + &text(Some(value)).unwrap();
        entries.map(pair).collect()
    };
    let expected = ["a=012", "b=1", "c=c1", "d=2"];
    assert_eq!(all(&mut txn.range::<&str, _>(&log, ..).unwrap()), expected);
    for entry in expected {
        let (key, value) = entry.split_once('=').unwrap();
        assert_eq!(text(txn.get(&log, key.as_bytes()).unwrap()).unwrap(), value);
    }
    // The time to live counts from the commit.
    clock.advance_ms(5_000);
    txn.commit().unwrap();
    assert_eq!(all(&mut log.range::<&str, _>(..)), expected);
    clock.advance_ms(1_000);
    assert_eq!(text(log.get(b"c").unwrap()).unwrap(), "1");
}

#[test]
fn merges_of_two_transactions_both_apply_unless_one_relies_on_what_it_read() {
    let (db, users, _) = in_memory();
    let log = log_table(&db);
    let (mut one, mut two, mut three, mut four) = (db.begin(), db.begin(), db.begin(), db.begin());
    one.merge(&log, b"a", b"1").unwrap();
    two.merge(&log, b"a", b"2").unwrap();
    three.get_for_update(&log, b"a").unwrap();
    three.merge(&log, b"a", b"3").unwrap();
    four.put(&log, b"a", b"4").unwrap();
    two.commit().unwrap();
    one.commit().unwrap();
    assert_eq!(contested(three.commit()).unwrap(), "app.log a");
    assert_eq!(contested(four.commit()).unwrap(), "app.log a");
    assert_eq!(text(log.get(b"a").unwrap()).unwrap(), "21");

    let mut merging = db.begin();
    merging.merge(&log, b"a", b"5").unwrap();
    log.put(b"a", b"6").unwrap();
    assert_eq!(contested(merging.commit()).unwrap(), "app.log a");
    let refused = db.begin().merge(&users, b"a", b"1").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidRequest);
}

#[test]
fn a_transaction_reads_a_dropped_table_and_cannot_write_or_guard_it() {
    let (db, users, mails) = in_memory();
    users.put(b"a", b"1").unwrap();
    let (reader, mut writer, mut guard, mut beside) =
        (db.begin(), db.begin(), db.begin(), db.begin());
    writer.put(&users, b"b", b"1").unwrap();
    guard.guard(&users, b"a").unwrap();
    for txn in [&mut writer, &mut guard, &mut beside] {
        txn.put(&mails, b"m", b"1").unwrap();
    }
    db.keyspace("app").unwrap().drop_table("users").unwrap();
    assert_eq!(text(reader.get(&users, b"a").unwrap()).unwrap(), "1");
    for txn in [writer, guard] {
        assert_eq!(text(txn.get(&users, b"a").unwrap()).unwrap(), "1");
        assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::NotFound);
    }
    assert_eq!(mails.get(b"m").unwrap(), None);
    beside.commit().unwrap();
}

#[test]
fn a_range_delete_is_in_conflict_with_writes_inside_it_and_they_with_it() {
    let (db, users, _) = in_memory();
    let (mut before, mut inside, mut beside) = (db.begin(), db.begin(), db.begin());
    before.delete_range(&users, "b".."d").unwrap();
    inside.put(&users, b"c", b"1").unwrap();
    beside.put(&users, b"d", b"1").unwrap();
    inside.commit().unwrap();
    beside.commit().unwrap();
    assert_eq!(contested(before.commit()).unwrap(), "app.users c");

    let (mut inside, mut beside, mut over) = (db.begin(), db.begin(), db.begin());
    inside.put(&users, b"c", b"2").unwrap();
    beside.put(&users, b"d", b"2").unwrap();
    over.delete_range(&users, "c"..="x").unwrap();
    users.delete_range("b".."d").unwrap();
    assert_eq!(contested(inside.commit()).unwrap(), "app.users c");
    assert_eq!(contested(beside.commit()), None);
    assert_eq!(contested(over.commit()).unwrap(), "app.users d");
    assert_eq!(keys(users.range::<&str, _>(..)), ["d"]);

    let mut any = db.begin();
    any.put(&users, b"zz", b"").unwrap();
    users.truncate().unwrap();
    assert_eq!(contested(any.commit()).unwrap(), "app.users zz");
}

/// Creates a table whose merge operator appends.
fn log_table(db: &Db) -> Table {
    let keyspace = db.keyspace("app").unwrap();
    keyspace.table("log", merging("append")).unwrap()
}

/// Many threads add to the same counters, which in the end have the sums of the acknowledged
/// updates.
#[test]
fn no_update_is_lost_among_threads() {
    let (db, users, _) = open(Options {
        maintenance: ebb_storage::Maintenance::Background,
        ..manual(&MemDisk::new())
    });
    let keys = [b"x", b"y"];
    let number = |value: Option<ebb_storage::Value>| -> u64 {
        text(value).map_or(0, |text| text.parse().unwrap())
    };
    let committed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut done = 0;
                while done < 100 {
                    let mut txn = db.begin();
                    for key in keys {
                        let value = number(txn.get(&users, key).unwrap()) + 1;
                        txn.put(&users, key, value.to_string().as_bytes()).unwrap();
                    }
                    done += u64::from(contested(txn.commit()).is_none());
                }
                committed.fetch_add(done, Ordering::Relaxed);
            });
        }
    });
    let expected = committed.into_inner();
    for key in keys {
        assert_eq!(number(users.get(key).unwrap()), expected);
    }
}

/// A plain write that gets its sequence number while no transaction is open does not record its
/// keys for the detection of conflicts. A transaction that begins before the write is visible must
/// not read at a lower number: its commit would overwrite the write without noticing it.
#[test]
fn a_plain_write_under_way_is_not_lost_to_a_transaction_that_begins_meanwhile() {
    let (db, users, _) = in_memory();
    let done = AtomicBool::new(false);
    let committed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let _end = SetOnDrop(&done);
        let transactions = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let mut txn = db.begin();
                let seen = text(txn.get(&users, b"k").unwrap()).unwrap_or_default();
                txn.put(&users, b"k", seen.as_bytes()).unwrap();
                let ours = u64::from(contested(txn.commit()).is_none());
                committed.fetch_add(ours, Ordering::Relaxed);
            }
        });
        // As long as it takes to meet transactions, unless their thread panicked.
        let met = || committed.load(Ordering::Relaxed) >= 100 || transactions.is_finished();
        let lost = (0..)
            .take_while(|i| *i < 2000 || !met())
            .find_map(|i: u64| {
                let written = i.to_string();
                users.put(b"k", written.as_bytes()).unwrap();
                let found = text(users.get(b"k").unwrap());
                (found.as_deref() != Some(&written)).then_some((written, found))
            });
        assert_eq!(lost, None);
    });
}

fn key(rng: &mut crate::common::Rng) -> Vec<u8> {
    format!("{:02}", rng.random_range(0..30)).into_bytes()
}

/// The test puts and deletes keys in a transaction and in a map. Then ranges of the transaction, read from
/// either end and from both, must equal those of the map.
#[test]
fn ranges_with_own_writes_equal_those_of_a_model() {
    let test = "ranges_with_own_writes_equal_those_of_a_model";
    for_seeds(test, 60, |seed| {
        let mut rng = rng(seed);
        let (db, users, _) = in_memory();
        let mut model = BTreeMap::new();
        for _ in 0..rng.random_range(0..40) {
            let key = key(&mut rng);
            users.put(&key, b"below").unwrap();
            model.insert(key, "below".to_string());
        }
        let mut txn = db.begin();
        for n in 0..rng.random_range(0..30) {
            let key = key(&mut rng);
            if rng.random_bool(0.15) {
                let mut bounds = [key, self::key(&mut rng)];
                bounds.sort();
                let [from, to] = bounds;
                let range = from..to;
                txn.delete_range(&users, range.clone()).unwrap();
                model.retain(|key, _| !range.contains(key));
            } else if rng.random_bool(0.5) {
                let value = format!("own {n}");
                txn.put(&users, &key, value.as_bytes()).unwrap();
                model.insert(key, value);
            } else {
                txn.delete(&users, &key).unwrap();
                model.remove(&key);
            }
        }
        for _ in 0..20 {
            compare_range(&txn, &users, &model, &mut rng);
        }
        txn.commit().unwrap();
        let now = users.range::<&str, _>(..).map(Result::unwrap);
        let now: Vec<_> = now
            .map(|(key, value)| (key.to_vec(), text(Some(value)).unwrap()))
            .collect();
        assert_eq!(now, model.into_iter().collect::<Vec<_>>());
    });
}

/// Draws a key and a range, reads them in a transaction, and compares what it finds with `model`.
fn compare_range(
    txn: &Transaction,
    table: &Table,
    model: &BTreeMap<Vec<u8>, String>,
    rng: &mut crate::common::Rng,
) {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let one = key(rng);
    let found = text(txn.get(table, &one).unwrap());
    assert_eq!(found.as_ref(), model.get(&one), "{one:?}");
    let mut bound = || match rng.random_range(0..5) {
        0 => Unbounded,
        1..3 => Included(key(rng)),
        _ => Excluded(key(rng)),
    };
    let bounds = (bound(), bound());
    let inside = |key: &Vec<u8>| {
        use std::ops::RangeBounds;
        bounds.contains(key)
    };
    let mut expected: std::collections::VecDeque<_> =
        model.iter().filter(|(key, _)| inside(key)).collect();
    let mut range = txn.range(table, bounds.clone()).unwrap();
    loop {
        let (found, expected) = if rng.random_bool(0.5) {
            (range.next(), expected.pop_front())
        } else {
            (range.next_back(), expected.pop_back())
        };
        let found = found.map(|entry| entry.map(|(k, v)| (k.to_vec(), text(Some(v)).unwrap())));
        let expected = expected.map(|(key, value)| (key.clone(), value.clone()));
        assert_eq!(found.transpose().unwrap(), expected, "in {bounds:?}");
        if expected.is_none() {
            return;
        }
    }
}

/// A commit with `WriteOptions::sync` survives a power loss. Uncommitted writes are not in
/// the database after it.
#[test]
fn a_synced_commit_survives_a_power_loss() {
    let mem = MemDisk::new();
    let (db, users, mails) = open(manual(&mem));
    let mut txn = db.begin_with(ebb_storage::WriteOptions { sync: true });
    txn.put(&users, b"a", b"1").unwrap();
    txn.put(&mails, b"m", b"1").unwrap();
    txn.commit().unwrap();
    let mut open_one = db.begin();
    open_one.put(&users, b"b", b"1").unwrap();
    mem.crash_at(1);
    // This write was not acknowledged, so it may survive or not.
    users.put(b"c", b"1").unwrap_err();
    drop((open_one, users, mails, db));
    mem.restart(1);
    let (_db, users, mails) = open(manual(&mem));
    assert_eq!(keys(users.range(..="b")), ["a"]);
    assert_eq!(keys(mails.range::<&str, _>(..)), ["m"]);
}
