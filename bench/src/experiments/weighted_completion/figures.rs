//! The paper's figures.

use anyhow::Result;
use ebb_scheduler::lp::LpError;
use ebb_scheduler::msjo::{FIGURES, Figure};
use ebb_scheduler::sim::Interval;

use super::super::table::Table;
use super::series::{Numbers, Series};
use super::{Part, bar};
use crate::columns::row;
use crate::sim::{Curves, Line, Progress, in_parallel};

/// Points of a figure, given by their x values, that one thread computes together, for one seed.
struct Case {
    figure: &'static Figure,
    xs: &'static [f64],
    seed: u64,
}

impl Case {
    /// Returns the cases of a figure for the seeds 1 to `seeds`. For each seed there is one case
    /// with all points of the figure's axis if they are cheaper to compute together, or else a
    /// case for each point.
    fn of(figure: &'static Figure, seeds: u64) -> impl Iterator<Item = Self> {
        let length = if figure.together { figure.xs.len() } else { 1 };
        (figure.xs.chunks(length))
            .flat_map(move |xs| (1..=seeds).map(move |seed| Self { figure, xs, seed }))
    }

    fn run(&self) -> Result<Vec<Numbers>, LpError> {
        let points = (self.figure.at)(self.xs, self.seed)?;
        let numbers = self.xs.iter().zip(points).map(|(&x, numbers)| Numbers {
            x,
            seed: self.seed,
            numbers,
        });
        Ok(numbers.collect())
    }
}

/// Returns the figures with these numbers; all figures if there are no numbers.
pub fn chosen(only: &[u32]) -> impl Iterator<Item = &'static Figure> {
    let chosen = |figure: &&Figure| only.is_empty() || only.contains(&figure.number);
    FIGURES.iter().filter(chosen)
}

/// Runs a figure with seeds 1 to `seeds`; `None` for the figure's own number of seeds.
pub fn run(figure: &'static Figure, seeds: Option<u64>, threads: usize) -> Result<Part> {
    let cases: Vec<Case> = Case::of(figure, seeds.unwrap_or(figure.seeds)).collect();
    let bar = bar(cases.len());
    let numbers = in_parallel(&cases, threads, |case| {
        let numbers = case.run()?;
        bar.run_done();
        Ok::<_, LpError>(numbers)
    })?;
    bar.finish_and_clear();
    let cases: Vec<Numbers> = numbers.into_iter().flatten().collect();
    let mut part = Part::new("figures");
    part.tables.push(table(figure, &cases));
    if figure.xs.len() > 2 {
        let name = format!("ling-{}", figure.number);
        part.pictures.push((name, picture(figure, &cases)));
    }
    let names = figure.names.iter().map(|name| (*name).to_string());
    part.measured.push(Series {
        title: figure.title.into(),
        names: names.collect(),
        cases,
    });
    Ok(part)
}

/// Returns the mean, over the seeds, of one of the numbers of a figure at the horizontal value `x`.
/// `name` is the index of the number in the figure's list of names.
fn at(cases: &[Numbers], x: f64, name: usize) -> f64 {
    let of = cases.iter().filter(|case| case.x == x);
    Interval::of(&of.map(|case| case.numbers[name]).collect::<Vec<_>>()).mean
}

fn table(figure: &Figure, cases: &[Numbers]) -> Table {
    let seeds = cases.iter().map(|case| case.seed).max().unwrap_or(0);
    let of_name = |(name, words): (usize, &&str)| {
        let cells = figure
            .xs
            .iter()
            .map(|&x| format!("{:.3}", at(cases, x, name)));
        row(*words, cells)
    };
    let xs = figure.xs.iter().map(|x| x.to_string());
    Table {
        title: format!(
            "{}. {} by {}, mean of {seeds} seeds\nPaper: {}",
            figure.title, figure.y_label, figure.x_label, figure.published
        ),
        head: row("", xs),
        rows: figure.names.iter().enumerate().map(of_name).collect(),
    }
}

fn picture(figure: &Figure, cases: &[Numbers]) -> String {
    let line = |(name, words): (usize, &&str)| Line {
        name: (*words).to_string(),
        points: (figure.xs.iter())
            .map(|&x| (x, at(cases, x, name)))
            .collect(),
    };
    // Leaves out values of another quantity than the axis: only the table has these.
    let lines: Vec<Line> = (figure.names.iter().enumerate())
        .filter(|(_, words)| !figure.only_in_table.contains(*words))
        .map(line)
        .collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let most = points().map(|point| point.1).fold(0.0, f64::max);
    let ratios = most > 1.0;
    let curves = Curves {
        title: figure.title,
        x_label: figure.x_label,
        x: (figure.xs[0], figure.xs[figure.xs.len() - 1]),
        y_label: figure.y_label,
        y: (if ratios { 1.0 } else { 0.0 }, 1.02 * most),
        lines,
        level: None,
    };
    curves.to_svg()
}
