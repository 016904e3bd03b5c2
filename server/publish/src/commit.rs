//! The commit of one table: which objects a publication adds to an Iceberg table, and the step that
//! makes them visible.
//!
//! ```text
//!   TABLE/data/ebb-N-...               data files and delete files, which are there already
//!   TABLE/metadata/ebb-N-ID-m0.avro    a manifest of data files, or of delete files; m1 and so on
//!   TABLE/metadata/ebb-N-ID-list.avro  the list of manifests
//!   TABLE/metadata/ebb-catalog.txt     the place where the table is committed, from the first commit on
//!   TABLE/metadata/vN.metadata.json    its creation is the commit: of two publishers one creates it
//!   TABLE/metadata/version-hint.text   N, for readers that cannot list
//! ```
//!
//! N is the version that the publication is made for. A publication that ends before the commit leaves
//! objects that nothing names: [`sweep()`] removes them once version N is there, because then they cannot
//! be committed any more. What to do is decided by `Publication::decide`, which looks at no clock and
//! no target.
//!
//! If a publication has several tables, a second commit of each of them, which writes metadata only, makes the
//! branch `main` name the new snapshot once all of them have its tag.
//!
//! If the target has a [catalog](crate::catalog), the last two objects are not there: the catalog takes the
//! change of the metadata, and writes it. Then N is the sequence number of the snapshot.
//!
//! A publication replaces the files of the one before it, or it keeps them ([`Base`]). Then the list of its
//! snapshot has the earlier manifests, too, and rows that changed are named in delete files and written
//! in new data files. Iceberg applies deletes to data files of the same or an earlier publication; those that
//! ebb writes name files of earlier ones only.
//!
//! | file | content |
//! | --- | --- |
//! | `table` | a table in a target, and the commit |
//! | `publication` | what a publication consists of, and the objects to write, as a decision |
//! | `carried` | the manifests of the publication before |
//! | `summary` | numbers in the summary of a snapshot |
//! | `expiry` | which old publications the commit of a new one removes, as a decision |
//! | `origin` | the snapshot of the store that was published |
//! | `rights` | the rights of a publisher in a table |
//! | `owner` | the database to which a table belongs, as a decision |
//! | `properties` | names of ebb's own properties of tables, and of entries in summaries |
//! | `main_branch` | when `main` follows the tags, as a decision |
//! | `live` | the files of the newest publication |
//! | `rewrites` | which of these files are written anew, as a decision |
//! | `manifests` | manifests in a target |
//! | `names` | names of objects |
//! | `metadata_store` | the place of the newest metadata, and the step that replaces it |
//! | `versions`, `catalog_tables` | metadata in the target itself, and in a catalog |
//! | `commit_place` | the mark that a table is committed in one of these only |
//! | `sweep` | the removal of what publishers left |
//! | `settled` | the versions of whose objects a sweep need not look at any |
//! | `old_metadata` | which old metadata files a sweep removes, as a decision |

mod carried;
#[cfg(feature = "s3")]
mod catalog_tables;
mod commit_place;
mod error;
mod expiry;
#[cfg(test)]
mod kills;
mod live;
mod main_branch;
mod manifests;
mod metadata_store;
mod names;
mod old_metadata;
mod origin;
mod owner;
mod properties;
mod publication;
mod rewrites;
mod rights;
mod settled;
mod summary;
mod sweep;
mod table;
#[cfg(test)]
mod tests;
mod versions;

pub use self::error::CommitError;
pub use self::expiry::{Expired, Retention};
pub use self::live::{DeleteFile, LiveFile};
pub use self::names::data_file_name;
pub(crate) use self::names::delete_file_name;
pub use self::origin::Origin;
pub use self::publication::{Base, Publication, Stamp};
pub use self::rewrites::{Rewrites, plan_rewrites};
pub use self::rights::Rights;
pub use self::sweep::{sweep, sweep_sparing, sweep_unsettled};
pub use self::table::PublishedTable;
