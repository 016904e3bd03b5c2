//! Those who hear of snapshots that are deleted because they have expired.

use std::fmt;
use std::sync::Arc;

use super::SnapshotRecord;
use crate::sync::Mutex;

type Hear = Arc<dyn Fn(&str, &str) + Send + Sync>;

#[derive(Default)]
pub(crate) struct ExpiryListeners(Mutex<Vec<Hear>>);

impl ExpiryListeners {
    pub(crate) fn add(&self, hear: impl Fn(&str, &str) + Send + Sync + 'static) {
        self.0.lock().unwrap().push(Arc::new(hear));
    }

    /// Tells all of a snapshot that is gone.
    pub(crate) fn tell(&self, gone: &SnapshotRecord) {
        let all = self.0.lock().unwrap().clone();
        all.iter().for_each(|hear| hear(&gone.keyspace, &gone.name));
    }
}

impl fmt::Debug for ExpiryListeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpiryListeners").finish_non_exhaustive()
    }
}
