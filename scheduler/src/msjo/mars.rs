//! MarS (Algorithm 2): the relaxation's order, task by task.

use super::instance::Instance;
use super::list::in_order;
use super::order::by_key;
use super::relaxation::{Bound, Relaxation};
use super::schedule::{Objective, Schedule};
use crate::lp::LpError;

/// The relative precision (eps) that Ling et al. settle on: the search for the lower bound stops
/// once the bound is at least 1 - eps times an upper bound on the optimum of the relaxation.
pub const EPS: f64 = 0.3;

/// Returns the middle finish time S + p/2 of each task, in seconds, if it starts at `start_s`.
pub(super) fn middle_s(instance: &Instance, start_s: &[f64]) -> Vec<f64> {
    let middles = instance.tasks.iter().zip(start_s);
    middles
        .map(|(task, start_s)| start_s + task.length_s / 2.0)
        .collect()
}

/// Returns the schedule of MarS: tasks start in the order of their middle times (start plus half
/// the length) in the relaxed solution `bound`.
///
/// Theorem 3 of Ling et al.: if in every job no map is longer than a reduce, and
/// [`Bound::all_hold`] is true, the value of the schedule is at most 3 times the bound. If the
/// solution violates constraints, because COGE stopped early, the proof raises the start times until
/// none is violated. The order stays the same, and the factor becomes 3 / (1 - eps).
#[must_use]
pub fn mars_of(instance: &Instance, bound: &Bound) -> Schedule {
    in_order(
        instance,
        &by_key(instance, &middle_s(instance, &bound.start_s)),
    )
}

/// Returns the schedule of MarS, and a lower bound on the objective of any schedule. Both come from
/// a linear programme that is solved by constraint generation to the relative precision `eps`; see
/// [`Relaxation::coge`].
///
/// # Errors
/// As [`Relaxation::coge`].
pub fn mars(
    instance: &Instance,
    objective: Objective,
    eps: f64,
) -> Result<(Schedule, Bound), LpError> {
    let bound = Relaxation::msjo(instance, objective).coge(eps)?;
    Ok((mars_of(instance, &bound), bound))
}

#[cfg(test)]
mod tests {
    use super::super::algorithm::Algorithm;
    use super::super::example::{
        NON_IDLING_STARTS_S, WAITING_STARTS_S, figure_1, job, long_map_beside_a_delay,
    };
    use super::super::instance::JobSpec;
    use super::super::search::Search;
    use super::super::semi_online::semi_online;
    use super::*;

    /// The schedule in figure 1 (b) of Ling et al.: the map of job 2, which has less work than job
    /// 1, is among the first three maps, and its reduce runs from 75 s to 175 s. Job 1 has maps
    /// until 150 s and ends at 250 s, no later than under FIFO in figure 1 (a).
    #[test]
    fn figure_1_b() {
        let instance = figure_1();
        let (schedule, bound) = mars(&instance, Objective::Jobs, 0.0).unwrap();
        assert_eq!(schedule.check(&instance), Ok(()));
        assert_eq!(schedule.completion_s(&instance, 1), 175.0);
        assert_eq!(schedule.completion_s(&instance, 0), 250.0);
        assert!(bound.value <= 425.0 * (1.0 + 1e-6));
    }

    #[test]
    fn nothing_to_schedule_is_no_error() {
        let instance = Instance::new(2, Vec::<JobSpec>::new()).unwrap();
        let (schedule, bound) = mars(&instance, Objective::Jobs, EPS).unwrap();
        assert!(schedule.start_s.is_empty());
        assert_eq!(bound.value, 0.0);
    }

    #[test]
    fn mars_waits_and_its_twin_does_not() {
        let instance = long_map_beside_a_delay();
        let (schedule, bound) = mars(&instance, Objective::Jobs, 0.0).unwrap();
        assert!(
            (bound.value - (10.0 * 5.0 + 9.625)).abs() < 1e-2,
            "{bound:?}"
        );
        assert_eq!(schedule.start_s, WAITING_STARTS_S);
        assert_eq!(schedule.value(&instance, Objective::Jobs), 63.0);
        let twin = Algorithm::by_name("mars-non-idling").unwrap();
        let schedule = twin.schedule(&instance, &bound, 0.0, Search::default());
        assert_eq!(schedule.unwrap().start_s, NON_IDLING_STARTS_S);
    }

    /// The semi-online SO-MarS, on one machine, plans at the end of each interval of 10 s. At 10 s
    /// it plans job 1 (weight 9, 1 s) for 10..11, then job 0 (weight 1), the longer map first, for
    /// 11..20 and 20..25. At 20 s it also knows job 2 (weight 9, 2 s), and job 0's map of 5 s has
    /// not started: job 2 gets 20..22, and the map 22..27.
    #[test]
    fn so_mars_plans_again_what_has_not_started() {
        let jobs = vec![
            job(0, 0.0, 1.0, &[(5.0, 0.0), (9.0, 0.0)], &[]),
            job(1, 3.0, 9.0, &[(1.0, 0.0)], &[]),
            job(2, 12.0, 9.0, &[(2.0, 0.0)], &[]),
        ];
        let instance = Instance::new(1, jobs).unwrap();
        let plan = |rest: &Instance| Ok::<_, LpError>(mars(rest, Objective::Jobs, 0.0)?.0);
        let schedule = semi_online(&instance, 10.0, plan).unwrap();
        assert_eq!(schedule.start_s, [22.0, 11.0, 10.0, 20.0]);
        assert_eq!(
            schedule.value(&instance, Objective::Jobs),
            27.0 + 99.0 + 198.0
        );
    }
}
