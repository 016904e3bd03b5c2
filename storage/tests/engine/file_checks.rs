//! Each SSTable is checked once in a while: damage is found before a reader needs the bytes, and a
//! restart does not begin with the first file again.

use std::collections::BTreeSet;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::hooked_disk::{Call, HookedDisk};
use crate::common::one_table::open;
use crate::common::*;
use ebb_storage::simulation::MemDisk;
use ebb_storage::{Clock, Db, ManualClock, Options, TableOptions};

const EIO: i32 = 5;
const DAY_MS: u64 = 86_400_000;
const MONTH: Duration = Duration::from_secs(30 * 86_400);
const RUNS: u8 = 4;

/// Creates a database whose table has [`RUNS`] runs of one file each, and closes it. Returns its
/// disk, its clock and its options.
fn database() -> (MemDisk, ManualClock, Options) {
    let (mem, clock) = (MemDisk::new(), ManualClock::at_ms(1_000_000));
    let options = Options {
        clock: Arc::new(clock.clone()),
        file_bytes: 1 << 20,
        ..manual(&mem)
    };
    let (db, _, users) = open(options.clone(), TableOptions::default());
    for run in 0..RUNS {
        (0..50).for_each(|key| users.put(&[key], &[run; 100]).unwrap());
        db.flush().unwrap();
    }
    assert_eq!(files(&mem, ".sst").len(), usize::from(RUNS));
    (mem, clock, options)
}

/// Checks the file whose check is due now, and returns its path; `None` if no check is due.
fn check(db: &Db) -> Option<PathBuf> {
    let mut check = db.next_file_check(MONTH).unwrap()?;
    let path = check.path().to_path_buf();
    check.read(&mut |_| ControlFlow::Continue(()));
    assert!(check.finish().unwrap());
    Some(path)
}

/// Checks all files whose checks are due now, and returns their paths.
fn check_all(db: &Db) -> Vec<PathBuf> {
    std::iter::from_fn(|| check(db)).collect()
}

fn quarantine(db: &Db) -> Vec<PathBuf> {
    let tables = db.stats().tables.into_iter();
    let files = tables.flat_map(|table| table.quarantine);
    files.map(|file| file.path).collect()
}

#[test]
fn every_file_is_checked_once_a_month_and_a_restart_goes_on_where_it_was() {
    let (mem, clock, options) = database();
    let mut checked = Vec::new();
    for day in 0..=40 {
        let db = Db::open(DIR, options.clone()).unwrap();
        if day == 0 {
            assert_eq!(db.stats().oldest_file_check_ms, None);
        }
        checked.extend(check_all(&db).into_iter().map(|path| (day, path)));
        let oldest_ms = db.stats().oldest_file_check_ms.unwrap();
        assert!(oldest_ms < 31 * DAY_MS, "day {day}: {oldest_ms}");
        assert_eq!(oldest_ms > 0, day > 0);
        drop(db);
        clock.advance_ms(DAY_MS);
    }
    // The same number of days lies between two checks, up to a day.
    let days: Vec<_> = checked.iter().map(|(day, _)| *day).collect();
    assert!(
        days.is_sorted() && days[0] < 10 && days.len() == 5,
        "{days:?}"
    );
    let mut paths: Vec<_> = checked.into_iter().map(|(_, path)| path).collect();
    assert_eq!(paths.pop().as_ref(), paths.first());
    let paths: BTreeSet<_> = paths.into_iter().collect();
    assert!(paths.into_iter().eq(files(&mem, ".sst")));
}

#[test]
fn files_that_were_not_checked_for_a_month_are_checked_at_once() {
    let (mem, clock, options) = database();
    let db = Db::open(DIR, options).unwrap();
    assert_eq!(check_all(&db), [] as [PathBuf; 0]);
    clock.advance_ms(35 * DAY_MS);
    assert_eq!(check_all(&db).len(), files(&mem, ".sst").len());
    assert_eq!(db.stats().oldest_file_check_ms, Some(0));
}

/// Regression: after the clock had been a year ahead for a moment, no file was checked for a year, and
/// the statistic showed that all checks were recent.
#[test]
fn files_are_checked_on_after_the_clock_was_set_back() {
    let (_mem, clock, options) = database();
    let db = Db::open(DIR, options).unwrap();
    assert_eq!(check_all(&db), [] as [PathBuf; 0]);
    let now_ms = clock.now_ms();
    clock.set_ms(now_ms + 365 * DAY_MS);
    assert_eq!(check_all(&db).len(), usize::from(RUNS));
    clock.set_ms(now_ms);
    // The server looks for a due file every minute.
    assert_eq!(check_all(&db), [] as [PathBuf; 0]);
    clock.advance_ms(60 * DAY_MS);
    assert_eq!(db.stats().oldest_file_check_ms, Some(60 * DAY_MS));
    assert_eq!(check_all(&db).len(), usize::from(RUNS));
    assert_eq!(db.stats().oldest_file_check_ms, Some(0));
}

#[test]
fn a_damaged_file_goes_into_quarantine_and_the_others_are_checked_on() {
    let (mem, clock, options) = database();
    let db = Db::open(DIR, options).unwrap();
    check_all(&db);
    let bad = files(&mem, ".sst").remove(1);
    mem.flip_bit(&bad, 100, 3).unwrap();
    let events = Arc::<Mutex<Vec<String>>>::default();
    db.on_event({
        let events = events.clone();
        move |event| events.lock().unwrap().push(format!("{event:?}"))
    });
    clock.advance_ms(35 * DAY_MS);
    assert_eq!(check_all(&db).len(), usize::from(RUNS));
    assert_eq!(quarantine(&db), std::slice::from_ref(&bad));
    assert_eq!(db.health().damaged_tables, ["app.users"]);
    let events = events.lock().unwrap();
    assert_is!(&events[..], [one] if one.starts_with("Quarantined"));
    drop(events);
    // It counts no more.
    assert_eq!(db.stats().oldest_file_check_ms, Some(0));
    clock.advance_ms(35 * DAY_MS);
    let checked = check_all(&db);
    assert!(checked.len() == usize::from(RUNS - 1) && !checked.contains(&bad));
}

#[test]
fn a_file_that_cannot_be_read_is_left_out_of_merges_until_it_can() {
    let (mem, clock, options) = database();
    let bad = files(&mem, ".sst").remove(1);
    let fails = Arc::new(Mutex::new(false));
    let hook = {
        let (fails, bad) = (fails.clone(), bad.clone());
        move |call, path: &Path| {
            let is_bad = path == bad && matches!(call, Call::Read { .. });
            if is_bad && *fails.lock().unwrap() {
                return Err(io::Error::from_raw_os_error(EIO));
            }
            Ok(())
        }
    };
    let options = on_disk(HookedDisk::new(&mem, hook), options);
    let db = Db::open(DIR, options).unwrap();
    check_all(&db);
    clock.advance_ms(35 * DAY_MS);
    *fails.lock().unwrap() = true;
    assert_eq!(check_all(&db).len(), usize::from(RUNS));
    let health = db.health();
    assert_eq!(health.left_out_tables, ["app.users"]);
    assert!(health.damaged_tables.is_empty());
    assert!(db.stats().oldest_file_check_ms >= Some(35 * DAY_MS));
    *fails.lock().unwrap() = false;
    assert_eq!(check(&db), None);
    // The wait is over.
    clock.advance_ms(1_000);
    assert_eq!(check_all(&db), [bad]);
    assert!(db.health().left_out_tables.is_empty());
}

#[test]
fn a_check_that_is_ended_is_made_again() {
    let (_mem, clock, options) = database();
    let db = Db::open(DIR, options).unwrap();
    check_all(&db);
    clock.advance_ms(35 * DAY_MS);
    let mut ended = db.next_file_check(MONTH).unwrap().unwrap();
    assert!(
        db.next_file_check(MONTH).unwrap().is_none(),
        "one at a time"
    );
    ended.read(&mut |_| ControlFlow::Break(()));
    let path = ended.path().to_path_buf();
    assert!(!ended.finish().unwrap());
    assert_eq!(check(&db), Some(path));
}

/// A check may wait for hours for CPU time that the load leaves. Meanwhile it keeps only its own
/// file from removal.
#[test]
fn a_check_keeps_its_file_and_no_other_one() {
    let (mem, clock, options) = database();
    let db = Db::open(DIR, options).unwrap();
    check_all(&db);
    clock.advance_ms(35 * DAY_MS);
    let mut check = db.next_file_check(MONTH).unwrap().unwrap();
    db.existing_keyspace("app")
        .unwrap()
        .drop_table("users")
        .unwrap();
    assert_eq!(files(&mem, ".sst"), [check.path().to_path_buf()]);
    check.read(&mut |_| ControlFlow::Continue(()));
    assert!(check.finish().unwrap());
    assert!(files(&mem, ".sst").is_empty());
}

#[test]
fn a_database_that_is_opened_to_be_read_shows_the_checks_and_makes_none() {
    let (mem, clock, options) = database();
    let db = Db::open(DIR, options.clone()).unwrap();
    check_all(&db);
    clock.advance_ms(5 * DAY_MS);
    drop(db);
    let db = Db::open_read_only(DIR, options).unwrap();
    assert_eq!(db.stats().oldest_file_check_ms, Some(5 * DAY_MS));
    assert!(db.next_file_check(MONTH).is_err());
    assert_eq!(files(&mem, "CHECKS.tmp"), [] as [PathBuf; 0]);
}
