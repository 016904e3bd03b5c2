//! A lower bound on the number of jobs that miss their goals under any scheduler, even one that
//! knows f(t), every arrival and every task length from the start.
//!
//! Three relaxations each make it easier to meet goals than the cluster does, so the largest of
//! their results is a lower bound:
//!
//! - *Alone.* A job is missed if it misses its goal with the cluster to itself.
//! - *Fluid.* Work is divisible and may be interrupted, and a job may use the whole cluster at
//!   once; the number of late jobs is relaxed to fractions.
//! - *Probed.* A set of instants lies as far apart as the shortest task is long, so each task
//!   runs at one of them at least. The tasks of a job must therefore find room at the instants
//!   between its release and its goal. This bound sees a limit that the fluid one misses: forty
//!   tasks that all have to start within half of their length need forty nodes at once.
//!
//! *Fluid* and *Probed* count parts of jobs; [`missed_in_groups`] counts whole ones.
//!
//! Simplifications in all of them: only CPU counts, reduces need not wait for maps, input is
//! always local, nodes do not fail, [`Supply`] is the capacity, and jobs that follow another one
//! meet their goals: submission and goal of these count from the end of the other job, which
//! depends on the scheduler.

use super::fluid::{FluidJob, ROUNDING, missed_relaxed};
use super::groups::missed_in_groups;
use super::supply::Supply;
use crate::model::Pool;
use crate::sim::{SimConfig, SimJob, drawn_lengths_s};
use serde::Serialize;

/// A lower bound on the number of missed goals.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OfflineBound {
    /// An upper bound, for any scheduler, on the number of jobs with a goal that are submitted
    /// within the window. It counts the jobs that follow no other job and are submitted in the
    /// window, and all jobs that follow another one, because their submission depends on the
    /// scheduler.
    pub jobs: u32,
    /// A lower bound on how many of these `jobs` miss their goals under any scheduler. Those that
    /// follow another job count as met.
    pub missed: u32,
    /// The number of these `jobs` for which a relaxation shows that they miss their goals even with
    /// the cluster to themselves.
    pub alone: u32,
}

impl OfflineBound {
    /// Returns `missed` divided by `jobs`, 0 to 1; `None` without jobs.
    #[must_use]
    pub fn missed_fraction(&self) -> Option<f64> {
        let fraction = f64::from(self.missed) / f64::from(self.jobs);
        (self.jobs > 0).then_some(fraction)
    }
}

/// Number of sets of equidistant instants at which the demand of the jobs is compared with the
/// capacity of the cluster. Each set gives a lower bound on missed goals, and the largest counts:
/// more sets may raise the bound, and take longer.
const PROBES: u32 = 13;

/// Largest number of instants in one of the [`PROBES`] sets. Instants are as far apart as the shortest
/// task is long. If a run is so long that it has more of them, the capacity is not checked at instants.
/// The other relaxations still give a bound, which may be lower.
const INSTANTS_MAX: f64 = 10_000_000.0;

/// Returns a lower bound, valid for any scheduler, on the number of goals missed in one run of the
/// simulator, among the jobs submitted within its window.
#[must_use]
pub fn offline_bound(config: &SimConfig, jobs: &[SimJob]) -> OfflineBound {
    let (from_s, until_s) = config.window_s;
    let fastest = fastest_factor(config);
    let followers = jobs.iter().filter(|job| job.after.is_some());
    let followers = followers.filter(|job| job.job.goal_s.is_some()).count();
    let required: Vec<Requirements> = (jobs.iter())
        .filter(|job| job.after.is_none() && (from_s..=until_s).contains(&job.job.submitted_s))
        .filter_map(|job| Requirements::of(job, config, fastest))
        .collect();
    // Of all jobs, also of those that are not probed below: instants that are closer than the probed
    // tasks are long give a valid bound, too.
    let least_s = required
        .iter()
        .map(|job| job.task_s_min)
        .fold(f64::INFINITY, f64::min);
    let end_s = required.iter().map(|job| job.goal_s).fold(0.0, f64::max);
    // Jobs outside of the window run too and may hold slots.
    let longest_s = (jobs.iter().map(|job| longest_s(job, config.seed))).fold(0.0, f64::max);
    let supply = Supply::new(
        &config.availability,
        config.cpu_hundredths(),
        config.cycle_s,
        longest_s,
        unit_hundredths(config, jobs),
        end_s,
    );

    // Jobs that miss their goal even alone are counted apart. The others miss no more goals without
    // them.
    let (alone, open): (Vec<Requirements>, Vec<Requirements>) =
        (required.iter()).partition(|job| !job.fits_alone(&supply));
    let fluid: Vec<FluidJob> = (open.iter())
        .map(|job| FluidJob {
            release: supply.work_until(job.release_s),
            goal: supply.work_until(job.goal_s),
            work: job.work,
        })
        .collect();
    let mut views = vec![fluid];
    if least_s.is_finite() && end_s / least_s <= INSTANTS_MAX {
        views.extend((0..PROBES).map(|probe| {
            let offset_s = least_s * f64::from(probe) / f64::from(PROBES);
            let instants = Instants::new(&supply, offset_s, least_s, end_s);
            let probed = open.iter().map(|job| FluidJob {
                release: instants.room_before(job.release_s),
                goal: instants.room_before(job.goal_s),
                work: job.demand,
            });
            probed.collect()
        }));
    }
    // Every view is a lower bound, and so is the largest; a job is missed as a whole.
    let relaxed = views.iter().map(|view| missed_relaxed(view));
    let relaxed = (relaxed.fold(0.0, f64::max) - ROUNDING).ceil().max(0.0) as usize;
    let missed = relaxed.max(missed_in_groups(&views));
    OfflineBound {
        jobs: (required.len() + followers) as u32,
        missed: (alone.len() + missed) as u32,
        alone: alone.len() as u32,
    }
}

/// Returns the greatest common divisor of the tasks' CPU demands, in hundredths of a core, because
/// the capacity in use is a multiple of it. Returns one hundredth if nodes have a fixed number of
/// slots, because tasks in slots share the CPU in any proportion.
fn unit_hundredths(config: &SimConfig, jobs: &[SimJob]) -> u32 {
    if config.nodes.iter().any(|node| node.slots.is_some()) {
        return 1;
    }
    let demands = jobs.iter().flat_map(|job| {
        let profile = &job.profile;
        [profile.map, profile.shuffle, profile.reduce].map(|phase| phase.demand.cpu_hundredths)
    });
    demands.fold(0, gcd).max(1)
}

fn gcd(a: u32, b: u32) -> u32 {
    match b {
        0 => a,
        _ => gcd(b, a % b),
    }
}

/// Returns a function that gives the speedup of a job: the largest factor by which a node may
/// shorten its maps, compared with the lengths that were drawn for them at random.
fn fastest_factor(config: &SimConfig) -> impl Fn(&SimJob) -> f64 + Copy {
    let accelerated = config
        .nodes
        .iter()
        .any(|node| node.pool == Pool::Accelerated);
    move |job: &SimJob| match job.speedup {
        Some(speedup) if accelerated => speedup.max(1.0),
        _ => 1.0,
    }
}

/// Returns an upper bound, in seconds, on the time that a task of `job` takes at full speed. Where
/// the tasks on a node demand more CPU than it has, a task holds its slot for longer, and that time
/// has no bound. The result ignores this, because such a task does no more work in that time.
fn longest_s(job: &SimJob, seed: u64) -> f64 {
    let slowest = job.remote_factor / job.speedup.unwrap_or(1.0).min(1.0);
    let (maps_s, reduces_s) = drawn_lengths_s(job, seed);
    maps_s.into_iter().chain(reduces_s).fold(0.0, f64::max) * slowest
}

/// The least work, CPU and time that a job with a goal requires.
#[derive(Clone, Copy, Debug)]
struct Requirements {
    /// Start of the first control cycle in which the job can start.
    release_s: f64,
    goal_s: f64,
    /// Work of all tasks, in hundredths of a core times seconds.
    work: f64,
    /// Sum of the CPU demands of all tasks, in hundredths of a core.
    demand: f64,
    task_s_min: f64,
}

impl Requirements {
    fn of(job: &SimJob, config: &SimConfig, fastest: impl Fn(&SimJob) -> f64) -> Option<Self> {
        // A job that has not ended when the run ends has missed its goal.
        let goal_s = job.job.goal_s?.min(config.horizon_s);
        let (maps_s, reduces_s) = drawn_lengths_s(job, config.seed);
        let cpu = |hundredths: u32| f64::from(hundredths);
        let map_cpu = cpu(job.profile.map.demand.cpu_hundredths);
        let reduce_cpu = cpu(job.profile.reduce.demand.cpu_hundredths);
        let map_s = |length_s: &f64| length_s / fastest(job);
        let work = maps_s.iter().map(map_s).sum::<f64>() * map_cpu
            + reduces_s.iter().sum::<f64>() * reduce_cpu;
        let lengths_s = maps_s.iter().map(map_s).chain(reduces_s.iter().copied());
        let release_s = (job.job.submitted_s / config.cycle_s).ceil() * config.cycle_s;
        Some(Self {
            release_s: release_s.max(job.job.submitted_s),
            goal_s,
            work,
            demand: map_cpu * maps_s.len() as f64 + reduce_cpu * reduces_s.len() as f64,
            task_s_min: lengths_s.fold(f64::INFINITY, f64::min),
        })
    }

    /// Returns false if the job misses its goal even with the cluster to itself, because its work
    /// or its shortest task needs more time than it has. Also returns false if, at one of the
    /// [`PROBES`] sets of equidistant instants before the goal, the cluster has less capacity in
    /// total than the tasks demand.
    fn fits_alone(&self, supply: &Supply) -> bool {
        let fluid = supply.work_until(self.goal_s) - supply.work_until(self.release_s);
        if self.work > fluid * (1.0 + 1e-9) || self.goal_s < self.release_s + self.task_s_min {
            return false;
        }
        if (self.goal_s - self.release_s) / self.task_s_min > INSTANTS_MAX {
            return true;
        }
        (0..PROBES).all(|probe| {
            // Among the instants that lie a task's length apart, those that end one length
            // before the goal are the fewest.
            let part = f64::from(PROBES - probe) / f64::from(PROBES);
            let mut t_s = self.goal_s - self.task_s_min * part;
            let mut room = 0.0;
            while t_s >= self.release_s && room < self.demand {
                room += supply.at(t_s);
                t_s -= self.task_s_min;
            }
            room >= self.demand
        })
    }
}

/// Instants at equal distance, and the capacity at each.
struct Instants {
    offset_s: f64,
    apart_s: f64,
    /// `room[i]` is the sum of the capacities, in hundredths of a core, at the first `i` instants.
    room: Vec<f64>,
}

impl Instants {
    fn new(supply: &Supply, offset_s: f64, apart_s: f64, end_s: f64) -> Self {
        let count = ((end_s - offset_s) / apart_s).floor().max(0.0) as usize + 1;
        let mut room = vec![0.0];
        for instant in 0..count {
            let at = supply.at(offset_s + instant as f64 * apart_s);
            room.push(room[instant] + at);
        }
        Self {
            offset_s,
            apart_s,
            room,
        }
    }

    /// Returns the sum of the capacities, in hundredths of a core, at all instants before `t_s`.
    fn room_before(&self, t_s: f64) -> f64 {
        let instants = ((t_s - self.offset_s) / self.apart_s - 1e-9)
            .ceil()
            .max(0.0) as usize;
        self.room[instants.min(self.room.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::availability::Availability;
    use crate::model::{Job, JobId, Profile};
    use crate::policy::{Fifo, all};
    use crate::sim::{Metrics, TaskLength, Variety, Workload, simulate};
    use crate::test_rng::test_rng;
    use rand::RngExt;

    fn cluster(nodes: u32) -> SimConfig {
        let f = Availability::constant(f64::from(nodes) * 100.0).unwrap();
        SimConfig::one_slot_nodes(nodes, f)
    }

    fn job(id: u64, goal_s: f64, maps: u32) -> SimJob {
        let job = Job::new(JobId(id), 0.0, Some(goal_s));
        let length = TaskLength::Fixed(100.0);
        SimJob::of_maps(job, maps, Profile::cpu(100, 100.0, 100.0), length)
    }

    fn missed(config: &SimConfig, jobs: &[SimJob]) -> (u32, u32) {
        let bound = offline_bound(config, jobs);
        (bound.missed, bound.alone)
    }

    #[test]
    fn a_job_without_time_for_its_last_wave_misses_its_goal() {
        // 15 maps of 100 s on 10 nodes take two waves, 200 s; as divisible work they would take
        // 150 s.
        assert_eq!(missed(&cluster(10), &[job(1, 199.0, 15)]), (1, 1));
        assert_eq!(missed(&cluster(10), &[job(1, 200.0, 15)]), (0, 0));
        assert_eq!(missed(&cluster(10), &[job(1, 99.0, 1)]), (1, 1));
    }

    /// Each job alone finds enough of the ten nodes at once; both together do not, though their
    /// 1,200 s of work are less than the 1,500 s of the nodes.
    #[test]
    fn one_of_two_jobs_that_need_the_same_nodes_at_once_misses_its_goal() {
        let jobs = [job(1, 150.0, 6), job(2, 150.0, 6)];
        assert_eq!(missed(&cluster(10), &jobs), (1, 0));
        assert_eq!(missed(&cluster(12), &jobs), (0, 0));
    }

    /// The shortest task takes a nanosecond, so checking the capacity at instants as far apart
    /// would take more than 10^12 of them.
    #[test]
    fn a_very_short_task_and_a_distant_goal_do_not_exhaust_memory() {
        let mut config = cluster(10);
        config.horizon_s = 2000.0;
        let mut short = job(1, 1500.0, 1);
        short.map_length = TaskLength::Fixed(1e-9);
        let far = job(2, 1e30, 1);
        assert_eq!(missed(&config, &[short, far]), (0, 0));
        // The run ends at the horizon: until then 10 nodes do 200 maps of 100 s.
        assert_eq!(missed(&config, &[job(3, 1e30, 200)]), (0, 0));
        assert_eq!(missed(&config, &[job(3, 1e30, 201)]), (1, 1));
    }

    /// The second job has 150 s from the end of the first one for maps of 100 s. All nodes are free
    /// then.
    ///
    /// Regression: the bound counted both its submission and its goal from the start of the run.
    #[test]
    fn a_goal_that_counts_from_the_end_of_another_job_is_not_missed_by_the_bound() {
        let mut config = cluster(10);
        config.window_s = (0.0, 500.0);
        let jobs = |goal_s: f64| {
            let mut follower = job(2, goal_s, 10);
            follower.after = Some(JobId(1));
            [job(1, 150.0, 10), follower]
        };
        let report = simulate(&config, jobs(150.0).to_vec(), &Fifo).unwrap();
        assert_eq!(Metrics::of(&report).missed_of_submitted, 0);
        let bound = offline_bound(&config, &jobs(150.0));
        assert_eq!((bound.jobs, bound.missed), (2, 0));
        assert_eq!(bound.missed_fraction(), Some(0.0));
        // The follower cannot meet this goal, but a scheduler may keep its submission out of the
        // window.
        assert_eq!(missed(&config, &jobs(50.0)), (0, 0));
    }

    #[test]
    fn no_policy_misses_less_than_the_bound_on_random_workloads() {
        let mut rng = test_rng(67);
        let mut bounds = 0;
        for round in 0..24 {
            let nodes = rng.random_range(2..12);
            let whole = f64::from(nodes) * 100.0;
            let mut config = cluster(nodes);
            let day = crate::availability::SineDay {
                mean_hundredths: 0.6 * whole,
                amplitude_hundredths: rng.random_range(0.0..0.4) * whole,
                peak_at_s: 900.0,
                day_s: 3600.0,
            };
            config.availability = std::sync::Arc::new(Availability::sine_day(day).unwrap());
            config.forecast = config.availability.clone();
            config.seed = round;
            let workload = Workload {
                span_s: 7200.0,
                rate_per_s: rng.random_range(0.002..0.02),
                maps_mean: 6.0,
                maps_log_sd: 1.0,
                reduces_per_map: if rng.random_bool(0.3) { 0.2 } else { 0.0 },
                profile: Profile::cpu(100, 100.0, 60.0),
                task_log_sd: if rng.random_bool(0.5) { 0.3 } else { 0.0 },
                goal_factor: Some((1.2, 4.0)),
                isolated_slots: f64::from(nodes),
                replicas: 0,
                remote_factor: 1.0,
                stragglers: None,
                map_input_bytes: 0,
                variety: Variety::default(),
            };
            let jobs = workload.draw(round, 1, nodes).unwrap();
            let bound = offline_bound(&config, &jobs);
            bounds += bound.missed;
            for policy in all() {
                let report = simulate(&config, jobs.clone(), policy.as_ref()).unwrap();
                let missed = Metrics::of(&report).missed_of_submitted;
                let name = policy.name();
                assert!(
                    bound.missed <= missed,
                    "{name}, {round}: {bound:?}, {missed}"
                );
            }
        }
        assert!(bounds > 20, "the weeks are no test: {bounds}");
    }
}
