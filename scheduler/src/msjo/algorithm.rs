//! The list of all algorithms, by name.

use super::instance::Instance;
use super::list::non_idling;
use super::mares::mares;
use super::mars::{mars_of, middle_s};
use super::order::ranks;
use super::relaxation::{Bound, Inequality, Relaxation};
use super::rules::Rule;
use super::schedule::{Objective, Schedule};
use super::search::Search;
use super::t_mars::{Intervals, t_mars_of};
use crate::lp::LpError;

/// An algorithm that schedules the tasks of an [`Instance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithm {
    /// The name of the algorithm. If the version of Ling et al. leaves gaps in the schedule, the
    /// variant without gaps has the suffix `-non-idling`.
    pub name: &'static str,
    /// The objective that the algorithm minimises.
    pub objective: Objective,
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Mars { non_idling: bool },
    Mares { non_idling: bool },
    Rule { rule: Rule, non_idling: bool },
    TMars(Intervals),
    Search,
}

const fn jobs(name: &'static str, how: How) -> Algorithm {
    Algorithm {
        name,
        objective: Objective::Jobs,
        how,
    }
}

const fn tasks(name: &'static str, how: How) -> Algorithm {
    Algorithm {
        name,
        objective: Objective::Tasks,
        how,
    }
}

const fn rule(rule: Rule, non_idling: bool) -> How {
    How::Rule { rule, non_idling }
}

/// Every algorithm: first those for the completion times of jobs, then those for tasks.
pub const ALGORITHMS: [Algorithm; 16] = [
    jobs("mars", How::Mars { non_idling: false }),
    jobs("mares", How::Mares { non_idling: false }),
    jobs("huwf", rule(Rule::HighUnitWeightFirst, false)),
    jobs("hjwf", rule(Rule::HighJobWeightFirst, false)),
    jobs("mars-non-idling", How::Mars { non_idling: true }),
    jobs("mares-non-idling", How::Mares { non_idling: true }),
    jobs("huwf-non-idling", rule(Rule::HighUnitWeightFirst, true)),
    jobs("hjwf-non-idling", rule(Rule::HighJobWeightFirst, true)),
    jobs("lp-search", How::Search),
    tasks("t-mars", How::TMars(Intervals::Opening)),
    tasks("t-mars-in-order", How::TMars(Intervals::InOrder)),
    tasks("t-mars-non-idling", How::TMars(Intervals::NonIdling)),
    tasks("h-mares", How::Mares { non_idling: false }),
    tasks("h-mares-non-idling", How::Mares { non_idling: true }),
    tasks("stf", rule(Rule::ShortestTaskFirst, true)),
    tasks("htwf", rule(Rule::HighTaskWeightFirst, true)),
];

impl Algorithm {
    /// Returns the algorithm with this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        let mut all = ALGORITHMS.into_iter();
        all.find(|algorithm| algorithm.name == name)
    }

    /// Returns the linear programme whose optimum is a lower bound on the objective of every
    /// schedule. Its constraints on sets of tasks are equation (4) of Ling et al. for the objective
    /// of jobs, and their equation (13) for the objective of tasks.
    #[must_use]
    pub fn relaxation(instance: &Instance, objective: Objective) -> Relaxation<'_> {
        let inequality = match objective {
            Objective::Jobs => Inequality::StartTimes,
            Objective::Tasks => Inequality::CompletionTimes,
        };
        Relaxation {
            inequality,
            ..Relaxation::msjo(instance, objective)
        }
    }

    /// Returns the lower bound that COGE (constraint generation) finds for [`Self::relaxation`]
    /// with the relative precision `eps`.
    ///
    /// # Errors
    /// As [`Relaxation::coge`].
    pub fn bound(instance: &Instance, objective: Objective, eps: f64) -> Result<Bound, LpError> {
        Self::relaxation(instance, objective).coge(eps)
    }

    /// Returns the schedule of this algorithm. `bound` must be the result of [`Self::bound`] for
    /// the same objective and `eps`, the relative precision. The MARES algorithms solve another
    /// linear programme to the same precision. `search` limits the local search of the algorithm
    /// `lp-search`.
    ///
    /// # Errors
    /// As [`Relaxation::coge`].
    pub fn schedule(
        self,
        instance: &Instance,
        bound: &Bound,
        eps: f64,
        search: Search,
    ) -> Result<Schedule, LpError> {
        Ok(match self.how {
            How::Mars { non_idling: false } => mars_of(instance, bound),
            How::Mars { non_idling: true } => {
                let middle_s = middle_s(instance, &bound.start_s);
                non_idling(instance, &ranks(instance, |at| middle_s[at]))
            }
            How::Mares { non_idling } => mares(instance, self.objective, eps, non_idling)?.0,
            How::Rule {
                rule,
                non_idling: true,
            } => rule.non_idling(instance),
            How::Rule {
                rule,
                non_idling: false,
            } => rule.planned(instance),
            How::TMars(intervals) => t_mars_of(instance, &bound.start_s, intervals),
            How::Search => search.schedule(instance, bound),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<_> = ALGORITHMS.iter().map(|algorithm| algorithm.name).collect();
        assert_eq!(names.len(), ALGORITHMS.len());
        let stf = Algorithm::by_name("stf").unwrap();
        assert_eq!((stf.name, stf.objective), ("stf", Objective::Tasks));
        assert_eq!(Algorithm::by_name("lottery"), None);
    }
}
