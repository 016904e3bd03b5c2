//! First in, first out: Hadoop's default, blind to goals and to the forecast.

use super::Policy;
use super::matrix::Placement;
use super::placement::Placer;
use super::view::{ClusterView, JobView, ReduceStart};
use crate::model::TaskKind;

/// Jobs in order of submission; each takes every slot it can use before the
/// next one gets any.
///
/// Within a job maps go before reduces, so that reduces waiting for maps never
/// keep those from running.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo;

impl Policy for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn decide(&self, view: &ClusterView) -> Placement {
        let mut placer = Placer::new(view);
        let mut jobs: Vec<&JobView> = view.jobs.iter().collect();
        jobs.sort_by(|a, b| {
            (a.job.submitted_s.total_cmp(&b.job.submitted_s)).then(a.job.id.cmp(&b.job.id))
        });
        for job in jobs {
            for kind in [TaskKind::Map, TaskKind::Reduce] {
                let too_early = kind == TaskKind::Reduce
                    && view.reduce_start == ReduceStart::AfterMaps
                    && job.left(TaskKind::Map) > 0;
                if too_early {
                    continue;
                }
                while placer.placed(job, kind) < job.left(kind) && placer.place(job, kind) {}
            }
        }
        placer.finish()
    }
}
