//! The place where a table is committed: its target, or one catalog.
//!
//! A publisher that did not see the snapshots of another place would sweep their files. So the first commit leaves a
//! mark beside the metadata, before the commit takes effect: an object with the URL of the catalog, or with the text
//! `no catalog`. Its name is created once, so of first publishers for several places, the others are refused. Later
//! ones find the mark when they read the table.

use super::error::CommitError;
use super::names::{catalog_mark, is_catalog_mark};
use crate::target::Target;

/// The content of a table's mark if the table is committed without a catalog. The mark is the
/// object in the target that records where the table is committed. It may be absent if an earlier
/// build of ebb committed the table.
const NO_CATALOG: &str = "no catalog";

/// The place where a publisher commits a table: the target itself, or a catalog.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommitPlace<'p> {
    pub(super) target: &'p Target,
    /// The URL of the catalog; `None` without one.
    pub(super) catalog: Option<&'p str>,
}

impl CommitPlace<'_> {
    /// Marks the table, by an object in the target, as committed in this place (the target itself, or this catalog),
    /// unless it has a mark already.
    ///
    /// # Errors
    /// If the table is committed in another place, or if a request to the target fails.
    pub(super) fn take(&self, table: &str) -> Result<(), CommitError> {
        let name = catalog_mark(table);
        if self.target.create(&name, self.mark().to_owned().into())? {
            return Ok(());
        }
        let mark = self.target.read(&name)?.unwrap_or_default();
        self.check_mark(table, &mark)
    }

    /// Returns whether the mark of the table shows that it is committed in this place (the target itself, or
    /// this catalog). False if the table has no mark. The mark is an object that the first commit writes
    /// beside the metadata; `objects` are the names of the objects there.
    ///
    /// # Errors
    /// If the table is committed in another place, or if a request to the target fails.
    pub(super) fn is_taken(&self, table: &str, objects: &[String]) -> Result<bool, CommitError> {
        if !objects.iter().any(|object| is_catalog_mark(object)) {
            return Ok(false);
        }
        let mark = self.target.read(&catalog_mark(table))?.unwrap_or_default();
        self.check_mark(table, &mark)?;
        Ok(true)
    }

    fn mark(&self) -> &str {
        self.catalog.unwrap_or(NO_CATALOG)
    }

    fn check_mark(&self, table: &str, mark: &[u8]) -> Result<(), CommitError> {
        if mark == self.mark().as_bytes() {
            return Ok(());
        }
        let mark = String::from_utf8_lossy(mark);
        let reason = match self.catalog {
            None => format!(
                "the table is committed by the catalog {mark}; publish with --catalog, or choose another target"
            ),
            Some(_) if mark == NO_CATALOG => {
                "the table is committed without a catalog; publish without --catalog, or choose another \
                 target"
                    .to_owned()
            }
            Some(own) => format!(
                "the target names {mark} as the catalog of the table, and this is {own}; publish with that \
                 one, or choose another target"
            ),
        };
        Err(CommitError::Refused {
            table: table.to_owned(),
            reason,
        })
    }
}
