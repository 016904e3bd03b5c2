//! The Resource-aware Adaptive Scheduler (RAS) of chapter 4: goals and
//! resources, but no forecast.

use super::adaptive::workloads;
use super::placement::{Need, place_by_utility};
use super::utility::map_utility;
use super::view::ClusterView;
use super::workload::required_slots;
use super::{Decision, Measure, Policy};

/// Algorithm 1 with the utility of equations (5)-(7): job slots instead of typed
/// slots, each as large as its job's profile says (10).
///
/// It expects the resources of the coming cycle to stay as they are, and so
/// starts too late what has to be done before an ebb ends. Jobs without a goal
/// get what the others do not need, the oldest first.
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
        let needs: Vec<Need> = (view.jobs.iter().zip(workloads(view)))
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
    use super::super::example::{slots, three_goals, view};
    use super::*;

    /// s_req = 70/30, 120/50 and 200/90, all between 2 and 3. Everyone is at
    /// minus infinity, gets one slot and stands at -1; the fourth goes to the
    /// earliest goal.
    #[test]
    fn it_balances_without_looking_ahead() {
        let decision = Ras.decide(&view(4, 400.0, three_goals()));
        assert_eq!(slots(&decision, 3), [2, 1, 1]);
    }
}
