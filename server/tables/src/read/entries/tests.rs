//! Searches among keys that the reader does not see.

use std::cell::Cell;

use ebb_storage::simulation::MemDisk;
use ebb_storage::{Cache, Db, Maintenance, Options, Table};

use super::*;
use crate::read::Source;

/// A pace that counts its calls, and ends the read at the call with the number `ends_at`.
#[derive(Debug)]
struct CountingPace {
    calls: Cell<u32>,
    ends_at: Option<u32>,
}

impl CountingPace {
    fn new(ends_at: Option<u32>) -> Self {
        Self {
            calls: Cell::new(0),
            ends_at,
        }
    }
}

impl Pace for CountingPace {
    fn passed(&self) -> Result<(), Ended> {
        self.calls.set(self.calls.get() + 1);
        if self.ends_at == Some(self.calls.get()) {
            return Err(Arc::new(std::fmt::Error));
        }
        Ok(())
    }
}

/// A table with the key 100. The other keys from 0 to 199 are deleted.
fn table() -> (Db, Table) {
    let options = Options {
        disk: Arc::new(MemDisk::new()),
        maintenance: Maintenance::Manual,
        ..Options::default()
    };
    let db = Db::open("/db", options).unwrap();
    let table = db.keyspace("app").unwrap();
    let table = table.table("t", Default::default()).unwrap();
    for key in 0..200_u8 {
        table.put(&[key], b"v").unwrap();
    }
    for key in (0..200_u8).filter(|&key| key != 100) {
        table.delete(&[key]).unwrap();
    }
    (db, table)
}

#[test]
fn an_iteration_calls_the_pace_each_32_deleted_keys() {
    let (db, table) = table();
    let view = db.view();
    let reader = (&view, &table);
    let pace = CountingPace::new(None);
    let source = Source::Stored(&reader, Cache::Fill, &pace);
    let mut entries = source.entries(&[], None).unwrap();
    let (key, _) = entries.next().unwrap().unwrap();
    assert_eq!(key[..], [100]);
    assert_eq!(pace.calls.get(), 3);
    assert!(entries.next().is_none());
    assert_eq!(pace.calls.get(), 6);
}

#[test]
fn a_pace_ends_an_iteration_among_deleted_keys_with_its_own_error() {
    let (db, table) = table();
    let view = db.view();
    let reader = (&view, &table);
    let pace = CountingPace::new(Some(2));
    let source = Source::Stored(&reader, Cache::Fill, &pace);
    let mut entries = source.entries(&[], None).unwrap();
    let Some(Err(TableError::Ended(error))) = entries.next() else {
        panic!("the pace ends the read");
    };
    assert!(error.is::<std::fmt::Error>());
    assert_eq!(pace.calls.get(), 2);
}

#[test]
fn a_short_search_stops_among_deleted_keys_and_the_next_one_goes_on_behind_them() {
    let (db, table) = table();
    let view = db.view();
    let reader = (&view, &table);
    let pace = CountingPace::new(Some(1));
    let source = Source::Stored(&reader, Cache::Fill, &pace);
    for (reversed, passed_keys) in [(false, [31, 63, 95]), (true, [168, 136, 104])] {
        let mut entries = source.entries(&[], None).unwrap();
        let mut search = || {
            let step = if reversed {
                entries.search_back()
            } else {
                entries.search()
            };
            step.unwrap()
        };
        for last in passed_keys {
            let passed = EntryStep::Passed(Some(Bytes::copy_from_slice(&[last])));
            assert_eq!(search(), passed);
        }
        let EntryStep::Entry((key, _)) = search() else {
            panic!("the key 100 is the fifth of the fourth search, or the fourth downwards");
        };
        assert_eq!(key[..], [100]);
    }
    assert_eq!(pace.calls.get(), 0);
}

#[test]
fn work_on_values_calls_the_pace_each_64_kib() {
    let pace = CountingPace::new(Some(4));
    let work = ValueWork::default();
    for _ in 0..128 {
        work.charge(1 << 10, &pace).unwrap();
    }
    assert_eq!(pace.calls.get(), 2);
    // A longer piece of work is one call, and none of it counts for the next one.
    work.charge(usize::MAX, &pace).unwrap();
    work.charge(1 << 10, &pace).unwrap();
    assert_eq!(pace.calls.get(), 3);
    let ended = work.charge(1 << 16, &pace);
    assert!(ended.is_err_and(|error| error.is::<std::fmt::Error>()));
}
