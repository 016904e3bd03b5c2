//! A key range as a transaction sees it: own writes over those of the view.

use std::cmp::Ordering;
use std::collections::btree_map;
use std::ops::{Bound, RangeBounds};

use bytes::Bytes;

use super::own_writes::{OwnTable, Write};
use crate::api::range::until_found;
use crate::api::{Cache, Entry, Range, Search};
use crate::error::{Error, Result};

/// The entries of a key range as a transaction sees them, ascending; `rev()` and
/// `next_back` go from the other end.
///
/// An error (a damaged block, say) is yielded once; then the iterator ends.
#[derive(Debug)]
pub struct TransactionRange<'txn> {
    /// The transaction's own writes to the table; `None` if there are none.
    table: Option<&'txn OwnTable>,
    own: Ends<btree_map::Range<'txn, Bytes, Write>>,
    view: Ends<Range>,
    failed: bool,
}

impl<'txn> TransactionRange<'txn> {
    pub(super) fn new<K, R>(
        own: Option<&'txn OwnTable>,
        range: R,
        view: impl FnOnce((Bound<Bytes>, Bound<Bytes>)) -> Range,
    ) -> Self
    where
        K: AsRef<[u8]>,
        R: RangeBounds<K>,
    {
        let owned = |bound: Bound<&K>| bound.map(|key| Bytes::copy_from_slice(key.as_ref()));
        let bounds = (owned(range.start_bound()), owned(range.end_bound()));
        let table = own;
        let own = match own {
            Some(own) if !is_empty(&bounds) => own.writes.range(bounds.clone()),
            _ => btree_map::Range::default(),
        };
        Self {
            table,
            own: Ends::new(own),
            view: Ends::new(view(bounds)),
            failed: false,
        }
    }

    /// Sets how the range uses the block cache, which is [`Cache::Fill`] otherwise. To be called
    /// before the first entry is read.
    pub(crate) fn caching(mut self, cache: Cache) -> Self {
        self.view.rest = self.view.rest.caching(cache);
        self
    }

    /// Searches for the next entry upwards, as [`Range::next_within`] does, in at most `keys_max`
    /// keys. Only keys that the transaction wrote and keys with a value in its view count. Before
    /// each of them, the search may also pass up to `keys_max` keys without a value in the view.
    pub fn next_within(&mut self, keys_max: u32) -> Option<Result<Search>> {
        self.search_from(End::Front, keys_max)
    }

    /// Searches for the next entry downwards, as [`next_within`](Self::next_within) does upwards.
    pub fn next_back_within(&mut self, keys_max: u32) -> Option<Result<Search>> {
        self.search_from(End::Back, keys_max)
    }

    /// Returns the next entry from `end`: from the transaction's own writes, or from its view. If
    /// both have a key, the own write takes precedence. Stops after `keys_max` keys.
    fn step(&mut self, end: End, keys_max: u32) -> Result<Option<Search>> {
        for _ in 0..keys_max.max(1) {
            if !self.view.search(end, keys_max) {
                return Ok(Some(Search::Passed));
            }
            let order = match (self.own.peek(end), self.view.peek(end)) {
                (_, Some(Err(e))) => return Err(Error::clone(e)),
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((own, _)), Some(Ok((view, _)))) => match end {
                    End::Front => own[..].cmp(view),
                    End::Back => view[..].cmp(own),
                },
            };
            let below = if order.is_ge() {
                let below = self.view.take(end).transpose()?;
                below.filter(|(key, _)| !self.table.is_some_and(|own| own.has_cleared(key)))
            } else {
                None
            };
            if order.is_gt() {
                if let Some(entry) = below {
                    return Ok(Some(Search::Found(entry)));
                }
                continue;
            }
            let (key, write) = self.own.take(end).expect("it was there to be compared");
            let table = &self.table.expect("who wrote names the table").table;
            let below = below.map(|(_, value)| value);
            if let Some(value) = write.resolve(table, key, || Ok(below))? {
                return Ok(Some(Search::Found((key.clone(), value))));
            }
        }
        Ok(Some(Search::Passed))
    }

    fn search_from(&mut self, end: End, keys_max: u32) -> Option<Result<Search>> {
        if self.failed {
            return None;
        }
        let step = self.step(end, keys_max);
        self.failed = step.is_err();
        step.transpose()
    }
}

impl Iterator for TransactionRange<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        until_found(|| self.next_within(u32::MAX))
    }
}

impl DoubleEndedIterator for TransactionRange<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        until_found(|| self.next_back_within(u32::MAX))
    }
}

/// Returns whether no key is within these bounds: `BTreeMap::range` may panic for such bounds.
fn is_empty((lower, upper): &(Bound<Bytes>, Bound<Bytes>)) -> bool {
    use Bound::{Excluded, Included};
    match (lower, upper) {
        (Included(lower), Included(upper)) => lower > upper,
        (Included(lower) | Excluded(lower), Excluded(upper))
        | (Excluded(lower), Included(upper)) => lower >= upper,
        _ => false,
    }
}

#[derive(Debug, Clone, Copy)]
enum End {
    Front,
    Back,
}

/// An iterator that can be peeked at from both ends. A peek at one end takes no item: until `take`
/// takes the item at that end, the other end can still reach it, as its last item.
#[derive(Debug)]
struct Ends<I: Iterator> {
    rest: I,
    front: Option<I::Item>,
    back: Option<I::Item>,
}

impl<I: DoubleEndedIterator> Ends<I> {
    fn new(rest: I) -> Self {
        Self {
            rest,
            front: None,
            back: None,
        }
    }

    fn peek(&mut self, end: End) -> Option<&I::Item> {
        let item = self.take(end);
        let slot = match end {
            End::Front => &mut self.front,
            End::Back => &mut self.back,
        };
        *slot = item;
        slot.as_ref()
    }

    fn take(&mut self, end: End) -> Option<I::Item> {
        match end {
            End::Front => self
                .front
                .take()
                .or_else(|| self.rest.next())
                .or_else(|| self.back.take()),
            End::Back => self
                .back
                .take()
                .or_else(|| self.rest.next_back())
                .or_else(|| self.front.take()),
        }
    }
}

impl Ends<Range> {
    /// Searches, in at most `keys_max` keys, for the item that the next `peek` or `take` at this
    /// end returns. Returns false if the search stopped at this limit; another call then continues
    /// the search.
    fn search(&mut self, end: End, keys_max: u32) -> bool {
        let slot = match end {
            End::Front => &mut self.front,
            End::Back => &mut self.back,
        };
        if slot.is_some() {
            return true;
        }
        let found = match end {
            End::Front => self.rest.next_within(keys_max),
            End::Back => self.rest.next_back_within(keys_max),
        };
        match found.transpose() {
            Ok(Some(Search::Passed)) => return false,
            Ok(Some(Search::Found(entry))) => *slot = Some(Ok(entry)),
            // The last item may be in the slot of the other end.
            Ok(None) => {}
            Err(error) => *slot = Some(Err(error)),
        }
        true
    }
}
