//! A step of the load, looked at in windows of a tenth of a second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;

use super::analytics::{Beside, Held};
use super::ratios::median;
use super::setup::Setup;
use super::shape::Shape;
use super::window::play;
use crate::console::progress_bar;
use crate::ycsb::Interval;

const FROM: f64 = 0.1;
const TO: f64 = 0.8;
/// When the step comes, in seconds, and how long the load goes on.
const AT_S: f64 = 2.0;
const LENGTH: Duration = Duration::from_secs(4);
/// Windows after the step that are shown.
const SHOWN: usize = 10;
/// Back means: at most this much more than alone.
const BACK: f64 = 1.2;

/// What a step came to.
#[derive(Debug, Clone, Serialize)]
pub struct Step {
    /// The load's part of the machine before.
    pub from: f64,
    /// After.
    pub to: f64,
    /// How often each was played.
    pub rounds: u32,
    /// The windows of 100 ms after the step.
    pub windows: Vec<StepWindow>,
    /// The first window, from 1, after which the managed p99 stays within 1.2 of
    /// alone for as long as is shown; none if it does not.
    pub managed_back_in_window: Option<usize>,
    /// The same unmanaged.
    pub unmanaged_back_in_window: Option<usize>,
    /// The same of the load alone again: noise.
    pub alone_again_back_in_window: Option<usize>,
}

/// A window after the step: medians of the p99 over the rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StepWindow {
    /// Its start after the step, in milliseconds.
    pub after_ms: u64,
    /// The load alone, in microseconds.
    pub alone_p99_us: f64,
    /// Managed over alone.
    pub managed_p99_over_alone: f64,
    /// Unmanaged over alone.
    pub unmanaged_p99_over_alone: f64,
    /// The load alone again, over alone.
    pub alone_again_p99_over_alone: f64,
}

/// Plays the step with nobody and with jobs beside it, in turn.
///
/// # Errors
/// What a window's; an interrupt.
pub fn run(setup: &Setup, rounds: u32, interrupted: &AtomicBool) -> Result<Step> {
    let pace = setup.pace(Shape::Step {
        from: FROM,
        to: TO,
        at_s: AT_S,
    })?;
    let beside = [
        Beside::Nobody,
        Beside::Managed(Held::default()),
        Beside::Unmanaged,
        Beside::Nobody,
    ];
    let mut p99_us: [Vec<Vec<f64>>; 4] = Default::default();
    let bar = progress_bar("step", u64::from(rounds) * beside.len() as u64);
    for _ in 0..rounds {
        for (beside, p99_us) in beside.iter().zip(&mut p99_us) {
            ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
            p99_us.push(after(&play(setup, &pace, LENGTH, beside)?.timeline));
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let [alone, managed, unmanaged, again] = p99_us.map(|rounds| medians(&rounds));
    let windows: Vec<_> = (0..SHOWN)
        .map(|window| StepWindow {
            after_ms: window as u64 * 100,
            alone_p99_us: alone[window],
            managed_p99_over_alone: managed[window] / alone[window],
            unmanaged_p99_over_alone: unmanaged[window] / alone[window],
            alone_again_p99_over_alone: again[window] / alone[window],
        })
        .collect();
    let back = |of: fn(&StepWindow) -> f64| back_in_window(windows.iter().map(of));
    Ok(Step {
        from: FROM,
        to: TO,
        rounds,
        managed_back_in_window: back(|w| w.managed_p99_over_alone),
        unmanaged_back_in_window: back(|w| w.unmanaged_p99_over_alone),
        alone_again_back_in_window: back(|w| w.alone_again_p99_over_alone),
        windows,
    })
}

/// The p99 of the intervals that begin after the step, in microseconds.
fn after(timeline: &[Interval]) -> Vec<f64> {
    // An interval ends a moment after its tenth of a second.
    let begins_after = |interval: &&Interval| interval.t_s - interval.length_s > AT_S - 0.05;
    let mut p99_us: Vec<f64> = timeline
        .iter()
        .filter(begins_after)
        .map(|interval| interval.p99_us)
        .take(SHOWN)
        .collect();
    // After a stall some are missing; the last one stands for them.
    let last = p99_us.last().copied().unwrap_or(f64::NAN);
    p99_us.resize(SHOWN, last);
    p99_us
}

/// Window by window over the rounds.
fn medians(rounds: &[Vec<f64>]) -> Vec<f64> {
    (0..SHOWN)
        .map(|window| median(rounds.iter().map(|round| round[window])))
        .collect()
}

/// The first window from which on all ratios are small, from 1.
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
    fn back_is_the_first_window_after_the_last_bad_one() {
        let back = |ratios: &[f64]| back_in_window(ratios.iter().copied());
        assert_eq!(back(&[1.0, 1.1, 0.9]), Some(1));
        assert_eq!(back(&[3.0, 1.1, 0.9]), Some(2));
        assert_eq!(back(&[1.0, 1.3, 0.9]), Some(3));
        assert_eq!(back(&[1.0, 1.0, 1.3]), None);
    }

    #[test]
    fn intervals_count_from_the_step_on() {
        let interval = |t_s: f64| Interval {
            t_s,
            length_s: 0.1,
            ops: 1,
            target_ops_per_s: None,
            p50_us: 0.0,
            p99_us: t_s,
            p999_us: 0.0,
            max_us: 0.0,
            cpu_s: 0.0,
        };
        let timeline: Vec<_> = (1..=25).map(|n| interval(f64::from(n) * 0.1001)).collect();
        let p99_us = after(&timeline);
        assert_eq!(p99_us.len(), SHOWN);
        assert!((p99_us[0] - 2.1).abs() < 0.01, "{p99_us:?}");
        assert_eq!(
            p99_us[SHOWN - 1],
            p99_us[4],
            "the last one stands for what is missing"
        );
    }
}
