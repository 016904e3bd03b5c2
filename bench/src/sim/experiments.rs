//! The experiments of the thesis, as scenarios and formulas.
//!
//! Scenarios are fixed before the runs that are reported: no value is chosen to match a published
//! number. Where the thesis does not state a value, the scenario takes it from the interpretation
//! in its page of the book.

use ebb_jobs::simulate;

use super::analysis::{self, Analysis};

/// An experiment of the thesis, a variant of one, or one that the thesis does not have.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// The name in `ebb sim experiments`.
    pub name: &'static str,
    /// The figures and tables of the thesis that the experiment repeats, and how it differs from them;
    /// "none of the thesis's" if it repeats none.
    pub figures: &'static str,
    /// The result of the thesis; the question of the experiment if the thesis has no such result.
    pub claim: &'static str,
    /// The scenario or the formula.
    pub source: Source,
}

/// The source of an experiment's results.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// The text of a scenario, which is simulated.
    Scenario(&'static str),
    /// A formula, which is evaluated.
    Formula(fn() -> Analysis),
}

macro_rules! scenario {
    ($name:literal) => {
        Source::Scenario(include_str!(concat!("../../scenarios/", $name, ".toml")))
    };
}

/// All experiments: first those of the thesis with their variants, in the order of the thesis, then
/// those with the offline bound or a wrong forecast, and at last those that the thesis does not have.
pub const EXPERIMENTS: [Experiment; 31] = [
    Experiment {
        name: "acceleration",
        figures: "3.1",
        claim: "Past the accelerated pool, a job takes as many regular nodes more as its speedup says.",
        source: Source::Formula(analysis::acceleration),
    },
    Experiment {
        name: "map-length",
        figures: "3.2",
        claim: "Short maps let a job catch up after a wrong estimate; long ones do not.",
        source: Source::Formula(analysis::map_length),
    },
    Experiment {
        name: "reduce-length",
        figures: "3.3",
        claim: "A wrong estimate of the reduces costs in proportion to their part of the job.",
        source: Source::Formula(analysis::reduce_length),
    },
    Experiment {
        name: "goals",
        figures: "3.4",
        claim: "Five jobs meet goals of 1.5 to 5 times their length in isolation.",
        source: scenario!("goals"),
    },
    Experiment {
        name: "tight-goals",
        figures: "3.5, 3.6",
        claim: "Goals that cannot be met are missed evenly; Fair takes twice the time of short jobs.",
        source: scenario!("tight-goals"),
    },
    Experiment {
        name: "locality",
        figures: "3.7, table 3.1",
        claim: "With relaxed goals nearly all maps run where their input lies.",
        source: scenario!("locality"),
    },
    Experiment {
        name: "locality-goals",
        figures: "3.8 to 3.10",
        claim: "With tight goals too, and without missing more of them.",
        source: scenario!("locality-goals"),
    },
    Experiment {
        name: "hardware",
        figures: "3.11, 3.12",
        claim: "A job runs on accelerators alone unless its goal needs more; unaware it takes twice as long.",
        source: scenario!("hardware"),
    },
    Experiment {
        name: "accelerated-load",
        figures: "3.13",
        claim: "Jobs share the accelerated pool by their goals and spread over the other when they must.",
        source: scenario!("accelerated-load"),
    },
    Experiment {
        name: "regular-load",
        figures: "3.14",
        claim: "A job without accelerated code takes accelerated nodes when its goal needs them.",
        source: scenario!("regular-load"),
    },
    Experiment {
        name: "utility",
        figures: "4.2",
        claim: "The shape of the utility of chapter 4.",
        source: Source::Formula(analysis::utility),
    },
    Experiment {
        name: "resources",
        figures: "4.3 to 4.6",
        claim: "Slots as large as each job's profile end 5% to 100% sooner than any number of typed slots.",
        source: scenario!("resources"),
    },
    Experiment {
        name: "resources-goals",
        figures: "4.7, table 4.1",
        claim: "With tight goals it moves tasks to the jobs in need, and still ends before Fair.",
        source: scenario!("resources-goals"),
    },
    Experiment {
        name: "motivation",
        figures: "5.14, 5.15",
        claim: "Unaware of f(t) the first two of three jobs miss their goals; Reverse-Adaptive meets all.",
        source: scenario!("motivation"),
    },
    Experiment {
        name: "reverse-fit",
        figures: "5.16",
        claim: "Algorithm 2 carries what does not fit before a goal to the interval before.",
        source: Source::Formula(analysis::reverse_fit),
    },
    Experiment {
        name: "reverse-utility",
        figures: "5.17",
        claim: "The shape of the utility of chapter 5.",
        source: Source::Formula(analysis::reverse_utility),
    },
    Experiment {
        name: "validation",
        figures: "5.19, tables 5.7, 5.8",
        claim: "The thesis's simulator beside its cluster: execution times of figure 3.5 without reduces.",
        source: scenario!("validation"),
    },
    Experiment {
        name: "no-transactional",
        figures: "5.20",
        claim: "Without a transactional load FIFO misses most; Adaptive and Reverse-Adaptive are alike.",
        source: scenario!("no-transactional"),
    },
    Experiment {
        name: "transactional",
        figures: "5.21",
        claim: "Beside a transactional load FIFO misses most, Adaptive fewer, Reverse-Adaptive the fewest.",
        source: Source::Scenario(simulate::SCENARIO),
    },
    Experiment {
        name: "transactional-tenfold",
        figures: "5.21, with ten times the work per job",
        claim: "As above.",
        source: scenario!("transactional-tenfold"),
    },
    Experiment {
        name: "burstiness-levels",
        figures: "5.22",
        claim: "f(t) of the three levels.",
        source: Source::Formula(analysis::burstiness_levels),
    },
    Experiment {
        name: "burstiness",
        figures: "5.23",
        claim: "The burstier the load, the more Reverse-Adaptive gains.",
        source: scenario!("burstiness"),
    },
    Experiment {
        name: "burstiness-tenfold",
        figures: "5.23, with ten times the work per job",
        claim: "As above.",
        source: scenario!("burstiness-tenfold"),
    },
    Experiment {
        name: "planning",
        figures: "5.21, with the offline bound",
        claim: "Nothing of it: what any scheduler must miss, and how near forecast-edf comes.",
        source: scenario!("planning"),
    },
    Experiment {
        name: "planning-tenfold",
        figures: "5.21, with the offline bound and ten times the work per job",
        claim: "As above.",
        source: scenario!("planning-tenfold"),
    },
    Experiment {
        name: "planning-error",
        figures: "5.21, under a wrong forecast",
        claim: "As above, with a forecast as bad as a measured one.",
        source: scenario!("planning-error"),
    },
    Experiment {
        name: "planning-tenfold-error",
        figures: "5.21, under a wrong forecast, with ten times the work per job",
        claim: "As above.",
        source: scenario!("planning-tenfold-error"),
    },
    Experiment {
        name: "estimates",
        figures: "none of the thesis's",
        claim: "Nothing of it. Estimates that are wrong by 2 and 5 times.",
        source: scenario!("estimates"),
    },
    Experiment {
        name: "task-lengths",
        figures: "none of the thesis's",
        claim: "Nothing of it. Maps of 60 s beside maps of an hour.",
        source: scenario!("task-lengths"),
    },
    Experiment {
        name: "arrivals",
        figures: "none of the thesis's",
        claim: "Nothing of it. Jobs that come in bursts, and overload.",
        source: scenario!("arrivals"),
    },
    Experiment {
        name: "sizes",
        figures: "none of the thesis's",
        claim: "Nothing of it. Pareto sizes, and goals down to the length in isolation.",
        source: scenario!("sizes"),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_scheduler::sim::scenario::Scenario;

    #[test]
    fn every_experiment_parses_and_can_be_drawn() {
        for experiment in EXPERIMENTS {
            match experiment.source {
                Source::Scenario(text) => {
                    let scenario = Scenario::parse(experiment.name, text).unwrap();
                    assert!(!scenario.points.is_empty());
                }
                Source::Formula(formula) => {
                    let analysis = formula();
                    let columns = analysis.head.len();
                    assert!(analysis.rows.iter().all(|row| row.len() == columns));
                    assert!(!analysis.pictures.is_empty());
                    for (name, svg) in analysis.pictures {
                        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{name}");
                    }
                }
            }
        }
    }
}
