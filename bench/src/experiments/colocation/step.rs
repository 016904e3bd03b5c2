//! A step of the load, measured in pieces of a tenth of a second.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::args::Extent;
use super::bootstrap::p99_ratio;
use super::counts::Pool;
use super::setup::{BATCH, Load, Setup};
use super::shape::Shape;
use super::trial::{Trial, both};
use super::window::Window;

const FROM: f64 = 0.1;
const TO: f64 = 0.6;
/// The time with the low load, before the load rises. [`AFTER`] is the time with the high load.
const BEFORE: Duration = Duration::from_secs(1);
const AFTER: Duration = Duration::from_secs(1);
const PIECE: Duration = Duration::from_millis(100);
/// After a sudden rise of the load, the latency counts as recovered once it is at most this many
/// times the latency of the load alone.
const BACK: f64 = 1.2;

#[derive(Debug, Clone, Serialize)]
pub struct Step {
    pub from: f64,
    pub to: f64,
    /// The results of each piece of 100 ms after the sudden rise of the load, in order.
    pub windows: Vec<StepWindow>,
    /// The recovery time of the p99 with managed jobs after the rise of the load. The value n means
    /// that the n-th piece of 100 ms and all later ones stay within 1.2 times the p99 of the load
    /// alone, and that the piece before does not; `None` if the last piece does not.
    pub managed_back_in_window: Option<usize>,
    /// The recovery time of the p99 with unmanaged jobs after the rise of the load. The value n
    /// means that the n-th piece of 100 ms and all later ones stay within 1.2 times the p99 of the
    /// load alone, and that the piece before does not; `None` if the last piece does not.
    pub unmanaged_back_in_window: Option<usize>,
    /// The recovery time, as in `managed_back_in_window`, but of a second measurement of the load
    /// alone in place of one with jobs. It shows how much of a recovery time is noise.
    pub alone_again_back_in_window: Option<usize>,
    /// The comparison over all pieces together: the first second after the rise of the load.
    pub trial: Trial,
}

/// The operations that were due in one piece of 100 ms after the rise of the load, over all
/// rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StepWindow {
    pub after_ms: u64,
    pub alone_p99_us: f64,
    pub managed_p99_over_alone: f64,
    pub managed_p99_over_alone_low: f64,
    pub managed_p99_over_alone_high: f64,
    pub unmanaged_p99_over_alone: f64,
    pub alone_again_p99_over_alone: f64,
}

/// Runs a load that suddenly rises, in each round alone and beside jobs, in random order.
pub fn run(setup: &Setup, rounds: u32, interrupted: &AtomicBool) -> Result<Step> {
    let pace = setup.pace(Shape::Step {
        from: FROM,
        to: TO,
        at_s: BEFORE.as_secs_f64(),
    })?;
    let pieces = (AFTER.as_millis() / PIECE.as_millis()) as u32;
    let load = Load {
        pace,
        batch: BATCH,
        lead: BEFORE,
        cuts: (1..pieces).map(|piece| PIECE * piece).collect(),
    };
    let extent = Extent {
        window: AFTER,
        rounds,
        rounds_max: rounds,
    };
    let trial = Trial::run(setup, "step", &load, extent, &both(1), interrupted)?;
    let windows: Vec<_> = (0..pieces as usize)
        .map(|piece| step_window(&trial, piece))
        .collect();
    let back = |of: fn(&StepWindow) -> f64| back_in_window(windows.iter().map(of));
    Ok(Step {
        from: FROM,
        to: TO,
        managed_back_in_window: back(|w| w.managed_p99_over_alone),
        unmanaged_back_in_window: back(|w| w.unmanaged_p99_over_alone),
        alone_again_back_in_window: back(|w| w.alone_again_p99_over_alone),
        windows,
        trial,
    })
}

fn step_window(trial: &Trial, piece: usize) -> StepWindow {
    let pool = |windows: &[Window]| {
        let counted = trial.counted(windows).into_iter();
        Pool::new(counted.map(|window| &window.pieces[piece]))
    };
    let [alone, again] = trial.alone.each_ref().map(|windows| pool(windows));
    let beside = |name: &str| p99_ratio(&pool(&trial.contender(name).windows), &alone);
    let managed = beside("managed");
    let [alone_p99_us] = alone.all_us([0.99]);
    StepWindow {
        after_ms: piece as u64 * PIECE.as_millis() as u64,
        alone_p99_us,
        managed_p99_over_alone: managed.value,
        managed_p99_over_alone_low: managed.low,
        managed_p99_over_alone_high: managed.high,
        unmanaged_p99_over_alone: beside("unmanaged").value,
        alone_again_p99_over_alone: p99_ratio(&again, &alone).value,
    }
}

/// Returns the number, from 1, of the first piece of time such that the latency in this and all
/// later pieces stays within [`BACK`] times that of the load alone. `ratios` has this ratio for
/// each piece. `None` if the last ratio is above [`BACK`].
fn back_in_window(
    ratios: impl DoubleEndedIterator<Item = f64> + ExactSizeIterator,
) -> Option<usize> {
    let windows = ratios.len();
    let good = ratios.rev().take_while(|ratio| *ratio <= BACK).count();
    (good > 0).then(|| windows - good + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_is_the_first_piece_after_the_last_bad_one() {
        let back = |ratios: &[f64]| back_in_window(ratios.iter().copied());
        assert_eq!(back(&[1.0, 1.1, 0.9]), Some(1));
        assert_eq!(back(&[3.0, 1.1, 0.9]), Some(2));
        assert_eq!(back(&[1.0, 1.3, 0.9]), Some(3));
        assert_eq!(back(&[1.0, 1.0, 1.3]), None);
    }
}
