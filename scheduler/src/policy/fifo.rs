//! First in, first out: the default of Hadoop, without goals or forecast.

use super::decision::Measure;
use super::draft::{Draft, Scope};
use super::view::ClusterView;
use super::{Decision, Policy};
use crate::model::TaskKind;

/// Serves jobs in order of submission; each takes every slot that it can use before the next one
/// gets any. Goals make no difference.
///
/// Within a job maps go before reduces, so that reduces that wait for maps never take the capacity
/// that these maps need.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo;

impl Policy for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn decide(&self, view: &ClusterView) -> Decision {
        let mut draft = Draft::new(Scope::all(view, Measure::Slots));
        for job in view.by_age(|_| true) {
            if draft.is_full() {
                break;
            }
            for kind in [TaskKind::Map, TaskKind::Reduce] {
                let usable = view.usable(&view.jobs[job], kind);
                while draft.slots(job, kind) < usable && draft.add(job, kind) {}
            }
        }
        draft.carry_out().into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::{slots, three_goals, view};
    use super::*;

    /// Jobs are submitted in the order 3, 2, 1, with 20, 12 and 7 maps.
    #[test]
    fn everything_goes_to_the_oldest_job_first() {
        let decide = |room| slots(&Fifo.decide(&view(room, 400.0, three_goals())), 3);
        assert_eq!(decide(4), [0, 0, 4]);
        assert_eq!(decide(34), [2, 12, 20]);
    }
}
