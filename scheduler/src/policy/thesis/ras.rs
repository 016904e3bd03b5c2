//! The Resource-aware Adaptive Scheduler (RAS) of chapter 4. It uses goals and resources, but no
//! forecast.

use super::placement::{Need, place_by_utility};
use super::utility::map_utility;
use crate::policy::view::ClusterView;
use crate::policy::workload::{Workload, required_slots};
use crate::policy::{Decision, Measure, Policy};

/// Gives one slot at a time to the job with the lowest utility, which measures how far its slots
/// satisfy its goal: the thesis's Algorithm 1, with equations (5) to (7). Slots have no type: each
/// is as large as the resource profile of its job, equation (10).
///
/// RAS expects the resources of the coming cycle to last, so it may start work too late that has to
/// be done before f(t), the available capacity, falls. Jobs without a goal get the slots that no
/// goal needs, the oldest first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ras;

impl Policy for Ras {
    fn name(&self) -> &'static str {
        "ras"
    }

    fn measure(&self) -> Measure {
        Measure::Resources
    }

    fn decide(&self, view: &ClusterView) -> Decision {
        let needs: Vec<Need> = (view.jobs.iter().zip(Workload::all(view)))
            .map(|(job, workload)| {
                let cap = f64::from(workload.left);
                let s_req = job.job.goal_s.map_or(0.0, |goal_s| {
                    required_slots(workload.work_s(), goal_s, workload.tail_s, view.now_s, cap)
                });
                Need {
                    workload,
                    s_fit: 0.0,
                    s_req,
                }
            })
            .collect();
        place_by_utility(view, &needs, |need, slots| {
            map_utility(slots, need.s_req, f64::from(need.workload.left))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{JobId, NodeId, Resources};
    use crate::policy::example::{job, running_map, slots, three_goals, view};

    /// Three jobs share four slots. To meet their goals, they need 70/30, 120/50 and 200/90 slots
    /// (seconds of work over seconds until the last task must start): between 2 and 3 each. The
    /// utility of a job, which measures whether its slots suffice, is minus infinity without a slot
    /// and -1 with one, so each job gets one. The fourth slot goes to the job with the earliest
    /// goal.
    #[test]
    fn ras_balances_without_the_forecast() {
        let decision = Ras.decide(&view(4, 400.0, three_goals()));
        assert_eq!(slots(&decision, 3), [2, 1, 1]);
    }

    /// Two nodes with an I/O capacity of 100 each run three maps of J1, which take 20 each. A map
    /// of J2 takes 45 and does not fit into the free 40. It would fit on an empty node, so J2 gets
    /// a slot all the same: on one node J1 loses slots, and their maps run until they end.
    #[test]
    fn a_large_task_gets_room_where_small_ones_follow_each_other() {
        let sized = |id: u64, maps: u32, cpu_hundredths: u32, io_bytes_per_s: u64| {
            let mut job = job(id, 0.0, Some(400.0), maps);
            job.profile.map.demand = Resources {
                cpu_hundredths,
                io_bytes_per_s,
                memory_bytes: 0,
            };
            job
        };
        let mut small = sized(1, 60, 25, 20);
        small.running = (0..6)
            .map(|index| running_map(index, index % 2, 0.0))
            .collect();
        let mut view = view(1, 200.0, vec![small, sized(2, 6, 30, 45)]);
        view.nodes[0].capacity.io_bytes_per_s = 100;
        view.nodes.push(view.nodes[0]);
        view.nodes[1].id = NodeId(1);
        let decision = Ras.decide(&view);
        assert!(decision.placement.slots(JobId(2)) >= 1, "{decision:?}");
        assert!(decision.placement.slots(JobId(1)) >= 4, "{decision:?}");
    }
}
