//! Grep: the rows of a table whose value matches a pattern.

use std::sync::Arc;

use ebb_scheduler::runtime::{Emit, Input, JobSpec, Output, TaskError};
use regex::bytes::Regex;
use serde::{Deserialize, Serialize};

use super::application::{Application, Materials};
use super::chain::Work;
use super::error::JobError;
use super::records::{RecordFormat, check};

#[cfg(feature = "args")]
const EXAMPLES: &str = "\
Examples:
  ebb run grep --table app.lines --snapshot monday --output found.tsv --pattern TODO
  ebb run grep --text server.log --regex --pattern '^error' --output -

The result has each row whose value matches, unchanged: all its columns or, for lines of text,
the place (file and position) and the line.";

/// Find the rows whose value matches a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "args", derive(clap::Args), command(after_help = EXAMPLES))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct GrepRequest {
    /// Text to look for, case-sensitive.
    #[cfg_attr(feature = "args", arg(long, value_name = "TEXT"))]
    pub pattern: String,
    /// The pattern is a regular expression.
    #[serde(default)]
    #[cfg_attr(feature = "args", arg(long))]
    pub regex: bool,
}

impl Application for GrepRequest {
    const NAME: &'static str = "grep";
    const TAKES_WHOLE_VALUES: bool = true;

    fn make(&self, materials: &Materials<'_>) -> Result<Work, JobError> {
        let pattern = if self.regex {
            Pattern::regex(&self.pattern)
        } else {
            Pattern::text(&self.pattern)
        };
        let pattern = pattern.map_err(|e| JobError::senseless(format!("the pattern: {e}")))?;
        let (input, format) = materials.input(0)?;
        let rows = Arc::new(format.clone());
        let output = materials.destination.output(Arc::clone(&rows))?;
        Ok(spec(Self::NAME, input, output, pattern, rows).into())
    }
}

/// A pattern to search for.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl Pattern {
    /// Creates the pattern that matches this text anywhere in the value.
    ///
    /// # Errors
    /// When the text is too long for the regex engine: some MiB.
    pub fn text(text: &str) -> Result<Self, regex::Error> {
        Self::regex(&regex::escape(text))
    }

    /// Creates the pattern of a regular expression in the syntax of the `regex` crate, which
    /// searches in time linear in the value for any expression.
    ///
    /// # Errors
    /// When the expression is malformed (the error shows where), or too large for the regex engine.
    pub fn regex(expression: &str) -> Result<Self, regex::Error> {
        Regex::new(expression).map(Self)
    }

    /// Returns whether the pattern occurs in `value`.
    pub fn matches(&self, value: &[u8]) -> bool {
        self.0.is_match(value)
    }
}

/// Returns a job without reduces that finds the rows whose value matches the pattern. It writes
/// these rows unchanged and in the order of the input. The job fails if such a row does not have
/// the format `schema`.
pub fn spec(
    name: impl Into<String>,
    input: Arc<dyn Input>,
    output: Arc<dyn Output>,
    pattern: Pattern,
    schema: Arc<RecordFormat>,
) -> JobSpec {
    let mapper = move |key: &[u8], value: &[u8], emit: &mut dyn Emit| -> Result<(), TaskError> {
        if pattern.matches(value) {
            check(&schema, key, value)?;
            emit.emit(key, value)?;
        }
        Ok(())
    };
    JobSpec::new(name, input, Arc::new(mapper), output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::options;
    use ebb_scheduler::runtime::{Outcome, Runtime, VecInput, VecOutput};

    #[test]
    fn text_is_matched_literally_and_an_expression_is_not() {
        let text = Pattern::text("a.c").unwrap();
        assert!(text.matches(b"xa.cx") && !text.matches(b"abc"));
        let regex = Pattern::regex("^a.c$").unwrap();
        assert!(regex.matches(b"abc") && !regex.matches(b"xabc"));
        assert!(Pattern::regex("(").is_err());
    }

    #[test]
    fn matching_rows_come_in_their_order_over_all_splits() {
        let runtime = Runtime::start(options(1)).unwrap();
        let output = VecOutput::new();
        let input = Arc::new(VecInput::lines("ebb\nflow\nebb and flow\nneither", 3));
        let pattern = Pattern::text("ebb").unwrap();
        let output_of = Arc::new(output.clone());
        let text = Arc::new(RecordFormat::text());
        let job = spec("find", input, output_of, pattern, text);
        assert_eq!(
            runtime.submit(job).unwrap().wait().outcome,
            Outcome::Succeeded
        );
        let expected = [("0", "ebb"), ("2", "ebb and flow")];
        let row = |(key, value): (&str, &str)| (key.into(), value.into());
        assert_eq!(output.rows().unwrap(), expected.map(row));
    }
}
