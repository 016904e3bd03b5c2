//! Simulate: the thesis's placement simulation as a purely CPU-bound job. Each record of the input
//! is one simulation: a replica of a scenario under a policy.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use ebb_scheduler::queueing::policy_by_name;
use ebb_scheduler::runtime::{
    Emit, Input, JobSpec, Mapper, Output, RecordSink, Split, TaskError, Values,
};
use ebb_scheduler::sim::scenario::Scenario;
use ebb_scheduler::sim::{Metrics, simulate};
use ebb_text::read_whole;
use serde::{Deserialize, Serialize};

use super::application::{Application, Materials};
use super::chain::Work;
use super::error::{JobError, RequestError};
use super::options::within;
use super::records::csv::{CsvFields, record};
use super::records::{Column, RecordFormat, number_of};

#[cfg(feature = "args")]
const EXAMPLES: &str = "\
Examples:
  ebb run simulate --output -
  ebb run simulate --scenario week.toml --replicas 20 --output week.csv --goal 5m

A replica is one run of the scenario with random numbers of its own. A row of the result has
the means of a policy over all replicas. `ebb sim experiments NAME --scenario` prints a scenario
to start from. `ebb sim run` simulates the same on all cores at once, and has no goal.";

/// Simulate a scenario under policies; each record is one replica under one policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "args", derive(clap::Args), command(after_help = EXAMPLES))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SimulateRequest {
    /// Scenario to simulate, a TOML file [default: figure 5.21 of J. Polo's thesis]; paths in it are
    /// relative to its folder.
    #[serde(default)]
    #[cfg_attr(feature = "args", arg(long, value_name = "SCENARIO.toml"))]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub scenario: Option<PathBuf>,
    /// Number of replicas, at least 1 [default: that of the scenario].
    #[serde(default)]
    #[cfg_attr(feature = "args", arg(long, value_name = "N"))]
    #[cfg_attr(feature = "args", arg(value_parser = clap::value_parser!(u32).range(1..)))]
    pub replicas: Option<u32>,
}

impl Application for SimulateRequest {
    const NAME: &'static str = "simulate";
    const INPUTS: usize = 0;

    fn file(&self) -> Option<&Path> {
        self.scenario.as_deref()
    }

    fn check(&self) -> Result<(), RequestError> {
        within("replicas", self.replicas, 1, u32::MAX)
    }

    fn make(&self, materials: &Materials<'_>) -> Result<Work, JobError> {
        let mut scenario = match &materials.file {
            Some(path) => read_scenario(path).map_err(JobError::Scenario)?,
            None => Scenario::parse("the thesis's", SCENARIO).map_err(JobError::senseless)?,
        };
        if let Some(replicas) = self.replicas {
            let set = scenario.set_replicas(replicas);
            set.map_err(JobError::senseless)?;
        }
        let output = materials.destination.output(Arc::new(rows()))?;
        let spec = spec(Self::NAME, output, scenario, materials.splits);
        Ok(spec.map_err(JobError::senseless)?.into())
    }
}

/// The default scenario: figure 5.21 of the thesis, a week of jobs beside a transactional
/// workload.
pub const SCENARIO: &str = include_str!("../scenarios/transactional.toml");

/// Returns the format of the rows that the job writes.
pub fn rows() -> RecordFormat {
    let numbers = [
        "replicas",
        "with_goal",
        "missed_fraction",
        "utilisation",
        "makespan_s",
    ];
    RecordFormat::rows(
        vec![Column::text("point")],
        numbers.map(Column::number).to_vec(),
    )
}

/// Reads a scenario. Files that it names are relative to its folder.
///
/// # Errors
/// When a file cannot be read or is too large, or is not a scenario.
pub fn read_scenario(path: &Path) -> Result<Scenario> {
    let text = read_whole(path)?;
    let beside = |name: &str| {
        let path = path.parent().unwrap_or(Path::new("")).join(name);
        read_whole(&path).map_err(|error| format!("{error:#}"))
    };
    let scenario = Scenario::parse_with(&path.display().to_string(), &text, &beside)?;
    Ok(scenario)
}

/// Returns a job that simulates every replica of every point of `scenario` under each of its
/// policies, in at most `tasks` map tasks. The key of a row is the policy, with the swept values
/// before it if there are any. The value is a CSV record of the number of replicas and of four
/// means over the replicas:
///
/// - the number of jobs with a goal
/// - the fraction of these jobs that missed it
/// - the fraction of the capacity that was used
/// - the end of the last job, in seconds
///
/// A replica without such a number, for example without goals, does not count for the mean. The
/// field is empty if no replica has the number.
///
/// The job is paced and cancelled only between two simulations.
///
/// # Errors
/// When the scenario names an unknown policy; the error names it.
pub fn spec(
    name: impl Into<String>,
    output: Arc<dyn Output>,
    scenario: Scenario,
    tasks: u32,
) -> Result<JobSpec, String> {
    let is_unknown = |name: &&String| policy_by_name(name).is_none();
    if let Some(name) = scenario.policies.iter().find(is_unknown) {
        return Err(format!("there is no policy {name:?}: see `ebb policies`"));
    }
    let scenario = Arc::new(scenario);
    let input = Runs {
        runs: Run::all(&scenario),
        tasks: tasks.max(1),
    };
    let mapper = simulate_mapper(scenario);
    Ok(
        JobSpec::new(name, Arc::new(input), Arc::new(mapper), output)
            .reducer(Arc::new(emit_means), 1),
    )
}

/// One simulation to run: a record of the input. It consists of the indexes of the point and of the
/// policy in the scenario, and the number of the replica, all LE.
///
/// ```text
///   point, u32 | policy, u32 | replica, u32
/// ```
#[derive(Debug, Clone, Copy)]
struct Run {
    point: u32,
    policy: u32,
    replica: u32,
}

impl Run {
    fn all(scenario: &Scenario) -> Vec<Self> {
        let mut runs = Vec::new();
        for point in 0..scenario.points.len() as u32 {
            for policy in 0..scenario.policies.len() as u32 {
                runs.extend((0..scenario.replicas).map(|replica| Self {
                    point,
                    policy,
                    replica,
                }));
            }
        }
        runs
    }

    fn encode(self) -> Vec<u8> {
        [self.point, self.policy, self.replica]
            .map(u32::to_le_bytes)
            .concat()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let ([point, policy, replica], []) = bytes.as_chunks() else {
            return None;
        };
        Some(Self {
            point: u32::from_le_bytes(*point),
            policy: u32::from_le_bytes(*policy),
            replica: u32::from_le_bytes(*replica),
        })
    }
}

struct Runs {
    runs: Vec<Run>,
    tasks: u32,
}

impl Runs {
    fn part(&self) -> usize {
        self.runs.len().div_ceil(self.tasks as usize).max(1)
    }
}

impl Input for Runs {
    fn splits(&self) -> Result<Vec<Split>, TaskError> {
        let split = |(index, runs): (u32, &[Run])| Split {
            index,
            bytes: 12 * runs.len() as u64,
            ..Split::default()
        };
        Ok((0..)
            .zip(self.runs.chunks(self.part()))
            .map(split)
            .collect())
    }

    fn read(&self, split: &Split, sink: RecordSink<'_>) -> Result<(), TaskError> {
        let mut parts = self.runs.chunks(self.part());
        let runs = parts.nth(split.index as usize).unwrap_or_default();
        runs.iter().try_for_each(|run| sink(&run.encode(), b""))
    }
}

fn simulate_mapper(scenario: Arc<Scenario>) -> impl Mapper {
    move |key: &[u8], _value: &[u8], emit: &mut dyn Emit| {
        let run = Run::decode(key).ok_or_else(|| TaskError::failed("a record of another input"))?;
        let point = &scenario.points[run.point as usize];
        let name = &scenario.policies[run.policy as usize];
        let policy = policy_by_name(name).expect("checked at submission");
        let seed = scenario.seed.wrapping_add(run.replica.into());
        let (config, jobs) = point.draw(seed).map_err(TaskError::failed)?;
        let report = simulate(&config, jobs, policy.as_ref()).map_err(TaskError::failed)?;
        let metrics = Metrics::of(&report);
        let set = point
            .set
            .iter()
            .map(|(name, value)| format!("{name}={value} "));
        let key = format!("{}{name}", set.collect::<String>());
        let fields = [
            Some(f64::from(metrics.with_goal)),
            metrics.missed_fraction,
            metrics.utilisation,
            metrics.makespan_s,
        ];
        emit.emit(key.as_bytes(), &record(fields.map(field)))
    }
}

/// Returns a number as the text of a CSV field; empty for `None`.
fn field(number: Option<f64>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

fn emit_means(key: &[u8], values: &mut Values<'_>, emit: &mut dyn Emit) -> Result<(), TaskError> {
    let mut parser = CsvFields::default();
    // For each field, the number of replicas that have a number, and the sum.
    let (mut replicas, mut sums) = (0_u32, [(0_u32, 0.0); 4]);
    while let Some(value) = values.next_value()? {
        parser.parse(value).map_err(TaskError::failed)?;
        for ((count, sum), field) in sums.iter_mut().zip(parser.iter()) {
            if let Some(metric) = number_of(Some(field), key, "metric")? {
                *count += 1;
                *sum += metric.to_f64();
            }
        }
        replicas += 1;
    }
    let mean = |(count, sum): (u32, f64)| (count > 0).then_some(sum / f64::from(count));
    let means = sums.map(|sum| field(mean(sum)));
    let fields = [replicas.to_string()].into_iter().chain(means);
    emit.emit(key, &record(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_policy_is_refused() {
        let mut scenario = Scenario::parse("the thesis's", SCENARIO).unwrap();
        scenario.policies = vec!["fifa".into()];
        let output = Arc::new(ebb_scheduler::runtime::VecOutput::new());
        let refused = spec("simulate", output, scenario, 1).map(|_| ());
        assert!(refused.unwrap_err().contains("fifa"));
    }
}
