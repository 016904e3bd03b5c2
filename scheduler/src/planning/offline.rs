//! What no scheduler can do better: the least number of jobs that miss their
//! goals, whoever decides, with f(t), every arrival and every task length known
//! from the start.
//!
//! Three relaxations, each of which only makes it easier to meet goals, so that
//! the largest of what they say must be missed is a lower bound:
//!
//! - *Alone.* A job is missed if it cannot be met with the cluster to itself.
//! - *Fluid.* Work is divisible, may be interrupted, and a job may use all of the
//!   cluster at once; the number of late jobs is relaxed to fractions.
//! - *Probed.* At instants that lie as far apart as the shortest task is long,
//!   each task runs at least at one. So the tasks of a job must find room at the
//!   instants between its release and its goal. This knows what the fluid one does
//!   not: that forty tasks that all have to start within half of their length need
//!   forty nodes at once.
//!
//! The last two count parts of jobs; [`missed_in_groups`] counts whole ones.
//!
//! Common to all: only CPU counts, reduces need not wait for maps, input is always
//! near, nodes do not fail, and capacity is what [`Supply`] says.

use super::fluid::{FluidJob, ROUNDING, missed_relaxed};
use super::groups::missed_in_groups;
use super::supply::Supply;
use crate::model::Pool;
use crate::sim::{SimConfig, SimJob, drawn_lengths_s};
use serde::Serialize;

/// A bound on what must be missed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OfflineBound {
    /// Jobs with a goal that were submitted within the window that counts.
    pub jobs: u32,
    /// Of those, how many miss their goal at least.
    pub missed: u32,
    /// Of those, how many cannot be met with the cluster to themselves.
    pub alone: u32,
}

impl OfflineBound {
    /// `missed` of `jobs`, 0 to 1; `None` without jobs.
    #[must_use]
    pub fn missed_fraction(&self) -> Option<f64> {
        let fraction = f64::from(self.missed) / f64::from(self.jobs);
        (self.jobs > 0).then_some(fraction)
    }
}

/// Sets of instants that are tried.
const PROBES: u32 = 13;

/// Instants of a set beyond which the cluster is not probed: where one task is that short beside
/// the time of a run, the other relaxations have to do.
const INSTANTS_MAX: f64 = 10_000_000.0;

/// A bound for one run of the simulator, over the jobs submitted within its
/// window.
#[must_use]
pub fn offline_bound(config: &SimConfig, jobs: &[SimJob]) -> OfflineBound {
    let (from_s, until_s) = config.window_s;
    let fastest = fastest_factor(config);
    let asked: Vec<Asked> = (jobs.iter())
        .filter(|job| (from_s..=until_s).contains(&job.job.submitted_s))
        .filter_map(|job| Asked::of(job, config, fastest))
        .collect();
    let least_s = asked
        .iter()
        .map(|job| job.task_s_min)
        .fold(f64::INFINITY, f64::min);
    let end_s = asked.iter().map(|job| job.goal_s).fold(0.0, f64::max);
    // All jobs run, those outside of the window too.
    let longest_s = (jobs.iter().map(|job| longest_s(job, config.seed))).fold(0.0, f64::max);
    let supply = Supply::new(
        &config.availability,
        config.cpu_hundredths(),
        config.cycle_s,
        longest_s,
        unit_hundredths(config, jobs),
        end_s,
    );

    let (alone, open): (Vec<Asked>, Vec<Asked>) =
        (asked.iter()).partition(|job| !job.fits_alone(&supply));
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
    let relaxed = views.iter().map(|view| missed_relaxed(view));
    let relaxed = (relaxed.fold(0.0, f64::max) - ROUNDING).ceil().max(0.0) as usize;
    let missed = relaxed.max(missed_in_groups(&views));
    OfflineBound {
        jobs: asked.len() as u32,
        missed: (alone.len() + missed) as u32,
        alone: alone.len() as u32,
    }
}

/// What all tasks hold multiples of, in hundredths of a core. One hundredth where
/// nodes have slots by number: these share what there is in any proportion.
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

/// How many times faster than drawn a task can be, at best.
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

/// The longest that a task of a job can hold its slot, at worst, in seconds. A
/// node that is asked for more than it has slows its tasks down without limit;
/// they do no more work in that time.
fn longest_s(job: &SimJob, seed: u64) -> f64 {
    let slowest = job.remote_factor / job.speedup.unwrap_or(1.0).min(1.0);
    let (maps_s, reduces_s) = drawn_lengths_s(job, seed);
    maps_s.into_iter().chain(reduces_s).fold(0.0, f64::max) * slowest
}

/// What a job asks for, at the least.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// The first control cycle at which it can start.
    release_s: f64,
    goal_s: f64,
    /// In hundredths of a core times seconds.
    work: f64,
    /// Of all its tasks together, in hundredths of a core.
    demand: f64,
    task_s_min: f64,
}

impl Asked {
    fn of(job: &SimJob, config: &SimConfig, fastest: impl Fn(&SimJob) -> f64) -> Option<Self> {
        // What has not ended when the run does has missed its goal.
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

    /// Whether it can be met with the cluster to itself, as far as the
    /// relaxations know. Here the instants may be chosen for this job.
    fn fits_alone(&self, supply: &Supply) -> bool {
        let fluid = supply.work_until(self.goal_s) - supply.work_until(self.release_s);
        if self.work > fluid * (1.0 + 1e-9) || self.goal_s < self.release_s + self.task_s_min {
            return false;
        }
        if (self.goal_s - self.release_s) / self.task_s_min > INSTANTS_MAX {
            return true;
        }
        (0..PROBES).all(|probe| {
            // Of the instants that lie a task's length apart, those that end one
            // length before the goal are the fewest.
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

/// Instants that lie one task apart, and how much may run at them.
struct Instants {
    offset_s: f64,
    apart_s: f64,
    /// Room at all instants before each, in hundredths of a core.
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

    /// At all instants before `t_s`.
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
    use crate::policy::all;
    use crate::sim::{Metrics, TaskLength, Variety, Workload, simulate};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

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
    fn maps_that_find_no_nodes_in_their_last_wave_are_missed() {
        // 15 maps of 100 s on 10 nodes: two waves, 200 s. The work would fit.
        assert_eq!(missed(&cluster(10), &[job(1, 199.0, 15)]), (1, 1));
        assert_eq!(missed(&cluster(10), &[job(1, 200.0, 15)]), (0, 0));
        assert_eq!(missed(&cluster(10), &[job(1, 99.0, 1)]), (1, 1));
    }

    /// Each alone has ten nodes at once; both together have not, though their
    /// 1,200 s of work are less than the 1,500 s there are.
    #[test]
    fn two_jobs_that_need_the_same_nodes_at_once_cannot_both_be_met() {
        let jobs = [job(1, 150.0, 6), job(2, 150.0, 6)];
        assert_eq!(missed(&cluster(10), &jobs), (1, 0));
        assert_eq!(missed(&cluster(12), &jobs), (0, 0));
    }

    /// A map of a nanosecond and one of 100 s: probing would take 10^12 instants.
    #[test]
    fn a_very_short_task_and_a_goal_far_away_take_no_memory() {
        let mut config = cluster(10);
        config.horizon_s = 2000.0;
        let mut short = job(1, 1500.0, 1);
        short.map_length = TaskLength::Fixed(1e-9);
        let far = job(2, 1e30, 1);
        assert_eq!(missed(&config, &[short, far]), (0, 0));
        // Beyond the horizon nothing ends: 10 nodes do 200 maps of 100 s until then.
        assert_eq!(missed(&config, &[job(3, 1e30, 200)]), (0, 0));
        assert_eq!(missed(&config, &[job(3, 1e30, 201)]), (1, 1));
    }

    #[test]
    fn no_policy_does_better_than_the_bound_on_random_weeks() {
        let seed = 67;
        println!("seed {seed}");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
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
