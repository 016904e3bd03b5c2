//! Claims about f(t), the capacity left to analytics: its published values, and
//! that the closed forms agree with numeric integration.

use super::*;
use crate::test_rng::test_rng;
use rand::RngExt;

const HOUR_S: f64 = 3600.0;

/// Returns the capacity that the thesis's most bursty load (level 3) leaves on 100 nodes of
/// one core.
fn burstiness_3() -> Availability {
    Availability::sine_day(SineDay {
        mean_hundredths: 5750.0,
        amplitude_hundredths: 3750.0,
        peak_at_s: 18.0 * HOUR_S,
        day_s: DAY_S,
    })
    .unwrap()
}

fn step(from_s: f64, hundredths: f64) -> Step {
    Step { from_s, hundredths }
}

/// Integrates `f` by the midpoint rule, with steps fine enough for the
/// tolerances of these tests.
fn numeric(f: &Availability, a_s: f64, b_s: f64) -> f64 {
    let n = 200_000;
    let step_s = (b_s - a_s) / f64::from(n);
    (0..n)
        .map(|i| f.at(a_s + (f64::from(i) + 0.5) * step_s) * step_s)
        .sum()
}

#[test]
fn the_thesis_day_leaves_95_nodes_at_6_h_and_20_at_18_h() {
    let f = burstiness_3();
    assert!((f.at(6.0 * HOUR_S) - 9500.0).abs() < 1e-6);
    assert!((f.at(18.0 * HOUR_S) - 2000.0).abs() < 1e-6);
    assert!((f.at(0.0) - 5750.0).abs() < 1e-6);
    assert!((f.mean(0.0, DAY_S) - 5750.0).abs() < 1e-6);
}

#[test]
fn the_closed_form_of_the_thesis_day_gives_535_node_hours_until_half_past_six() {
    // 57.5 * 6.5 + 37.5 * (24 / 2 pi) * (1 + sin 7.5 deg)
    let expected = 57.5 * 6.5 + 37.5 * 24.0 / TAU * (1.0 + (7.5_f64).to_radians().sin());
    let got = burstiness_3().integral(0.0, 6.5 * HOUR_S) / 100.0 / HOUR_S;
    assert!((got - expected).abs() < 1e-6, "{got} != {expected}");
}

#[test]
fn integrals_agree_with_numeric_integration() {
    let mut rng = test_rng(7);
    for round in 0..20 {
        let f = if round % 2 == 0 {
            // Amplitudes above the mean exercise the clamp.
            Availability::sine_day(SineDay {
                mean_hundredths: rng.random_range(0.0..100.0),
                amplitude_hundredths: rng.random_range(0.0..200.0),
                peak_at_s: rng.random_range(-300.0..300.0),
                day_s: rng.random_range(50.0..200.0),
            })
            .unwrap()
        } else {
            let mut from_s = rng.random_range(-50.0..50.0);
            let steps = (0..rng.random_range(1..8))
                .map(|_| {
                    from_s += rng.random_range(1.0..40.0);
                    step(from_s, rng.random_range(0.0..300.0))
                })
                .collect();
            Availability::steps(steps).unwrap()
        };
        let a_s = rng.random_range(-200.0..200.0);
        let b_s = a_s + rng.random_range(0.0..400.0);
        let (exact, approx) = (f.integral(a_s, b_s), numeric(&f, a_s, b_s));
        assert!(
            (exact - approx).abs() <= 1e-3 * approx.abs().max(100.0),
            "round {round}: {f:?} over [{a_s}, {b_s}]: {exact} != {approx}"
        );
        assert!(exact >= 0.0);
    }
}

#[test]
fn a_wave_below_zero_is_clamped() {
    let f = Availability::sine_day(SineDay {
        mean_hundredths: 0.0,
        amplitude_hundredths: 100.0,
        peak_at_s: 0.0,
        day_s: TAU,
    })
    .unwrap();
    assert_eq!(f.at(0.0), 0.0);
    // -cos over its positive half.
    assert!((f.integral(0.0, TAU) - 200.0).abs() < 1e-9);
    assert!((f.integral(0.0, 10.0 * TAU) - 2000.0).abs() < 1e-6);
}

#[test]
fn steps_hold_until_the_next_one_and_beyond_both_ends() {
    let steps = vec![step(10.0, 100.0), step(20.0, 0.0), step(30.0, 50.0)];
    let f = Availability::steps(steps).unwrap();
    assert_eq!((f.at(0.0), f.at(20.0), f.at(99.0)), (100.0, 0.0, 50.0));
    assert_eq!(f.integral(5.0, 40.0), 1500.0 + 0.0 + 500.0);
    assert_eq!(f.integral(21.0, 22.0), 0.0);
    assert_eq!(f.mean(15.0, 25.0), 50.0);
    assert_eq!(f.integral(9.0, 3.0), 0.0);
}

#[test]
fn bad_input_is_named() {
    use AvailabilityError as E;
    assert!(matches!(
        Availability::constant(f64::NAN),
        Err(E::NotFinite { .. })
    ));
    assert!(matches!(
        Availability::constant(-1.0),
        Err(E::Negative { .. })
    ));
    assert_eq!(Availability::steps(Vec::new()), Err(E::NoSteps));
    assert!(matches!(
        Availability::steps(vec![step(1.0, 1.0); 2]),
        Err(E::Unordered { index: 1, .. })
    ));
    let day = SineDay {
        mean_hundredths: 1.0,
        amplitude_hundredths: 1.0,
        peak_at_s: 0.0,
        day_s: 0.0,
    };
    assert_eq!(Availability::sine_day(day), Err(E::EmptyDay(0.0)));
}

#[test]
fn parts_add_up_at_every_instant_and_over_every_interval() {
    let half = || Availability::constant(2875.0).unwrap();
    let f = Availability::sum(vec![burstiness_3(), half(), half()]);
    for t_h in [0.0, 6.0, 18.5, 40.0] {
        let t_s = t_h * HOUR_S;
        assert!((f.at(t_s) - burstiness_3().at(t_s) - 5750.0).abs() < 1e-9);
        let alone = burstiness_3().integral(t_s, 2e5) + 5750.0 * (2e5 - t_s).max(0.0);
        assert!((f.integral(t_s, 2e5) - alone).abs() < 1e-3);
    }
}

#[test]
fn what_is_scaled_is_scaled_at_all_times() {
    let whole = Availability::steps(vec![step(0.0, 80.0), step(10.0, 40.0)]).unwrap();
    let half = whole.scaled(0.5).unwrap();
    assert_eq!((half.at(5.0), half.at(15.0)), (40.0, 20.0));
    assert_eq!(half.integral(5.0, 15.0), 300.0);
    assert!(Availability::constant(1.0).unwrap().scaled(-1.0).is_err());
}
