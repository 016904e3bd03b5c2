//! The Resource-aware Adaptive Scheduler (RAS) of chapter 4: goals, but no
//! forecast.

use super::Policy;
use super::matrix::Placement;
use super::placement::{Need, place_by_utility};
use super::utility::map_utility;
use super::view::ClusterView;
use super::workload::{Workload, required_slots};

/// Algorithm 1 with the utility of equations (5)-(7).
///
/// It expects the resources of the coming cycle to stay as they are, and so
/// starts too late what has to be done before an ebb ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceAware;

impl Policy for ResourceAware {
    fn name(&self) -> &'static str {
        "resource-aware"
    }

    fn decide(&self, view: &ClusterView) -> Placement {
        let needs: Vec<Need> = (view.jobs.iter())
            .map(|job| {
                let workload = Workload::of(view, job);
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
