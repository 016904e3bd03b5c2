//! The figures of Ling et al.: scenarios fixed before the runs that are shown.
//!
//! The paper names its scenarios and not its seeds; here the seeds are 1, 2, and so on.
//! Numbers that the paper leaves open (the jobs in figures 14, 16 and 17) are in the
//! titles.

use super::algorithm::Algorithm;
use super::instance::{Instance, JobSpec, TaskSpec};
use super::list::{carried_out, in_order, non_idling};
use super::mars::{EPS, mars, mars_of};
use super::order::{by_key, ranks};
use super::relaxation::{Bound, Relaxation};
use super::schedule::{Objective, Schedule};
use super::search::Search;
use super::semi_online::semi_online;
use super::workload::{RandomJobs, Weights, misjudged};
use crate::lp::LpError;
use crate::model::{Job, JobId};

/// A figure of Ling et al., to be computed again: for each point of the horizontal axis, one number
/// for each curve.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// The number of the figure in Ling et al.
    pub number: u32,
    /// The published result, in words.
    pub published: &'static str,
    /// The heading of the figure's chart and table.
    pub title: &'static str,
    /// The label of the horizontal axis, with its unit.
    pub x_label: &'static str,
    /// The points of the horizontal axis, ascending.
    pub xs: &'static [f64],
    /// The label of the vertical axis, with the unit of the numbers.
    pub y_label: &'static str,
    /// The names of the figure's curves. Each point of the axis has a number for each
    /// curve, in this order.
    pub names: &'static [&'static str],
    /// The names of the curves whose numbers have another unit than `y_label`. They are in the
    /// table, and left out of the chart.
    pub only_in_table: &'static [&'static str],
    /// The number of seeds; they are 1, 2 and so on. Each point of a curve is the mean over them.
    pub seeds: u64,
    /// Whether all points of the axis use the same random instances, one for each seed. Computing
    /// these points together is then cheaper.
    pub together: bool,
    /// Computes the numbers at the given points for one seed, in the order of `names`.
    pub at: fn(&[f64], u64) -> Points,
}

/// For each point of a figure's axis, the value of each curve, in the order of [`Figure::names`].
pub type Points = Result<Vec<Vec<f64>>, LpError>;

const JOBS: &[f64] = &[10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0];
const TASKS: &[f64] = &[
    100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0, 900.0, 1000.0,
];
const PARTS: &[f64] = &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];

/// The x axis of figure 17 of Ling et al.: the lengths, in seconds, of the intervals at whose ends
/// a semi-online algorithm plans the jobs that have arrived.
const INTERVALS_S: &[f64] = &[10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0];

/// The number of seeds at each point.
const SEEDS: u64 = 10;

const PUBLISHED: &[&str] = &["mars", "mares", "huwf", "hjwf"];

/// The algorithms that figures 7 to 12 compare on [`Objective::Jobs`]: the published ones, their
/// variants that never let a machine idle while a task may start, and ebb's own, `lp-search`.
const OF_JOBS: &[&str] = &[
    "mars",
    "mares",
    "huwf",
    "hjwf",
    "mars-non-idling",
    "mares-non-idling",
    "huwf-non-idling",
    "hjwf-non-idling",
    "lp-search",
];

const OF_TASKS: &[&str] = &[
    "t-mars",
    "t-mars-in-order",
    "t-mars-non-idling",
    "h-mares",
    "h-mares-non-idling",
    "stf",
    "htwf",
];

const OVER_LP: &str = "TWJCT / last LP";

/// The number of jobs in figures 14 and 17.
const JOBS_OF_A_POINT: u32 = 50;

/// Limits of `lp-search`: a tenth of the default number of tries, because there are many
/// points.
const SEARCH: Search = Search {
    tries: 1_000,
    seed: 0,
};

const ALL_RANDOM: RandomJobs = RandomJobs::most_random(0);
const UNIFORM_COUNTS: RandomJobs = RandomJobs {
    uniform_counts: true,
    ..ALL_RANDOM
};
const UNIFORM_LENGTHS: RandomJobs = RandomJobs {
    uniform_lengths: true,
    ..ALL_RANDOM
};
const MANY_MACHINES: RandomJobs = RandomJobs {
    machines: 100,
    ..ALL_RANDOM
};
const INCREASING_WEIGHTS: RandomJobs = RandomJobs {
    weights: Weights::IncreasingUnit,
    ..ALL_RANDOM
};
const DECREASING_WEIGHTS: RandomJobs = RandomJobs {
    weights: Weights::DecreasingUnit,
    ..ALL_RANDOM
};

const fn by_jobs(
    number: u32,
    published: &'static str,
    title: &'static str,
    at: fn(&[f64], u64) -> Points,
) -> Figure {
    Figure {
        number,
        published,
        title,
        x_label: "jobs",
        xs: JOBS,
        y_label: OVER_LP,
        names: OF_JOBS,
        only_in_table: &[],
        seeds: SEEDS,
        together: false,
        at,
    }
}

/// Figures 1, 5 (and 6), 7 to 12 and 14 to 17 of Ling et al.
pub static FIGURES: [Figure; 12] = [
    Figure {
        number: 1,
        published: "Where tasks run decides as much as when: job 2 ends at 175 s instead of 250 s.",
        title: "Figure 1: three machines, two jobs",
        x_label: "job",
        xs: &[1.0, 2.0],
        y_label: "end, s",
        names: &["fifo", "mars"],
        only_in_table: &[],
        seeds: 1,
        together: false,
        at: figure_1,
    },
    Figure {
        number: 5,
        published: "The higher the stop threshold, the sooner COGE stops (figure 6), at little cost.",
        title: "Figures 5 and 6: 100 jobs, by stop threshold",
        x_label: "stop threshold",
        xs: &[0.1, 0.2, 0.3, 0.4, 0.5],
        y_label: OVER_LP,
        names: &["mars", "mars / LP at 0.1", "programmes"],
        only_in_table: &["programmes"],
        seeds: SEEDS,
        together: true,
        at: figures_5_and_6,
    },
    by_jobs(
        7,
        "MarS stays at 1.38 from 20 jobs on; MARES 1.96, HUWF 2.17, HJWF 2.25.",
        "Figure 7: everything random",
        |jobs, seed| ratios_of(jobs, seed, ALL_RANDOM),
    ),
    by_jobs(
        8,
        "MarS stays at 1.15; MARES rises from 1.48 to 1.88.",
        "Figure 8: 30 maps and 10 reduces in each job",
        |jobs, seed| ratios_of(jobs, seed, UNIFORM_COUNTS),
    ),
    by_jobs(
        9,
        "MarS is at 1.08 with 10 jobs and then within 0.02 of the bound; MARES 0.35 above.",
        "Figure 9: maps of 10 s and reduces of 15 s",
        |jobs, seed| ratios_of(jobs, seed, UNIFORM_LENGTHS),
    ),
    by_jobs(
        10,
        "MarS declines from 1.09 to 1.01; MARES, HUWF, HJWF at 100 jobs: 0.42, 0.75, 0.79 above.",
        "Figure 10: 100 machines",
        |jobs, seed| ratios_of(jobs, seed, MANY_MACHINES),
    ),
    by_jobs(
        11,
        "HUWF and HJWF lose 10% against figure 7; MarS and MARES do not.",
        "Figure 11: unit weights that rise with the release",
        |jobs, seed| ratios_of(jobs, seed, INCREASING_WEIGHTS),
    ),
    by_jobs(
        12,
        "HUWF is better than MARES; HJWF is worse than in figure 7.",
        "Figure 12: unit weights that fall with the release",
        |jobs, seed| ratios_of(jobs, seed, DECREASING_WEIGHTS),
    ),
    Figure {
        number: 14,
        published: "Errors of up to 100% cost at most 0.09.",
        title: "Figure 14: lengths misjudged, 50 jobs",
        x_label: "largest error, part of the length",
        xs: &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0],
        y_label: "TWJCT / last LP of the true lengths",
        names: &[
            "mars",
            "mares",
            "huwf",
            "hjwf",
            "mars on any machine",
            "mars as believed",
            "mares as believed",
            "huwf as believed",
            "hjwf as believed",
        ],
        only_in_table: &[],
        seeds: SEEDS,
        together: true,
        at: figure_14,
    },
    Figure {
        number: 15,
        published: "T-MarS is at most 1.21; H-MARES 1.19 to 1.6, STF and HTWF 1.31 and 1.42 to above 2.2.",
        title: "Figure 15: completion of tasks",
        x_label: "tasks, about",
        xs: TASKS,
        y_label: "TWTCT / last LP",
        names: OF_TASKS,
        only_in_table: &[],
        seeds: SEEDS,
        together: false,
        at: |points, seed| {
            each(points, |tasks| {
                let instance = about(tasks).draw(seed);
                ratios(&instance, Objective::Tasks, OF_TASKS)
            })
        },
    },
    Figure {
        number: 16,
        published: "At half of the longest wait T-MarS has ended 71% of tasks, others 62, 58 and 51%.",
        title: "Figure 16: tasks that have ended, about 1,000 tasks",
        x_label: "wait / longest wait",
        xs: PARTS,
        y_label: "part of the tasks",
        names: OF_TASKS,
        only_in_table: &[],
        seeds: SEEDS,
        together: true,
        at: figure_16,
    },
    Figure {
        number: 17,
        published: "At 50 s SO-MarS 1.09, MARES 1.35, HUWF 1.63, HJWF 1.75; at 100 s SO-MarS below 1.19.",
        title: "Figure 17: planned at the end of each batch interval, 50 jobs",
        x_label: "batch interval, s",
        xs: INTERVALS_S,
        y_label: "TWJCT / last LP of all jobs",
        names: &[
            "so-mars",
            "mares",
            "huwf",
            "hjwf",
            "so-mars / mars",
            "mares / mars",
            "huwf / mars",
            "hjwf / mars",
        ],
        only_in_table: &[
            "so-mars / mars",
            "mares / mars",
            "huwf / mars",
            "hjwf / mars",
        ],
        seeds: SEEDS,
        together: true,
        at: figure_17,
    },
];

fn algorithms(names: &[&str]) -> impl Iterator<Item = Algorithm> {
    let named = |name: &&str| Algorithm::by_name(name).expect("a name of one");
    names.iter().map(named)
}

/// Returns the schedule of `algorithm`, after a check that it is feasible.
fn schedule(algorithm: Algorithm, instance: &Instance, bound: &Bound) -> Result<Schedule, LpError> {
    let schedule = algorithm.schedule(instance, bound, EPS, SEARCH)?;
    let checked = schedule.check(instance);
    assert_eq!(checked, Ok(()), "by {}", algorithm.name);
    Ok(schedule)
}

/// Returns, for each algorithm, the objective divided by the lower bound: the value of the
/// last linear programme that COGE (constraint generation) solved.
fn ratios(instance: &Instance, objective: Objective, names: &[&str]) -> Result<Vec<f64>, LpError> {
    let bound = Algorithm::bound(instance, objective, EPS)?;
    let ratio = |algorithm| -> Result<f64, LpError> {
        let schedule = schedule(algorithm, instance, &bound)?;
        Ok(schedule.value(instance, objective) / bound.value)
    };
    algorithms(names).map(ratio).collect()
}

fn each(points: &[f64], of: impl Fn(f64) -> Result<Vec<f64>, LpError>) -> Points {
    points.iter().map(|&x| of(x)).collect()
}

fn ratios_of(points: &[f64], seed: u64, scenario: RandomJobs) -> Points {
    each(points, |jobs| {
        let jobs = jobs as u32;
        let instance = RandomJobs { jobs, ..scenario }.draw(seed);
        ratios(&instance, Objective::Jobs, OF_JOBS)
    })
}

fn figure_1(numbers: &[f64], _seed: u64) -> Points {
    let job = |id: u64, maps: usize, reduces: usize| JobSpec {
        job: Job::new(JobId(id), 0.0, None),
        maps: vec![TaskSpec::of(75.0); maps],
        reduces: vec![TaskSpec::of(100.0); reduces],
    };
    let instance = Instance::new(3, vec![job(1, 4, 2), job(2, 1, 1)]).expect("a constant");
    let fifo = non_idling(&instance, &ranks(&instance, |at| at as f64));
    // Solved to the optimum (eps 0): with eps 0.3 COGE would stop at the first programme.
    // There both jobs end at 175 s, so it does not order them.
    let (planned, _) = mars(&instance, Objective::Jobs, 0.0)?;
    each(numbers, |number| {
        let end_s = |schedule: &Schedule| schedule.completion_s(&instance, number as usize - 1);
        Ok(vec![end_s(&fifo), end_s(&planned)])
    })
}

fn figures_5_and_6(thresholds: &[f64], seed: u64) -> Points {
    let instance = RandomJobs::most_random(100).draw(seed);
    let tight = Relaxation::msjo(&instance, Objective::Jobs).coge(0.1)?;
    each(thresholds, |eps| {
        let (schedule, bound) = mars(&instance, Objective::Jobs, eps)?;
        let value = schedule.value(&instance, Objective::Jobs);
        Ok(vec![
            value / bound.value,
            value / tight.value,
            f64::from(bound.iterations),
        ])
    })
}

/// Plans with wrong lengths of tasks and executes the plans with the true ones. Ling et al. do not
/// define how a plan is executed if its lengths turn out to be wrong. So the figure shows two other
/// interpretations, too: the tasks in MarS's order, each on the machine that is free first; and the
/// ends that the plans predict.
fn figure_14(errors_max: &[f64], seed: u64) -> Points {
    let truth = RandomJobs::most_random(JOBS_OF_A_POINT).draw(seed);
    let of_truth = Algorithm::bound(&truth, Objective::Jobs, EPS)?;
    each(errors_max, |error_max| {
        let believed = misjudged(&truth, error_max, seed);
        let of_believed = Algorithm::bound(&believed, Objective::Jobs, EPS)?;
        let planned: Result<Vec<Schedule>, LpError> = algorithms(PUBLISHED)
            .map(|algorithm| schedule(algorithm, &believed, &of_believed))
            .collect();
        let planned = planned?;
        let ratio = |instance: &Instance, schedule: &Schedule| {
            schedule.value(instance, Objective::Jobs) / of_truth.value
        };
        let came = planned.iter().map(|plan| carried_out(&truth, plan));
        let mut ratios: Vec<f64> = came.map(|came| ratio(&truth, &came)).collect();
        let order = by_key(&truth, &planned[0].start_s);
        ratios.push(ratio(&truth, &in_order(&truth, &order)));
        ratios.extend(planned.iter().map(|plan| ratio(&believed, plan)));
        Ok(ratios)
    })
}

/// Returns a scenario with about this many tasks: a job has 30 maps and 15.5 reduces on average.
/// The maps have no delays, because the programme of Ling et al. for tasks, their equation (12),
/// has none.
fn about(tasks: f64) -> RandomJobs {
    RandomJobs {
        delay_factor: 0.0,
        ..RandomJobs::most_random((tasks / 45.5).round() as u32)
    }
}

fn figure_16(parts: &[f64], seed: u64) -> Points {
    let instance = about(1000.0).draw(seed);
    let bound = Algorithm::bound(&instance, Objective::Tasks, EPS)?;
    let waits_s = |algorithm| -> Result<Vec<f64>, LpError> {
        let schedule = schedule(algorithm, &instance, &bound)?;
        let wait_s = |at: usize| schedule.end_s(&instance, at) - instance.tasks[at].released_s;
        Ok((0..instance.tasks.len()).map(wait_s).collect())
    };
    let of_all: Result<Vec<Vec<f64>>, LpError> = algorithms(OF_TASKS).map(waits_s).collect();
    let of_all = of_all?;
    each(parts, |part| {
        let ended = |waits_s: &Vec<f64>| {
            let longest_s = waits_s.iter().copied().fold(0.0, f64::max);
            let ended = waits_s.iter().filter(|&&wait_s| wait_s <= part * longest_s);
            ended.count() as f64 / waits_s.len() as f64
        };
        Ok(of_all.iter().map(ended).collect())
    })
}

/// Computes two ratios for each algorithm: the objective divided by the lower bound, and the
/// objective divided by that of MarS with all jobs known in advance. Both are shown because Ling et
/// al. do not define the ratio in their figure 17. They print 1.09 for the semi-online SO-MarS with
/// intervals of 50 s. This is hardly a ratio to the bound: in their figure 7 even MarS, which knows
/// all jobs, has a larger one.
fn figure_17(intervals_s: &[f64], seed: u64) -> Points {
    let instance = RandomJobs::most_random(JOBS_OF_A_POINT).draw(seed);
    let whole = Algorithm::bound(&instance, Objective::Jobs, EPS)?;
    let mars = mars_of(&instance, &whole).value(&instance, Objective::Jobs);
    each(intervals_s, |interval_s| {
        let value = |algorithm| -> Result<f64, LpError> {
            let came = semi_online(&instance, interval_s, |rest| {
                let bound = Algorithm::bound(rest, Objective::Jobs, EPS)?;
                schedule(algorithm, rest, &bound)
            })?;
            assert_eq!(came.check(&instance), Ok(()), "in batches");
            Ok(came.value(&instance, Objective::Jobs))
        };
        let values: Result<Vec<f64>, LpError> = algorithms(PUBLISHED).map(value).collect();
        let values = values?;
        let over = |whole: f64| values.iter().map(move |value| value / whole);
        Ok(over(whole.value).chain(over(mars)).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_1_is_as_printed() {
        let ends_s = figure_1(&[1.0, 2.0], 1).unwrap();
        assert_eq!(ends_s, [[250.0, 250.0], [250.0, 175.0]]);
    }

    /// Computes the first, smallest point of the axis of four different figures.
    #[test]
    fn figures_have_a_number_for_each_name() {
        for figure in &FIGURES {
            if [1, 7, 14, 15].contains(&figure.number) {
                let numbers = (figure.at)(&figure.xs[..1], 1).unwrap().remove(0);
                assert_eq!(
                    numbers.len(),
                    figure.names.len(),
                    "figure {}",
                    figure.number
                );
                assert!(numbers.iter().all(|&number| number >= 1.0));
            }
        }
    }
}
