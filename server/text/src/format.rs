//! The formats of text files.

use std::ffi::OsStr;
use std::path::Path;

/// The format of a text file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "args", derive(clap::ValueEnum))]
pub enum TextFormat {
    /// Lines of UTF-8. A row's value is the line.
    Text,
    /// CSV records (RFC 4180), also over several lines. A row's value is the record,
    /// with commas between its fields, and quotes where they are needed.
    #[cfg_attr(
        feature = "args",
        value(
            help = "CSV records (RFC 4180), also over several lines. A row's value is the record, \
                    with commas between its fields"
        )
    )]
    Csv,
    /// A JSON object per line. A row's value is the line.
    JsonLines,
}

impl TextFormat {
    /// Returns the format by the extension of a file's name, without `.gz`; `None` for other
    /// extensions.
    pub fn of_name(path: &Path) -> Option<Self> {
        match extension(path)?.to_ascii_lowercase().to_str()? {
            "csv" | "tsv" => Some(Self::Csv),
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            _ => None,
        }
    }

    /// Returns the byte between the fields of a CSV file of this name: a tab for `.tsv`, otherwise
    /// a comma.
    pub fn delimiter_of_name(path: &Path) -> u8 {
        let is_tsv = extension(path).is_some_and(|end| end.eq_ignore_ascii_case("tsv"));
        if is_tsv { b'\t' } else { b',' }
    }
}

fn extension(path: &Path) -> Option<&OsStr> {
    let end = path.extension()?;
    if end.eq_ignore_ascii_case("gz") {
        Path::new(path.file_stem()?).extension()
    } else {
        Some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_determine_the_format_with_and_without_gz() {
        for (name, format) in [
            ("a.csv", Some(TextFormat::Csv)),
            ("d.x/a.TSV.gz", Some(TextFormat::Csv)),
            ("a.jsonl", Some(TextFormat::JsonLines)),
            ("a.ndjson.gz", Some(TextFormat::JsonLines)),
            ("csv", None),
            ("a.txt", None),
            (".gz", None),
            ("-", None),
        ] {
            assert_eq!(TextFormat::of_name(Path::new(name)), format, "{name}");
        }
        let delimiter = |name: &str| TextFormat::delimiter_of_name(Path::new(name));
        assert_eq!(["a.tsv.gz", "a.csv", "a"].map(delimiter), *b"\t,,");
    }
}
