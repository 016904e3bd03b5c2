//! Tests of the curve, against loads with a known price.

use ebb_test_support::seed;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

const WINDOW_S: f64 = 0.1;
const FACTOR: f64 = 1.1;

/// A load whose latencies have an exponential distribution. The scale of the distribution differs between
/// windows.
#[derive(Debug, Clone, Copy)]
struct Load {
    requests_per_s: f64,
    base_us: f64,
    /// The increase of latencies when analytics get everything that is left, as a fraction.
    price: f64,
    /// The largest factor by which a window's latencies are scaled, up or down; the logarithm of
    /// the factor is drawn uniformly.
    noise: f64,
    /// One window in this many, on average, is a stall: its latencies are 20 times as long. 0 for no
    /// stalls.
    stall_every: u32,
}

const STEADY: Load = Load {
    requests_per_s: 20_000.0,
    base_us: 100.0,
    price: 0.0,
    noise: 1.0,
    stall_every: 0,
};

impl Load {
    fn slower(&self, allowed: f64) -> f64 {
        1.0 + self.price * allowed
    }

    fn latencies(&self, allowed: f64, rng: &mut ChaCha8Rng) -> LatencyCounts {
        const POINTS: u32 = 400;
        let spread = self.noise.ln();
        let mut scale_ns = self.base_us * 1e3 * self.slower(allowed);
        if spread > 0.0 {
            scale_ns *= rng.random_range(-spread..spread).exp();
        }
        if self.stall_every > 0 && rng.random_range(0..self.stall_every) == 0 {
            scale_ns *= 20.0;
        }
        let requests = self.requests_per_s * WINDOW_S;
        let point = |n: u32| {
            let part = (f64::from(n) + 0.5) / f64::from(POINTS);
            let upto = |n: u32| (requests * f64::from(n) / f64::from(POINTS)) as u64;
            (
                (-(1.0 - part).ln() * scale_ns) as u64,
                upto(n + 1) - upto(n),
            )
        };
        (0..POINTS).map(point).collect()
    }
}

/// A simulation: the price curve under test, and the present simulated time.
struct Run {
    price: Price,
    rng: ChaCha8Rng,
    t_s: f64,
}

impl Run {
    fn new(seed: u64) -> Self {
        Self {
            price: Price::new(0.99, FACTOR),
            rng: ChaCha8Rng::seed_from_u64(seed),
            t_s: 0.0,
        }
    }

    /// Applies the load for `seconds`. Returns, for each window, the fraction of the free capacity
    /// (what the load leaves) that the curve allowed analytics to use.
    fn play(&mut self, load: Load, seconds: f64) -> Vec<f64> {
        let windows = (seconds / WINDOW_S).round() as usize;
        let window = |_| {
            let allowed = self.price.allowed();
            let latencies = load.latencies(allowed, &mut self.rng);
            self.t_s += WINDOW_S;
            self.price.take(&CurveInput {
                t_s: self.t_s,
                length_s: WINDOW_S,
                requests: latencies.total(),
                latencies: &latencies,
                granted_hundredths: (allowed * 100.0) as u32,
            });
            allowed
        };
        (0..windows).map(window).collect()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Runs `check` with each seed of the test function `test`, less one: the loads here count seeds
/// from 0.
fn for_seeds(test: &str, check: impl Fn(u64)) {
    seed::for_seeds(test, 4, |seed| check(seed.wrapping_sub(1)));
}

#[test]
fn analytics_get_as_much_as_the_objective_lets() {
    // With this noise, an excess of a few hundredths takes longer to detect than evidence lasts.
    for (price, keeps, seen) in [
        (0.05, 1.0, 1.0),
        (0.2, 0.5, 0.9),
        (0.4, 0.25, 0.6),
        (3.0, 0.0, 0.15),
    ] {
        for_seeds("analytics_get_as_much_as_the_objective_lets", |seed| {
            let mut run = Run::new(seed);
            let load = Load {
                price,
                noise: 1.2,
                ..STEADY
            };
            run.play(load, 120.0);
            let allowed = mean(&run.play(load, 600.0));
            // One level less, because of pauses and the search.
            let least = (keeps - 1.5 / LEVELS as f64) * 0.95;
            assert!(
                (least..=seen).contains(&allowed),
                "{allowed} allowed where {keeps} keeps the objective"
            );
        });
    }
}

#[test]
fn noise_alone_does_not_starve_analytics() {
    for (noise, stall_every) in [(2.0, 0), (4.0, 0), (1.5, 30), (2.0, 10)] {
        for_seeds("noise_alone_does_not_starve_analytics", |seed| {
            let mut run = Run::new(seed);
            let load = Load {
                noise,
                stall_every,
                ..STEADY
            };
            run.play(load, 60.0);
            let allowed = mean(&run.play(load, 600.0));
            assert!(allowed > 0.8, "noise {noise}, {stall_every}: {allowed}");
        });
    }
}

#[test]
fn a_price_is_found_in_noise() {
    for_seeds("a_price_is_found_in_noise", |seed| {
        let mut run = Run::new(seed);
        let load = Load {
            price: 3.0,
            noise: 2.0,
            ..STEADY
        };
        run.play(load, 60.0);
        let allowed = mean(&run.play(load, 600.0));
        assert!(allowed < 0.2, "{allowed}");
    });
}

#[test]
fn pauses_take_three_in_a_hundred_and_alone_is_known_after_them() {
    let mut run = Run::new(1);
    let first = run.play(STEADY, 30.0);
    let paused = |allowed: &[f64]| allowed.iter().filter(|it| **it == 0.0).count();
    assert!(paused(&first) <= 45, "{}", paused(&first));
    let alone_us = run.price.alone_us().unwrap();
    let true_us = -STEADY.base_us * 0.01_f64.ln();
    assert!((alone_us / true_us - 1.0).abs() < 0.05, "{alone_us}");
    let later = run.play(STEADY, 600.0);
    assert!(paused(&later) <= 200, "{} of 6000", paused(&later));
    assert!(later.iter().all(|allowed| [0.0, 1.0].contains(allowed)));
}

#[test]
fn another_load_has_another_curve() {
    let cheap = STEADY;
    let dear = Load {
        requests_per_s: 60_000.0,
        base_us: 150.0,
        price: 2.0,
        ..STEADY
    };
    for_seeds("another_load_has_another_curve", |seed| {
        let mut run = Run::new(seed);
        run.play(cheap, 120.0);
        assert_eq!(
            run.price.points().last().map(|point| point.allowed),
            Some(1.0)
        );
        run.play(dear, 2.0);
        assert_eq!(run.price.alone_us(), None, "what was learned is forgotten");
        run.play(dear, 60.0);
        let allowed = mean(&run.play(dear, 120.0));
        assert!(allowed < 0.15, "{allowed}");
        run.play(cheap, 90.0);
        let allowed = mean(&run.play(cheap, 120.0));
        assert!(allowed > 0.85, "{allowed}");
    });
}

#[test]
fn too_few_requests_prove_nothing_and_silence_allows_everything() {
    let rare = Load {
        requests_per_s: 50.0,
        price: 3.0,
        ..STEADY
    };
    let mut run = Run::new(3);
    let allowed = run.play(rare, 600.0);
    assert_eq!(run.price.alone_us(), None);
    assert_eq!(mean(&allowed), 1.0, "it could never be known alone");
    let mut run = Run::new(4);
    let dear = Load {
        price: 3.0,
        ..STEADY
    };
    run.play(dear, 120.0);
    assert!(run.price.allowed() < 0.2);
    let none = Load {
        requests_per_s: 0.0,
        ..STEADY
    };
    let after = run.play(none, 2.0);
    assert_eq!(after.last(), Some(&1.0));
    assert!(run.price.points().is_empty());
}

#[test]
fn the_curve_is_monotone_and_has_the_cost_of_each_level() {
    let mut run = Run::new(5);
    let load = Load {
        price: 0.4,
        noise: 1.2,
        ..STEADY
    };
    run.play(load, 400.0);
    let points = run.price.points();
    assert!(points.len() >= 4, "{points:?}");
    assert_eq!(points[0].allowed, 0.0);
    assert!(points.is_sorted_by(|a, b| a.above_limit <= b.above_limit && a.allowed < b.allowed));
    for point in &points[1..] {
        let expected = load.slower(point.allowed);
        assert!(
            (point.over_alone / expected - 1.0).abs() < 0.15,
            "{point:?}"
        );
        assert!((point.granted_hundredths / 100.0 - point.allowed).abs() < 0.01);
        assert!(point.requests > 0 && point.seconds > 0.0);
    }
}

#[test]
fn a_level_is_dear_at_the_capacity_that_analytics_had_in_it() {
    for_seeds(
        "a_level_is_dear_at_the_capacity_that_analytics_had_in_it",
        |seed| {
            let mut dear = Run::new(seed);
            let load = Load {
                price: 1.0,
                ..STEADY
            };
            dear.play(load, 60.0);
            assert!(dear.price.is_dear_at(100.0) && !dear.price.is_dear_at(1.0));
            let mut free = Run::new(seed);
            free.play(STEADY, 60.0);
            assert!(!free.price.is_dear_at(100.0));
        },
    );
}
