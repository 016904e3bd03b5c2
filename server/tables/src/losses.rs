//! The losses that an operator accepts while the server runs: lost parts of damaged files are given up.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts accepted losses, for work that must begin anew if a loss comes in between.
#[derive(Debug, Default)]
pub(super) struct Losses {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Losses {
    pub fn begin(&self) -> LossUnderWay<'_> {
        self.begun.fetch_add(1, Ordering::AcqRel);
        LossUnderWay(self)
    }

    /// See [`Catalog::losses`](crate::Catalog::losses).
    pub fn count(&self) -> Option<u64> {
        // In this order: a loss that begins between the two reads makes the numbers differ.
        let ended = self.ended.load(Ordering::Acquire);
        let begun = self.begun.load(Ordering::Acquire);
        (begun == ended).then_some(ended)
    }
}

/// An accepted loss whose files are being rewritten. The loss ends when this is dropped.
#[derive(Debug)]
#[must_use = "the loss ends when this is dropped"]
pub struct LossUnderWay<'l>(&'l Losses);

impl Drop for LossUnderWay<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_counted_once_none_is_under_way() {
        let losses = Losses::default();
        assert_eq!(losses.count(), Some(0));
        let first = losses.begin();
        assert_eq!(losses.count(), None);
        let second = losses.begin();
        drop(first);
        assert_eq!(losses.count(), None, "the second one goes on");
        drop(second);
        assert_eq!(losses.count(), Some(2));
    }
}
