//! T-MarS (Algorithm 3): for the weighted completion times of tasks.

use super::instance::Instance;
use super::list::{in_order, non_idling};
use super::mars::middle_s;
use super::order::{by_key, ranks};
use super::schedule::Schedule;

/// The rule that decides from when the tasks of an interval may start. T-MarS divides time into the
/// intervals (2^(n-2), 2^(n-1)] seconds; a task belongs to the one in which it ends in the
/// relaxation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intervals {
    /// The algorithm as Ling et al. print it: no task of an interval starts before the interval's
    /// opening time, and all machines idle until then. It does not reach the ratios that they
    /// publish.
    Opening,
    /// Machines take the tasks of earlier intervals first, without waiting for an interval's
    /// opening time. A free machine idles until the next task in this order may start.
    InOrder,
    /// Machines take, of the tasks that may start, the first in the order of the intervals, so that
    /// none idles while there is one.
    NonIdling,
}

/// Returns the number n of the interval (2^(n-2), 2^(n-1)] seconds that a time lies in; 1 for all
/// times up to 1 s.
fn interval(end_s: f64) -> usize {
    // Completions carry the solver's error; one that is a hair too late is in time.
    1 + (end_s * (1.0 - 1e-7)).log2().ceil().max(0.0) as usize
}

/// Returns the schedule of T-MarS, the algorithm of Ling et al. for weighted completion times of
/// tasks. `start_s` are the start times from the linear programme with their equation (13), in the
/// order of the tasks. The tasks are divided into the intervals (2^(n-2), 2^(n-1)] seconds by their
/// end in that solution. They are scheduled interval by interval, and within an interval by their
/// middle finish time (start plus half the length). If maps have delays, reduces wait for them.
#[must_use]
pub fn t_mars_of(instance: &Instance, start_s: &[f64], intervals: Intervals) -> Schedule {
    let ends_s = instance.tasks.iter().zip(start_s);
    let number: Vec<usize> = ends_s
        .map(|(task, start_s)| interval(start_s + task.length_s))
        .collect();
    let middle_s = middle_s(instance, start_s);
    let mut order = by_key(instance, &middle_s);
    order.sort_by_key(|&at| number[at]);
    match intervals {
        Intervals::InOrder => in_order(instance, &order),
        Intervals::NonIdling => {
            let mut place = vec![0.0; order.len()];
            for (rank, &at) in order.iter().enumerate() {
                place[at] = rank as f64;
            }
            non_idling(instance, &ranks(instance, |at| place[at]))
        }
        Intervals::Opening => {
            let opens_s = openings_s(instance, &number);
            let mut late = instance.clone();
            for (task, &number) in late.tasks.iter_mut().zip(&number) {
                task.released_s = task.released_s.max(opens_s[number - 1]);
            }
            in_order(&late, &order)
        }
    }
}

/// Returns the opening time of each interval, in seconds: the time from which its tasks may start.
/// It is 1 plus, for each earlier interval, the interval's upper bound 2^(n-1) and the total length
/// of its tasks divided by the number of machines. `number[task]` is the number n of the task's
/// interval, from 1: the interval in which the task ends in the linear programme.
fn openings_s(instance: &Instance, number: &[usize]) -> Vec<f64> {
    let last = number.iter().copied().max().unwrap_or(0);
    let mut work_s = vec![0.0; last + 1];
    for (task, &number) in instance.tasks.iter().zip(number) {
        work_s[number] += task.length_s;
    }
    let mut opens_s = vec![1.0];
    for (before, work_s) in work_s.iter().enumerate().skip(1) {
        let end_s = 2.0_f64.powi(before as i32 - 1);
        opens_s.push(opens_s[before - 1] + end_s + work_s / instance.machines() as f64);
    }
    opens_s
}

#[cfg(test)]
mod tests {
    use super::super::example::job;
    use super::super::relaxation::{Inequality, Relaxation};
    use super::super::schedule::Objective;
    use super::*;

    #[test]
    fn intervals_double() {
        let numbers = [0.5, 1.0, 1.5, 2.0, 2.1, 4.0, 4.1].map(interval);
        assert_eq!(numbers, [1, 1, 2, 2, 3, 3, 4]);
    }

    /// One machine; a map of 2 s with a reduce of 1 s, and another map of 4 s. In the relaxation
    /// they end at 2, 3 and 7 s, so they belong to the intervals (1, 2], (2, 4] and (4, 8]. The
    /// first interval, (0, 1], opens at 1 s and has no work. Each later interval opens after the
    /// one before it, later by the end of that interval plus its work: at 1 + 1 = 2 s, 2 + 2 + 2 =
    /// 6 s and 6 + 4 + 1 = 11 s.
    #[test]
    fn as_printed_machines_wait_until_intervals_open() {
        let jobs = vec![
            job(0, 0.0, 1.0, &[(2.0, 0.0)], &[1.0]),
            job(1, 0.0, 1.0, &[(4.0, 0.0)], &[]),
        ];
        let instance = Instance::new(1, jobs).unwrap();
        let starts = |intervals| t_mars_of(&instance, &[0.0, 2.0, 3.0], intervals).start_s;
        assert_eq!(starts(Intervals::Opening), [2.0, 6.0, 11.0]);
        assert_eq!(starts(Intervals::InOrder), [0.0, 2.0, 3.0]);
        // With one machine, the order of the relaxation is optimal.
        let relaxation = Relaxation {
            inequality: Inequality::CompletionTimes,
            ..Relaxation::msjo(&instance, Objective::Tasks)
        };
        let bound = relaxation.coge(0.0).unwrap();
        let schedule = t_mars_of(&instance, &bound.start_s, Intervals::InOrder);
        assert_eq!(schedule.value(&instance, Objective::Tasks), 12.0);
        assert!((bound.value - 12.0).abs() < 1e-3, "{bound:?}");
    }

    /// The first job's reduce has to wait from 1 s to 4 s for the map's output. In order, the
    /// machine idles until then; without idling, it runs the other job's map.
    #[test]
    fn non_idling_lets_others_go_first() {
        let jobs = vec![
            job(0, 0.0, 1.0, &[(1.0, 3.0)], &[1.0]),
            job(1, 0.0, 1.0, &[(3.0, 0.0)], &[]),
        ];
        let instance = Instance::new(1, jobs).unwrap();
        let starts = |intervals| t_mars_of(&instance, &[0.0, 4.0, 5.0], intervals).start_s;
        assert_eq!(starts(Intervals::InOrder), [0.0, 4.0, 5.0]);
        assert_eq!(starts(Intervals::NonIdling), [0.0, 4.0, 1.0]);
    }
}
