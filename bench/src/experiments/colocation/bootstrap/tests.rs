//! Intervals from simulated windows, whose true ratio is known.

use super::*;
use crate::experiments::colocation::counts::Counts;

const OPERATIONS: usize = 1000;

/// Draws windows with exponential latencies, whose mean differs from window to window. One window
/// in ten has a stall: a fiftieth of its operations take ten times as long. All latencies are
/// multiplied by `longer`.
fn windows(windows: usize, longer: f64, rng: &mut ChaCha8Rng) -> Vec<Counts> {
    let window = |_| {
        let mean_ns = 1e5 * longer * (1.0 + 0.2 * (rng.random::<f64>() - 0.5));
        let stalls = rng.random::<f64>() < 0.1;
        let latency = |_| {
            let stalled = stalls && rng.random::<f64>() < 0.02;
            let factor = if stalled { 10.0 } else { 1.0 };
            (-mean_ns * factor * (1.0 - rng.random::<f64>()).ln()) as u64 / 100 * 100
        };
        (0..OPERATIONS).map(latency).collect()
    };
    (0..windows).map(window).collect()
}

fn p99(beside: &[Counts], alone: &[Counts]) -> Estimate {
    p99_ratio(&Pool::new(beside), &Pool::new(alone))
}

#[test]
fn the_interval_holds_the_true_ratio_in_about_95_of_100_cases() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for truth in [1.0, 1.3] {
        let cases = 80;
        let holds = |_: &i32| {
            let beside = windows(16, truth, &mut rng);
            let alone = windows(16, 1.0, &mut rng);
            let estimate = p99(&beside, &alone);
            assert!(estimate.low <= estimate.value && estimate.value <= estimate.high);
            (estimate.low..=estimate.high).contains(&truth)
        };
        let held = (0..cases).filter(holds).count();
        assert!((72..=79).contains(&held), "{held} of {cases} at {truth}");
    }
}

#[test]
fn the_planned_number_of_windows_detects_a_shift_of_5_percent() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let needed = windows_needed(&Pool::new(&windows(20, 1.0, &mut rng)), 0.02) as usize;
    assert!((20..2000).contains(&needed), "{needed}");
    let alone = windows(needed, 1.0, &mut rng);
    let estimate = p99(&windows(needed, 1.05, &mut rng), &alone);
    assert!(estimate.low > 1.0 && estimate.high < 1.1, "{estimate:?}");
    let equal = p99(&windows(needed, 1.0, &mut rng), &alone);
    assert!(equal.low < 1.0 && equal.high > 1.0, "{equal:?}");
}

#[test]
fn the_planned_number_of_windows_gives_the_requested_width() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let half_width = 0.05;
    let needed = windows_needed(&Pool::new(&windows(30, 1.0, &mut rng)), half_width) as usize;
    let [beside, alone] = [(); 2].map(|()| windows(needed, 1.0, &mut rng));
    let estimate = p99(&beside, &alone);
    let width = (estimate.high / estimate.low).ln() / 2.0;
    assert!((0.5..2.0).contains(&(width / half_width)), "{estimate:?}");
    // Half the width needs four times as many windows.
    let more = windows_needed(&Pool::new(&alone), half_width / 2.0) as f64;
    let ratio = more / f64::from(windows_needed(&Pool::new(&alone), half_width));
    assert!((3.5..4.5).contains(&ratio), "{ratio}");
}

#[test]
fn the_same_windows_give_the_same_interval() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let (beside, alone) = (windows(5, 1.2, &mut rng), windows(5, 1.0, &mut rng));
    assert_eq!(p99(&beside, &alone), p99(&beside, &alone));
}

#[test]
fn the_distance_from_one_is_that_of_the_farther_end() {
    let estimate = |low, high| Estimate {
        value: 1.0,
        low,
        high,
    };
    assert_eq!(estimate(0.5, 1.1).farthest_from_one(), 2.0);
    assert_eq!(estimate(0.9, 1.5).farthest_from_one(), 1.5);
}

#[test]
fn a_ratio_that_does_not_exist_is_a_dash() {
    let estimate = |value| Estimate {
        value,
        low: value,
        high: value,
    };
    assert_eq!(estimate(f64::NAN).to_string(), "- (- to -)");
    assert_eq!(estimate(1.25).to_string(), "1.25 (1.25 to 1.25)");
    assert_eq!(format!("{:.3}", estimate(1.0)), "1.000 (1.000 to 1.000)");
}
