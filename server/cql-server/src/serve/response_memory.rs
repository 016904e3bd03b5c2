//! The memory that one response takes from the pool of all connections, while it grows and until its
//! client has read it.

use std::cell::OnceCell;
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::replies::no_memory;
use super::result_memory::{PAGE_UNITS, ResultPages, ResultPool, UNIT_BYTES};
use crate::call::ResponseMemory;
use crate::error::Result;

/// The size, in bytes, at which a page of a scan ends.
pub(super) const PAGE_BYTES: usize = PAGE_UNITS * UNIT_BYTES;

/// Results smaller than this are not counted against the pool of results: other buffers of a
/// connection are as large, too. A scan takes one page of the pool before it runs, however small
/// its result is.
pub(super) const SMALL_BYTES: usize = UNIT_BYTES;

/// The memory that a result takes from the pool of all connections, and the slot that it has
/// taken from its connection.
#[derive(Debug)]
pub(super) struct ResultMemory {
    _slot: Option<OwnedSemaphorePermit>,
    pub(super) pages: ResultPages,
}

/// Returns the units of memory that a result of `bytes` bytes takes. A result of a page or more
/// takes whole pages, rounded down, because a page of a scan ends only after the row that fills it.
fn units(bytes: usize) -> usize {
    if bytes < PAGE_BYTES {
        bytes / UNIT_BYTES
    } else {
        bytes / PAGE_BYTES * PAGE_UNITS
    }
}

impl ResultMemory {
    /// Creates the memory of a result that has taken `slot` from its connection, and nothing from
    /// the pool yet.
    pub(super) fn new(pool: &Arc<ResultPool>, slot: Option<OwnedSemaphorePermit>) -> Self {
        Self {
            _slot: slot,
            pages: ResultPages::none(pool),
        }
    }

    /// Takes the memory of a finished result of `bytes` bytes. The result may need less than it
    /// took while it grew, for example because it was compressed or became an error; then this
    /// frees the excess, except for the first page. Returns false if there is too little memory at
    /// the moment; the caller then has to drop the result.
    pub(super) fn try_hold(&self, bytes: usize) -> bool {
        let units = units(bytes);
        self.pages.shrink(units.max(PAGE_UNITS));
        self.pages.try_grow(units)
    }
}

impl ResponseMemory for ResultMemory {
    fn grow(&self, bytes: usize) -> Result<()> {
        if self.pages.try_grow(units(bytes)) {
            Ok(())
        } else {
            Err(no_memory(bytes))
        }
    }
}

/// The memory of a response that the thread of a connection writes. A small response takes none,
/// and does not touch the pool of all connections.
#[derive(Debug)]
pub(super) struct InlineMemory<'l> {
    pool: &'l Arc<ResultPool>,
    memory: OnceCell<ResultMemory>,
    /// True if overload control may reject the request. If false, for example for a driver's read
    /// of the schema, a response of at most a page is sent even if there is no memory for it.
    may_refuse: bool,
}

impl<'l> InlineMemory<'l> {
    pub(super) fn new(pool: &'l Arc<ResultPool>, may_refuse: bool) -> Self {
        Self {
            pool,
            memory: OnceCell::new(),
            may_refuse,
        }
    }

    fn memory(&self) -> &ResultMemory {
        self.memory
            .get_or_init(|| ResultMemory::new(self.pool, None))
    }

    /// Returns whether a response of this many bytes is sent although there is no memory for it.
    fn is_exempt(&self, bytes: usize) -> bool {
        // A page ends with the row that makes it full.
        !self.may_refuse && bytes < 2 * PAGE_BYTES
    }

    /// Returns the memory of the finished response, which has `bytes` bytes; `None` if the response
    /// is small, or sent without memory.
    ///
    /// # Errors
    /// OVERLOADED, if there is too little memory at the moment.
    pub(super) fn finish(self, bytes: usize) -> Result<Option<ResultMemory>> {
        if bytes < SMALL_BYTES {
            return Ok(None);
        }
        if self.memory().try_hold(bytes) {
            Ok(self.memory.into_inner())
        } else if self.is_exempt(bytes) {
            Ok(None)
        } else {
            Err(no_memory(bytes))
        }
    }
}

impl ResponseMemory for InlineMemory<'_> {
    fn grow(&self, bytes: usize) -> Result<()> {
        if bytes < PAGE_BYTES {
            return Ok(());
        }
        let grown = self.memory().grow(bytes);
        if self.is_exempt(bytes) {
            return Ok(());
        }
        grown
    }
}

/// A result that waits until its client reads it. Dropping this frees the memory of the result.
pub(super) struct Waiting<T> {
    pub value: T,
    /// The memory of the result; `None` for results that take no memory from the pool.
    pub _memory: Option<ResultMemory>,
}

impl<T> Waiting<T> {
    /// Wraps a small result, which takes no memory from the pool of results.
    pub(super) fn small(value: T) -> Self {
        Self {
            value,
            _memory: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::never;

    /// Regression: a result took its memory when it was finished. Until then each of many scans at
    /// once wrote up to 256 MiB.
    #[test]
    fn a_result_takes_memory_while_it_grows_and_frees_what_it_does_not_need() {
        let pool = ResultPool::new(8);
        let mut memory = ResultMemory::new(&pool, None);
        // Two of the eight pages are reserved, and a scan has one from its start.
        memory.pages.wait_for_page(&never());
        assert!(memory.grow(2 * PAGE_BYTES - 1).is_ok());
        assert!(memory.grow(5 * PAGE_BYTES).is_ok());
        assert!(memory.grow(7 * PAGE_BYTES).is_err());
        let other = InlineMemory::new(&pool, true);
        assert!(other.grow(PAGE_BYTES - 1).is_ok() && other.memory.get().is_none());
        assert_eq!(other.grow(2 * PAGE_BYTES), Err(no_memory(2 * PAGE_BYTES)));
        // The finished result is compressed.
        assert!(memory.try_hold(2 * PAGE_BYTES));
        assert!(other.grow(2 * PAGE_BYTES).is_ok());
        let other = other.finish(SMALL_BYTES).unwrap();
        assert!(other.is_some_and(|other| other.grow(3 * PAGE_BYTES).is_ok()));
        drop(memory);
        assert!(!pool.is_short());
    }

    /// Regression: while clients that did not read held all memory, a driver did not get the
    /// schema, and dropped the node.
    #[test]
    fn a_page_of_a_request_that_must_not_be_rejected_needs_no_memory() {
        let pool = ResultPool::new(1);
        let held = InlineMemory::new(&pool, true).finish(PAGE_BYTES);
        assert!(held.is_ok() && pool.is_short());
        let page = |may_refuse| InlineMemory::new(&pool, may_refuse).finish(PAGE_BYTES);
        assert!(page(true).is_err());
        assert!(page(false).unwrap().is_none());
        let memory = InlineMemory::new(&pool, false);
        assert!(memory.grow(2 * PAGE_BYTES - 1).is_ok());
        assert!(memory.grow(2 * PAGE_BYTES).is_err());
        drop(held);
    }
}
