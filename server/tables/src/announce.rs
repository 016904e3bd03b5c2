//! What whoever keeps clients informed wants to hear of tables that no statement made.

use std::fmt;
use std::sync::{Mutex, PoisonError};

type Hear = Box<dyn Fn(&str, &str) + Send + Sync>;

/// Those who hear of tables that a job has created.
#[derive(Default)]
pub(super) struct Announcements {
    hear: Mutex<Vec<Hear>>,
}

impl Announcements {
    pub(super) fn subscribe(&self, hear: Hear) {
        let mut all = self.hear.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(hear);
    }

    pub(super) fn created(&self, keyspace: &str, table: &str) {
        let all = self.hear.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().for_each(|hear| hear(keyspace, table));
    }
}

impl fmt::Debug for Announcements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Announcements").finish_non_exhaustive()
    }
}
