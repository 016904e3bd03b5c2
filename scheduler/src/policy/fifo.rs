//! First in, first out: the default of Hadoop, without goals or forecast.

use super::view::ClusterView;
use super::weighted::by_key;
use super::{Decision, Policy};

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
        // All keys are equal, so the oldest job comes first, and its maps before its reduces.
        by_key(view, |_, _| 0.0)
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
