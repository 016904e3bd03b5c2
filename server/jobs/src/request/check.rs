//! What a request must keep to, as far as it can be told before anything is opened.

use super::{ApplicationRequest, InputRequest, JobRequest, RequestError, ValueKind};

/// Tasks of a kind at most.
const TASKS_MAX: u32 = 10_000;
/// Cores at most.
const CORES_MAX: u32 = 1024;
/// Steps of a ranking at most.
const ITERATIONS_MAX: u32 = 1000;
/// A completion time goal lies at most so far ahead, in seconds: ten years.
pub const GOAL_S_MAX: f64 = 315_360_000.0;

impl JobRequest {
    /// That it makes sense.
    ///
    /// # Errors
    /// When it does not; says which field, and what it may be.
    pub fn check(&self) -> Result<(), RequestError> {
        let (wanted, found) = (self.application.inputs(), self.inputs.len());
        if wanted != found {
            let name = self.application.name();
            let inputs = if wanted == 1 { "input" } else { "inputs" };
            let text = format!("{name} takes {wanted} {inputs}, and the request has {found}");
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
        self.inputs.iter().try_for_each(InputRequest::check)?;
        self.application.check()
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

impl ApplicationRequest {
    fn check(&self) -> Result<(), RequestError> {
        match self {
            Self::Aggregate(options) => {
                (options.quantiles.iter()).try_for_each(|part| part_of_one("quantiles", *part))
            }
            Self::Pagerank(options) => {
                within("iterations", Some(options.iterations), 1, ITERATIONS_MAX)?;
                part_of_one("damping", options.damping)
            }
            Self::Select(options) => part_of_one("keep", options.keep),
            Self::Simulate(options) => within("replicas", options.replicas, 1, u32::MAX),
            _ => Ok(()),
        }
    }
}

fn within(field: &str, value: Option<u32>, least: u32, most: u32) -> Result<(), RequestError> {
    match value {
        Some(value) if !(least..=most).contains(&value) => Err(RequestError::Senseless(format!(
            "{field} is {value}; it may be {least} to {most}"
        ))),
        _ => Ok(()),
    }
}

fn part_of_one(field: &str, value: f64) -> Result<(), RequestError> {
    match (0.0..=1.0).contains(&value) {
        true => Ok(()),
        false => Err(RequestError::Senseless(format!(
            "{field} is {value}; it may be 0 to 1"
        ))),
    }
}
