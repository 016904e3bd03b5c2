//! MarS (Algorithm 2): the relaxation's order, task by task.

use super::instance::Instance;
use super::list::in_order;
use super::order::by_key;
use super::relaxation::{Bound, Relaxation};
use super::schedule::{Objective, Schedule};
use crate::lp::LpError;

/// The stop threshold eps that the paper settles on.
pub const EPS: f64 = 0.3;

/// The middle finish times S + p/2 of a solution, in seconds.
pub(super) fn middle_s(instance: &Instance, start_s: &[f64]) -> Vec<f64> {
    let middles = instance.tasks.iter().zip(start_s);
    middles
        .map(|(task, start_s)| start_s + task.length_s / 2.0)
        .collect()
}

/// Schedules in the order of the middle finish times of `bound`.
///
/// Theorem 3: where [`Instance::maps_are_shorter`] and [`Bound::all_hold`], the schedule is
/// at most 3 times as bad as the bound. Where COGE stopped early, the no-violation solution
/// takes the place of the relaxation's: it has the same order and satisfies all that the
/// proof asks for, so that the factor is 3 / (1 - eps).
#[must_use]
pub fn mars_of(instance: &Instance, bound: &Bound) -> Schedule {
    in_order(
        instance,
        &by_key(instance, &middle_s(instance, &bound.start_s)),
    )
}

/// COGE and MarS: the schedule, and what no schedule can do better than.
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
    use super::super::example::figure_1;
    use super::super::instance::JobSpec;
    use super::*;

    /// Figure 1 (b): the map of job 2, whose work is the smaller, is among the first three,
    /// and its reduce runs from 75 s to 175 s. Job 1 has maps until 150 s and ends at 250 s
    /// as before.
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
}
