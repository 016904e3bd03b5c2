//! A trial: windows in random order, and the comparison of their results.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::analytics::{Beside, JobSettings};
use super::args::Extent;
use super::bootstrap::windows_needed;
use super::counts::Pool;
use super::ratios::Ratios;
use super::setup::{Load, Setup};
use super::window::{Window, play};
use crate::console::progress_bar;
use crate::experiments::statistics::mean;

/// The seed of the windows' order: the same in each run.
const SEED: u64 = 0xebb;
/// The half width at which a confidence interval counts as narrow enough: 5%. The report estimates
/// after how many rounds the interval is so narrow for one ratio: the p99 in one series of windows,
/// divided by that in another, where both series measure the load alone.
const HALF_WIDTH: f64 = 0.05;
/// The first two conditions: both are the load alone.
const ALONE: [&str; 2] = ["alone", "alone again"];

/// A condition with jobs beside the load, and its name in the trial.
#[derive(Debug, Clone)]
pub struct Contender {
    pub name: String,
    pub beside: Beside,
    /// The condition is measured in the first round and then in every `every`-th round; at least 1.
    pub every: u32,
}

impl Contender {
    pub fn new(name: impl Into<String>, beside: Beside) -> Self {
        Self {
            name: name.into(),
            beside,
            every: 1,
        }
    }
}

/// Returns two contenders: managed jobs in each round, and unmanaged jobs in one of `unmanaged_every`
/// rounds.
pub fn both(unmanaged_every: u32) -> [Contender; 2] {
    [
        managed("managed", JobSettings::default()),
        Contender {
            every: unmanaged_every,
            ..Contender::new("unmanaged", Beside::Unmanaged)
        },
    ]
}

/// Returns a contender of managed jobs with these settings.
pub fn managed(name: impl Into<String>, settings: JobSettings) -> Contender {
    Contender::new(name, Beside::Managed(settings))
}

#[derive(Debug, Clone, Serialize)]
pub struct Trial {
    pub name: String,
    /// Length of the measured part of each window, after the lead (the time for warming up), in
    /// seconds.
    pub window_s: f64,
    /// Length of the lead, in seconds: the time at the start of each window in which the load warms
    /// up. Its latencies are reported apart from those of the window.
    pub lead_s: f64,
    pub rounds: u32,
    /// The estimated number of rounds after which the ratio of the p99 between two series of
    /// windows, both with the load alone, has a confidence interval of 5% to either side. Windows
    /// that other processes, the host or pauses of the machine disturbed do not count. `None` if
    /// fewer than two windows of the load alone are undisturbed.
    pub rounds_needed: Option<u32>,
    /// The number of windows, over all conditions, that are spoiled: disturbed by other processes, the
    /// host or pauses of the machine.
    pub windows_spoiled: usize,
    /// Whether disturbed (spoiled) windows are included in the results, because a condition had no
    /// other windows.
    pub spoiled_count: bool,
    /// Median latency of the load alone, in microseconds, over all windows. Spoiled windows
    /// (disturbed by other processes, the host or pauses of the machine) are left out, unless
    /// `spoiled_count` is set.
    pub alone_p50_us: f64,
    pub alone_p99_us: f64,
    pub alone_p999_us: f64,
    /// Operations per second of the load alone.
    pub ops_per_s: f64,
    /// Cores that the load alone used, the store's background work included.
    pub transactional_cores: f64,
    /// Cores that the load alone left idle.
    pub idle_cores: f64,
    /// The second series of windows with the load alone, compared with the first: differences from 1
    /// are noise.
    pub alone_again: Ratios,
    /// The contenders, each compared with all windows of the load alone.
    pub contenders: Vec<Against>,
    /// The windows of the load alone, in two equal series. The differences between the series are
    /// noise.
    pub alone: [Vec<Window>; 2],
}

#[derive(Debug, Clone, Serialize)]
pub struct Against {
    pub name: String,
    /// The ratios of the measurements with the jobs of this contender to those of the load alone.
    #[serde(flatten)]
    pub ratios: Ratios,
    pub windows: Vec<Window>,
}

impl Trial {
    /// Runs rounds of windows. A round has the load alone twice, and the load with each contender
    /// whose turn it is in this round ([`Contender::every`]), in an order that is drawn for the
    /// round.
    pub fn run(
        setup: &Setup,
        name: impl Into<String>,
        load: &Load,
        extent: Extent,
        contenders: &[Contender],
        interrupted: &AtomicBool,
    ) -> Result<Self> {
        let name = name.into();
        let alone = ALONE.map(|name| Contender::new(name, Beside::NoJobs));
        let conditions: Vec<&Contender> = alone.iter().chain(contenders).collect();
        let mut windows: Vec<Vec<Window>> = vec![Vec::new(); conditions.len()];
        let mut rng = ChaCha8Rng::seed_from_u64(SEED);
        let bar = progress_bar(name.clone(), u64::from(extent.rounds));
        let (mut round, mut rounds) = (0, extent.rounds);
        while round < rounds {
            for turn in turns(&conditions, round, &mut rng) {
                ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
                let window = play(setup, load, extent.window, &conditions[turn].beside)?;
                windows[turn].push(window);
            }
            round += 1;
            if round == rounds && rounds < extent.rounds_max {
                // Judged by the load alone, so that a contender's results cannot influence how
                // often it runs.
                rounds = planned(rounds, extent.rounds_max, &windows[..2]);
                bar.set_length(u64::from(rounds));
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(Self::of(name, load, extent, contenders, windows))
    }

    /// Summarizes the windows of all conditions. `windows` has at least one window for each
    /// condition, in this order: the load alone, the load alone once more, and the load beside each
    /// of `contenders`.
    fn of(
        name: String,
        load: &Load,
        extent: Extent,
        contenders: &[Contender],
        windows: Vec<Vec<Window>>,
    ) -> Self {
        let spoiled_count = windows.iter().any(|windows| kept(windows).is_empty());
        let all = windows.iter().flatten();
        let windows_spoiled = all.filter(|window| window.is_spoiled()).count();
        let rounds = windows[0].len() as u32;
        let rounds_needed = needed(&windows[..2]);
        let mut windows = windows.into_iter();
        let alone: [Vec<Window>; 2] =
            std::array::from_fn(|_| windows.next().expect("the load ran alone twice"));
        let [first, again] = (alone.each_ref()).map(|windows| counted(windows, spoiled_count));
        let both: Vec<&Window> = first.iter().chain(&again).copied().collect();
        let pool = Pool::new(both.iter().map(|window| &window.latencies));
        let [p50_us, p99_us, p999_us] = pool.all_us([0.5, 0.99, 0.999]);
        let of = |of: fn(&Window) -> f64| mean(both.iter().map(|window| of(window)));
        Self {
            name,
            window_s: extent.window.as_secs_f64(),
            lead_s: load.lead.as_secs_f64(),
            rounds,
            rounds_needed,
            windows_spoiled,
            spoiled_count,
            alone_p50_us: p50_us,
            alone_p99_us: p99_us,
            alone_p999_us: p999_us,
            ops_per_s: of(|w| w.ops_per_s),
            transactional_cores: of(|w| w.transactional_cores),
            idle_cores: of(|w| w.idle_cores),
            alone_again: Ratios::new(&again, &first),
            contenders: (contenders.iter().zip(windows))
                .map(|(contender, windows)| Against {
                    name: contender.name.clone(),
                    ratios: Ratios::new(&counted(&windows, spoiled_count), &both),
                    windows,
                })
                .collect(),
            alone,
        }
    }
}

impl Trial {
    /// Returns those of `windows` that are included in the results: the ones that other processes, the
    /// host or pauses of the machine did not disturb. If some condition of the trial has only
    /// disturbed windows, returns all.
    pub fn counted<'a>(&self, windows: &'a [Window]) -> Vec<&'a Window> {
        counted(windows, self.spoiled_count)
    }

    pub fn contender(&self, name: &str) -> &Against {
        let found = self.contenders.iter().find(|against| against.name == name);
        found.unwrap_or_else(|| panic!("no contender is called {name} in {}", self.name))
    }
}

/// Returns the positions in `conditions` of those that run in a round, in random order.
fn turns(conditions: &[&Contender], round: u32, rng: &mut ChaCha8Rng) -> Vec<usize> {
    let plays = |turn: &usize| round.is_multiple_of(conditions[*turn].every);
    let mut turns: Vec<usize> = (0..conditions.len()).filter(plays).collect();
    turns.shuffle(rng);
    turns
}

/// Returns the windows that are not spoiled, that is, not disturbed by other processes, the host or
/// pauses of the machine.
fn kept(windows: &[Window]) -> Vec<&Window> {
    let quiet = |window: &&Window| !window.is_spoiled();
    windows.iter().filter(quiet).collect()
}

fn counted(windows: &[Window], spoiled_count: bool) -> Vec<&Window> {
    if spoiled_count {
        windows.iter().collect()
    } else {
        kept(windows)
    }
}

/// Returns the estimated number of rounds until the confidence interval of the p99's ratio is
/// narrow enough ([`HALF_WIDTH`]), from the windows of the load alone. Assumes that as large a
/// fraction of the windows will be spoiled as so far. `None` with fewer than two windows that are not
/// spoiled: the variance between windows cannot be estimated from one.
fn needed(alone: &[Vec<Window>]) -> Option<u32> {
    let played = alone.iter().map(Vec::len).sum::<usize>();
    let kept: Vec<_> = alone.iter().flat_map(|windows| kept(windows)).collect();
    if kept.len() < 2 {
        return None;
    }
    let pool = Pool::new(kept.iter().map(|window| &window.latencies));
    let needed = windows_needed(&pool, HALF_WIDTH);
    Some((f64::from(needed) * played as f64 / kept.len() as f64).ceil() as u32)
}

/// Returns the number of rounds to run in all, `rounds` to `rounds_max`, after `rounds` rounds with
/// these windows of the load alone. If the number of rounds that are needed cannot be estimated,
/// returns `rounds` + 1, at most `rounds_max`: the next round may add the window that the estimate
/// lacks. More rounds at once might be more than the estimate then requires.
fn planned(rounds: u32, rounds_max: u32, alone: &[Vec<Window>]) -> u32 {
    let planned = needed(alone).unwrap_or_else(|| rounds.saturating_add(1));
    planned.clamp(rounds, rounds_max)
}

#[cfg(test)]
pub mod tests {
    use std::time::Duration;

    use super::*;
    use crate::experiments::colocation::disturbance::Disturbance;
    use crate::experiments::colocation::ratios::tests::window;
    use crate::ycsb::Pace;

    fn spoiled(slowest_us: u64) -> Window {
        Window {
            disturbance: Disturbance {
                steal: 0.01,
                others: 0.0,
            },
            ..window(slowest_us, 0.0)
        }
    }

    /// Returns a trial. `windows` has a list of windows for each condition: the load alone, the
    /// load alone again, then the load beside each of `contenders`.
    pub fn trial(contenders: &[&str], windows: Vec<Vec<Window>>) -> Trial {
        let load = Load {
            pace: Pace::steady(1.0),
            batch: 1,
            lead: Duration::ZERO,
            cuts: Vec::new(),
        };
        let extent = Extent {
            window: Duration::from_secs(1),
            rounds: 2,
            rounds_max: 2,
        };
        let contender = |name: &&str| Contender::new(*name, Beside::Unmanaged);
        let contenders: Vec<Contender> = contenders.iter().map(contender).collect();
        Trial::of("t".to_string(), &load, extent, &contenders, windows)
    }

    #[test]
    fn spoiled_windows_of_any_condition_are_left_out() {
        let windows = vec![
            vec![window(1000, 0.0), spoiled(50_000)],
            vec![window(1000, 0.0), window(1000, 0.0)],
            vec![spoiled(90_000), window(1200, 0.7)],
        ];
        let trial = trial(&["managed"], windows);
        assert_eq!((trial.windows_spoiled, trial.spoiled_count), (2, false));
        assert_eq!(trial.alone_p99_us, 1000.0);
        let managed = &trial.contenders[0].ratios;
        assert_eq!((managed.windows, trial.alone_again.windows), (1, 2));
        assert!((managed.p99.value - 1.2).abs() < 1e-9);
        assert!((managed.idle_cpu_used - 0.5).abs() < 1e-9);
    }

    #[test]
    fn spoiled_windows_count_if_a_condition_has_no_others() {
        let windows = vec![
            vec![window(1000, 0.0)],
            vec![window(1000, 0.0)],
            vec![spoiled(3000)],
        ];
        let trial = trial(&["managed"], windows);
        assert!(trial.spoiled_count);
        assert!((trial.contenders[0].ratios.p99.value - 3.0).abs() < 1e-9);
    }

    /// Regression: without two undisturbed windows, the function returned, as the number of rounds
    /// needed, the number of windows in both series of the load alone. This is twice the number of
    /// rounds. So the rounds doubled, and the report printed that number as an estimate.
    #[test]
    fn without_two_undisturbed_windows_one_round_is_added_and_nothing_is_estimated() {
        for quiet in 0..2 {
            let mut alone = vec![vec![spoiled(50_000); 10], vec![spoiled(50_000); 10]];
            alone[0][..quiet].fill(window(1000, 0.0));
            assert_eq!(needed(&alone), None, "{quiet}");
            assert_eq!(planned(10, 60, &alone), 11, "{quiet}");
            assert_eq!(planned(60, 60, &alone), 60, "{quiet}");
        }
        // Equal windows need 2 rounds, the least number. A tenth of the windows count, so 20 rounds run.
        let mut alone = vec![vec![spoiled(50_000); 10], vec![spoiled(50_000); 10]];
        alone[0][..2].fill(window(1000, 0.0));
        assert_eq!(needed(&alone), Some(20));
        assert_eq!(planned(10, 60, &alone), 20);
        assert_eq!(planned(10, 15, &alone), 15);
    }

    #[test]
    fn each_round_has_all_its_conditions_in_an_order_of_its_own() {
        let rare = Contender {
            every: 4,
            ..Contender::new("rare", Beside::Unmanaged)
        };
        let often = Contender::new("often", Beside::NoJobs);
        let conditions = [&often, &often, &often, &rare];
        let mut rng = ChaCha8Rng::seed_from_u64(SEED);
        let orders: Vec<_> = (0..8).map(|n| turns(&conditions, n, &mut rng)).collect();
        for (round, order) in orders.iter().enumerate() {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            let all = if round % 4 == 0 {
                vec![0, 1, 2, 3]
            } else {
                vec![0, 1, 2]
            };
            assert_eq!(sorted, all);
        }
        assert!(orders.iter().any(|order| order[0] != orders[0][0]));
    }
}
