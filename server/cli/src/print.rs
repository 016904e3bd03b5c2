//! Writing results to stdout.

use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result};
use clap::builder::{PathBufValueParser, TypedValueParser};
use ebb_bench::columns::columns;
use indicatif::HumanCount;
use serde::Serialize;
use serde_json::{Map, Value};

use super::escape::{escaped_line, escaped_lines};
use super::exit::is_closed_pipe;

/// The greatest length of the lines of lists, in characters.
pub(super) const LINE_CHARS_MAX: usize = 100;

/// An error in writing to stdout. It has a type of its own because a connection, or a pipe that
/// `--json-file` names, may break with the same kind of error, and then the command has failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to stdout")]
pub(super) struct StdoutError(#[source] io::Error);

impl StdoutError {
    /// Returns whether the reader of stdout has closed its end, as `head` does.
    pub(super) fn is_closed(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }
}

/// Returns the result of writing to stdout, with an error that names stdout.
pub(super) fn to_stdout(written: io::Result<()>) -> Result<()> {
    written.map_err(|error| Error::new(StdoutError(error)))
}

/// A buffer before stdout. The command must call [`Printer::finish`] before it ends: an error in
/// writing the rest would be lost otherwise.
pub(super) struct Printer {
    out: BufWriter<StdoutLock<'static>>,
}

impl Printer {
    pub(super) fn new() -> Self {
        Self {
            out: BufWriter::new(io::stdout().lock()),
        }
    }

    /// Writes a text of one or more lines, with an escape for each control character but line feeds and tabs.
    pub(super) fn line(&mut self, text: impl std::fmt::Display) -> Result<()> {
        to_stdout(writeln!(self.out, "{}", escaped_lines(&text.to_string())))
    }

    /// Writes each item as one line of text. Control characters in an item are escaped, also ends of lines
    /// and tabs.
    pub(super) fn lines(
        &mut self,
        lines: impl IntoIterator<Item: std::fmt::Display>,
    ) -> Result<()> {
        let mut lines = lines
            .into_iter()
            .map(|line| escaped_line(&line.to_string()));
        to_stdout(lines.try_for_each(|line| writeln!(self.out, "{line}")))
    }

    /// Writes the lines of a [`table`]: `head` has the names of the columns, and `right` those of
    /// the columns that are aligned to the right.
    pub(super) fn table(
        &mut self,
        head: &[&str],
        right: &[&str],
        rows: &[Vec<String>],
    ) -> Result<()> {
        self.lines(table(head, right, rows))
    }

    /// Writes fields without escapes, with tabs between them and a newline behind.
    pub(super) fn fields(&mut self, fields: &[&[u8]]) -> Result<()> {
        let mut write = || {
            for (index, field) in fields.iter().enumerate() {
                if index > 0 {
                    self.out.write_all(b"\t")?;
                }
                self.out.write_all(field)?;
            }
            self.out.write_all(b"\n")
        };
        to_stdout(write())
    }

    /// Writes bytes without escapes.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        to_stdout(self.out.write_all(bytes))
    }

    /// Writes a JSON value on a line of its own.
    pub(super) fn json(&mut self, value: &impl Serialize) -> Result<()> {
        let written = serde_json::to_writer(&mut self.out, value).map_err(io::Error::from);
        to_stdout(written.and_then(|()| self.out.write_all(b"\n")))
    }

    /// Flushes the buffer.
    pub(super) fn finish(mut self) -> Result<()> {
        to_stdout(self.out.flush())
    }
}

/// Prints a line of text to stdout, for a command that prints no more than this.
pub(super) fn say(text: String) -> Result<()> {
    let mut printer = Printer::new();
    printer.line(text)?;
    printer.finish()
}

/// Prints a text for people to stderr, such as an error or a warning, with the name of the program before it.
/// Control characters in the text are escaped, but not line feeds and tabs.
pub(super) fn notice(text: impl std::fmt::Display) {
    write_stderr(format_args!("ebb: {}\n", escaped_lines(&text.to_string())));
}

/// Writes a text to stderr as it is. An error, such as that of a full disk behind stderr or of a reader that has
/// gone, is ignored: it must not change the exit code or end the work, as the panic of `eprintln!` would.
pub(super) fn write_stderr(text: impl std::fmt::Display) {
    let _ = write!(io::stderr(), "{text}");
}

/// Returns success for the error that the reader of stdout has closed its end, as `head` does; otherwise `printed`.
/// A command whose exit code has more to report, such as damage or a failed job, goes on to that.
pub(super) fn unless_closed(printed: Result<()>) -> Result<()> {
    match printed {
        Err(error) if is_closed_pipe(&error) => Ok(()),
        printed => printed,
    }
}

/// Calls `change` for each item, and prints the line that the call returns. If a call fails, or a line cannot be
/// printed, goes on with the next item.
///
/// # Errors
/// The last error of a call, which becomes the exit code; the other errors are printed to stderr. If no call failed,
/// the error of printing, but none if the reader has closed stdout.
pub(super) fn print_each<T>(
    items: impl IntoIterator<Item = T>,
    mut change: impl FnMut(T) -> Result<String>,
) -> Result<()> {
    let mut printer = Printer::new();
    let (mut printed, mut last) = (Ok(()), None);
    for item in items {
        match change(item) {
            Ok(line) => printed = printed.and_then(|()| printer.line(line)),
            Err(error) => {
                if let Some(earlier) = last.replace(error) {
                    notice(format_args!("{earlier:#}"));
                }
            }
        }
    }
    let printed = unless_closed(printed.and_then(|()| printer.finish()));
    let Some(last) = last else {
        return printed;
    };
    if let Err(error) = printed {
        notice(format_args!("{error:#}"));
    }
    Err(last)
}

/// Prints the whole result of a command to stdout: as JSON if `json` is set, otherwise by calling `text`. It is no
/// error if the reader has closed stdout: the result decides the exit code.
pub(super) fn json_or_text(
    json: bool,
    result: &impl Serialize,
    text: impl FnOnce(&mut Printer) -> Result<()>,
) -> Result<()> {
    let mut printer = Printer::new();
    let printed = if json {
        printer.json(result)
    } else {
        text(&mut printer)
    };
    unless_closed(printed.and_then(|()| printer.finish()))
}

/// The JSON options of commands that compute for a while.
#[derive(Debug, clap::Args)]
pub(super) struct JsonArgs {
    /// Print the result as one JSON object, in place of the text.
    #[arg(long)]
    pub(super) json: bool,
    /// Also write the result as a JSON object into this file.
    #[arg(long, value_name = "FILE")]
    #[arg(value_parser = PathBufValueParser::new().try_map(writable_file))]
    json_file: Option<PathBuf>,
}

/// Checks that the folder of a file exists. The file is written at the end, after what may be hours of
/// work.
fn writable_file(path: PathBuf) -> Result<PathBuf, String> {
    if path.is_dir() {
        return Err("it is a folder; name a file in it".to_string());
    }
    let parent = path.parent().unwrap_or(Path::new(""));
    if parent == Path::new("") || parent.is_dir() {
        return Ok(path);
    }
    let parent = parent.display();
    Err(format!(
        "no such folder: {parent}; make it first (mkdir -p {parent})"
    ))
}

impl JsonArgs {
    /// Writes `result` as JSON to the file of `--json-file`, if that option was given.
    pub(super) fn write_file(&self, result: &impl Serialize) -> Result<()> {
        let Some(path) = &self.json_file else {
            return Ok(());
        };
        let json = serde_json::to_string_pretty(result)?;
        let written = std::fs::write(path, json + "\n");
        written.with_context(|| format!("cannot write {}", path.display()))
    }

    /// Prints the JSON object with `--json`; otherwise calls `text`.
    pub(super) fn print(
        &self,
        result: &impl Serialize,
        text: impl FnOnce(&mut Printer) -> Result<()>,
    ) -> Result<()> {
        json_or_text(self.json, result, text)
    }
}

/// Returns a number with its noun: "1 file", "2,000 files".
pub(super) fn counted(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", HumanCount(count))
}

/// Adds bytes to a JSON object: as the text `name` if they are UTF-8, otherwise as hexadecimal digits in
/// `name_hex`, so that nothing is lost.
pub(super) fn insert_bytes(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_string(), text.into()),
        Err(_) => {
            let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
            object.insert(format!("{name}_hex"), digits.collect::<String>().into())
        }
    };
}

/// Returns a row as a JSON object, with its value if there is one.
pub(super) fn row(key: &[u8], value: Option<&[u8]>) -> Value {
    let mut object = Map::new();
    insert_bytes(&mut object, "key", key);
    if let Some(value) = value {
        insert_bytes(&mut object, "value", value);
    }
    object.into()
}

/// Returns the lines of a table of text, a line per row: control characters in cells are escaped. Columns are
/// as wide as their widest cell, with two blanks between them. The columns named in `right` are flush right.
pub(super) fn table(head: &[&str], right: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let shown =
        |row: &Vec<String>| -> Vec<String> { row.iter().map(|cell| escaped_line(cell)).collect() };
    let rows: Vec<_> = rows.iter().map(shown).collect();
    columns(head, &rows, |column| right.contains(&head[column]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_text_become_hexadecimal_digits() {
        assert_eq!(
            row(b"k\xc3\xa4", Some(b"\xff\0")).to_string(),
            r#"{"key":"kä","value_hex":"ff00"}"#
        );
        assert_eq!(row(b"k", None).to_string(), r#"{"key":"k"}"#);
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [
            vec!["a".into(), "12345".into()],
            vec!["long".into(), "1".into()],
        ];
        assert_eq!(
            table(&["name", "rows"], &["rows"], &rows),
            ["name   rows", "a     12345", "long      1"]
        );
        let rows = [vec!["a\nb".into(), "1".into()]];
        assert_eq!(
            table(&["name", "rows"], &["rows"], &rows),
            ["name      rows", "a\\u000ab     1"]
        );
    }
}
