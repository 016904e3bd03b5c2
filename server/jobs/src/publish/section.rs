//! The sections of this process in which publications read a completion record and write it anew.
//!
//! All publications of one snapshot share the record, and a target has no request that replaces an
//! object only if it has not changed. So only one publication at a time is in the section of a
//! record. A publication that removes old ones stays in the sections of their records until it has
//! committed its tables. These publications run in one process: each needs the database open for
//! writing, and only one process at a time has it so. Each record has a section of its own, so that
//! a target that does not answer delays no publications to other targets.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, PoisonError};

use super::job::lock;

/// The locations of the records in whose sections publications are.
static OCCUPIED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Notified after a publication has left a section.
static LEFT: Condvar = Condvar::new();

/// A publication's stay in the section of a record. It ends when this value is dropped.
#[must_use]
pub(super) struct Section {
    record: String,
}

/// Enters the section of the completion record at the location `record`. Waits while another
/// publication is in the section. Publications make only a few requests for each table there, or commit
/// their tables. A publication that enters several sections must enter them in the order of the snapshots'
/// names.
pub(super) fn enter(record: String) -> Section {
    let is_occupied = |occupied: &mut BTreeSet<String>| occupied.contains(&record);
    let free = LEFT.wait_while(lock(&OCCUPIED), is_occupied);
    let mut occupied = free.unwrap_or_else(PoisonError::into_inner);
    occupied.insert(record.clone());
    Section { record }
}

impl Drop for Section {
    fn drop(&mut self) {
        lock(&OCCUPIED).remove(&self.record);
        LEFT.notify_all();
    }
}

/// Returns whether a publication is in the section of the record at the location `record`.
#[cfg(test)]
pub(super) fn is_occupied(record: &str) -> bool {
    lock(&OCCUPIED).contains(record)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use ebb_test_support::wait::Observed;

    use super::*;

    #[test]
    fn one_publication_at_a_time_is_in_the_section_of_a_record() {
        let first = enter("memory://a".to_owned());
        let _of_other_record = enter("memory://b".to_owned());
        let (start, at_start) = mpsc::channel();
        let (entered, is_entered) = mpsc::channel();
        let second = thread::spawn(move || {
            start.send(Observed::current()).unwrap();
            let _section = enter("memory://a".to_owned());
            entered.send(()).unwrap();
        });
        at_start.recv().unwrap().until_blocked();
        assert!(is_entered.try_recv().is_err());
        drop(first);
        second.join().unwrap();
        is_entered.recv().unwrap();
    }
}
