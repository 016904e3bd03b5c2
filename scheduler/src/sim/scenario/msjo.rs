//! Scenarios of the model in which all jobs are known in advance, as TOML files.
//!
//! ```toml
//! machines = 3
//!
//! [[jobs]]
//! weight = 2.0              # default: 1
//! released_s = 5.0          # default: 0
//! maps_s = [10.0, 20.0]     # lengths, in seconds
//! delays_s = [1.0, 1.0]     # until the output of each map has arrived; default: 0
//! reduces_s = [30.0]
//! map_weights = [1.0, 2.0]  # for objectives of tasks; default: 1
//! reduce_weights = [1.0]
//! ```

use super::error::{FieldError, ScenarioError};
use super::numbers::{FieldResult, count, not_negative, seconds, task_seconds};
use crate::model::{Job, JobId};
use crate::msjo::{Instance, JobSpec, TaskSpec};
use crate::sim::bounds::FACTOR_MAX;
use serde::Deserialize;

/// Largest number of machines of a file: each has variables in the linear programmes.
const MACHINES_MAX: u64 = 10_000;
/// Largest number of jobs of a file.
const JOBS_MAX: usize = 1_000;
/// Largest number of tasks of a file, of all jobs together.
const TASKS_MAX: usize = 100_000;

/// Jobs and machines to schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct MsjoScenario {
    /// Title of the scenario; the file's name if the file has no title.
    pub title: String,
    /// Machines and jobs.
    pub instance: Instance,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: Option<String>,
    machines: u32,
    jobs: Vec<FileJob>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileJob {
    #[serde(default = "one")]
    weight: f64,
    #[serde(default)]
    released_s: f64,
    #[serde(default)]
    maps_s: Vec<f64>,
    #[serde(default)]
    delays_s: Option<Vec<f64>>,
    #[serde(default)]
    reduces_s: Vec<f64>,
    map_weights: Option<Vec<f64>>,
    reduce_weights: Option<Vec<f64>>,
}

const fn one() -> f64 {
    1.0
}

impl MsjoScenario {
    /// Reads `text`, the content of `file`.
    ///
    /// # Errors
    /// When the text is no TOML or a field is missing or invalid; the error names the
    /// line and the field.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScenarioError> {
        let read: File =
            toml::from_str(text).map_err(|error| ScenarioError::of_toml(file, text, &error))?;
        Self::from_file(file, read).map_err(|error| error.locate(file, text))
    }

    fn from_file(file: &str, read: File) -> FieldResult<Self> {
        count("machines", read.machines, MACHINES_MAX)?;
        if read.jobs.is_empty() {
            return Err(FieldError::new(
                "jobs",
                "there are none: give at least one [[jobs]]",
            ));
        }
        if read.jobs.len() > JOBS_MAX {
            let what = format!("{} jobs; at most {JOBS_MAX}", read.jobs.len());
            return Err(FieldError::new("jobs", what));
        }
        let mut tasks = 0;
        let mut jobs = Vec::with_capacity(read.jobs.len());
        for (at, job) in read.jobs.into_iter().enumerate() {
            tasks += job.maps_s.len() + job.reduces_s.len();
            if tasks > TASKS_MAX {
                let what = format!("{tasks} tasks with the jobs above; at most {TASKS_MAX}");
                return Err(FieldError::new(format!("jobs[{at}]"), what));
            }
            jobs.push(job.spec(at)?);
        }
        // Every number was checked with its field, so this error is not expected.
        let instance = Instance::new(read.machines, jobs)
            .map_err(|error| FieldError::new("jobs", error.to_string()))?;
        Ok(Self {
            title: read.title.unwrap_or_else(|| file.into()),
            instance,
        })
    }
}

impl FileJob {
    fn spec(self, at: usize) -> FieldResult<JobSpec> {
        let field = |name: &str| format!("jobs[{at}].{name}");
        not_negative(&field("weight"), self.weight, FACTOR_MAX)?;
        seconds(&field("released_s"), self.released_s)?;
        let Self {
            maps_s, reduces_s, ..
        } = self;
        if maps_s.is_empty() && reduces_s.is_empty() {
            let what = "needs at least one task: give maps_s or reduces_s";
            return Err(FieldError::new(format!("jobs[{at}]"), what));
        }
        each(&field("maps_s"), &maps_s, task_seconds)?;
        each(&field("reduces_s"), &reduces_s, task_seconds)?;
        let delays_s = self.delays_s;
        let delays_s = same_length(&field("delays_s"), delays_s, 0.0, maps_s.len(), seconds)?;
        let weight = |field: &str, value: f64| not_negative(field, value, FACTOR_MAX);
        let weights = |name: &str, given: Option<Vec<f64>>, tasks: usize| {
            same_length(&field(name), given, 1.0, tasks, weight)
        };
        let map_weights = weights("map_weights", self.map_weights, maps_s.len())?;
        let reduce_weights = weights("reduce_weights", self.reduce_weights, reduces_s.len())?;
        let maps = maps_s.iter().zip(delays_s).zip(map_weights);
        let reduces = reduces_s.iter().zip(reduce_weights);
        Ok(JobSpec {
            job: Job {
                weight: self.weight,
                ..Job::new(JobId(at as u64), self.released_s, None)
            },
            maps: maps
                .map(|((&length_s, delay_s), weight)| TaskSpec {
                    length_s,
                    delay_s,
                    weight,
                })
                .collect(),
            reduces: reduces
                .map(|(&length_s, weight)| TaskSpec {
                    weight,
                    ..TaskSpec::of(length_s)
                })
                .collect(),
        })
    }
}

/// Checks each number of a list.
fn each(
    field: &str,
    numbers: &[f64],
    check: impl Fn(&str, f64) -> FieldResult<()>,
) -> FieldResult<()> {
    let mut all = numbers.iter().enumerate();
    all.try_for_each(|(at, number)| check(&format!("{field}[{at}]"), *number))
}

/// Returns the given numbers if there is one for each of `tasks` and `check` accepts all of them,
/// otherwise an error. If no numbers are given, returns `default` for all tasks.
fn same_length(
    field: &str,
    given: Option<Vec<f64>>,
    default: f64,
    tasks: usize,
    check: impl Fn(&str, f64) -> FieldResult<()>,
) -> FieldResult<Vec<f64>> {
    let numbers = given.unwrap_or_else(|| vec![default; tasks]);
    if numbers.len() != tasks {
        let what = format!("{} numbers for {tasks} tasks", numbers.len());
        return Err(FieldError::new(field, what));
    }
    each(field, &numbers, check)?;
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::super::tests::check_errors;
    use super::*;

    const TWO: &str = "
        machines = 3
        [[jobs]]
        weight = 2.0
        released_s = 5.0
        maps_s = [10.0, 20.0]
        delays_s = [1.0, 2.0]
        reduces_s = [30.0]
        reduce_weights = [4.0]
        [[jobs]]
        maps_s = [7.0]
    ";

    #[test]
    fn a_scenario_is_read_with_its_defaults() {
        let read = MsjoScenario::parse("two.toml", TWO).unwrap();
        assert_eq!(read.title, "two.toml");
        let instance = read.instance;
        assert_eq!((instance.machines(), instance.jobs.len()), (3, 2));
        let of = |at: usize| {
            let task = &instance.tasks[at];
            [task.length_s, task.delay_s, task.weight, task.released_s]
        };
        assert_eq!(of(1), [20.0, 2.0, 1.0, 5.0]);
        assert_eq!(of(2), [30.0, 0.0, 4.0, 5.0]);
        assert_eq!(of(3), [7.0, 0.0, 1.0, 0.0]);
        let weights = [0, 1].map(|job| instance.jobs[job].job.weight);
        assert_eq!(weights, [2.0, 1.0]);
    }

    #[test]
    fn errors_name_the_line_and_the_field() {
        let cases = "
            [1.0, 2.0] => [1.0] => line 7, jobs[0].delays_s: 1 numbers for 2 tasks
            [1.0, 2.0] => [1.0, nan] => line 7, jobs[0].delays_s[1]: must be finite
            [7.0] => [] => line 10, jobs[1]: needs at least one task
            [7.0] => [-7.0] => line 11, jobs[1].maps_s[0]: must be positive and finite, got -7
            [7.0] => [1e300] => line 11, jobs[1].maps_s[0]: is 1
            [4.0] => [-4.0] => line 9, jobs[0].reduce_weights[0]: must be finite and not negative
            machines = 3 => machines = 0 => line 2, machines: must be at least 1
            machines = 3 => machines = 4000000000 => line 2, machines: is 4000000000; at most 10000
            weight = 2.0 => weight = inf => line 4, jobs[0].weight: must be finite
            weight = 2.0 => wait = 2.0 => line 4, jobs[0].wait: unknown field
        ";
        check_errors(TWO, cases, MsjoScenario::parse);
        assert!(MsjoScenario::parse("x.toml", "machines = 1\njobs = []").is_err());
    }
}
