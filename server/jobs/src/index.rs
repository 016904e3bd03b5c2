//! Inverted index: the rows in which each word occurs.

use std::collections::HashSet;
use std::sync::Arc;

use ebb_scheduler::runtime::{Emit, Input, JobSpec, Output, Reducer, TaskError, Values};
use serde::{Deserialize, Serialize};

use super::application::{Application, Materials};
use super::chain::Work;
use super::error::JobError;
use super::options::one;
use super::records::csv::push_field;
use super::records::{Column, RecordFormat};
use super::wordcount::for_each_word;

#[cfg(feature = "args")]
const EXAMPLES: &str = "\
Examples:
  ebb run index --table app.lines --snapshot monday --output app.words
  ebb get app.words ebb

Rows of the result: a word, and the keys of the rows it occurs in as a CSV record.
A list of more than 1 MiB continues in rows WORD#2, WORD#3 and so on.";

/// List for each word the keys of the rows it occurs in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "args", derive(clap::Args), command(after_help = EXAMPLES))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct IndexRequest {
    /// Number of reduce tasks, 1 to 10,000.
    #[serde(default = "one")]
    #[cfg_attr(feature = "args", arg(long, value_name = "N", default_value_t = 1))]
    #[cfg_attr(feature = "args", arg(value_parser = crate::options::reduces()))]
    pub reduces: u32,
}

impl Application for IndexRequest {
    const NAME: &'static str = "index";
    const TAKES_WHOLE_VALUES: bool = true;

    fn reduces(&self) -> Option<u32> {
        Some(self.reduces)
    }

    fn make(&self, materials: &Materials<'_>) -> Result<Work, JobError> {
        let (input, _) = materials.input(0)?;
        let output = materials.destination.output(Arc::new(rows()))?;
        Ok(spec(Self::NAME, input, output, self.reduces).into())
    }
}

/// The largest length of a list of keys in one row, in bytes. A longer list is cut into
/// several rows, so that neither a task nor the store has to hold all keys of a frequent
/// word at once.
const LIST_BYTES_MAX: usize = 1 << 20;

/// The largest size of the set of words already seen in a row, in bytes. When the set exceeds it,
/// the set is cleared, so a word of the row may be emitted again, and the reducer drops the
/// repeated key.
const SEEN_BYTES_MAX: usize = 1 << 20;

/// Returns the format of the rows that the job writes.
pub fn rows() -> RecordFormat {
    RecordFormat::rows(vec![Column::text("word")], vec![Column::text("keys")])
}

/// Returns a job that indexes values by their words (see [`wordcount`](super::wordcount)) in
/// `reduces` reduce tasks, at least one. A row of the result has a word as its key. Its value is a
/// CSV record of the keys of the rows in which the word occurs. Each key occurs once, in the order
/// of the input. A list of more than a MiB of keys continues in rows with the keys `word#2`,
/// `word#3` and so on; no word contains a `#`.
pub fn spec(
    name: impl Into<String>,
    input: Arc<dyn Input>,
    output: Arc<dyn Output>,
    reduces: u32,
) -> JobSpec {
    JobSpec::new(name, input, Arc::new(map_words), output)
        .reducer(Arc::new(list_reducer(LIST_BYTES_MAX)), reduces.max(1))
}

/// Emits `(word, key)` once for every different word of a row, with ASCII letters in lower case.
/// The set of words already seen is bounded, so a word of a long row may be emitted again; the
/// reducer drops the repeated key.
fn map_words(key: &[u8], value: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
    let (mut seen, mut seen_bytes) = (HashSet::new(), 0);
    for_each_word(value, |word| {
        let word = word.to_ascii_lowercase();
        if seen.contains(&word) {
            return emit.checkpoint();
        }
        emit.emit(&word, key)?;
        seen_bytes += word.len() + size_of::<Vec<u8>>();
        if seen_bytes > SEEN_BYTES_MAX {
            seen.clear();
            seen_bytes = 0;
        }
        seen.insert(word);
        Ok(())
    })
}

fn list_reducer(list_bytes_max: usize) -> impl Reducer {
    move |key: &[u8], values: &mut Values<'_>, emit: &mut dyn Emit| {
        let mut list = Vec::new();
        let mut rows = 0_u32;
        // A row is mapped in one go, so equal keys follow each other.
        let mut last: Option<Vec<u8>> = None;
        let mut emit_list = |list: &mut Vec<u8>| {
            rows += 1;
            let emitted = match rows {
                1 => emit.emit(key, list),
                _ => emit.emit(&[key, format!("#{rows}").as_bytes()].concat(), list),
            };
            list.clear();
            emitted
        };
        while let Some(row) = values.next_value()? {
            if last.as_deref() == Some(row) {
                continue;
            }
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(row);
            if !list.is_empty() && list.len() + row.len() > list_bytes_max {
                emit_list(&mut list)?;
            }
            push_field(&mut list, row);
        }
        emit_list(&mut list)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::testing::{input, report, run};
    use ebb_scheduler::runtime::VecOutput;

    #[test]
    fn a_word_that_occurs_again_late_in_a_long_row_has_that_row_once() {
        let words: Vec<String> = (0..60_000).map(|n| format!("w{n}")).collect();
        let once_bytes: usize = words
            .iter()
            .map(|word| word.len() + size_of::<Vec<u8>>())
            .sum();
        assert!(once_bytes > SEEN_BYTES_MAX);
        let row = words.join(" ");
        let lines = [format!("{row} {row}"), "w7".to_string(), row];
        let output = VecOutput::new();
        let counters = report(input(&lines, 1), output.clone(), |input, output| {
            spec("index", input, output, 1)
        })
        .counters;
        // The mapper did emit the word several times.
        assert!(counters.map_output_records > 150_000);
        let rows = output.rows().unwrap();
        assert_eq!(rows.len(), words.len());
        for (word, keys) in rows {
            let expected = match &word[..] {
                b"w7" => &b"0000,0001,0002"[..],
                _ => b"0000,0002",
            };
            assert_eq!(keys, expected, "{}", word.escape_ascii());
        }
    }

    #[test]
    fn every_word_has_the_rows_it_occurs_in() {
        let words = ["Ebb", "ebb", "flow", "tide,", "x86_64", "größe"];
        let lines: Vec<String> = (0..300_usize)
            .map(|n| {
                let word = |i: usize| words[(n * 7 + i * i) % words.len()];
                (0..n % 5).map(word).collect::<Vec<_>>().join(" ")
            })
            .collect();
        // Computed with other code: word by word, character by character.
        let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (n, line) in lines.iter().enumerate() {
            let mut word = String::new();
            for c in line.chars().chain([' ']) {
                if c.is_ascii_alphanumeric() || !c.is_ascii() {
                    word.push(c.to_ascii_lowercase());
                } else if !word.is_empty() {
                    let rows = expected.entry(std::mem::take(&mut word)).or_default();
                    if rows.last() != Some(&format!("{n:04}")) {
                        rows.push(format!("{n:04}"));
                    }
                }
            }
        }
        let expected = expected.into_iter();
        let expected: Vec<_> = expected
            .map(|(word, rows)| (word, rows.join(",")))
            .collect();
        for reduces in [1, 3] {
            let mut found = run(&lines, 6, |input, output| {
                spec("index", input, output, reduces)
            });
            found.sort();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_long_list_goes_on_in_further_rows() {
        let lines = ["a", "a", "a b", "a"];
        let output = ebb_scheduler::runtime::VecOutput::new();
        let report = crate::testing::report(input(&lines, 2), output.clone(), |input, out| {
            let reducer = list_reducer(10);
            JobSpec::new("index", input, Arc::new(map_words), out).reducer(Arc::new(reducer), 1)
        });
        assert_eq!(report.counters.reduce_groups, 2);
        let rows: Vec<_> = (output.rows().unwrap().into_iter())
            .map(|(word, list)| format!("{} {}", word.escape_ascii(), list.escape_ascii()))
            .collect();
        assert_eq!(rows, ["a 0000,0001", "a#2 0002,0003", "b 0002"]);
    }
}
