//! The experiments of the thesis, as scenarios that come with ebb.
//!
//! A scenario is fixed before the run that is reported, and nothing in it is
//! chosen to hit a published number; what the thesis does not say is taken from
//! the reading that its page in the book names.

/// One experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// What `ebb sim experiments` calls it.
    pub name: &'static str,
    /// Figures and tables of the thesis.
    pub figures: &'static str,
    /// What the thesis shows there, in one sentence.
    pub claim: &'static str,
    /// The scenario.
    pub scenario: &'static str,
}

/// All of them, in the order of the thesis.
pub const EXPERIMENTS: [Experiment; 10] = [
    Experiment {
        name: "motivation",
        figures: "5.14, 5.15",
        claim: "Unaware of f(t) the first two of three jobs miss their goals; Reverse-Adaptive meets all.",
        scenario: include_str!("../../scenarios/motivation.toml"),
    },
    Experiment {
        name: "no-transactional",
        figures: "5.20",
        claim: "Without a transactional load FIFO misses most; Adaptive and Reverse-Adaptive are alike.",
        scenario: include_str!("../../scenarios/no-transactional.toml"),
    },
    Experiment {
        name: "transactional",
        figures: "5.21",
        claim: "Beside a transactional load FIFO misses most, Adaptive fewer, Reverse-Adaptive the fewest.",
        scenario: include_str!("../../scenarios/transactional.toml"),
    },
    Experiment {
        name: "transactional-tenfold",
        figures: "5.21, with ten times the work per job",
        claim: "As above.",
        scenario: include_str!("../../scenarios/transactional-tenfold.toml"),
    },
    Experiment {
        name: "burstiness",
        figures: "5.22, 5.23",
        claim: "The burstier the load, the more Reverse-Adaptive gains.",
        scenario: include_str!("../../scenarios/burstiness.toml"),
    },
    Experiment {
        name: "burstiness-tenfold",
        figures: "5.22, 5.23, with ten times the work per job",
        claim: "As above.",
        scenario: include_str!("../../scenarios/burstiness-tenfold.toml"),
    },
    Experiment {
        name: "planning",
        figures: "5.21, with the offline bound",
        claim: "Nothing of it: what any scheduler must miss, and how near forecast-edf comes.",
        scenario: include_str!("../../scenarios/planning.toml"),
    },
    Experiment {
        name: "planning-tenfold",
        figures: "5.21, with the offline bound and ten times the work per job",
        claim: "As above.",
        scenario: include_str!("../../scenarios/planning-tenfold.toml"),
    },
    Experiment {
        name: "planning-error",
        figures: "5.21, under a wrong forecast",
        claim: "As above, with a forecast as bad as a measured one.",
        scenario: include_str!("../../scenarios/planning-error.toml"),
    },
    Experiment {
        name: "planning-tenfold-error",
        figures: "5.21, under a wrong forecast, with ten times the work per job",
        claim: "As above.",
        scenario: include_str!("../../scenarios/planning-tenfold-error.toml"),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_scheduler::sim::scenario::Scenario;

    #[test]
    fn every_scenario_that_comes_with_ebb_can_be_read() {
        for experiment in EXPERIMENTS {
            let scenario = Scenario::parse(experiment.name, experiment.scenario).unwrap();
            assert!(!scenario.points.is_empty());
        }
    }
}
