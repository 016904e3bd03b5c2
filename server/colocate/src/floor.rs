//! Decides when analytics get a *floor*: a minimum of CPU even while other processes use all cores.
//!
//! ```text
//!   the idle class is enough, or the load holds the CPU ──> Idle
//!   other processes hold the CPU ─┬─ the guard pauses,
//!                                 │  or the objective is in danger ──> Paused
//!                                 └─ otherwise ──> Floor, larger if a goal is in danger
//! ```
//!
//! A thread of the idle class gets next to nothing beside busy threads of other processes, and the
//! governor deducts the CPU time of those from the capacity of analytics. The load is different: it has
//! priority, and while it takes the whole CPU there is no floor.

/// The default of the floor: the cores that analytics get even while other processes use all cores.
pub const FLOOR_CORES: f64 = 0.15;

/// The maximal factor by which the floor, the minimum of CPU beside busy processes, is raised if jobs are
/// in danger of missing their goals.
const RAISED_MAX: f64 = 4.0;

/// The smallest floor (minimum of CPU beside busy processes) that can be set, in cores: jobs get whole
/// hundredths of a core.
pub const FLOOR_CORES_MIN: f64 = 0.01;

/// Analytics in the idle class stay there while they use at least this fraction of the floor, their
/// minimum of CPU while other processes use all cores, or while the whole floor is left to them.
/// The fraction is below 1 because measured use never equals the granted CPU exactly. Analytics
/// outside of the class return to it once 1.25 times the floor is idle: the floor, divided by this
/// fraction.
const ENOUGH_RATIO: f64 = 0.8;

/// Analytics lose the floor, their minimum of CPU beside busy processes, when the load leaves less than
/// this fraction of it.
const LOAD_LEAVES_RATIO_MIN: f64 = 0.5;

/// The cores that the transactional load and analytics use, the cores left to analytics, and those that
/// analytics need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CpuShares {
    /// The cores that load and analytics could use if there were no other processes, with the reserve
    /// deducted.
    pub own: f64,
    /// The cores that the load uses.
    pub load: f64,
    /// The cores that load and other processes leave to analytics.
    pub left: f64,
    /// The cores that analytics use.
    pub analytics: f64,
    /// The cores that analytics need from now on to meet the goals of their jobs.
    pub needed: f64,
}

/// The state of the load's latency objective, as last measured by the latency guard.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ObjectiveState {
    /// True if analytics pause, so that the guard measures the load alone.
    pub is_pausing: bool,
    /// True if the load misses its objective, or is about to.
    pub is_in_danger: bool,
    /// The fraction, 0 to 1, that analytics may use of the capacity that the load leaves.
    pub allowed: f64,
}

/// The scheduling class of analytics. They run in the idle class, or on the floor: outside of that class,
/// with a minimum of CPU even while other processes use all cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FloorDecision {
    /// Analytics run in the idle class, on the capacity that is left.
    #[default]
    Idle,
    /// Analytics get no CPU at the moment. Their threads stay outside of the idle class, because some of
    /// them could not leave that class again.
    Paused,
    /// Analytics run on the floor, the minimum that they get beside busy processes: with at most
    /// this many hundredths of a core.
    Floor { hundredths: u32 },
}

impl FloorDecision {
    pub(crate) fn is_on_floor(self) -> bool {
        self != Self::Idle
    }

    /// Returns the cores that the service's own background threads, such as clients' scans, may use
    /// together while analytics get only the floor, a minimum beside busy processes: at most
    /// `floor_cores`, even if goals of jobs raise the floor. `None` while analytics run in the idle
    /// class.
    pub(crate) fn shared_cores(self, floor_cores: f64) -> Option<f64> {
        match self {
            Self::Idle => None,
            Self::Paused => Some(0.0),
            Self::Floor { hundredths } => Some((f64::from(hundredths) / 100.0).min(floor_cores)),
        }
    }

    /// Returns the decision for the next control cycle, after a cycle with the decision `self`. Analytics
    /// run in the idle class if they get enough CPU there, or if the load leaves too little for a floor.
    /// Otherwise they get the floor, a guaranteed CPU share in the ordinary class; or they pause, if the
    /// guard measures the load alone or allows nothing, or if the objective is in danger. `floor_cores`
    /// is the size of the floor unless goals of jobs need more; 0 means none.
    pub(crate) fn next(
        self,
        floor_cores: f64,
        shares: &CpuShares,
        objective: ObjectiveState,
    ) -> Self {
        let beside_load = shares.own - shares.load;
        // The bounds differ by class: a thread that has left the floor cannot always return.
        let (load_leaves_min, in_idle_class) = if self.is_on_floor() {
            // In the idle class, other processes would take the CPU time back that analytics use on the
            // floor.
            let left = shares.left - shares.analytics;
            (floor_cores * LOAD_LEAVES_RATIO_MIN, left * ENOUGH_RATIO)
        } else {
            let used = shares.analytics / ENOUGH_RATIO;
            (floor_cores, shares.left.max(used))
        };
        if floor_cores <= 0.0 || beside_load < load_leaves_min || in_idle_class >= floor_cores {
            return Self::Idle;
        }
        if objective.is_pausing || objective.is_in_danger {
            return Self::Paused;
        }
        let requested = shares.needed.clamp(floor_cores, most_cores(floor_cores));
        let granted = requested.min(beside_load * objective.allowed);
        match (granted * 100.0).round() as u32 {
            0 => Self::Paused,
            hundredths => Self::Floor { hundredths },
        }
    }
}

/// Returns the upper bound of the floor, the guarantee for analytics while other processes use all cores.
/// The floor is `floor_cores`, and is raised up to this bound if jobs are in danger of missing their goals.
/// Analytics get less if the load leaves less, or if the latency guard allows less.
pub(crate) fn most_cores(floor_cores: f64) -> f64 {
    RAISED_MAX * floor_cores
}

#[cfg(test)]
mod tests {
    use super::*;
    use FloorDecision::{Floor, Idle, Paused};

    const FLOOR: FloorDecision = Floor { hundredths: 15 };

    /// Returns the CPU use on two cores with a reserve of 0.1, if the load, other processes and analytics
    /// use this many cores.
    fn shares(load: f64, others: f64, analytics: f64) -> CpuShares {
        CpuShares {
            own: 1.9,
            load,
            left: (1.9 - load - others).max(0.0),
            analytics,
            needed: 0.0,
        }
    }

    fn objective() -> ObjectiveState {
        ObjectiveState {
            is_pausing: false,
            is_in_danger: false,
            allowed: 1.0,
        }
    }

    #[test]
    fn analytics_get_a_floor_where_others_and_not_the_load_hold_the_cpu() {
        for (what, before, [load, others, analytics], expected) in [
            ("nobody uses anything", Idle, [0.0, 0.0, 0.0], Idle),
            ("others hold all", Idle, [0.1, 1.9, 0.0], FLOOR),
            ("the load holds all", Idle, [1.9, 0.1, 0.0], Idle),
            ("the load leaves too little", Idle, [1.8, 0.2, 0.0], Idle),
            ("both hold a half", Idle, [1.0, 1.0, 0.0], FLOOR),
            ("others leave enough", Idle, [0.1, 1.5, 0.0], Idle),
            ("others leave too little", Idle, [0.1, 1.7, 0.0], FLOOR),
            // The kernel gives every session the same share.
            ("the idle class is enough", Idle, [0.1, 1.8, 0.14], Idle),
            ("the idle class is not", Idle, [0.1, 1.85, 0.07], FLOOR),
            ("others hold the rest", FLOOR, [0.1, 1.75, 0.15], FLOOR),
            ("others would take it back", FLOOR, [0.1, 1.6, 0.15], FLOOR),
            ("others have gone", FLOOR, [0.1, 0.0, 0.15], Idle),
            ("a load has come instead", FLOOR, [1.85, 0.05, 0.15], Idle),
        ] {
            let shares = shares(load, others, analytics);
            assert_eq!(before.next(0.15, &shares, objective()), expected, "{what}");
        }
    }

    /// On some systems, a thread that has entered the idle class cannot leave it again for the floor (a
    /// minimum of CPU in the ordinary class). So small variations of the CPU use must not move analytics
    /// between the classes.
    #[test]
    fn analytics_stay_in_their_class_while_the_use_of_the_cpu_varies_a_little() {
        let less = Floor { hundredths: 10 };
        for (before, [load, others, analytics], expected) in [
            // Others, with and without analytics.
            (Idle, [0.1, 1.63, 0.0], Idle),
            (FLOOR, [0.1, 1.63, 0.0], FLOOR),
            (FLOOR, [0.1, 1.48, 0.15], FLOOR),
            (FLOOR, [0.1, 1.45, 0.15], Idle),
            // The load, beside others that use the rest.
            (FLOOR, [1.8, 0.1, 0.1], less),
            (Idle, [1.8, 0.1, 0.1], Idle),
            (less, [1.83, 0.1, 0.07], Idle),
        ] {
            let shares = shares(load, others, analytics);
            let next = before.next(0.15, &shares, objective());
            assert_eq!(next, expected, "{shares:?}");
        }
    }

    /// However much CPU other processes want (0 to 2 cores), the decision changes at most once, and
    /// then stays: the idle class, or the floor, which is the least CPU of analytics beside busy
    /// processes. What analytics get by a decision must not be a reason to reverse it.
    #[test]
    fn analytics_with_their_granted_capacity_settle_in_one_class() {
        for others_wanted in (0..=40).map(|twentieth| f64::from(twentieth) / 20.0) {
            let (mut decision, mut changes) = (Idle, 0);
            for _ in 0..20 {
                // A model of the kernel's scheduler: others come before the idle class.
                let analytics = match decision {
                    Floor { hundredths } => f64::from(hundredths) / 100.0,
                    Idle => (1.8 - others_wanted).max(0.0),
                    Paused => 0.0,
                };
                let others = others_wanted.min(1.9 - analytics);
                let next = decision.next(0.15, &shares(0.1, others, analytics), objective());
                changes += u32::from(next != decision);
                decision = next;
            }
            assert!(changes <= 1, "{changes} changes beside {others_wanted}");
        }
    }

    #[test]
    fn the_objective_of_the_load_comes_first() {
        let held = shares(0.1, 1.9, 0.0);
        let in_danger = ObjectiveState {
            is_in_danger: true,
            ..objective()
        };
        let pausing = ObjectiveState {
            is_pausing: true,
            ..objective()
        };
        let allowing = |allowed| ObjectiveState {
            allowed,
            ..objective()
        };
        for (before, state, expected) in [
            (FLOOR, in_danger, Paused),
            (FLOOR, pausing, Paused),
            (Idle, pausing, Paused),
            (Paused, objective(), FLOOR),
            (FLOOR, allowing(0.5), FLOOR),
            (FLOOR, allowing(0.05), Floor { hundredths: 9 }),
            (FLOOR, allowing(0.0), Paused),
        ] {
            let next = before.next(0.15, &held, state);
            assert_eq!(next, expected, "{state:?}");
        }
        // If no other process holds the CPU, only the governor follows the guard.
        assert_eq!(FLOOR.next(0.15, &shares(0.1, 0.0, 0.0), pausing), Idle);
    }

    #[test]
    fn goals_in_danger_get_more_within_a_bound() {
        for (needed, load, hundredths) in [
            (0.1, 0.1, 15),
            (0.4, 0.1, 40),
            (9.0, 0.1, 60),
            // The load leaves only this much.
            (9.0, 1.5, 40),
        ] {
            let shares = CpuShares {
                needed,
                ..shares(load, 2.0 - load, 0.0)
            };
            let next = Idle.next(0.15, &shares, objective());
            assert_eq!(next, Floor { hundredths }, "{shares:?}");
        }
    }

    #[test]
    fn goals_of_jobs_leave_other_threads_the_usual_floor() {
        let shared = [
            Idle,
            Paused,
            Floor { hundredths: 9 },
            Floor { hundredths: 60 },
        ]
        .map(|decision| decision.shared_cores(0.15));
        assert_eq!(shared, [None, Some(0.0), Some(0.09), Some(0.15)]);
    }

    #[test]
    fn without_a_floor_analytics_stay_in_the_idle_class() {
        assert_eq!(Idle.next(0.0, &shares(0.1, 1.9, 0.0), objective()), Idle);
    }
}
