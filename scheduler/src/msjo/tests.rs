//! Properties of all algorithms, on random jobs.

use super::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Draws an instance in which maps may be longer than reduces, a job may have no maps or no reduces, and
/// one of the three machines is busy at first.
fn small(seed: u64) -> Instance {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let jobs = (0..rng.random_range(1..6)).map(|id| {
        let mut tasks = |count: u32| -> Vec<TaskSpec> {
            let task = (0..count).map(|_| TaskSpec {
                length_s: 1.0 + 9.0 * rng.random::<f64>(),
                delay_s: 5.0 * rng.random::<f64>(),
                weight: 3.0 * rng.random::<f64>(),
            });
            task.collect()
        };
        let (maps, reduces) = match id % 4 {
            0 => (tasks(4), tasks(2)),
            1 => (tasks(1), tasks(3)),
            2 => (tasks(5), tasks(0)),
            _ => (tasks(0), tasks(2)),
        };
        let job = crate::model::Job {
            weight: 0.1 + rng.random::<f64>(),
            ..crate::model::Job::new(crate::model::JobId(id), 10.0 * rng.random::<f64>(), None)
        };
        JobSpec { job, maps, reduces }
    });
    let jobs = jobs.collect();
    let mut instance = Instance::new(3, jobs).unwrap();
    instance.free_s[1] = 2.0;
    instance
}

/// Returns the schedule of every algorithm by name: each with all jobs known in advance, and MarS
/// also in batches.
fn schedules(instance: &Instance, bound: &Bound) -> Vec<(&'static str, Schedule)> {
    let search = Search {
        tries: 50,
        ..Search::default()
    };
    let by = |algorithm: Algorithm| {
        let schedule = algorithm.schedule(instance, bound, EPS, search);
        (algorithm.name, schedule.unwrap())
    };
    let mut all: Vec<_> = ALGORITHMS.into_iter().map(by).collect();
    let so_mars = semi_online(instance, 4.0, |rest| {
        Ok::<_, crate::lp::LpError>(mars(rest, Objective::Jobs, EPS)?.0)
    });
    all.push(("so-mars", so_mars.unwrap()));
    all
}

/// Returns whether the start times respect releases, and reduces start after the outputs of their
/// job's maps have arrived: equations (1) and (2) of Ling et al., up to `tolerance_s`.
fn precedes(instance: &Instance, start_s: &[f64], tolerance_s: f64) -> bool {
    instance.jobs.iter().all(|job| {
        let arrivals_s = job.maps.clone().map(|at| {
            let map = &instance.tasks[at];
            start_s[at] + map.length_s + map.delay_s
        });
        let arrived_s = arrivals_s.fold(0.0, f64::max);
        let released_s = |at: usize| instance.tasks[at].released_s;
        (job.maps.clone()).all(|map| start_s[map] >= released_s(map) - tolerance_s)
            && (job.reduces.clone())
                .all(|reduce| start_s[reduce] >= arrived_s.max(released_s(reduce)) - tolerance_s)
    })
}

#[test]
fn schedules_can_be_carried_out_and_none_is_below_the_bound() {
    for seed in 0..40 {
        let instance = small(seed);
        for objective in [Objective::Jobs, Objective::Tasks] {
            for eps in [0.0, 0.3] {
                let relaxation = Relaxation::msjo(&instance, objective);
                let bound = relaxation.coge(eps).unwrap();
                assert!(precedes(&instance, &bound.start_s, 1e-4), "seed {seed}");
                for (name, schedule) in schedules(&instance, &bound) {
                    assert_eq!(schedule.check(&instance), Ok(()), "seed {seed}, {name}");
                    let value = schedule.value(&instance, objective);
                    // The bound for jobs is proven by its multipliers, up to rounding.
                    let below = match objective {
                        Objective::Jobs => bound.value * (1.0 - 1e-12),
                        Objective::Tasks => bound.value * (1.0 - 1e-6),
                    };
                    assert!(value >= below, "seed {seed}, {name}: {value} {bound:?}");
                }
            }
        }
    }
}

/// Solves the relaxation of Ling et al., equations (1) to (4), as printed, and returns its optimum.
/// It has a variable for the start of each task and the end of each job, a row for each pair of a
/// map and a reduce of a job, and a row for every set of tasks.
fn all_subsets(instance: &Instance) -> f64 {
    let mut lp = crate::lp::LinearProgramme::default();
    let starts: Vec<_> = instance.tasks.iter().map(|_| lp.variable(0.0)).collect();
    for job in &instance.jobs {
        let end = lp.variable(job.job.weight);
        for at in job.tasks() {
            let task = &instance.tasks[at];
            lp.at_least([(starts[at], 1.0)], task.released_s);
            if job.last_tasks().contains(&at) {
                lp.at_least([(end, 1.0), (starts[at], -1.0)], task.length_s);
            }
        }
        for map in job.maps.clone() {
            let task = &instance.tasks[map];
            for reduce in job.reduces.clone() {
                let after = [(starts[reduce], 1.0), (starts[map], -1.0)];
                lp.at_least(after, task.length_s + task.delay_s);
            }
        }
    }
    for set in 1..1_usize << instance.tasks.len() {
        let tasks: Vec<usize> = (0..instance.tasks.len())
            .filter(|at| (set >> at) & 1 == 1)
            .collect();
        let length_s = |at: &usize| instance.tasks[*at].length_s;
        let sum: f64 = tasks.iter().map(length_s).sum();
        let squares: f64 = tasks.iter().map(|at| length_s(at).powi(2)).sum();
        let right = sum * sum / (2.0 * instance.machines() as f64) - squares / 2.0;
        lp.at_least(tasks.iter().map(|at| (starts[*at], length_s(at))), right);
    }
    lp.minimise().unwrap().value
}

/// The linear programme of constraint generation (COGE), with variables for jobs and rows for a few
/// sets of tasks, has the same optimum as the printed relaxation.
#[test]
fn the_bound_is_that_of_the_relaxation_as_printed() {
    let mut checked = 0;
    for seed in 0..100 {
        let mut instance = small(seed);
        instance.free_s.fill(0.0);
        if instance.tasks.len() > 12 {
            continue;
        }
        checked += 1;
        // COGE counts times from the first release; the printed equations count from 0.
        instance.tasks[0].released_s = 0.0;
        let printed = all_subsets(&instance);
        let bound = Relaxation::msjo(&instance, Objective::Jobs).coge(0.0);
        let value = bound.unwrap().value;
        let near = printed * (1.0 - 1e-4)..printed * (1.0 + 1e-6);
        assert!(near.contains(&value), "seed {seed}: {value} {printed}");
    }
    assert!(
        checked >= 20,
        "of 100 instances only {checked} are small enough"
    );
}

/// A clock that shows a later time shifts the bound and changes nothing else, because times
/// count from the first release.
#[test]
fn a_later_clock_shifts_the_bound_and_no_more() {
    let (instance, later_s) = (RandomJobs::most_random(3).draw(1), 1000.0);
    let mut later = instance.clone();
    later.free_s.fill(later_s);
    for task in &mut later.tasks {
        task.released_s += later_s;
    }
    for job in &mut later.jobs {
        job.job.submitted_s += later_s;
    }
    for objective in [Objective::Jobs, Objective::Tasks] {
        let bound = |instance| Relaxation::msjo(instance, objective).coge(0.1).unwrap();
        let (bound, later_bound) = (bound(&instance), bound(&later));
        let weight: f64 = match objective {
            Objective::Jobs => instance.jobs.iter().map(|job| job.job.weight).sum(),
            Objective::Tasks => instance.tasks.iter().map(|task| task.weight).sum(),
        };
        let shifted = bound.value + weight * later_s;
        assert!(
            (later_bound.value / shifted - 1.0).abs() < 1e-6,
            "{objective:?}"
        );
        assert_eq!(later_bound.iterations, bound.iterations);
    }
}

/// Adding other constraints in each round (`converged`) leads to the same lower bound as the choice
/// of Ling et al. (`coge`), to within the precision.
#[test]
fn the_converged_bound_is_that_of_all_rows() {
    for seed in 0..20 {
        let instance = small(seed);
        let relaxation = Relaxation::msjo(&instance, Objective::Jobs);
        let (all, converged) = (relaxation.coge(0.0), relaxation.converged(1e-3));
        let (all, converged) = (all.unwrap(), converged.unwrap());
        assert!(converged.value <= all.value * (1.0 + 1e-4), "seed {seed}");
        assert!(converged.value >= all.value * (1.0 - 1.1e-3), "seed {seed}");
        assert!(
            converged.no_violation_value >= all.value * (1.0 - 1e-4),
            "seed {seed}"
        );
    }
}

/// Theorem 3 of Ling et al.: `mars` is at most 3 times as bad as the bound. Its assumptions hold in
/// these instances: no map is longer than a reduce of its job, and all machines are free from the
/// start.
#[test]
fn mars_keeps_the_bound_of_three_where_it_is_proven() {
    let mut proven = 0;
    for seed in 0..40 {
        let mut instance = small(seed);
        instance.free_s.fill(0.0);
        for task in &mut instance.tasks {
            if task.id.kind == crate::model::TaskKind::Reduce {
                task.length_s += 10.0;
            }
        }
        assert!(instance.maps_are_shorter());
        for eps in [0.0, 0.3] {
            let (schedule, bound) = mars(&instance, Objective::Jobs, eps).unwrap();
            let value = schedule.value(&instance, Objective::Jobs);
            let exact = 1.0 + 1e-4;
            assert!(
                value <= 3.0 * bound.no_violation_value * exact,
                "seed {seed}"
            );
            assert!(
                value <= 3.0 / (1.0 - eps) * bound.value * exact,
                "seed {seed}"
            );
            if bound.all_hold {
                proven += 1;
                assert!(value <= 3.0 * bound.value * exact, "seed {seed}");
            }
        }
    }
    assert!(proven >= 40, "with eps 0 all constraints hold");
}

#[test]
fn the_search_never_ends_worse_than_what_it_starts_from_and_finds_the_same_again() {
    for seed in 0..4 {
        let instance = RandomJobs::most_random(5).draw(seed);
        let (schedule, bound) = mars(&instance, Objective::Jobs, EPS).unwrap();
        let search = Search { tries: 200, seed };
        let found = search.schedule(&instance, &bound);
        assert_eq!(found, search.schedule(&instance, &bound), "seed {seed}");
        assert_eq!(
            (schedule.clone(), bound),
            mars(&instance, Objective::Jobs, EPS).unwrap()
        );
        let value = |schedule: &Schedule| schedule.value(&instance, Objective::Jobs);
        let rules = [Rule::HighUnitWeightFirst, Rule::HighJobWeightFirst];
        let others = rules.map(|rule| [rule.planned(&instance), rule.non_idling(&instance)]);
        for other in others.iter().flatten().chain([&schedule]) {
            assert!(value(&found) <= value(other), "seed {seed}");
        }
    }
}
