//! All policies of the queueing model by name, with the source of each.

use super::c_mu::CMu;
use super::cluster::ModelError;
use super::discipline::Discipline;
#[cfg(feature = "lp")]
use super::fluid::Fluid;
use super::jsq_maxweight::Common;
use super::late_binding::LateBinding;
use super::naive_fair::NaiveFair;
use super::node_queues::{NodeQueues, Rule};
use super::traffic::Model;
use super::weighted_workload::WeightedWorkload;
use serde::Serialize;

/// A policy of the queueing model.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct QueueingPolicy {
    /// The name that [`queueing_policy`] accepts.
    pub name: &'static str,
    /// Paper and section that define the policy.
    pub paper: &'static str,
    /// The policy in one sentence.
    pub summary: &'static str,
    /// True if the policy uses the arrival rates, which exist only in a model.
    pub knows_rates: bool,
    #[serde(skip)]
    pub(super) build: fn(&Model) -> Result<Box<dyn Discipline>, ModelError>,
}

impl QueueingPolicy {
    /// Returns the policy with empty queues. Only `fluid` uses more of `model` than its cluster.
    ///
    /// # Errors
    /// If `model` is invalid, or if `fluid` finds no plan for it.
    pub fn build(&self, model: &Model) -> Result<Box<dyn Discipline>, ModelError> {
        model.check()?;
        (self.build)(model)
    }
}

/// The policies of the queueing model, in the order in which the command line lists them.
pub const QUEUEING_POLICIES: &[QueueingPolicy] = &[
    QueueingPolicy {
        name: "naive-fair",
        paper: "Zaharia et al. 2010, section 3.1; Wang et al. 2013, section V (baseline)",
        summary: "The job with the fewest running tasks; a local task of it if there is one.",
        knows_rates: false,
        build: |_| Ok(Box::new(NaiveFair::new())),
    },
    QueueingPolicy {
        name: "jsq-maxweight-common",
        paper: "Wang et al. 2013, section II",
        summary: "A queue per node and a common one for remote tasks; the shortest, then MaxWeight.",
        knows_rates: false,
        build: |model| Ok(Box::new(Common::new(model.cluster))),
    },
    QueueingPolicy {
        name: "jsq-maxweight",
        paper: "Kavousi 2017, sections IV-A and V-A, equations 4 and 5",
        summary: "A queue per node; the shortest local one, then MaxWeight over all queues.",
        knows_rates: false,
        build: |model| Ok(Box::new(NodeQueues::new(model.cluster, Rule::MaxWeight))),
    },
    QueueingPolicy {
        name: "pandas",
        paper: "Xie and Lu 2015; Kavousi 2017, section IV-B",
        summary: "The own queue first; an empty one helps the longest if that is long enough.",
        knows_rates: false,
        build: |model| Ok(Box::new(NodeQueues::new(model.cluster, Rule::Pandas))),
    },
    QueueingPolicy {
        name: "pandas-rack",
        paper: "Pandas for three levels; no publication",
        summary: "As pandas, but helps the longest queue of its rack before that of the cluster.",
        knows_rates: false,
        build: |model| Ok(Box::new(NodeQueues::new(model.cluster, Rule::PandasRack))),
    },
    QueueingPolicy {
        name: "weighted-workload",
        paper: "Xie, Yekkehkhany and Lu 2016; Kavousi 2017, section V-B, equations 6 and 7",
        summary: "The least workload for the rate there; then local, rack-local, remote tasks.",
        knows_rates: false,
        build: |model| Ok(Box::new(WeightedWorkload::new(model.cluster))),
    },
    QueueingPolicy {
        name: "c-mu",
        paper: "Mandelbaum and Stolyar 2004; Kavousi 2017, section III-B, equation 2",
        summary: "A queue per set of replicas; the largest marginal cost times rate, cost Q squared.",
        knows_rates: false,
        build: |model| Ok(Box::new(CMu::new(model.cluster))),
    },
    QueueingPolicy {
        name: "late-binding",
        paper: "ebb",
        summary: "A task waits at all of its local nodes; others help by MaxWeight where it gains.",
        knows_rates: false,
        build: |model| Ok(Box::new(LateBinding::new(model.cluster))),
    },
    #[cfg(feature = "lp")]
    QueueingPolicy {
        name: "fluid",
        paper: "Harrison and Lopez 1999; Kavousi 2017, section III-A",
        summary: "Plans by a linear programme of the arrival rates; serves basic activities only.",
        knows_rates: true,
        build: |model| Ok(Box::new(Fluid::new(model)?)),
    },
];

/// Returns the policy called `name`, if there is one.
#[must_use]
pub fn queueing_policy(name: &str) -> Option<&'static QueueingPolicy> {
    QUEUEING_POLICIES.iter().find(|policy| policy.name == name)
}
