//! What the experiment found: the JSON, the tables, the pictures.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use ebb_colocate::Objective;
use serde::Serialize;

use super::args::ColocationArgs;
use super::goals::GoalsTrial;
use super::setup::Setup;
use super::step::Step;
use super::trial::{Against, Trial};
use super::window::Window;
use crate::chart::{Bar, BarChart, Group, Line};

/// All of it; parts that did not run are empty.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Cores of the machine.
    pub cores: u32,
    /// The load's workload.
    pub workload: String,
    /// Whether windows were short and rounds few.
    pub quick: bool,
    /// Steady loads.
    pub loads: Vec<LoadRow>,
    /// Compressed days.
    pub days: Vec<Trial>,
    /// A step of the load.
    pub step: Option<Step>,
    /// Every policy.
    pub policies: Option<Trial>,
    /// What the guard was to keep in the next.
    pub objective: Option<Objective>,
    /// Parts of the guard left out.
    pub guard: Option<Trial>,
    /// Tasks on threads and in processes.
    pub isolate: Vec<Trial>,
    /// A block cache that is too small.
    pub cache: Option<Trial>,
    /// Days of tight goals, by policy.
    pub goals: Option<GoalsTrial>,
    /// The same, by forecast.
    pub forecast: Option<GoalsTrial>,
}

/// A steady load: the figures that matter by name, and the trial.
#[derive(Debug, Serialize)]
pub struct LoadRow {
    /// The load's part of the machine, 0 to 1.
    pub load: f64,
    /// The p99 with managed jobs over that alone.
    pub managed_p99_over_alone: f64,
    /// The p99 with unmanaged jobs over that alone.
    pub unmanaged_p99_over_alone: f64,
    /// The p99 alone a second time over that alone.
    pub alone_again_p99_over_alone: f64,
    /// The upper 95% of alone against alone.
    pub noise_p99: f64,
    /// The same of the p99.9.
    pub managed_p999_over_alone: f64,
    /// The same of the p99.9.
    pub unmanaged_p999_over_alone: f64,
    /// The same of the p99.9.
    pub alone_again_p999_over_alone: f64,
    /// The same of the p99.9.
    pub noise_p999: f64,
    /// CPU that managed jobs used over what the load alone leaves idle.
    pub idle_cpu_used: f64,
    /// The same of unmanaged jobs; above 1 where they take it from the load.
    pub unmanaged_idle_cpu_used: f64,
    /// The rest.
    pub trial: Trial,
}

impl LoadRow {
    /// Of a trial with `unmanaged` and `managed`.
    pub fn new(load: f64, trial: Trial) -> Self {
        let of = |name: &str| {
            let found = trial.contenders.iter().find(|against| against.name == name);
            found.expect("the trial has it").ratios
        };
        let (managed, unmanaged) = (of("managed"), of("unmanaged"));
        Self {
            load,
            managed_p99_over_alone: managed.p99_over_alone,
            unmanaged_p99_over_alone: unmanaged.p99_over_alone,
            alone_again_p99_over_alone: trial.alone_again.p99_over_alone,
            noise_p99: trial.noise.p99,
            managed_p999_over_alone: managed.p999_over_alone,
            unmanaged_p999_over_alone: unmanaged.p999_over_alone,
            alone_again_p999_over_alone: trial.alone_again.p999_over_alone,
            noise_p999: trial.noise.p999,
            idle_cpu_used: managed.idle_cpu_used,
            unmanaged_idle_cpu_used: unmanaged.idle_cpu_used,
            trial,
        }
    }
}

impl Report {
    /// Without any part yet.
    pub fn new(args: &ColocationArgs, setup: &Setup) -> Self {
        Self {
            cores: setup.cores,
            workload: args.workload.to_string(),
            quick: args.quick,
            loads: Vec::new(),
            days: Vec::new(),
            step: None,
            policies: None,
            objective: None,
            guard: None,
            isolate: Vec::new(),
            cache: None,
            goals: None,
            forecast: None,
        }
    }

    /// All tables.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let trials = self.loads.iter().map(|row| &row.trial);
        let trials = trials.chain(&self.days).chain(&self.isolate);
        let rest = [&self.policies, &self.guard, &self.cache];
        for trial in trials.chain(rest.into_iter().flatten()) {
            out += &table(trial);
        }
        if let Some(objective) = self.objective {
            let _ = writeln!(out, "The guard's objective was {objective}.\n");
        }
        if let Some(step) = &self.step {
            out += &step_table(step);
        }
        for trial in [&self.goals, &self.forecast].into_iter().flatten() {
            out += &trial.text();
        }
        out
    }

    /// Writes the pictures.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write_figures(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let steady = self.loads.iter().map(|row| &row.trial);
        let trials: Vec<&Trial> = steady.chain(&self.days).collect();
        let mut pictures = Vec::new();
        if !trials.is_empty() {
            pictures.push(("colocation-latency", latency_chart(&trials)));
            pictures.push(("colocation-cpu", cpu_chart(&trials)));
        }
        if let Some(step) = &self.step {
            pictures.push(("colocation-step", step_chart(step)));
        }
        for (name, chart) in pictures {
            let path = folder.join(format!("{name}.svg"));
            std::fs::write(&path, chart.to_svg())
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

fn table(trial: &Trial) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{}: {:.0} ops/s use {:.2} cores and leave {:.2}; alone p50 {:.0} us, p99 {:.0} us, p99.9 {:.0} us; {} rounds of {:.0} s",
        trial.name,
        trial.ops_per_s,
        trial.transactional_cores,
        trial.idle_cores,
        trial.alone_p50_us,
        trial.alone_p99_us,
        trial.alone_p999_us,
        trial.rounds,
        trial.window_s,
    );
    let _ = writeln!(
        out,
        "  {:<26} {:>6} {:>6} {:>7} {:>10} {:>11}",
        "over alone", "p50", "p99", "p99.9", "idle used", "cache hits"
    );
    let row = |out: &mut String, name: &str, ratios: &super::ratios::Ratios| {
        let hits = ratios.cache_hits_over_alone;
        let hits = hits.map_or("-".to_string(), |hits| format!("{hits:.3}"));
        let _ = writeln!(
            out,
            "  {name:<26} {:>6.2} {:>6.2} {:>7.2} {:>10.2} {hits:>11}",
            ratios.p50_over_alone,
            ratios.p99_over_alone,
            ratios.p999_over_alone,
            ratios.idle_cpu_used
        );
    };
    for against in &trial.contenders {
        row(&mut out, &against.name, &against.ratios);
    }
    row(&mut out, "alone again", &trial.alone_again);
    let _ = writeln!(
        out,
        "  {:<26} {:>6} {:>6.2} {:>7.2}\n",
        "noise (upper 95%)", "", trial.noise.p99, trial.noise.p999
    );
    out
}

fn step_table(step: &Step) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "A step from {:.0} to {:.0}% of the machine, {} rounds: p99 of each 100 ms over that alone\n  {:>8} {:>12} {:>9} {:>10} {:>12}",
        step.from * 100.0,
        step.to * 100.0,
        step.rounds,
        "after",
        "alone, us",
        "managed",
        "unmanaged",
        "alone again"
    );
    for window in &step.windows {
        let _ = writeln!(
            out,
            "  {:>5} ms {:>12.0} {:>9.2} {:>10.2} {:>12.2}",
            window.after_ms,
            window.alone_p99_us,
            window.managed_p99_over_alone,
            window.unmanaged_p99_over_alone,
            window.alone_again_p99_over_alone
        );
    }
    let back = |window: Option<usize>| match window {
        Some(window) => format!("from window {window} on"),
        None => "not within a second".to_string(),
    };
    let _ = writeln!(
        out,
        "  within 1.2 of alone: managed {}, unmanaged {}, alone again {}\n",
        back(step.managed_back_in_window),
        back(step.unmanaged_back_in_window),
        back(step.alone_again_back_in_window)
    );
    out
}

/// The least, the median and the most over the rounds.
fn spread(windows: &[Window], alone: &[Window], of: fn(&Window, &Window) -> f64) -> Bar {
    let values: Vec<f64> = windows.iter().zip(alone).map(|(w, a)| of(w, a)).collect();
    Bar {
        value: super::ratios::median(values.iter().copied()),
        low: values.iter().copied().fold(f64::INFINITY, f64::min),
        high: values.iter().copied().fold(0.0, f64::max),
    }
}

fn latency_chart(trials: &[&Trial]) -> BarChart {
    let p99 = |w: &Window, a: &Window| w.p99_us / a.p99_us;
    chart(
        trials,
        "p99 of the load beside jobs, over that alone",
        "p99 / alone",
        Some(4.0),
        true,
        p99,
        |trial| Some(trial.noise.p99),
    )
}

fn cpu_chart(trials: &[&Trial]) -> BarChart {
    let used = |w: &Window, a: &Window| w.analytics_cores / a.idle_cores.max(1e-3);
    chart(
        trials,
        "CPU that jobs used, over what the load alone leaves idle",
        "used / idle",
        None,
        false,
        used,
        |_| None,
    )
}

fn chart(
    trials: &[&Trial],
    title: &str,
    y_label: &str,
    y_max: Option<f64>,
    with_alone: bool,
    of: fn(&Window, &Window) -> f64,
    level: fn(&Trial) -> Option<f64>,
) -> BarChart {
    let first = &trials[0].contenders;
    let mut series: Vec<String> = first.iter().map(|against| against.name.clone()).collect();
    if with_alone {
        series.push("alone again".to_string());
    }
    let groups = trials.iter().map(|trial| {
        let [alone, again] = &trial.alone;
        let bar = |against: &Against| Some(spread(&against.windows, alone, of));
        let mut bars: Vec<_> = trial.contenders.iter().map(bar).collect();
        if with_alone {
            bars.push(Some(spread(again, alone, of)));
        }
        Group {
            label: trial.name.clone(),
            bars,
            line: level(trial),
        }
    });
    BarChart {
        title: title.to_string(),
        x_label: "load".to_string(),
        y_label: y_label.to_string(),
        y_max,
        series,
        groups: groups.collect(),
        line: with_alone.then(|| Line::Levels("noise".to_string())),
    }
}

fn step_chart(step: &Step) -> BarChart {
    let names = ["managed", "unmanaged", "alone again"];
    let group = |window: &super::step::StepWindow| Group {
        label: format!("{} ms", window.after_ms),
        bars: [
            window.managed_p99_over_alone,
            window.unmanaged_p99_over_alone,
            window.alone_again_p99_over_alone,
        ]
        .map(|ratio| Some(Bar::exact(ratio)))
        .to_vec(),
        line: None,
    };
    BarChart {
        title: format!(
            "p99 of each 100 ms after a step from {:.0} to {:.0}%, over that alone",
            step.from * 100.0,
            step.to * 100.0
        ),
        x_label: "after the step".to_string(),
        y_label: "p99 / alone".to_string(),
        y_max: Some(6.0),
        series: names.map(str::to_string).to_vec(),
        groups: step.windows.iter().map(group).collect(),
        line: None,
    }
}
