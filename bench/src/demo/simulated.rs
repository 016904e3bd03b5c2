//! The simulation of a day that was run: the same jobs under the same policy, with the capacity
//! that the governor measured.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use ebb_colocate::LoadSample;
use ebb_scheduler::availability::{Availability, Step};
use ebb_scheduler::model::{Job, Pool, Profile, Resources};
use ebb_scheduler::policy::Preemption;
use ebb_scheduler::queueing::policy_by_name;
use ebb_scheduler::runtime::{JobReport, RuntimeOptions};
use ebb_scheduler::sim::{Recording, SimConfig, SimJob, SimNode, Spread, TaskLength, simulate};

/// The input of the simulation.
pub(super) struct Replay<'a> {
    pub(super) policy: &'a str,
    pub(super) cores: u32,
    pub(super) cycle_s: f64,
    /// The end of the simulation, in seconds.
    pub(super) horizon_s: f64,
    /// The forecast of the capacity for analytics by which the policy planned on the real day.
    pub(super) forecast: Arc<Availability>,
    /// The capacity that was left for analytics over the day.
    pub(super) left: &'a [LoadSample],
    /// Reports of the jobs. The tasks of a job are simulated with equal lengths.
    pub(super) jobs: &'a [JobReport],
}

impl Replay<'_> {
    /// Returns the completion time of each job in the simulator, in seconds; `None` for a job that
    /// does not complete before the horizon.
    ///
    /// # Errors
    /// If there is no such policy, `left` has no samples, or the jobs have too many tasks for the
    /// simulator.
    pub(super) fn run(&self) -> Result<Vec<Option<f64>>> {
        let policy = policy_by_name(self.policy);
        let options = RuntimeOptions {
            policy: policy.ok_or_else(|| anyhow!("no policy {}", self.policy))?,
            ..RuntimeOptions::new(self.cores)
        };
        let node = SimNode {
            capacity: Resources::cpu_bound(self.cores * 100),
            slots: None,
            pool: Pool::Regular,
        };
        let mut config = SimConfig::one_slot_nodes(1, self.availability()?);
        config.nodes = vec![node];
        config.forecast = self.forecast.clone();
        config.spread = Spread::Even;
        config.cycle_s = self.cycle_s;
        // The runtime can take slots away in every cycle, too. A piece of a task takes less than a
        // cycle.
        config.preemption = Preemption::EveryCycle;
        config.horizon_s = self.horizon_s;
        config.recording = Recording::default();
        let jobs = self
            .jobs
            .iter()
            .map(|job| Self::job(job, &options))
            .collect();
        let report = simulate(&config, jobs, options.policy.as_ref())?;
        Ok(report.jobs.iter().map(|job| job.finished_s).collect())
    }

    fn availability(&self) -> Result<Availability> {
        let mut steps: Vec<Step> = Vec::new();
        for sample in self.left {
            if steps.last().is_none_or(|step| step.from_s < sample.t_s) {
                steps.push(Step {
                    from_s: sample.t_s,
                    hundredths: f64::from(sample.capacity_hundredths),
                });
            }
        }
        Ok(Availability::steps(steps)?)
    }

    /// Converts the report of a job to a job of the simulator, as the runtime does for its
    /// policies: it moves the goal earlier by the runtime's margin, and divides each task into
    /// pieces that hold one slot each, because a slot is only a fraction of a core.
    fn job(report: &JobReport, options: &RuntimeOptions) -> SimJob {
        let slot_hundredths = options.slot_share_hundredths;
        let pieces = (100 / slot_hundredths).max(1);
        let margin = options.planned_margin();
        let earlier = |goal_s: f64| goal_s - (goal_s - report.submitted_s) * margin;
        let job = Job::new(report.id, report.submitted_s, report.goal_s.map(earlier));
        let pieces_of_core = f64::from(pieces * slot_hundredths) / 100.0;
        let piece_s = (report.cpu_s / f64::from(report.tasks.max(1)) / pieces_of_core).max(1e-6);
        let profile = Profile::cpu(slot_hundredths, piece_s, piece_s);
        let maps = report.tasks.max(1) * pieces;
        SimJob::of_maps(job, maps, profile, TaskLength::Fixed(piece_s))
    }
}

#[cfg(test)]
mod tests {
    use ebb_scheduler::model::JobId;
    use ebb_scheduler::runtime::{Counters, Outcome};

    use super::*;

    fn report(id: u64, goal_s: Option<f64>, cpu_s: f64) -> JobReport {
        JobReport {
            id: JobId(id),
            name: format!("J{id}"),
            submitted_s: 0.0,
            goal_s,
            finished_s: 1.0,
            met: None,
            tasks: 100,
            bytes_in: 0,
            cpu_s,
            counters: Counters::default(),
            outcome: Outcome::Succeeded,
            invalid_input: false,
            disk_full: false,
        }
    }

    fn sample(t_s: f64, capacity_hundredths: u32) -> LoadSample {
        LoadSample {
            t_s,
            capacity_hundredths,
            ..LoadSample::default()
        }
    }

    #[test]
    fn ten_seconds_of_work_take_the_capacity_that_two_cores_leave() {
        let left = [sample(0.0, 200), sample(2.0, 100), sample(2.0, 100)];
        let replay = Replay {
            policy: "fifo",
            cores: 2,
            cycle_s: 0.25,
            horizon_s: 60.0,
            forecast: Arc::new(Availability::constant(150.0).unwrap()),
            left: &left,
            jobs: &[report(1, Some(20.0), 6.0), report(2, None, 1000.0)],
        };
        let finished = replay.run().unwrap();
        // The job gets 4 s of CPU time in the first two seconds, and one core afterwards.
        let first = finished[0].unwrap();
        assert!((3.9..=4.7).contains(&first), "{finished:?}");
        assert_eq!(finished[1], None);
    }
}
