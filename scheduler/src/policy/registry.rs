//! All policies by name, with the paper that each comes from.

use super::{
    Adaptive, AdaptiveData, AdaptiveHardware, Delay, Fair, Fifo, ForecastEdf, HighJobWeightFirst,
    HighUnitWeightFirst, Policy, Ras, ReverseAdaptive, ShortestTaskFirst,
};
use serde::Serialize;
use std::sync::Arc;

/// The description of a policy in a listing.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Descriptor {
    /// The name for [`by_name`].
    pub name: &'static str,
    /// Paper, section and equations that define the policy.
    pub paper: &'static str,
    /// One sentence about how the policy shares the cluster.
    pub summary: &'static str,
    #[serde(skip)]
    build: fn() -> Arc<dyn Policy>,
}

/// The policy used when none is named: it misses no more goals than Reverse-Adaptive at any point
/// of the book's experiments (Results: planning against the forecast).
pub const DEFAULT: &str = "forecast-edf";

/// Returns the policy called [`DEFAULT`].
#[must_use]
pub fn default() -> Arc<dyn Policy> {
    by_name(DEFAULT).expect("a test finds it among the entries")
}

const ENTRIES: [Descriptor; 12] = [
    Descriptor {
        name: "fifo",
        paper: "Hadoop's default; Polo 2014, section 5.3.5 (baseline)",
        summary: "Jobs in order of submission; each takes all it can use.",
        build: || Arc::new(Fifo),
    },
    Descriptor {
        name: "fair",
        paper: "Zaharia et al. 2010, section 2; Polo 2014, sections 3.5.3 and 4.3 (baseline)",
        summary: "Every job gets the same share, or one by weight.",
        build: || Arc::new(Fair),
    },
    Descriptor {
        name: "delay",
        paper: "Zaharia et al. 2010, section 4; Polo 2014, section 3.4.2 (baseline)",
        summary: "Fair shares, but a job waits a while for slots near its input.",
        build: || Arc::new(Delay),
    },
    Descriptor {
        name: "adaptive",
        paper: "Polo 2014, section 3.4.1, equation 1",
        summary: "The job that lacks most slots for its goal comes first.",
        build: || Arc::new(Adaptive),
    },
    Descriptor {
        name: "adaptive-data",
        paper: "Polo 2014, section 3.4.2",
        summary: "Like adaptive, but remote tasks wait while the goal allows.",
        build: || Arc::new(AdaptiveData::default()),
    },
    Descriptor {
        name: "adaptive-hardware",
        paper: "Polo 2014, section 3.4.3, equations 2-3",
        summary: "Like adaptive; measures each job on accelerators and gives them to jobs that gain.",
        build: || Arc::new(AdaptiveHardware),
    },
    Descriptor {
        name: "ras",
        paper: "Polo 2014, section 4.2, equations 5-10, Algorithm 1",
        summary: "Balances the jobs' satisfaction with their goals over resources; no forecast.",
        build: || Arc::new(Ras),
    },
    Descriptor {
        name: "reverse-adaptive",
        paper: "Polo 2014, section 5.3, equations 13-19, Algorithms 1 and 2",
        summary: "Plans backwards from the goals against the forecast of free capacity.",
        build: || Arc::new(ReverseAdaptive),
    },
    Descriptor {
        name: "forecast-edf",
        paper: "ebb; Moore 1968 (which jobs to give up)",
        summary: "Keeps the jobs that the forecast can save; of those, the earliest goal first.",
        build: || Arc::new(ForecastEdf),
    },
    Descriptor {
        name: "huwf",
        paper: "Ling et al. 2016, section 5.1.3, without gaps (baseline)",
        summary: "The job whose weight is highest for its work takes all it can use.",
        build: || Arc::new(HighUnitWeightFirst),
    },
    Descriptor {
        name: "hjwf",
        paper: "Ling et al. 2016, section 5.1.3, without gaps (baseline)",
        summary: "The job whose weight is highest takes all it can use.",
        build: || Arc::new(HighJobWeightFirst),
    },
    Descriptor {
        name: "stf",
        paper: "Ling et al. 2016, section 5.1.3 (baseline)",
        summary: "The job whose tasks are shortest takes all it can use.",
        build: || Arc::new(ShortestTaskFirst),
    },
];

/// Returns every policy, in the order of a listing.
#[must_use]
pub fn all() -> Vec<Arc<dyn Policy>> {
    ENTRIES.iter().map(|entry| (entry.build)()).collect()
}

/// Returns the descriptions of all policies, in the order of [`all`].
#[must_use]
pub fn descriptors() -> Vec<Descriptor> {
    ENTRIES.to_vec()
}

/// Returns the policy called `name`, or `None`. `adaptive-data:N` is adaptive-data with N declined
/// slots per task.
#[must_use]
pub fn by_name(name: &str) -> Option<Arc<dyn Policy>> {
    if let Some(delays_max) = name.strip_prefix("adaptive-data:") {
        let delays_max = delays_max.parse().ok()?;
        return Some(Arc::new(AdaptiveData { delays_max }));
    }
    let mut entries = ENTRIES.iter();
    let entry = entries.find(|entry| entry.name == name)?;
    Some((entry.build)())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_found_under_the_name_in_its_description() {
        for (policy, descriptor) in all().iter().zip(descriptors()) {
            assert_eq!(policy.name(), descriptor.name);
            assert_eq!(by_name(descriptor.name).unwrap().name(), descriptor.name);
        }
        assert_eq!(default().name(), DEFAULT);
        assert!(by_name("lottery").is_none());
        assert!(by_name("adaptive-data:1").is_some());
        assert!(by_name("adaptive-data:often").is_none());
    }
}
