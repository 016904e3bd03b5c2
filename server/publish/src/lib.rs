//! Snapshots of a store as Iceberg tables, which Spark, Trino, DuckDB and other engines read, and the way
//! back: rows of tables and Parquet files that such engines wrote.
//!
//! | module | content |
//! | --- | --- |
//! | [`target`] | the folder or the bucket of a publication |
//! | [`catalog`] | REST catalogs, by which publications may be committed |
//! | [`commit`] | what a publication adds to a table, and the step that makes it visible |
//! | [`data_file`] | rows as Parquet files |
//! | [`row_index`] | the keys of some rows of a data file, kept beside the table |
//! | [`rows`] | the rows that a published table has, by their keys, and deletes of them |
//! | [`source`] | rows of Parquet files and Iceberg tables that any engine wrote |
//! | `parquet_file` | the opening of Parquet files, with checks that the Parquet library lacks |
//! | `own_file` | the properties of all Parquet files that ebb writes, and their descriptions for manifests |
//! | `object` | an object of a target as Parquet's library reads it |
//! | `dictionaries` | the columns of a data file that have a dictionary |
//! | `row_groups` | the row groups of a data file, with the memory for few or for many columns |
//! | `batch_rows` | the number of rows in the batches in which a Parquet file is read |
//! | `row_set` | a set of rows of a data file, for its deletes |
//! | `views` | texts and blobs as views into the pages of a Parquet file |
//! | [`iceberg`] | metadata, manifests and lists of manifests |
//! | [`types`] | CQL types and values as those of Iceberg, Arrow and Parquet, in both directions |

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests look at clocks and files themselves"
    )
)]

mod batch_rows;
mod bounds;
pub mod catalog;
pub mod commit;
pub mod data_file;
mod dictionaries;
#[cfg(all(test, feature = "s3"))]
mod http_testing;
pub mod iceberg;
mod object;
mod own_file;
mod parquet_file;
mod row_groups;
pub mod row_index;
mod row_set;
pub mod rows;
#[expect(
    clippy::disallowed_methods,
    reason = "the door to the files that users name"
)]
pub mod source;
#[expect(
    clippy::disallowed_methods,
    reason = "the door to the folders that users name"
)]
pub mod target;
pub mod types;
mod views;
