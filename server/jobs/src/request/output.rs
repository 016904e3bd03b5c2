//! The output of a job request.

use std::fmt;
use std::path::PathBuf;

use ebb_tables::names::TableName;
use serde::{Deserialize, Serialize};

use super::{PublishTarget, RequestError};
use crate::records::RowFormat;

/// The extensions of compressed files and of file formats that jobs do not write, in lower case.
pub const FOREIGN_EXTENSIONS: [&str; 11] = [
    "avro", "bz2", "gz", "lz4", "orc", "parquet", "snappy", "xlsx", "xz", "zip", "zst",
];

/// The destination of a job's rows. The rows of a file, folder or table appear all at once, when
/// the job has succeeded. Iceberg tables are committed one after the other, and the rows of each of
/// them appear all at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct OutputRequest {
    /// The destination of the rows.
    pub to: OutputPlace,
    /// The format of rows in files. `None` stands for the format of the file's extension, or else text.
    #[serde(default)]
    pub format: Option<RowFormat>,
    /// The largest number of rows in the output, the first ones of the result; `None` for all rows.
    #[serde(default)]
    pub limit: Option<u64>,
    /// True if output in the format text begins with a line of the columns' names. On the terminal it
    /// always does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub header: bool,
}

/// Files, a table or the terminal. Relative paths start from the request's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OutputPlace {
    /// A new file.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    File(PathBuf),
    /// A new folder with a file per task, and the empty file `_SUCCESS`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    Folder(PathBuf),
    /// A new table, or one that has no rows.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    Table(TableName),
    /// Iceberg tables in a folder, or in a bucket of S3.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    Iceberg(PublishTarget),
    /// Standard output of the process that runs the job.
    Terminal,
    /// A temporary file for the terminal of a client: the client prints it when the job has succeeded, and
    /// removes it. It lies in a folder of its own among the spills of the database.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    Spool(PathBuf),
}

impl OutputPlace {
    /// Returns true if the rows are for the terminal of a process. When that process ends, the rows are
    /// lost.
    pub(crate) fn is_for_terminal(&self) -> bool {
        matches!(self, Self::Terminal | Self::Spool(_))
    }
}

impl OutputRequest {
    /// Returns the format of rows in files or on the terminal; text for tables, whose rows have no such
    /// format.
    pub fn row_format(&self) -> RowFormat {
        match (&self.to, self.format) {
            (OutputPlace::Table(_) | OutputPlace::Iceberg(_), _) => RowFormat::Text,
            (_, Some(format)) => format,
            (OutputPlace::File(path), None) => RowFormat::of_name(&path.to_string_lossy()),
            (OutputPlace::Folder(_) | OutputPlace::Terminal | OutputPlace::Spool(_), None) => {
                RowFormat::Text
            }
        }
    }

    /// Checks that the extension of the output file does not promise another format than that of the rows.
    ///
    /// # Errors
    /// When the extension is one of [`FOREIGN_EXTENSIONS`], or `json` without a chosen format: readers
    /// expect a single JSON value in such a file.
    pub(super) fn check(&self) -> Result<(), RequestError> {
        let OutputPlace::File(path) = &self.to else {
            return Ok(());
        };
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        let extension = extension.to_ascii_lowercase();
        let shown = path.display();
        if FOREIGN_EXTENSIONS.contains(&extension.as_str()) {
            return Err(RequestError::Senseless(format!(
                "the output {shown}: a job writes text, CSV or JSON lines, and packs nothing; \
                 choose another extension, such as .csv"
            )));
        }
        if extension == "json" && self.format.is_none() {
            return Err(RequestError::Senseless(format!(
                "the output {shown}: a job writes a JSON object per line, for which the extension \
                 is .jsonl; choose that, or a format"
            )));
        }
        Ok(())
    }

    /// Returns true if output in the format text begins with a line of the columns' names.
    pub(crate) fn has_header(&self) -> bool {
        self.header || self.to.is_for_terminal()
    }

    /// Returns true if rows are written as JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.row_format() == RowFormat::JsonLines
    }
}

impl From<OutputPlace> for OutputRequest {
    fn from(to: OutputPlace) -> Self {
        Self {
            to,
            format: None,
            limit: None,
            header: false,
        }
    }
}

/// Prints the destination for people, as in "table app.users".
impl fmt::Display for OutputPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Folder(path) => write!(f, "folder {}", path.display()),
            Self::Table(name) => write!(f, "table {name}"),
            Self::Iceberg(target) => write!(f, "Iceberg tables in {target}"),
            Self::Terminal | Self::Spool(_) => f.write_str("the terminal"),
        }
    }
}
