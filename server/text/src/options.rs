//! The options of a load.

use std::path::Path;
use std::thread;

use ebb_storage::SortedWriterOptions;

use super::csv::CsvDialect;
use super::format::TextFormat;

/// The treatment of several rows with the same key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "args", derive(clap::ValueEnum))]
pub enum Duplicates {
    /// Load nothing if two rows have the same key.
    #[default]
    Refuse,
    /// Load the last of the rows with the same key, by the order of the files, then of the lines.
    Last,
}

#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// The format of the files. `None`: with a key column, the extension of each file's name
    /// decides; without one, the files are lines of text.
    pub format: Option<TextFormat>,
    /// The byte between the fields of a CSV record. `None`: a tab for files called `.tsv`,
    /// otherwise a comma.
    pub delimiter: Option<u8>,
    /// True if malformed quotes in CSV are text; otherwise they end the load.
    pub lenient_quotes: bool,
    /// True if the first record of a CSV file contains the names of its columns, and is not a row.
    pub header: bool,
    /// The key column. `None`: the name of the file and the number of the line are the key.
    pub key: Option<String>,
    /// The treatment of rows with the same key.
    pub duplicates: Duplicates,
    /// True if files that cannot be loaded completely are skipped and reported; otherwise they end
    /// the load. A stream is never skipped, because it cannot be read twice.
    pub skip_bad: bool,
    /// The maximal number of threads, at least 1. Each reads some of the files.
    pub threads: usize,
    /// The minimal number of bytes of files per thread; the load uses fewer threads for less. If no sort is
    /// needed, each thread writes files of its own to be ingested, so more threads mean more files.
    pub part_bytes_min: u64,
    /// The number of bytes after which the load stops; `None` for no limit. The load takes the files in
    /// their order, and subtracts from the limit the size that each file had when it was found: the
    /// compressed size of a compressed file, 0 for a stream. The file that uses up the limit is read until
    /// the text of its rows reaches the bytes that were left; later files are not read.
    pub max_bytes: Option<u64>,
    /// Memory for sorting rows, of all threads together, in bytes.
    pub sort_bytes: usize,
    /// The disk of the scratch folder, and the format of the files in it. Both must be those of the
    /// database: [`SortedWriterOptions::from`] makes them from the database's options.
    pub sorted: SortedWriterOptions,
}

impl Default for LoadOptions {
    /// Each line of text is a row, because there is no key column. There are as many threads as
    /// cores, but at most four, because files rarely lie on more disks.
    fn default() -> Self {
        Self {
            format: None,
            delimiter: None,
            lenient_quotes: false,
            header: true,
            key: None,
            duplicates: Duplicates::default(),
            skip_bad: false,
            threads: thread::available_parallelism().map_or(1, |cores| cores.get().min(4)),
            part_bytes_min: 8 << 20,
            max_bytes: None,
            sort_bytes: 64 << 20,
            sorted: SortedWriterOptions::default(),
        }
    }
}

impl LoadOptions {
    /// Returns the format of a file.
    ///
    /// # Errors
    /// A message, if the name of the file does not determine the format.
    pub(super) fn format_of(&self, path: &Path) -> Result<TextFormat, String> {
        match (self.format, &self.key) {
            (Some(format), _) => Ok(format),
            (None, None) => Ok(TextFormat::Text),
            (None, Some(key)) => TextFormat::of_name(path).ok_or_else(|| {
                format!(
                    "there is no column {key:?} in lines of text: if the file has CSV or JSON \
                     lines, add --format csv or --format json-lines"
                )
            }),
        }
    }

    /// Returns the dialect of a CSV file.
    pub(super) fn dialect_of(&self, path: &Path) -> CsvDialect {
        let by_name = || TextFormat::delimiter_of_name(path);
        CsvDialect {
            delimiter: self.delimiter.unwrap_or_else(by_name),
            lenient_quotes: self.lenient_quotes,
        }
    }
}
