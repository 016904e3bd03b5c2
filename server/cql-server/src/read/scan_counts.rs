//! Counts of the live rows that a read returns or filters out, and of the tombstones that it
//! passes.
//!
//! A tombstone here is a stored row that was deleted or has expired, or the deletion of a partition
//! or of a range of rows. Null columns of live rows do not count, because they cost a read nothing.
//!
//! The limits hold for each page. Aggregates and groups are computed over any number of rows, which
//! are counted in the internal pages in which Cassandra reads them.

use ebb_cql::protocol::{Consistency, ErrorKind, ErrorResponse};
use ebb_model::row::Header;
use ebb_model::schema::TableSchema;

use crate::error::Result;
use crate::guardrails::{Guardrails, Limit};

/// The number of rows that Cassandra reads at a time to compute an aggregate (an internal page) if
/// the client does not page: its `SelectStatement.DEFAULT_PAGE_SIZE`.
pub const AGGREGATE_PAGE_ROWS: u32 = 10_000;

#[derive(Debug)]
pub struct ScanCounts<'s> {
    /// The guardrails on tombstones; `None` for the server's own tables.
    guardrails: Option<&'s Guardrails>,
    schema: &'s TableSchema,
    consistency: Consistency,
    /// The number of rows after which the counts begin anew, because Cassandra would read the next
    /// internal page of an aggregate; `None` if the read is a single page.
    page_rows: Option<u32>,
    page: PageCounts,
    /// The counts of the completed internal page with the most tombstones; zeros before the first
    /// one.
    worst: PageCounts,
}

#[derive(Debug, Clone, Copy, Default)]
struct PageCounts {
    live_rows: u64,
    tombstones: u64,
    /// The number of live rows of the page that passed the filter. Not counted if the read is a
    /// single page.
    passed_rows: u32,
}

impl<'s> ScanCounts<'s> {
    /// Starts the counts of a read from the table with this schema. They begin anew after each
    /// `page_rows` rows that pass the filter (an internal page); `None` makes the read a single
    /// page.
    pub fn new(
        guardrails: Option<&'s Guardrails>,
        schema: &'s TableSchema,
        consistency: Consistency,
        page_rows: Option<u32>,
    ) -> Self {
        Self {
            guardrails,
            schema,
            consistency,
            page_rows,
            page: PageCounts::default(),
            worst: PageCounts::default(),
        }
    }

    pub fn note_row(&mut self) {
        self.page.live_rows += 1;
    }

    /// Counts a live row that passed the filter, and ends the internal page if it is full.
    pub fn note_passed(&mut self) {
        let Some(page_rows) = self.page_rows else {
            return;
        };
        self.page.passed_rows += 1;
        if self.page.passed_rows >= page_rows {
            self.worst = self.worst();
            self.page = PageCounts::default();
        }
    }

    /// Counts the deletions of the partition and of ranges in a header as tombstones.
    ///
    /// # Errors
    /// The errors of [`ScanCounts::note_tombstones`].
    pub fn note_header(&mut self, header: &Header<'_>) -> Result<()> {
        let deletions = header.ranges().len() + usize::from(header.deletion().is_some());
        match deletions {
            0 => Ok(()),
            deletions => self.note_tombstones(deletions as u64),
        }
    }

    /// Adds `more` tombstones to those of the current page.
    ///
    /// # Errors
    /// Cassandra's ReadFailure, if the page has more tombstones than the guardrails permit.
    pub fn note_tombstones(&mut self, more: u64) -> Result<()> {
        self.page.tombstones += more;
        let tombstones = self.page.tombstones;
        let threshold = (self.guardrails)
            .and_then(|guardrails| guardrails.threshold(Limit::Tombstones).fail)
            .filter(|fail| tombstones > *fail);
        let Some(fail) = threshold else {
            return Ok(());
        };
        let kind = ErrorKind::ReadFailure {
            consistency: self.consistency,
        };
        let words = Limit::Tombstones.words(false, &self.name(), tombstones, fail);
        Err(ErrorResponse::new(kind, words))
    }

    /// Returns the counts of the page with the most tombstones, including the page that is not
    /// completed yet.
    fn worst(&self) -> PageCounts {
        if self.page.tombstones > self.worst.tombstones {
            self.page
        } else {
            self.worst
        }
    }

    /// Returns the warning for a completed read; `None` unless one of its pages had more tombstones
    /// than the guardrails' threshold for warnings.
    pub fn warning(&self) -> Option<String> {
        let warn = self.guardrails?.threshold(Limit::Tombstones).warn?;
        let page = self.worst();
        let (live_rows, tombstones) = (page.live_rows, page.tombstones);
        (tombstones > warn).then(|| {
            let what = format!(
                "{live_rows} live rows and {tombstones} tombstone cells for query on {}",
                self.name()
            );
            Limit::Tombstones.words(true, &what, tombstones, warn)
        })
    }

    fn name(&self) -> String {
        format!("{}.{}", self.schema.keyspace(), self.schema.name())
    }
}
