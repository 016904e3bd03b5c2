//! The merges under way and their progress, for the statistics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::key::RunId;
use crate::sync::Mutex;

#[derive(Debug, Default)]
pub(crate) struct MergesUnderWay {
    merges: Mutex<Vec<Arc<MergeUnderWay>>>,
}

#[derive(Debug)]
pub(crate) struct MergeUnderWay {
    /// The runs that are merged, newest first.
    pub(crate) inputs: Vec<RunId>,
    /// The number of versions that the earlier parts of the merge wrote.
    pub(crate) done_versions: u64,
    /// The number of versions that the merge has read in its current part.
    read_versions: AtomicU64,
}

/// A guard that keeps a merge in the list of merges under way until the guard is dropped.
#[derive(Debug)]
pub(crate) struct Watched<'a> {
    all: &'a MergesUnderWay,
    merge: Arc<MergeUnderWay>,
}

impl MergesUnderWay {
    /// Adds a merge of `inputs`. If earlier parts of the merge are done, `done_versions` is the
    /// number of versions that they wrote; otherwise it is 0.
    pub(crate) fn begin(&self, inputs: Vec<RunId>, done_versions: u64) -> Watched<'_> {
        let merge = Arc::new(MergeUnderWay {
            inputs,
            done_versions,
            read_versions: AtomicU64::new(0),
        });
        self.merges.lock().unwrap().push(Arc::clone(&merge));
        Watched { all: self, merge }
    }

    pub(crate) fn all(&self) -> Vec<Arc<MergeUnderWay>> {
        self.merges.lock().unwrap().clone()
    }
}

impl MergeUnderWay {
    /// Returns the number of versions that the earlier parts of the merge wrote, plus those that
    /// its current part has read.
    pub(crate) fn read_versions(&self) -> u64 {
        self.done_versions + self.read_versions.load(Ordering::Relaxed)
    }
}

impl Watched<'_> {
    /// Sets the number of versions that the current part of the merge has read.
    pub(crate) fn has_read(&self, versions: u64) {
        self.merge.read_versions.store(versions, Ordering::Relaxed);
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let mut merges = self.all.merges.lock().unwrap();
        merges.retain(|merge| !Arc::ptr_eq(merge, &self.merge));
    }
}
