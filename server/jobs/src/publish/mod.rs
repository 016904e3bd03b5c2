//! Publish: tables of a snapshot as Iceberg tables in a folder or a bucket, for other engines.
//!
//! ```text
//!   tables at a snapshot ─> plan: names, columns, field ids, versions
//!                             │
//!   splits of all tables ─> rows as cells ─> a Parquet file per task and table
//!                             │                   │ noted in the target: done once is done
//!                             └─> commit <────────┘ each table, then the record of the set
//!                                   │
//!                                   └─> pins: what was published stays readable
//! ```
//!
//! The next publication of the same tables to the same target compares its snapshot with the one that is
//! kept: it writes the rows that differ, and deletes of the rows that they replace. If nothing fitting is
//! kept, it writes all rows.
//!
//! A table always shows its old publications, or also the new one, and nothing in between.
//! Until the record of the set is there, some of the tables may have the tag of the new one and others not. What
//! readers see without a tag, `main`, follows in all tables once the last one has the tag. If the schema or rows of a
//! table cannot be read or published, the other tables get the tag all the same, but the set is not whole.
//!
//! | file | content |
//! | --- | --- |
//! | `plan` | the Iceberg tables and their columns, as decisions |
//! | `planner` | the plan of a table, after what the target has of it |
//! | `extent` | whether all rows of a table are written, or those that changed, as a decision |
//! | `pins` | the snapshots that targets show, kept for their next publications |
//! | `epochs` | the marks of this database in the tables of targets, by which it notices another copy of itself |
//! | `records` | the objects in the target that are ebb's own: what is planned, done, and whole |
//! | `job` | a publication: its plan, what its tasks share, and the rows that it refuses |
//! | `input` | the rows to write |
//! | `previous` | where the newest publication has a row, and the rows of its files that go |
//! | `row_keys` | the keys of rows, made of the columns of the primary key |
//! | `output` | data files and delete files |
//! | `commit` | the commit of the tables, and what is reported and kept after it |
//! | `left_out` | the tables whose schema or rows cannot be read or published, while the others get the tag |
//! | `mains` | the moves of `main`, once all tables have the tag |
//! | `access` | the tables as commits open them, with rights and epochs |
//! | `expiry` | the old publications that a new one removes, and their records |
//! | `sweeps` | the removal of what earlier publishers left |
//! | `whole` | the record that a publication is whole, with its tables |
//! | `section` | the exclusion of publications that change this record at once |
//! | `keep_rule` | how many publications are kept, and how long |
//! | `catalog_url` | the URL of a catalog that commits the tables |
//!
//! The options and the list of pins are part of every build. The job needs the feature `publish`, which the binary
//! `ebb` has by default.

#[cfg(feature = "publish")]
mod access;
mod catalog_url;
#[cfg(feature = "publish")]
mod commit;
#[cfg(feature = "publish")]
mod epochs;
#[cfg(feature = "publish")]
mod expiry;
#[cfg(feature = "publish")]
mod extent;
#[cfg(feature = "publish")]
mod input;
#[cfg(feature = "publish")]
mod job;
mod keep_rule;
#[cfg(feature = "publish")]
mod left_out;
#[cfg(feature = "publish")]
mod mains;
#[cfg(feature = "publish")]
mod output;
mod pin_max;
pub mod pins;
#[cfg(feature = "publish")]
mod plan;
#[cfg(feature = "publish")]
mod planner;
#[cfg(feature = "publish")]
mod previous;
#[cfg(feature = "publish")]
mod records;
#[cfg(feature = "publish")]
mod row_keys;
#[cfg(feature = "publish")]
mod section;
#[cfg(feature = "publish")]
mod sweeps;
#[cfg(all(test, feature = "publish"))]
mod tests;
#[cfg(feature = "publish")]
mod whole;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use self::catalog_url::CatalogUrl;
pub use self::keep_rule::KeepRule;
pub use self::pin_max::PinMax;
use super::application::{Application, Materials};
use super::chain::Work;
use super::error::JobError;

/// The name of the job in the runtime if the job writes only changed rows. Under this name it has a profile
/// (measured task times) of its own: a publication of all rows takes far longer for the same tables.
#[cfg(any(test, feature = "publish"))]
pub(crate) const CHANGES_JOB: &str = "publish changes";

/// Publish a snapshot as Iceberg tables, which Spark, Trino, DuckDB and other engines read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "args", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PublishRequest {
    /// Publish decimals with this precision and scale, as in 18,2. A value that does not fit
    /// without rounding fails the job [default: as text].
    #[serde(default)]
    #[cfg_attr(feature = "args", arg(long, value_name = "PRECISION,SCALE"))]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub decimal: Option<DecimalDigits>,
    /// Publish varints as text [default: as decimal(38, 0), and a larger value fails the job].
    #[serde(default)]
    #[cfg_attr(feature = "args", arg(long))]
    pub varint_as_text: bool,
    /// Publish empty values of types such as int as null; otherwise they fail the job.
    #[serde(default)]
    #[cfg_attr(feature = "args", arg(long))]
    pub empty_as_null: bool,
    /// For tables that CQL did not make: publish keys and values as text [default: as binary].
    #[serde(default)]
    #[cfg_attr(feature = "args", arg(long))]
    pub text: bool,
    /// If a table has a tag with the snapshot's name that names another snapshot, move the tag to
    /// the published one [default: such a tag fails the job].
    #[serde(default)]
    #[cfg_attr(feature = "args", arg(long))]
    pub replace: bool,
    /// Publish all rows [default: the rows that changed since the newest publication, if ebb has kept the snapshot
    /// of that publication].
    #[serde(default)]
    #[cfg_attr(feature = "args", arg(long))]
    pub full: bool,
    /// Take over tables that another database has published, or another copy of this one, and publish all of their
    /// rows: after this database was restored or repaired, or if the other copy is gone. Older tags stay
    /// [default: such tables fail the job].
    #[serde(default)]
    #[cfg_attr(feature = "args", arg(long))]
    pub take_over: bool,
    /// Keep the published snapshot readable, so that the next publication can compare with it: for a time such as
    /// 36h, or until it takes a percentage of the database such as 20%, which a server checks once a minute; 0s keeps
    /// nothing [default: 7d].
    #[serde(default)]
    #[cfg_attr(feature = "args", arg(long, value_name = "TIME|PERCENT"))]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub pin_max: Option<PinMax>,
    /// Keep this many of the newest publications of each table, the new one included, and those that are younger than
    /// TIME, such as 36h. The commit of a new publication removes the others with their tags, but not what readers see
    /// without a tag; their files go with the publication after it [default: all are kept].
    #[serde(default)]
    #[cfg_attr(feature = "args", arg(long, value_name = "N[,TIME]"))]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub keep: Option<KeepRule>,
    /// Commit by the Iceberg REST catalog at this URL, which may end with ?warehouse=NAME. Credentials
    /// come from EBB_CATALOG_CREDENTIAL, or else a token from EBB_CATALOG_TOKEN [default: commit by metadata
    /// files in the target].
    #[serde(default)]
    #[cfg_attr(feature = "args", arg(long, value_name = "URL"))]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub catalog: Option<CatalogUrl>,
}

/// Precision and scale of a decimal, as in `18,2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct DecimalDigits {
    precision: u8,
    scale: u8,
}

impl FromStr for DecimalDigits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = |text: &str| text.trim().parse::<u8>().ok();
        let parts = text.split_once(',');
        match parts.map(|(precision, scale)| (digits(precision), digits(scale))) {
            Some((Some(precision @ 1..=38), Some(scale))) if scale <= precision => {
                Ok(Self { precision, scale })
            }
            _ => Err(format!(
                "{text:?} is not a precision of 1 to 38 digits, a comma and a scale that is not above \
                 it, as in 18,2"
            )),
        }
    }
}

impl TryFrom<String> for DecimalDigits {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<DecimalDigits> for String {
    fn from(digits: DecimalDigits) -> Self {
        digits.to_string()
    }
}

impl fmt::Display for DecimalDigits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.precision, self.scale)
    }
}

impl Application for PublishRequest {
    const NAME: &'static str = "publish";
    const TAKES_MORE_INPUTS: bool = true;
    const HAS_OWN_COMMAND: bool = true;

    #[cfg(feature = "publish")]
    fn make(&self, materials: &Materials<'_>) -> Result<Work, JobError> {
        let site = materials.publication.as_ref();
        let site =
            site.ok_or_else(|| JobError::senseless("publish runs on threads of its node"))?;
        Ok(job::spec(Self::NAME, self, site, materials.splits)?.into())
    }

    #[cfg(not(feature = "publish"))]
    fn make(&self, _: &Materials<'_>) -> Result<Work, JobError> {
        Err(JobError::senseless(
            "this build of ebb does not publish: make one that does by `cargo build --release`, without \
             `--no-default-features`",
        ))
    }
}

#[cfg(test)]
mod option_tests {
    use super::*;

    #[test]
    fn digits_of_a_decimal_are_a_precision_and_a_scale_within_it() {
        for text in ["18,2", "38,38", "1,0"] {
            assert_eq!(text.parse::<DecimalDigits>().unwrap().to_string(), text);
        }
        for text in ["", "18", "0,0", "39,0", "2,3", "18,-1", "a,b"] {
            let error = text.parse::<DecimalDigits>().unwrap_err();
            assert!(error.contains("18,2"), "{error}");
        }
    }
}
