//! The sections of this process in which publications read a completion record and write it anew.
//!
//! Publications of different tables of one snapshot share the record, and a target has no request
//! that replaces an object only if it has not changed. So only one of these publications at a time
//! is in the section. They run in one process, because only one process at a time opens the
//! database. Publications of the same tables may be in the section at once: whichever of them writes
//! the record last, the record has the same tables.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};

use super::job::lock;

/// The sections with publications in them, by the locations of the records.
static SECTIONS: Mutex<BTreeMap<String, Occupants>> = Mutex::new(BTreeMap::new());

/// Notified after a publication has left a section.
static LEFT: Condvar = Condvar::new();

/// The publications in a section.
struct Occupants {
    /// The names of the Iceberg tables, which are the same for all of them.
    tables: Vec<String>,
    publications: usize,
}

/// A publication's stay in the section of a record. It ends when this value is dropped.
#[must_use]
pub(super) struct Section {
    record: String,
}

/// Enters the section of the completion record at the location `record`, for a publication of the
/// Iceberg tables `tables`. Waits while publications of other tables are in the section. These make
/// only a few requests there.
pub(super) fn enter(record: String, tables: Vec<String>) -> Section {
    let mut sections = lock(&SECTIONS);
    loop {
        let new = || Occupants {
            tables: tables.clone(),
            publications: 0,
        };
        let occupants = sections.entry(record.clone()).or_insert_with(new);
        if occupants.tables == tables {
            occupants.publications += 1;
            return Section { record };
        }
        let woken = LEFT.wait(sections);
        sections = woken.unwrap_or_else(PoisonError::into_inner);
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        let mut sections = lock(&SECTIONS);
        if let Some(occupants) = sections.get_mut(&self.record) {
            occupants.publications -= 1;
            if occupants.publications == 0 {
                sections.remove(&self.record);
            }
        }
        LEFT.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn enter_of(table: &str) -> Section {
        enter("memory://a".to_owned(), vec![table.to_owned()])
    }

    #[test]
    fn publications_of_other_tables_wait_and_those_of_the_same_tables_do_not() {
        let (first, second) = (enter_of("t"), enter_of("t"));
        let (entered, is_entered) = mpsc::channel();
        let other = thread::spawn(move || {
            let _section = enter_of("u");
            entered.send(()).unwrap();
        });
        for section in [first, second] {
            let waits = is_entered.recv_timeout(Duration::from_millis(20));
            assert!(waits.is_err());
            drop(section);
        }
        other.join().unwrap();
        is_entered.recv().unwrap();
        // The section of another record.
        let _first = enter_of("t");
        let _other = enter("memory://b".to_owned(), vec!["u".to_owned()]);
    }
}
