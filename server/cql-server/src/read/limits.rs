//! Limits on reads, their pages and their rows.

use std::time::Duration;

/// Limits on reads and their pages.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// If the client pages, a page takes no further row once its cells have this many bytes.
    pub page_bytes: usize,
    /// If the client pages, a page that still has no rows ends after reading for this time.
    pub empty_page: Duration,
    /// If the client pages, a page with rows ends after reading for this time.
    pub page_time: Duration,
    /// The most bytes of a response's cells, together with the read's buffers: rows to sort, and
    /// states of aggregates. A read that needs more fails, because drivers reject longer responses:
    /// the Java driver from 256 MiB on, by default.
    ///
    /// The same limit holds separately for the computed arguments of functions, which are kept
    /// until the function is called.
    pub result_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            page_bytes: 1 << 20,
            empty_page: Duration::from_millis(10),
            page_time: Duration::from_millis(100),
            result_bytes: 256 << 20,
        }
    }
}

/// The limits on the number of rows that a statement (LIMIT, PER PARTITION LIMIT) and its client
/// (the page size) set.
#[derive(Debug, Clone, Copy)]
pub struct RowLimits {
    /// The most rows of the statement's whole result, from LIMIT; `u64::MAX` without one.
    pub statement: u64,
    /// The most rows of each partition, from PER PARTITION LIMIT: `u64::MAX` without one, and 1 for
    /// DISTINCT. In a statement with groups, each group counts as one row.
    pub partition: u64,
    /// The most rows of a page; `None` if the client does not page.
    pub page: Option<u32>,
}
