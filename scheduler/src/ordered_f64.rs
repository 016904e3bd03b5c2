//! A float with a total order, for sort keys and heaps.

use std::cmp::Ordering;

/// A float in the order of [`f64::total_cmp`]. Types that contain it can derive their order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OrderedF64(pub f64);

impl Ord for OrderedF64 {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for OrderedF64 {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OrderedF64 {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for OrderedF64 {}
