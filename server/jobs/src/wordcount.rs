//! Word count: how often each word occurs in the values of a table.
//!
//! A word is a maximal run of bytes that are ASCII letters, ASCII digits or
//! above 0x7f; ASCII letters count as lower case. So `Don't` is `don` and `t`, `x86_64` is
//! `x86` and `64`, and `Größe` is `größe`. In this way the letters of every script are
//! parts of words, without tables of characters. The price is that typographic quotes and
//! dashes, not being ASCII, stick to their words.

use std::sync::Arc;

use ebb_scheduler::runtime::{Emit, Input, JobSpec, Output, TaskError, Values};
use serde::{Deserialize, Serialize};

use super::application::{Application, Materials};
use super::chain::Work;
use super::error::JobError;
use super::options::one;
use super::records::{Column, RecordFormat};

#[cfg(feature = "args")]
const EXAMPLES: &str = "\
Examples:
  ebb run wordcount --table app.lines --snapshot monday --output counts.tsv
  ebb run wordcount --table app.lines --snapshot monday --output app.counts --goal 30s
  ebb run wordcount --text notes.md --output -

A word is a maximal run of bytes that are ASCII letters, ASCII digits or above
0x7f; ASCII letters count as lower case. Rows of the result: the word, the count.";

/// Count how often each word occurs in the values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "args", derive(clap::Args), command(after_help = EXAMPLES))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WordcountRequest {
    /// Number of reduce tasks, 1 to 10,000.
    #[serde(default = "one")]
    #[cfg_attr(feature = "args", arg(long, value_name = "N", default_value_t = 1))]
    #[cfg_attr(feature = "args", arg(value_parser = crate::options::reduces()))]
    pub reduces: u32,
}

impl Application for WordcountRequest {
    const NAME: &'static str = "wordcount";
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

/// Returns the format of the rows that the job writes.
pub fn rows() -> RecordFormat {
    RecordFormat::rows(
        vec![Column::text("word")],
        vec![Column::number("count").of_type("bigint")],
    )
}

/// Returns a job that counts words in `reduces` reduce tasks, at least one. A row of the result is
/// a word, with its ASCII letters in lower case, and its count, in decimal digits.
pub fn spec(
    name: impl Into<String>,
    input: Arc<dyn Input>,
    output: Arc<dyn Output>,
    reduces: u32,
) -> JobSpec {
    JobSpec::new(name, input, Arc::new(map_words), output)
        .reducer(Arc::new(sum_up), reduces.max(1))
        .in_place_combiner(Arc::new(add))
}

/// Calls `word` with every word of `text`, with its letters as they are in the text. The words are
/// separated by ASCII characters that are neither letters nor digits.
pub(super) fn for_each_word<E>(
    text: &[u8],
    word: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    text.split(|&byte| byte.is_ascii() && !byte.is_ascii_alphanumeric())
        .filter(|run| !run.is_empty())
        .try_for_each(word)
}

/// Emits `(word, 1)` for every word of a row's value, with ASCII letters in lower case; a count is
/// a u64 LE.
fn map_words(_key: &[u8], value: &[u8], emit: &mut dyn Emit) -> Result<(), TaskError> {
    let mut lower = Vec::new();
    for_each_word(value, |word| {
        lower.clear();
        lower.extend(word.iter().map(u8::to_ascii_lowercase));
        emit.emit(&lower, &1_u64.to_le_bytes())
    })
}

fn count(value: &[u8]) -> Option<u64> {
    value.try_into().ok().map(u64::from_le_bytes)
}

/// Adds the count `value` to the count `into`, in place; both are a u64 LE. Returns false on
/// overflow, or if one of them is malformed.
fn add(into: &mut [u8], value: &[u8]) -> bool {
    let sum = count(into).zip(count(value));
    let Some(sum) = sum.and_then(|(a, b)| a.checked_add(b)) else {
        return false;
    };
    into.copy_from_slice(&sum.to_le_bytes());
    true
}

/// Adds counts up, and emits the sum in decimal digits.
fn sum_up(key: &[u8], values: &mut Values<'_>, emit: &mut dyn Emit) -> Result<(), TaskError> {
    let mut sum = 0_u64;
    while let Some(value) = values.next_value()? {
        let count = count(value).ok_or_else(|| TaskError::failed("a count has 8 bytes"))?;
        let more = sum.checked_add(count);
        sum = more.ok_or_else(|| TaskError::failed("a word is there 2^64 times"))?;
    }
    emit.emit(key, sum.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::options;
    use ebb_scheduler::runtime::{Outcome, Runtime, VecInput, VecOutput};

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        for_each_word(text.as_bytes(), |word| {
            words.push(String::from_utf8(word.to_vec()).unwrap());
            Ok::<(), std::convert::Infallible>(())
        })
        .unwrap();
        words
    }

    #[test]
    fn words_are_runs_of_letters_digits_and_whatever_is_not_ascii() {
        assert_eq!(words("Don't panic!"), ["Don", "t", "panic"]);
        assert_eq!(words("  x86_64\t42 "), ["x86", "64", "42"]);
        assert_eq!(words("Größe—日本"), ["Größe—日本"]);
        assert_eq!(words("-- ... __"), [""; 0]);
        assert_eq!(words(""), [""; 0]);
    }

    #[test]
    fn counts_are_summed_over_splits_and_case() {
        let runtime = Runtime::start(options(1)).unwrap();
        let output = VecOutput::new();
        let input = Arc::new(VecInput::lines("Ebb and flow\nebb, EBB\nand größe", 3));
        let job = spec("words", input, Arc::new(output.clone()), 1);
        assert_eq!(
            runtime.submit(job).unwrap().wait().outcome,
            Outcome::Succeeded
        );
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let rows: Vec<_> = output
            .rows()
            .unwrap()
            .into_iter()
            .map(|(word, count)| format!("{} {}", text(word), text(count)))
            .collect();
        assert_eq!(rows, ["and 2", "ebb 3", "flow 1", "größe 1"]);
    }
}
