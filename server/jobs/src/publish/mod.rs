//! Publish: tables of a snapshot as Iceberg tables in a folder or a bucket, for other engines.
//!
//! ```text
//!   tables at a snapshot ─> plan: names, columns, field ids, versions
//!                             │
//!   splits of all tables ─> rows as cells ─> a Parquet file per task and table
//!                             │                   │ noted in the target: done once is done
//!                             └─> commit <────────┘ each table, then the record of the set
//! ```
//!
//! A table always shows its old publications, or also the new one, and nothing in between.
//! Until the record of the set is there, some of the tables may have the new one and others not.
//!
//! | file | content |
//! | --- | --- |
//! | `plan` | the Iceberg tables and their columns, as decisions |
//! | `records` | the objects in the target that are ebb's own: what is planned, done, and whole |
//! | `job` | the input and the output of the job |
//!
//! The options are part of every build. The job needs the feature `publish`.

#[cfg(feature = "publish")]
mod job;
#[cfg(feature = "publish")]
mod plan;
#[cfg(feature = "publish")]
mod records;
#[cfg(all(test, feature = "publish"))]
mod tests;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::application::{Application, Materials};
use super::chain::Work;
use super::error::JobError;

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
    /// Publish keys and values of tables that CQL did not make as text [default: as binary].
    #[serde(default)]
    #[cfg_attr(feature = "args", arg(long))]
    pub text: bool,
    /// Move tags of the snapshot's name that name another snapshot.
    #[serde(default)]
    #[cfg_attr(feature = "args", arg(long))]
    pub replace: bool,
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
            "this build of ebb does not publish: build it with `cargo build --release --features publish`",
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
