//! Jobs that are all known in advance, as a TOML file.
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
//! map_weights = [1.0, 2.0]  # where those of tasks count; default: 1
//! reduce_weights = [1.0]
//! ```

use super::error::ScenarioError;
use crate::model::{Job, JobId};
use crate::msjo::{Instance, JobSpec, TaskSpec};
use serde::Deserialize;

/// What to schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct MsjoScenario {
    /// What it is about; the file's name where it does not say.
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
    /// What is wrong with it, and where.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScenarioError> {
        let read: File =
            toml::from_str(text).map_err(|error| ScenarioError::of_toml(file, text, &error))?;
        let jobs: Result<Vec<JobSpec>, ScenarioError> = ((0..).zip(read.jobs))
            .map(|(at, job)| {
                job.spec(at).map_err(|(field, what)| {
                    ScenarioError::of_field(file, &format!("jobs[{at}].{field}"), what)
                })
            })
            .collect();
        let jobs = jobs?;
        if jobs.is_empty() {
            return Err(ScenarioError::of_field(
                file,
                "jobs",
                "there are none".into(),
            ));
        }
        let instance = Instance::new(read.machines, jobs)
            .map_err(|error| ScenarioError::of_field(file, "jobs", error.to_string()))?;
        Ok(Self {
            title: read.title.unwrap_or_else(|| file.into()),
            instance,
        })
    }
}

impl FileJob {
    fn spec(self, at: u64) -> Result<JobSpec, (&'static str, String)> {
        let Self {
            maps_s, reduces_s, ..
        } = self;
        let delays_s = same_length("delays_s", self.delays_s, 0.0, maps_s.len())?;
        let map_weights = same_length("map_weights", self.map_weights, 1.0, maps_s.len())?;
        let reduce_weights =
            same_length("reduce_weights", self.reduce_weights, 1.0, reduces_s.len())?;
        let maps = maps_s.iter().zip(delays_s).zip(map_weights);
        let reduces = reduces_s.iter().zip(reduce_weights);
        Ok(JobSpec {
            job: Job {
                weight: self.weight,
                ..Job::new(JobId(at), self.released_s, None)
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

/// What was given, if it is one for each of `tasks`; `default` for all if nothing was.
fn same_length(
    field: &'static str,
    given: Option<Vec<f64>>,
    default: f64,
    tasks: usize,
) -> Result<Vec<f64>, (&'static str, String)> {
    let numbers = given.unwrap_or_else(|| vec![default; tasks]);
    if numbers.len() == tasks {
        return Ok(numbers);
    }
    let what = format!("{} numbers for {tasks} tasks", numbers.len());
    Err((field, what))
}

#[cfg(test)]
mod tests {
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
    fn what_is_wrong_is_told_with_its_field() {
        let broken = |from: &str, to: &str| {
            let text = TWO.replace(from, to);
            assert_ne!(text, TWO);
            MsjoScenario::parse("x.toml", &text)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            broken("[1.0, 2.0]", "[1.0]"),
            "x.toml, jobs[0].delays_s: 1 numbers for 2 tasks"
        );
        assert!(broken("[7.0]", "[]").contains("job-1 needs at least one task"));
        assert!(broken("[7.0]", "[-7.0]").contains("job-1/map-0: the length must be positive"));
        assert!(broken("machines = 3", "machines = 0").contains("at least one machine"));
        assert!(broken("weight = 2.0", "wait = 2.0").contains("wait"));
        assert!(MsjoScenario::parse("x.toml", "machines = 1\njobs = []").is_err());
    }
}
