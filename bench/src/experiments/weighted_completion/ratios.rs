//! MarS and MARES with 20 jobs, as in the paper's figure 7.

use anyhow::Result;
use ebb_scheduler::msjo::{EPS, RandomJobs, Search};
use ebb_scheduler::sim::Interval;

use super::super::table::Table;
use super::series::{Numbers, Series};
use super::{Part, SEEDS, algorithms, bar};
use crate::msjo::{Study, run as run_study};
use crate::sim::in_parallel;

/// The algorithms. Each has the mean ratio of the weighted completion time to the lower bound, as
/// printed in the paper.
const PUBLISHED: [(&str, &str); 4] = [
    ("mars", "1.39"),
    ("mares", "1.96"),
    ("huwf", "2.17"),
    ("hjwf", "2.25"),
];
const JOBS: u32 = 20;

pub fn run(threads: usize) -> Result<Part> {
    let names = PUBLISHED.map(|(name, _)| name);
    let seeds: Vec<u64> = SEEDS.collect();
    // A seed has one bound, because all four algorithms minimize the same sum, and the schedules.
    let bar = bar(seeds.len() * (1 + names.len()));
    let cases = in_parallel(&seeds, threads, |&seed| {
        let study = Study {
            title: String::new(),
            instance: RandomJobs::most_random(JOBS).draw(seed),
            algorithms: algorithms(&names),
            eps: EPS,
            // The paper's ratios are over COGE's bound, so the whole relaxation is not solved.
            converged: None,
            search: Search::default(),
        };
        // One thread: the seeds already run in parallel.
        let result = run_study(&study, 1, &bar)?;
        Ok::<_, anyhow::Error>(Numbers {
            x: f64::from(JOBS),
            seed,
            numbers: (result.rows.iter())
                .map(|row| row.over_bound.expect("random jobs have weights"))
                .collect(),
        })
    })?;
    bar.finish_and_clear();
    // The numbers of a case have the order of the algorithms in `PUBLISHED`.
    let row = |(at, (name, published)): (usize, (&str, &str))| {
        let numbers: Vec<f64> = cases.iter().map(|case| case.numbers[at]).collect();
        let interval = Interval::of(&numbers);
        let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let most = numbers.iter().copied().fold(0.0, f64::max);
        vec![
            name.into(),
            published.into(),
            format!("{:.3} +- {:.3}", interval.mean, interval.half_width_95),
            format!("{least:.2} to {most:.2}"),
        ]
    };
    let title = format!("{JOBS} jobs, everything random: TWJCT over the last LP, eps {EPS}");
    let head = ["", "paper", "here", "seeds 1 to 10"].map(String::from);
    Ok(Part {
        name: "ratios",
        tables: vec![Table {
            title: title.clone(),
            head: head.to_vec(),
            rows: PUBLISHED.into_iter().enumerate().map(row).collect(),
        }],
        measured: vec![Series {
            title,
            names: names.map(String::from).to_vec(),
            cases,
        }],
        pictures: Vec::new(),
    })
}
