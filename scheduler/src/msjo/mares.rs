//! MARES and H-MARES: tasks are assigned to machines first, and ordered on each by a
//! linear programme.
//!
//! After F. Chen, M. Kodialam and T. V. Lakshman, *Joint scheduling of processing and
//! shuffle phases in MapReduce systems* (INFOCOM 2012), with the assignment by workload
//! that Ling et al. give it.

use super::instance::Instance;
use super::list::{in_order_on, non_idling_on};
use super::order::{by_key, ranks};
use super::relaxation::{Bound, Inequality, Pool, Relaxation};
use super::schedule::{Objective, Schedule};
use crate::lp::LpError;
use crate::model::NodeId;

/// Assigns tasks in job order, each to the machine with the least work so far (of several,
/// the lowest number). Returns the machine of each task.
#[must_use]
pub fn by_workload(instance: &Instance) -> Vec<NodeId> {
    let mut work_s = vec![0.0; instance.machines()];
    let nodes = instance.tasks.iter().map(|task| {
        let least = (0..work_s.len())
            .min_by(|&a, &b| f64::total_cmp(&work_s[a], &work_s[b]))
            .expect("an instance has machines");
        work_s[least] += task.length_s;
        NodeId(least as u32)
    });
    nodes.collect()
}

/// Returns the relaxed problem for tasks that are assigned to machines by `node`: the constraints
/// hold for each machine on its own, instead of for all machines together.
#[must_use]
pub fn assigned<'a>(
    instance: &'a Instance,
    objective: Objective,
    node: &[NodeId],
) -> Relaxation<'a> {
    let mut pools = vec![
        Pool {
            tasks: Vec::new(),
            machines: 1,
        };
        instance.machines()
    ];
    for (task, node) in node.iter().enumerate() {
        pools[node.0 as usize].tasks.push(task);
    }
    pools.retain(|pool| !pool.tasks.is_empty());
    Relaxation {
        instance,
        objective,
        pools,
        inequality: Inequality::StartTimes,
    }
}

/// Returns a schedule, and a lower bound that holds only for schedules with the same assignment of
/// tasks to machines.
///
/// Tasks are assigned to machines first, by [`by_workload`]. Then each machine runs its tasks in
/// the order of the solution of a linear programme. For [`Objective::Tasks`] this is the order by
/// completion, as Ling et al. print it (the algorithm H-MARES); for [`Objective::Jobs`] it is the
/// order by middle time, as in the algorithm MarS (MARES). A task waits only for its release and
/// for the maps of its job. While the next task has to wait, the machine idles, as published; with
/// `non_idling` it runs a later task that may start.
///
/// # Errors
/// As [`Relaxation::coge`].
pub fn mares(
    instance: &Instance,
    objective: Objective,
    eps: f64,
    non_idling: bool,
) -> Result<(Schedule, Bound), LpError> {
    let node = by_workload(instance);
    let bound = assigned(instance, objective, &node).coge(eps)?;
    let part = match objective {
        Objective::Jobs => 0.5,
        Objective::Tasks => 1.0,
    };
    let key: Vec<f64> = (instance.tasks.iter().zip(&bound.start_s))
        .map(|(task, start_s)| start_s + part * task.length_s)
        .collect();
    let schedule = if non_idling {
        non_idling_on(instance, &ranks(instance, |at| key[at]), &node)
    } else {
        in_order_on(instance, &by_key(instance, &key), &node)
    };
    Ok((schedule, bound))
}

#[cfg(test)]
mod tests {
    use super::super::example::{
        NON_IDLING_STARTS_S, WAITING_STARTS_S, job, long_map_beside_a_delay,
    };
    use super::*;

    /// Two machines. Job 0, weight 1: maps of 4 s and 1 s, a reduce of 2 s, no delays. Job 1,
    /// weight 10: a map of 3 s.
    ///
    /// Each task in turn is assigned to the machine with the least work so far: the map of 4 s to
    /// the first machine; the map of 1 s, the reduce and job 1's map to the second, which has 3 s
    /// of work when the last one is assigned, less than the first one's 4 s.
    ///
    /// Then each machine orders its tasks. Job 1 has the largest weight, so its map runs first on
    /// the second machine, from 0 to 3. Job 0's map of 1 s follows, and at 4 its reduce, when the
    /// map of 4 s has ended too.
    #[test]
    fn work_is_assigned_first_and_ordered_afterwards() {
        let jobs = vec![
            job(0, 0.0, 1.0, &[(4.0, 0.0), (1.0, 0.0)], &[2.0]),
            job(1, 0.0, 10.0, &[(3.0, 0.0)], &[]),
        ];
        let instance = Instance::new(2, jobs).unwrap();
        assert_eq!(by_workload(&instance), [0, 1, 1, 1].map(NodeId));
        let (schedule, bound) = mares(&instance, Objective::Jobs, 0.0, false).unwrap();
        assert_eq!(schedule.start_s, [0.0, 3.0, 4.0, 0.0]);
        assert_eq!(schedule.value(&instance, Objective::Jobs), 36.0);
        assert!(bound.value <= 36.0 + 1e-4 && bound.all_hold);
    }

    /// H-MARES, two machines, maps only. The map of 4 s is assigned to the first machine;
    /// those of 1, 2 and 3 s, with weights of 1, 8 and 6, to the second. There they run in
    /// the order of weight per second: the map of 2 s at 0..2, that of 3 s at 2..5, that of
    /// 1 s at 5..6. 4 + 8 * 2 + 6 * 5 + 6 = 56, which the relaxation of one machine
    /// attains.
    #[test]
    fn h_mares_orders_tasks_by_their_own_weights() {
        let mut jobs = vec![
            job(0, 0.0, 1.0, &[(4.0, 0.0), (1.0, 0.0)], &[]),
            job(1, 0.0, 1.0, &[(2.0, 0.0), (3.0, 0.0)], &[]),
        ];
        jobs[1].maps[0].weight = 8.0;
        jobs[1].maps[1].weight = 6.0;
        let instance = Instance::new(2, jobs).unwrap();
        let (schedule, bound) = mares(&instance, Objective::Tasks, 0.0, false).unwrap();
        assert_eq!(schedule.node, [0, 1, 1, 1].map(NodeId));
        assert_eq!(schedule.start_s, [0.0, 5.0, 0.0, 2.0]);
        assert_eq!(schedule.value(&instance, Objective::Tasks), 56.0);
        assert!((bound.value - 56.0).abs() < 1e-2, "{bound:?}");
    }

    #[test]
    fn machines_wait_as_published_and_their_twins_do_not() {
        let instance = long_map_beside_a_delay();
        for objective in [Objective::Jobs, Objective::Tasks] {
            let starts = |non_idling| {
                let (schedule, _) = mares(&instance, objective, 0.0, non_idling).unwrap();
                schedule.start_s
            };
            assert_eq!(starts(false), WAITING_STARTS_S, "{objective:?}");
            assert_eq!(starts(true), NON_IDLING_STARTS_S, "{objective:?}");
        }
    }
}
