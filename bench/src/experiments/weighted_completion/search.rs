//! lp-search over the converged relaxation, compared with other algorithms.

use anyhow::Result;
use ebb_scheduler::msjo::{EPS, RandomJobs, Search};
use ebb_scheduler::sim::Interval;

use super::super::table::Table;
use super::series::{Numbers, Series};
use super::{Part, SEEDS, algorithms, bar};
use crate::msjo::{Study, run as run_study};
use crate::sim::in_parallel;

/// The names of the algorithms: ours, and then those with which it is compared.
const NAMES: [&str; 7] = [
    "lp-search",
    "huwf-non-idling",
    "hjwf-non-idling",
    "mars",
    "mars-non-idling",
    "huwf",
    "hjwf",
];
/// The number of jobs of the paper's figures 5 and 6, and of `scheduler/tests/results/converged-100-jobs.csv`.
const JOBS: u32 = 100;
/// The gap at which the solver of the relaxation stops, as a fraction of the relaxation's value.
/// The results in `converged-100-jobs.csv` have the same gap.
const CONVERGED: f64 = 1e-3;

pub fn run(threads: usize) -> Result<Part> {
    let seeds: Vec<u64> = SEEDS.collect();
    // A seed has two bounds, COGE's and the converged one, and then the schedules.
    let bar = bar(seeds.len() * (2 + NAMES.len()));
    let results = in_parallel(&seeds, threads, |&seed| {
        let study = Study {
            title: String::new(),
            instance: RandomJobs::most_random(JOBS).draw(seed),
            algorithms: algorithms(&NAMES),
            eps: EPS,
            converged: Some(CONVERGED),
            search: Search::default(),
        };
        // One thread: the seeds already run in parallel.
        run_study(&study, 1, &bar)
    })?;
    bar.finish_and_clear();
    // All algorithms minimize the same sum, so `bounds` has two: COGE's, then the converged one. `rows`
    // has the order of `NAMES`.
    let converged = |at: usize| results[at].bounds[1].value;
    let ratios = |at: usize| -> Vec<f64> {
        // Not `over_bound`, which is over the greater of both bounds: all ratios are to be over the same one.
        let rows = results[at].rows.iter();
        rows.map(|row| row.value / converged(at)).collect()
    };
    let cases = ((0..).zip(&seeds)).map(|(at, &seed)| Numbers {
        x: f64::from(JOBS),
        seed,
        numbers: ratios(at),
    });
    let cases: Vec<Numbers> = cases.collect();
    let mut rows: Vec<Vec<String>> = (results.iter().zip(&cases))
        .map(|(result, case)| {
            let seed = case.seed.to_string();
            let bound = format!("{:.0}", result.bounds[1].value);
            let ratios = case.numbers.iter().map(|ratio| format!("{ratio:.4}"));
            [seed, bound].into_iter().chain(ratios).collect()
        })
        .collect();
    let means = (0..NAMES.len()).map(|at| {
        let numbers: Vec<f64> = cases.iter().map(|case| case.numbers[at]).collect();
        format!("{:.4}", Interval::of(&numbers).mean)
    });
    rows.push(
        ["mean".into(), String::new()]
            .into_iter()
            .chain(means)
            .collect(),
    );
    let head = ["seed", "LP to 0.1%"].into_iter().chain(NAMES);
    // The schedules start from COGE's bound, whose time is not in that of lp-search.
    let cpu_s = |of: fn(&crate::msjo::MsjoResult) -> f64| {
        let seconds: Vec<f64> = results.iter().map(of).collect();
        format!("{:.1}", Interval::of(&seconds).mean)
    };
    let title = format!("{JOBS} jobs, everything random: TWJCT over the converged relaxation");
    let times = vec![
        vec![
            format!("COGE, eps {EPS}"),
            cpu_s(|result| result.bounds[0].cpu_s),
        ],
        vec![
            "relaxation to 0.1%".into(),
            cpu_s(|result| result.bounds[1].cpu_s),
        ],
        vec!["lp-search".into(), cpu_s(|result| result.rows[0].cpu_s)],
    ];
    Ok(Part {
        name: "search",
        tables: vec![
            Table {
                title: title.clone(),
                head: head.map(String::from).collect(),
                rows,
            },
            Table {
                title: "Mean CPU time of one of these, in seconds".into(),
                head: ["", "CPU s"].map(String::from).to_vec(),
                rows: times,
            },
        ],
        measured: vec![Series {
            title,
            names: NAMES.map(String::from).to_vec(),
            cases,
        }],
        pictures: Vec::new(),
    })
}
