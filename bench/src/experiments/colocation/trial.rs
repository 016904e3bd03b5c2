//! A trial: windows that take turns, and what they came to.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use indicatif::ProgressBar;
use serde::Serialize;

use super::analytics::Beside;
use super::args::Extent;
use super::ratios::{Noise, Ratios, median};
use super::setup::Setup;
use super::window::{Window, play};
use crate::console::progress_bar;
use crate::ycsb::Pace;

/// Somebody beside the load, and what the trial calls it.
#[derive(Debug, Clone)]
pub struct Contender {
    /// In tables and JSON.
    pub name: String,
    /// Who.
    pub beside: Beside,
}

impl Contender {
    /// With a name.
    pub fn new(name: impl Into<String>, beside: Beside) -> Self {
        Self {
            name: name.into(),
            beside,
        }
    }
}

/// What a trial came to.
#[derive(Debug, Clone, Serialize)]
pub struct Trial {
    /// What the load was.
    pub name: String,
    /// Length of each window, in seconds.
    pub window_s: f64,
    /// How often windows took turns.
    pub rounds: u32,
    /// Median of the load alone, in microseconds.
    pub alone_p50_us: f64,
    /// 99th percentile of the load alone: the median of the rounds.
    pub alone_p99_us: f64,
    /// The same of the 99.9th percentile.
    pub alone_p999_us: f64,
    /// Operations per second of the load alone.
    pub ops_per_s: f64,
    /// Cores that the load alone used, with all that the store did for it.
    pub transactional_cores: f64,
    /// Cores that the load alone left idle.
    pub idle_cores: f64,
    /// The load alone a second time, against the first.
    pub alone_again: Ratios,
    /// How far the two are apart.
    pub noise: Noise,
    /// The others, against the first.
    pub contenders: Vec<Against>,
    /// The windows of the load alone, of both times.
    pub alone: [Vec<Window>; 2],
}

/// A contender against the load alone.
#[derive(Debug, Clone, Serialize)]
pub struct Against {
    /// Its name.
    pub name: String,
    /// Medians over the rounds.
    #[serde(flatten)]
    pub ratios: Ratios,
    /// Its windows, round by round.
    pub windows: Vec<Window>,
}

impl Trial {
    /// Lets the load run alone, with each of the contenders beside it, and alone
    /// again, and so on; every other round backwards.
    ///
    /// # Errors
    /// What a window's; an interrupt.
    pub fn run(
        setup: &Setup,
        name: impl Into<String>,
        pace: &Pace,
        extent: Extent,
        contenders: &[Contender],
        interrupted: &AtomicBool,
    ) -> Result<Self> {
        let name = name.into();
        let mut order = vec![Contender::new("alone", Beside::Nobody)];
        order.extend(contenders.iter().cloned());
        order.push(Contender::new("alone again", Beside::Nobody));
        let mut windows: Vec<Vec<Window>> = vec![Vec::new(); order.len()];
        let bar: ProgressBar =
            progress_bar(name.clone(), u64::from(extent.rounds) * order.len() as u64);
        for round in 0..extent.rounds {
            let mut turns: Vec<usize> = (0..order.len()).collect();
            if round % 2 == 1 {
                turns.reverse();
            }
            for turn in turns {
                ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
                let window = play(setup, pace, extent.window, &order[turn].beside)?;
                windows[turn].push(window);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        let again = windows.pop().expect("the load ran alone again");
        let alone = windows.remove(0);
        let of = |of: fn(&Window) -> f64| median(alone.iter().map(of));
        let against = contenders.iter().zip(windows);
        Ok(Self {
            name,
            window_s: extent.window.as_secs_f64(),
            rounds: extent.rounds,
            alone_p50_us: of(|w| w.p50_us),
            alone_p99_us: of(|w| w.p99_us),
            alone_p999_us: of(|w| w.p999_us),
            ops_per_s: of(|w| w.ops_per_s),
            transactional_cores: of(|w| w.transactional_cores),
            idle_cores: of(|w| w.idle_cores),
            alone_again: Ratios::new(&again, &alone),
            noise: Noise::new(&alone, &again),
            contenders: against
                .map(|(contender, windows)| Against {
                    name: contender.name.clone(),
                    ratios: Ratios::new(&windows, &alone),
                    windows,
                })
                .collect(),
            alone: [alone, again],
        })
    }
}
