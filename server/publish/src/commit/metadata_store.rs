//! The store of the newest metadata of tables, a target or a catalog, and the step that replaces the metadata.

use super::error::CommitError;
use crate::iceberg::metadata::TableMetadata;
use crate::target::TargetError;

/// The newest metadata of a table.
#[derive(Debug)]
pub(super) struct Newest {
    /// The number of the table's latest commit. A publisher names the objects of its commit by the
    /// next number. Once another commit has this number, these objects can no longer be committed.
    pub(super) version: u64,
    pub(super) location: String,
    pub(super) metadata: TableMetadata,
}

/// A store of the newest metadata of tables: a target, or a catalog. If two publishers commit at once, only
/// one of them succeeds.
pub(super) trait MetadataStore {
    /// Reads the newest metadata of the table `table`; `None` if the table does not exist yet.
    ///
    /// # Errors
    /// If a request to the store fails, if metadata is damaged, or if the table is committed elsewhere: by
    /// another catalog than that of this store, or without one.
    fn newest(&self, table: &str) -> Result<Option<Newest>, CommitError>;

    /// Makes `next` the newest metadata of the table `table`, in the place of `before`. `next` adds the
    /// snapshot that its branch `main` names. All objects that `next` names must exist already.
    ///
    /// # Errors
    /// If another publisher committed meanwhile, or if a request to the store fails. In the second case the
    /// commit may have taken effect.
    fn replace(
        &self,
        table: &str,
        before: Option<&Newest>,
        next: TableMetadata,
    ) -> Result<(), CommitError>;

    /// Makes the version hint name `newest`, if the store has such a hint: the publisher of `newest` may have
    /// ended before it wrote the hint.
    ///
    /// # Errors
    /// If a request to the target fails.
    fn mend_hint(&self, table: &str, newest: &Newest) -> Result<(), TargetError>;
}
