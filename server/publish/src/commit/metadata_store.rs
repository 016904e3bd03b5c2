//! The store of the newest metadata of tables, a target or a catalog, and the step that replaces the metadata.

use super::error::CommitError;
use crate::iceberg::metadata::TableMetadata;
use crate::target::TargetError;

/// The newest metadata of a table.
#[derive(Debug)]
pub(super) struct Newest {
    /// The number of the table's latest commit. A publisher names the objects of its own commit by the next
    /// number. Once another publisher has committed under that number, these objects can no longer be
    /// committed.
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
    /// If a request to the store fails, if the metadata is damaged, if the target has metadata files that were
    /// not written for this store, or if the table is committed in another place than this store (in another
    /// catalog, without one, or in another folder than that of the target).
    fn newest(&self, table: &str) -> Result<Option<Newest>, CommitError>;

    /// Makes `next` the newest metadata of the table `table`, in the place of `before`. `next` has a new epoch. It
    /// adds one snapshot as the last one, or none. All objects that `next` names must exist already.
    ///
    /// # Errors
    /// If another publisher committed meanwhile, if the table is committed in another place than this store,
    /// or if a request fails. After a failed request the commit may have taken effect.
    fn replace(
        &self,
        table: &str,
        before: Option<&Newest>,
        next: TableMetadata,
    ) -> Result<(), CommitError>;

    /// Writes the version of `newest` into the version hint, if the store has one: the publisher of that
    /// version may have ended before it wrote the hint.
    ///
    /// # Errors
    /// If a request to the target fails.
    fn mend_hint(&self, table: &str, newest: &Newest) -> Result<(), TargetError>;
}
