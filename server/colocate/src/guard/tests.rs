//! Tests of the guard, against a model of a queue.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

const OBJECTIVE_US: f64 = 2000.0;
const WINDOW_S: f64 = 0.1;

fn guard() -> Controller {
    Controller::allowing_all(OBJECTIVE_US)
}

/// A model of a server with a queue. The tail latency grows with the utilisation, as in a queue, and the
/// service time grows with the capacity of analytics.
#[derive(Debug, Clone, Copy)]
struct Queue {
    /// The tail latency when neither the load nor analytics run.
    base_us: f64,
    /// The utilisation of the server by the load when analytics do not run, 0 to 1.
    load: f64,
    /// The increase of the service time when analytics get everything that is left, as a fraction
    /// of the service time without analytics.
    interference: f64,
    /// The maximal relative error of a window's measured percentile, upwards or downwards; 0 for none.
    noise: f64,
}

impl Queue {
    fn latency_us(&self, allowed: f64) -> f64 {
        let slower = 1.0 + self.interference * allowed;
        let utilisation = (self.load * slower).min(0.995);
        self.base_us * slower / (1.0 - utilisation)
    }

    fn window(&self, t: usize, allowed: f64, rng: &mut ChaCha8Rng) -> LatencyWindow {
        let noise = match self.noise {
            0.0 => 1.0,
            noise => 1.0 + rng.random_range(-noise..noise),
        };
        LatencyWindow {
            t_s: t as f64 * WINDOW_S,
            length_s: WINDOW_S,
            requests: (self.load * 100_000.0) as u64,
            latency_us: self.latency_us(allowed) * noise,
        }
    }
}

fn run(
    guard: &mut Controller,
    queue: Queue,
    windows: usize,
    rng: &mut ChaCha8Rng,
) -> Vec<GuardSample> {
    (0..windows)
        .map(|t| {
            let window = queue.window(t, guard.allowed, rng);
            guard.decide(window).expect("enough requests to judge")
        })
        .collect()
}

fn broken(samples: &[GuardSample]) -> usize {
    samples.iter().filter(|sample| sample.slack < 0.0).count()
}

fn drawn(rng: &mut ChaCha8Rng, noise: f64) -> Queue {
    loop {
        let queue = Queue {
            base_us: rng.random_range(100.0..1000.0),
            load: rng.random_range(0.05..0.9),
            interference: rng.random_range(0.0..2.0),
            noise,
        };
        // The load alone must keep the objective, with room for the noise.
        if queue.latency_us(0.0) * (1.0 + noise) < OBJECTIVE_US * 0.75 {
            return queue;
        }
    }
}

fn for_seeds(check: impl Fn(&mut ChaCha8Rng)) {
    for seed in 0..200 {
        println!("seed {seed}");
        check(&mut ChaCha8Rng::seed_from_u64(seed));
    }
}

#[test]
fn around_a_steady_load_it_comes_to_rest() {
    for_seeds(|rng| {
        let queue = drawn(rng, 0.0);
        let mut guard = guard();
        let begin = run(&mut guard, queue, 1000, rng);
        let rest = run(&mut guard, queue, 20_000, rng);
        // Each test of a known trouble waits twice as long as the one before.
        assert!(broken(&begin) <= 8, "{queue:?}: {}", broken(&begin));
        assert!(broken(&rest) <= 8, "{queue:?}: {}", broken(&rest));
        let changed_down =
            |sample: &&GuardSample| matches!(sample.action, Action::Shrink | Action::Stop);
        let downs = rest.iter().filter(changed_down).count();
        assert!(downs <= 16, "{queue:?}: shrunk {downs} times");
    });
}

#[test]
fn everything_that_the_objective_allows_is_used() {
    for_seeds(|rng| {
        let queue = drawn(rng, 0.0);
        let mut guard = guard();
        run(&mut guard, queue, 1000, rng);
        let rest = run(&mut guard, queue, 4000, rng);
        let mean = rest.iter().map(|sample| sample.allowed).sum::<f64>() / rest.len() as f64;
        // The largest allowed fraction whose slack still permits growth.
        let most = (0..=1000)
            .map(|part| f64::from(part) / 1000.0)
            .filter(|allowed| queue.latency_us(*allowed) <= OBJECTIVE_US * (1.0 - SLACK_GROW))
            .fold(0.0, f64::max);
        assert!(mean >= 0.6 * most - 0.05, "{queue:?}: {mean} of {most}");
    });
}

#[test]
fn after_a_step_of_the_load_the_third_window_keeps_the_objective() {
    for_seeds(|rng| {
        let after = drawn(rng, 0.0);
        let before = Queue {
            load: after.load * 0.1,
            ..after
        };
        let mut guard = guard();
        run(&mut guard, before, 500, rng);
        // Afterwards it grows again, and may exceed the objective.
        let first = run(&mut guard, after, 2 + COOLDOWN_WINDOWS as usize, rng);
        for sample in &first[2..] {
            assert!(sample.slack >= 0.0, "{after:?}: {sample:?}");
        }
    });
}

#[test]
fn after_the_load_has_ended_everything_is_allowed() {
    for_seeds(|rng| {
        let busy = Queue {
            interference: 5.0,
            load: 0.6,
            ..drawn(rng, 0.05)
        };
        let mut guard = guard();
        run(&mut guard, busy, 300, rng);
        let idle = Queue { load: 0.0, ..busy };
        let samples = run(&mut guard, idle, COOLDOWN_WINDOWS as usize + 11, rng);
        assert_eq!(guard.allowed, 1.0, "{busy:?}: {samples:?}");
    });
}

#[test]
fn an_objective_that_the_load_alone_breaks_leaves_analytics_nothing() {
    let hopeless = Queue {
        base_us: 3000.0,
        load: 0.5,
        interference: 0.0,
        noise: 0.0,
    };
    let mut guard = guard();
    let samples = run(&mut guard, hopeless, 50, &mut ChaCha8Rng::seed_from_u64(0));
    assert_eq!(samples[0].action, Action::Shrink);
    assert_eq!(samples[1].action, Action::Stop);
    assert!(
        samples[2..]
            .iter()
            .all(|sample| sample.action == Action::Hold)
    );
    assert_eq!(guard.allowed, 0.0);
}

#[test]
fn slack_decides_between_growing_holding_and_shrinking() {
    let window = |latency_us| LatencyWindow {
        t_s: 0.0,
        length_s: WINDOW_S,
        requests: 1000,
        latency_us,
    };
    let mut close = guard();
    let sample = close.decide(window(1950.0)).unwrap();
    assert_eq!((sample.action, sample.allowed), (Action::Shrink, 0.8));

    let mut guard = guard();
    let mut decide = |latency_us| guard.decide(window(latency_us)).unwrap();
    assert_eq!(decide(1700.0).action, Action::Hold);
    let shrunk = decide(2100.0);
    assert_eq!((shrunk.action, shrunk.allowed), (Action::Shrink, 0.5));
    assert!((shrunk.slack + 0.05).abs() < 1e-9);
    for _ in 0..COOLDOWN_WINDOWS {
        assert_eq!(decide(100.0).action, Action::Hold);
    }
    let grown = decide(100.0);
    assert_eq!(grown.action, Action::Grow);
    assert!((grown.allowed - 0.52).abs() < 1e-9, "{grown:?}");
    assert_eq!(decide(2100.0).action, Action::Shrink);
    let stopped = decide(2100.0);
    assert_eq!((stopped.action, stopped.allowed), (Action::Stop, 0.0));
}

#[test]
fn windows_with_few_requests_are_judged_together() {
    let mut guard = guard();
    let mut window = LatencyWindow {
        t_s: 0.1,
        length_s: 0.1,
        requests: 150,
        latency_us: 2500.0,
    };
    assert_eq!(guard.decide(window), None);
    (window.t_s, window.latency_us) = (0.2, 100.0);
    let sample = guard.decide(window).unwrap();
    assert_eq!(sample.window.requests, 300);
    assert_eq!(sample.window.latency_us, 2500.0);
    assert!((sample.window.length_s - 0.2).abs() < 1e-12);
    // With rare requests, decisions come once per second.
    (window.requests, window.length_s) = (1, 0.125);
    let judged: Vec<_> = (0..20).map(|_| guard.decide(window).is_some()).collect();
    assert_eq!(
        judged.iter().filter(|judged| **judged).count(),
        2,
        "{judged:?}"
    );
}

/// Returns window number `window`, counted from 0, with this many requests of equal latencies.
fn observed(window: usize, requests: u64, latency_us: f64) -> ObservedWindow {
    ObservedWindow {
        window: LatencyWindow {
            t_s: (window + 1) as f64 * WINDOW_S,
            length_s: WINDOW_S,
            requests,
            latency_us,
        },
        latencies: [((latency_us * 1e3) as u64, requests)]
            .into_iter()
            .collect(),
    }
}

#[test]
fn an_objective_over_alone_pauses_and_abandons_levels_that_cost_too_much() {
    let mut guard = Guard::new("p99=1.1x".parse().unwrap());
    let mut samples = Vec::new();
    for window in 0..600 {
        // Analytics increase all latencies by a fifth.
        let latency_us = if guard.allowed() > 0.0 {
            1200.0
        } else {
            1000.0
        };
        let granted = (guard.allowed() * 100.0) as u32;
        samples.extend(guard.decide(&observed(window, 2000, latency_us), granted));
    }
    assert_eq!(samples.len(), 600);
    assert!(samples.iter().any(|sample| sample.action == Action::Pause));
    assert_eq!((samples[0].slack, samples[0].alone_us), (1.0, None));
    let alone_us = samples.last().unwrap().alone_us.unwrap();
    assert!((1000.0..1030.0).contains(&alone_us), "{alone_us}");
    assert_eq!(guard.allowed(), 0.0);
    assert!(!guard.is_pausing());
    let price = guard.price();
    assert!(price[0].allowed == 0.0 && price[1..].iter().all(|point| point.is_dear));
    assert!(guard.release() && guard.allowed() == 1.0 && guard.price().is_empty());
}

#[test]
fn windows_with_only_a_quantile_do_not_measure_alone() {
    let mut guard = Guard::new("p99=1.1x".parse().unwrap());
    for window in 0..600 {
        let only = observed(window, 2000, 1000.0).window;
        assert!(guard.decide(&only.into(), 100).is_some());
        assert_eq!(guard.allowed(), 1.0);
    }
}

#[test]
fn a_latency_is_in_danger_in_a_tight_window_and_for_some_time_after_a_broken_one() {
    let mut guard = Guard::new("p99=2ms".parse().unwrap());
    let mut is_in_danger_after = |latency_us| {
        let window = LatencyWindow {
            t_s: WINDOW_S,
            length_s: WINDOW_S,
            requests: 1000,
            latency_us,
        };
        assert!(guard.decide(&window.into(), 0).is_some());
        guard.is_in_danger(15.0)
    };
    assert!(!is_in_danger_after(1500.0));
    assert!(is_in_danger_after(1950.0), "a slack of 0.025");
    assert!(!is_in_danger_after(1500.0));
    assert!(is_in_danger_after(3000.0));
    for _ in 1..COOLDOWN_WINDOWS {
        assert!(is_in_danger_after(1000.0));
    }
    assert!(!is_in_danger_after(1000.0));
}
