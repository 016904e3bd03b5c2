//! Partitions: the index and the filter of a table in pieces, which the block cache loads when they
//! are needed, and evicts.
//!
//! ```text
//!   open table ── TopLevel ── Slots [ · | partition | · | partition ]
//!                                          │               │
//!                     BlockCache ──────────┴───────────────┘
//! ```
//!
//! A reader finds a partition in its slot, by one load of a pointer, without a lock and without the
//! cache. Invariant: a partition that is put into a slot is put into the cache next, and the cache
//! empties the slot of a partition that it evicts. So the cache counts the partitions in the slots
//! of all tables, apart from changes under way.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwapOption, Guard};
use bytes::Bytes;

use super::bounds::Bound;
use super::damage::Damage;
use super::filter::Filter;
use super::handle::BlockHandle;
use super::index::Index;
use super::top_level::TopLevel;
use crate::key::compare_versions;

#[derive(Debug)]
pub(super) struct Partition {
    pub(super) index: Index,
    /// The filter over the user keys in the partition's data blocks.
    pub(super) filter: Filter,
    /// The slots of the SSTable's partitions, and the position of this partition among them: when
    /// the cache evicts the partition, its slot is emptied.
    home: (Weak<Slots>, usize),
    /// Whether the partition was used since the cache last checked.
    was_used: AtomicBool,
}

impl Partition {
    /// The memory of a partition beside the columns of its index and the bits of its filter, in
    /// bytes.
    const OVERHEAD_BYTES: usize = size_of::<Self>() + 2 * size_of::<usize>();

    /// Decodes the partition at a position of the top level from the payload of its `index`, with a
    /// filter that excludes nothing.
    ///
    /// # Errors
    /// `Damage` if the payload is no index, or if its data blocks and bounds are not those that the
    /// top level records for the partition.
    pub(super) fn decode(index: Bytes, top: &TopLevel, position: usize) -> Result<Self, Damage> {
        let data = top.place(position).data;
        let index = Index::decode(index, data.offset)?;
        let below = position.checked_sub(1).map(|before| top.bound(before));
        check_bounds(&index, data, below, top.bound(position))?;
        Ok(Self {
            index,
            filter: Filter::default(),
            home: (Weak::new(), position),
            was_used: AtomicBool::new(false),
        })
    }

    pub(super) fn with_filter(self, filter: Filter) -> Self {
        Self { filter, ..self }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        Self::OVERHEAD_BYTES + self.index.memory_bytes() + self.filter.memory_bytes()
    }

    /// Notes a use; returns whether it is the first one since the cache last checked.
    pub(super) fn note_use(&self) -> bool {
        // Many threads use it: most calls only read the flag.
        !self.was_used.load(Ordering::Relaxed) && !self.was_used.swap(true, Ordering::Relaxed)
    }

    /// Returns whether the partition was used since the last call.
    pub(super) fn take_use(&self) -> bool {
        self.was_used.swap(false, Ordering::Relaxed)
    }

    /// Removes the partition from its slot, the pointer by which the open table's readers find it,
    /// because the cache has evicted the partition.
    pub(super) fn leave(self: &Arc<Self>) {
        let (slots, position) = &self.home;
        if let Some(slots) = slots.upgrade() {
            let own = Some(self.clone());
            slots.0[*position].compare_and_swap(&own, None);
        }
    }
}

/// Checks the index of a partition against the top level of the index: it ends where the
/// partition's data blocks `data` end, its last bound is `bound`, and its first one is above
/// `below`, the bound of the partition before.
fn check_bounds(
    index: &Index,
    data: BlockHandle,
    below: Option<Bound>,
    bound: Bound,
) -> Result<(), Damage> {
    let Some(last) = index.len().checked_sub(1) else {
        return Err(Damage("the index of a partition is empty".into()));
    };
    if Some(index.end()) != data.end() {
        return Err(Damage(format!(
            "the index of a partition ends at {}; the top level says that its data are {data:?}",
            index.end()
        )));
    }
    if index.bound(last) != bound {
        return Err(Damage(
            "the index of a partition and the top level have different bounds of it".into(),
        ));
    }
    let first = index.bound(0);
    let is_below =
        |below: Bound| compare_versions((&below.0, below.1), (&first.0, first.1)).is_lt();
    if below.is_none_or(is_below) {
        Ok(())
    } else {
        Err(Damage(
            "the index of a partition goes below the bound of the one before".into(),
        ))
    }
}

/// The partitions of an open table that are in memory: for each partition a slot, which points to
/// it if it is in memory.
#[derive(Debug)]
pub(super) struct Slots(Box<[ArcSwapOption<Partition>]>);

impl Slots {
    pub(super) fn new(partitions: usize) -> Arc<Self> {
        Arc::new(Self((0..partitions).map(|_| Default::default()).collect()))
    }

    /// Returns the memory of the slots (pointers to the partitions that are in memory), without the
    /// partitions, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.0)
    }

    /// Returns the partition at a position, if it is in memory.
    #[inline]
    pub(super) fn get(&self, position: usize) -> Option<PartitionGuard> {
        let guard = self.0[position].load();
        guard.is_some().then_some(PartitionGuard(guard))
    }

    /// Puts a partition into its slot, unless another thread was faster. Returns the partition in
    /// the slot, and whether it is this one: then the caller must put it into the cache.
    pub(super) fn fill(self: &Arc<Self>, partition: Partition) -> (Arc<Partition>, bool) {
        let position = partition.home.1;
        let partition = Arc::new(Partition {
            home: (Arc::downgrade(self), position),
            ..partition
        });
        let none: Option<Arc<Partition>> = None;
        let before = self.0[position].compare_and_swap(&none, Some(partition.clone()));
        match Guard::into_inner(before) {
            Some(earlier) => (earlier, false),
            None => (partition, true),
        }
    }
}

/// A short-lived reference to a partition.
pub(super) struct PartitionGuard(Guard<Option<Arc<Partition>>>);

impl PartitionGuard {
    /// Returns a counted reference, for callers that keep the partition for longer than one lookup.
    pub(super) fn into_arc(self) -> Arc<Partition> {
        Guard::into_inner(self.0).expect("it has one")
    }
}

impl From<Arc<Partition>> for PartitionGuard {
    fn from(partition: Arc<Partition>) -> Self {
        Self(Guard::from_inner(Some(partition)))
    }
}

impl Deref for PartitionGuard {
    type Target = Partition;

    #[inline]
    fn deref(&self) -> &Partition {
        self.0.as_ref().expect("it has one")
    }
}
