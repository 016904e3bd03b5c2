//! The relaxation of instances of 100 jobs, compared with a table of values
//! that `examples/converged.rs` solved to 0.1%.

use ebb_scheduler::msjo::{Instance, Objective, RandomJobs, Relaxation, Rule, Search, mars};

/// Returns the rows of `converged-100-jobs.csv`. Each has the seed of an instance, and a lower and
/// an upper bound on the optimum of its relaxation. The upper bound is the value of a solution that
/// violates none of the constraints.
fn table() -> Vec<(u64, f64, f64)> {
    let text = include_str!("results/converged-100-jobs.csv");
    let rows = text.lines().filter(|line| !line.starts_with('#')).skip(1);
    let row = |line: &str| -> Option<(u64, f64, f64)> {
        let mut cells = line.split(',');
        let seed = cells.next()?.parse().ok()?;
        let mut number = || cells.next()?.parse().ok();
        Some((seed, number()?, number()?))
    };
    rows.map(|line| row(line).expect("a seed and two numbers"))
        .collect()
}

fn instance(seed: u64) -> Instance {
    RandomJobs::most_random(100).draw(seed)
}

#[test]
fn the_table_is_converged_and_below_every_schedule() {
    let table = table();
    let seeds: Vec<u64> = table.iter().map(|row| row.0).collect();
    assert_eq!(seeds, (1..=10).collect::<Vec<_>>());
    for (seed, bound, no_violation) in table {
        assert!(bound <= no_violation && bound >= 0.999 * no_violation);
        let instance = instance(seed);
        for rule in [Rule::HighUnitWeightFirst, Rule::HighJobWeightFirst] {
            for schedule in [rule.planned(&instance), rule.non_idling(&instance)] {
                let value = schedule.value(&instance, Objective::Jobs);
                assert!(value >= bound, "seed {seed}, {rule:?}: {value}");
            }
        }
    }
}

#[test]
fn the_converged_relaxation_reproduces_the_table() {
    let (seed, bound, no_violation) = table()[0];
    let instance = instance(seed);
    let again = Relaxation::msjo(&instance, Objective::Jobs).converged(1e-3);
    let again = again.unwrap();
    assert!(again.value <= no_violation && again.no_violation_value >= bound);
    assert!(again.value >= 0.999 * again.no_violation_value);
}

/// The search makes 500 tries here, a twentieth of the default, to keep the
/// test fast.
#[test]
fn a_short_search_comes_near_the_converged_relaxation() {
    let (seed, bound, _) = table()[0];
    let instance = instance(seed);
    let (_, coge) = mars(&instance, Objective::Jobs, 0.3).unwrap();
    let search = Search {
        tries: 500,
        ..Search::default()
    };
    let schedule = search.schedule(&instance, &coge);
    assert_eq!(schedule.check(&instance), Ok(()));
    let ratio = schedule.value(&instance, Objective::Jobs) / bound;
    assert!((1.0..=1.07).contains(&ratio), "{ratio}");
}
