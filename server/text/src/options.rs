//! How to load.

use std::path::Path;
use std::thread;

use ebb_storage::SortedWriterOptions;

use super::csv::CsvDialect;
use super::format::TextFormat;

/// What becomes of several rows with the same key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "args", derive(clap::ValueEnum))]
pub enum Duplicates {
    /// Load nothing.
    #[default]
    Refuse,
    /// Load the last one, by the order of the files, then of the lines.
    Last,
}

/// How to load.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// What the files are. `None` with a key column: as their names end; without:
    /// lines of text.
    pub format: Option<TextFormat>,
    /// The byte between the fields of a CSV record. `None`: a tab in files called
    /// `.tsv`, else a comma.
    pub delimiter: Option<u8>,
    /// Malformed quotes in CSV are read as text; otherwise they end the load.
    pub lenient_quotes: bool,
    /// The first record of a CSV file names its columns, and is no row.
    pub header: bool,
    /// The column that is the key. `None`: the name of the file and the number of the
    /// line.
    pub key: Option<String>,
    /// What becomes of rows with the same key.
    pub duplicates: Duplicates,
    /// Files that cannot be loaded whole are left out and said, rather than end the load.
    pub skip_bad: bool,
    /// Threads that read, each some of the files; at least 1.
    pub threads: usize,
    /// No thread is begun for less of the files, in bytes; it makes files of its own.
    pub part_bytes_min: u64,
    /// Stop after about this many bytes of text: the files in their order, the last one
    /// cut after the row that reaches the limit.
    pub max_bytes: Option<u64>,
    /// Memory for rows that are sorted, of all threads together, in bytes.
    pub sort_bytes: usize,
    /// The disk of the scratch folder, and the form of the files in it: those of the
    /// database, [`SortedWriterOptions::from`] its options.
    pub sorted: SortedWriterOptions,
}

impl Default for LoadOptions {
    /// Lines of text, with as many threads as cores, at most four: there are rarely more
    /// disks than that to read from.
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
    /// What a file is taken for.
    ///
    /// # Errors
    /// What to say when its name does not tell it.
    pub(super) fn format_of(&self, path: &Path) -> Result<TextFormat, String> {
        match (self.format, &self.key) {
            (Some(format), _) => Ok(format),
            (None, None) => Ok(TextFormat::Text),
            (None, Some(key)) => TextFormat::of_name(path).ok_or_else(|| {
                format!(
                    "there is no column {key:?} in lines of text: if it is CSV or JSON lines, \
                     say --format csv or --format json-lines"
                )
            }),
        }
    }

    /// The rules by which a CSV file is written.
    pub(super) fn dialect_of(&self, path: &Path) -> CsvDialect {
        let by_name = || TextFormat::delimiter_of_name(path);
        CsvDialect {
            delimiter: self.delimiter.unwrap_or_else(by_name),
            lenient_quotes: self.lenient_quotes,
        }
    }
}
