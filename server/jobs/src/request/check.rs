//! Checks of a request, as far as they are possible before anything is opened.

use ebb_text::counts::counted;
use serde_json::Value;

use super::{InputRequest, JobRequest, RequestError, ValueKind};
use crate::options::{TASKS_MAX, within};

/// The largest number of cores that a request may allow a job.
const CORES_MAX: u32 = 1024;
/// The largest completion time goal that a request may have, in seconds from the submission: ten
/// years.
pub const GOAL_S_MAX: f64 = 315_360_000.0;
/// The largest number of generated records that a request may have. With this number, the bytes of
/// the records and all counters stay far below 2^64.
const GENERATED_RECORDS_MAX: u64 = 1_000_000_000_000_000;

/// The most bytes of a text in a request, such as the pattern of grep. The history keeps requests, and lists
/// of jobs show them, so long texts would make lists slow to read for everyone.
const TEXT_BYTES_MAX: usize = 16 << 10;

impl JobRequest {
    /// Checks that the request makes sense, as far as this can be decided before anything is
    /// opened.
    ///
    /// # Errors
    /// When a field is invalid, or does not fit the other fields; the error describes the fault.
    pub fn check(&self) -> Result<(), RequestError> {
        let (wanted, found) = (self.application.inputs(), self.inputs.len());
        let takes_more = self.application.takes_more_inputs();
        if found < wanted || (found > wanted && !takes_more) {
            let name = self.application.name();
            let inputs = counted(wanted, "input");
            let more = if takes_more { " or more" } else { "" };
            let text = format!("{name} takes {inputs}{more}, and the request has {found}");
            return Err(RequestError::Senseless(text));
        }
        if !self.directory.is_absolute() {
            let directory = self.directory.display();
            let text = format!("the request's directory {directory:?} is not absolute");
            return Err(RequestError::Senseless(text));
        }
        if self.goal_s.is_some_and(|s| !(s > 0.0 && s <= GOAL_S_MAX)) {
            let text = "a completion time goal must lie in the future, and within ten years";
            return Err(RequestError::Senseless(text.to_string()));
        }
        within("splits", self.splits, 1, TASKS_MAX)?;
        within("cores", self.cores, 1, CORES_MAX)?;
        within("reduces", self.application.reduces(), 1, TASKS_MAX)?;
        // A path that is not UTF-8 has no form in JSON, and such a request cannot be stored either.
        if let Ok(form) = serde_json::to_value(self) {
            check_texts("", &form)?;
        }
        self.inputs.iter().try_for_each(InputRequest::check)?;
        self.output.check()?;
        self.check_publication()?;
        self.application.check()
    }
}

/// Checks that no text in `value` is longer than [`TEXT_BYTES_MAX`]. `field` is the path of the value in the
/// request; empty for the request itself.
fn check_texts(field: &str, value: &Value) -> Result<(), RequestError> {
    let inner = |name: &str| {
        if field.is_empty() {
            name.to_owned()
        } else {
            format!("{field}.{name}")
        }
    };
    match value {
        Value::String(text) if text.len() > TEXT_BYTES_MAX => {
            let bytes = text.len();
            Err(RequestError::Senseless(format!(
                "{field} has {bytes} bytes; it may have at most {TEXT_BYTES_MAX}"
            )))
        }
        Value::Array(values) => {
            let mut values = values.iter().enumerate();
            values.try_for_each(|(nth, value)| check_texts(&inner(&nth.to_string()), value))
        }
        Value::Object(members) => {
            let mut members = members.iter();
            members.try_for_each(|(name, value)| check_texts(&inner(name), value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

impl InputRequest {
    fn check(&self) -> Result<(), RequestError> {
        let paths = match self {
            Self::Table(table) if table.lenient_quotes && table.values != ValueKind::Csv => {
                let text = "lenient_quotes is for values that are CSV: leave it out, or say that \
                            values are csv";
                return Err(RequestError::Senseless(text.to_string()));
            }
            Self::Generated(generated) if generated.records > GENERATED_RECORDS_MAX => {
                let text = format!(
                    "{} records to generate are too many: at most {GENERATED_RECORDS_MAX}",
                    generated.records
                );
                return Err(RequestError::Senseless(text));
            }
            Self::Table(_) | Self::Generated(_) => return Ok(()),
            Self::Text(files) => &files.paths,
            Self::Csv(files) => &files.paths,
            Self::JsonLines(files) => &files.paths,
        };
        if paths.is_empty() {
            return Err(RequestError::Senseless("no file to read is named".into()));
        }
        match self {
            Self::Csv(csv) if csv.delimiter.is_some() && csv.delimiter_byte().is_none() => {
                Err(RequestError::Senseless(format!(
                    "delimiter is {:?}; it may be an ASCII character other than a quote or a line \
                     end",
                    csv.delimiter.unwrap_or_default()
                )))
            }
            _ => Ok(()),
        }
    }
}
