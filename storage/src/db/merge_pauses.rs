//! Pauses of merges: no merge begins while there is a pause.
//!
//! A thread that chooses a merge checks twice for pauses. It checks before it calls the picker, so
//! that no writer waits for a merge that will not come. It checks again once the merge counts as
//! under way: so a caller that begins a pause and then counts the merges either sees the merge, or
//! the merge does not begin.

use super::Engine;
use crate::mutation::{self, Mutation};
use crate::sync::{AtomicUsize, Ordering};

#[derive(Debug, Default)]
pub(super) struct MergePauses(AtomicUsize);

impl Engine {
    /// Begins a pause: no merge begins until [`Engine::resume_merges`] has been called once for
    /// each pause that was begun.
    pub(crate) fn pause_merges(&self) {
        self.merge_pauses.0.fetch_add(1, Ordering::AcqRel);
        // Writers that wait for a merge must not wait on.
        self.write_stall.look_again();
    }

    pub(crate) fn resume_merges(&self) {
        self.merge_pauses.0.fetch_sub(1, Ordering::AcqRel);
        self.signal.compact();
    }

    pub(crate) fn merge_pauses(&self) -> usize {
        let pauses = self.merge_pauses.0.load(Ordering::Acquire);
        mutation::replace(pauses, Mutation::MergeWhilePaused, 0)
    }
}
