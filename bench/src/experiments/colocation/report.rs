//! The results of the experiment: the JSON, the tables, the charts.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use ebb_colocate::Objective;
use serde::Serialize;

use super::args::ColocationArgs;
use super::bootstrap::Estimate;
use super::curve::Curve;
use super::goals::GoalsTrial;
use super::ratios::Ratios;
use super::setup::Setup;
use super::step::Step;
use super::trial::{Against, Trial};
use crate::chart::{Bar, BarChart, Group};
use crate::number::{fixed, percent};

/// The results of all parts; parts that did not run are empty.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub cores: u32,
    pub workload: String,
    pub quick: bool,
    pub kernel: Option<String>,
    /// Whether the kernel schedules by session (`sched_autogroup_enabled`): the idle class then
    /// yields only to threads of its own session. `None` if the kernel does not have the setting.
    pub autogroup: Option<bool>,
    pub loads: Vec<LoadRow>,
    pub days: Vec<Trial>,
    pub step: Option<Step>,
    pub reserves: Option<Trial>,
    pub policies: Option<Trial>,
    /// The latency objective by which the guard limits jobs in the part `guard`; `None` if that
    /// part was not run.
    pub objective: Option<Objective>,
    pub guard: Option<Trial>,
    pub isolate: Vec<Trial>,
    pub cache: Option<Trial>,
    pub goals: Option<GoalsTrial>,
    pub forecast: Option<GoalsTrial>,
    pub yields: Option<Trial>,
    pub curve: Option<Curve>,
}

/// A steady load: its key figures by name, and its trial.
#[derive(Debug, Serialize)]
pub struct LoadRow {
    /// The fraction of the machine that the load should use, 0 to 1.
    pub load: f64,
    /// The fraction of the machine that the load used without jobs, 0 to 1.
    pub load_achieved: f64,
    /// The number of operations that were due together.
    pub batch: u32,
    pub managed_p99_over_alone: f64,
    pub managed_p99_over_alone_low: f64,
    pub managed_p99_over_alone_high: f64,
    pub unmanaged_p99_over_alone: f64,
    pub alone_again_p99_over_alone: f64,
    /// The noise: the largest factor by which the p99 may differ between two measurements of the
    /// load alone (the end of the ratio's confidence interval that is farther from 1).
    pub noise_p99: f64,
    pub managed_p999_over_alone: f64,
    pub managed_p999_over_alone_low: f64,
    pub managed_p999_over_alone_high: f64,
    pub unmanaged_p999_over_alone: f64,
    pub alone_again_p999_over_alone: f64,
    pub noise_p999: f64,
    /// CPU time of managed jobs, divided by the CPU time that the load alone leaves idle.
    pub idle_cpu_used: f64,
    /// CPU time of unmanaged jobs, divided by the CPU time that the load alone leaves idle; above 1
    /// if they take some from the load.
    pub unmanaged_idle_cpu_used: f64,
    pub trial: Trial,
}

impl LoadRow {
    /// Makes the report's entry for a load from a trial, which must have measured the load beside
    /// jobs in the ways named `unmanaged` and `managed`.
    pub fn new(load: f64, batch: u32, cores: u32, trial: Trial) -> Self {
        let managed = trial.contender("managed").ratios;
        let unmanaged = trial.contender("unmanaged").ratios;
        let again = trial.alone_again;
        Self {
            load,
            load_achieved: trial.transactional_cores / f64::from(cores),
            batch,
            managed_p99_over_alone: managed.p99.value,
            managed_p99_over_alone_low: managed.p99.low,
            managed_p99_over_alone_high: managed.p99.high,
            unmanaged_p99_over_alone: unmanaged.p99.value,
            alone_again_p99_over_alone: again.p99.value,
            noise_p99: again.p99.farthest_from_one(),
            managed_p999_over_alone: managed.p999.value,
            managed_p999_over_alone_low: managed.p999.low,
            managed_p999_over_alone_high: managed.p999.high,
            unmanaged_p999_over_alone: unmanaged.p999.value,
            alone_again_p999_over_alone: again.p999.value,
            noise_p999: again.p999.farthest_from_one(),
            idle_cpu_used: managed.idle_cpu_used,
            unmanaged_idle_cpu_used: unmanaged.idle_cpu_used,
            trial,
        }
    }
}

impl Report {
    pub fn new(args: &ColocationArgs, setup: &Setup) -> Self {
        Self {
            cores: setup.cores,
            workload: args.workload.to_string(),
            quick: args.quick,
            kernel: procfs::sys::kernel::Version::current()
                .map(|version| format!("{}.{}.{}", version.major, version.minor, version.patch))
                .ok(),
            autogroup: std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled")
                .ok()
                .map(|text| text.trim() == "1"),
            ..Self::default()
        }
    }

    pub fn text(&self) -> String {
        let mut out = String::new();
        let trials = self.loads.iter().map(|row| &row.trial);
        let trials = trials.chain(&self.days).chain(&self.isolate);
        let rest = [
            &self.reserves,
            &self.policies,
            &self.guard,
            &self.cache,
            &self.yields,
        ];
        for trial in trials.chain(rest.into_iter().flatten()) {
            out += &table(trial);
        }
        if let Some(objective) = self.objective {
            let _ = writeln!(out, "The guard's objective was {objective}.\n");
        }
        if let Some(step) = &self.step {
            out += &table(&step.trial);
            out += &step_table(step);
        }
        for trial in [&self.goals, &self.forecast].into_iter().flatten() {
            out += &trial.text();
        }
        if let Some(curve) = &self.curve {
            out += &curve.text();
        }
        out
    }

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
        "{}: {:.0} ops/s use {:.2} cores and leave {:.2}; alone p50 {:.0} us, p99 {:.0} us, p99.9 {:.0} us\n  {} rounds of {:.1} s after {:.1} s; {} windows spoiled by others{}; {} for +-5%",
        trial.name,
        trial.ops_per_s,
        trial.transactional_cores,
        trial.idle_cores,
        trial.alone_p50_us,
        trial.alone_p99_us,
        trial.alone_p999_us,
        trial.rounds,
        trial.window_s,
        trial.lead_s,
        trial.windows_spoiled,
        if trial.spoiled_count {
            ", which count"
        } else {
            ""
        },
        match trial.rounds_needed {
            Some(rounds) => format!("{rounds} rounds"),
            None => "an unknown number of rounds".to_string(),
        },
    );
    let _ = writeln!(
        out,
        "  {:<26} {:>4} {:>5} {:>18} {:>18} {:>18} {:>18} {:>18} {:>9} {:>9} {:>9} {:>6} {:>10}",
        "over alone",
        "n",
        "p50",
        "p99",
        "p99.9",
        "batch p99",
        "dispatch p99",
        "lead p99",
        "idle used",
        "job MB/s",
        "MB/CPU s",
        "paused",
        "cache hits"
    );
    for against in &trial.contenders {
        row(&mut out, &against.name, &against.ratios);
    }
    row(&mut out, "alone again", &trial.alone_again);
    out.push('\n');
    out
}

fn row(out: &mut String, name: &str, ratios: &Ratios) {
    let hits = fixed(ratios.cache_hits, 3);
    let paused = percent(ratios.paused, 1);
    let megabytes = |bytes: Option<f64>| fixed(bytes.map(|bytes| bytes / 1e6), 1);
    let interval = |it: Estimate| {
        let [value, low, high] = [it.value, it.low, it.high].map(|ratio| fixed(ratio, 2));
        format!("{value} ({low}-{high})")
    };
    let _ = writeln!(
        out,
        "  {name:<26} {:>4} {:>5} {:>18} {:>18} {:>18} {:>18} {:>18} {:>9} {:>9} {:>9} {paused:>6} {hits:>10}",
        ratios.windows,
        fixed(ratios.p50.value, 2),
        interval(ratios.p99),
        interval(ratios.p999),
        interval(ratios.batch_p99),
        interval(ratios.dispatch_p99),
        ratios.lead_p99.map_or("-".to_string(), interval),
        fixed(ratios.idle_cpu_used, 2),
        megabytes(ratios.jobs_bytes_per_s),
        megabytes(ratios.jobs_bytes_per_cpu_s),
    );
}

fn step_table(step: &Step) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "A step from {:.0} to {:.0}% of the machine, {} rounds: p99 of each 100 ms over that alone\n  {:>8} {:>12} {:>19} {:>10} {:>12}",
        step.from * 100.0,
        step.to * 100.0,
        step.trial.rounds,
        "after",
        "alone, us",
        "managed",
        "unmanaged",
        "alone again"
    );
    for window in &step.windows {
        let _ = writeln!(
            out,
            "  {:>5} ms {:>12} {:>6} ({}-{}) {:>10} {:>12}",
            window.after_ms,
            fixed(window.alone_p99_us, 0),
            fixed(window.managed_p99_over_alone, 2),
            fixed(window.managed_p99_over_alone_low, 2),
            fixed(window.managed_p99_over_alone_high, 2),
            fixed(window.unmanaged_p99_over_alone, 2),
            fixed(window.alone_again_p99_over_alone, 2)
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

fn latency_chart(trials: &[&Trial]) -> BarChart {
    let bar = |estimate: Estimate| Bar {
        value: estimate.value,
        low: estimate.low,
        high: estimate.high,
    };
    let groups = trials.iter().map(|trial| {
        let beside = trial.contenders.iter().map(|against| &against.ratios);
        let all = beside.chain([&trial.alone_again]);
        Group {
            label: trial.name.clone(),
            bars: all.map(|ratios| Some(bar(ratios.p99))).collect(),
            line: None,
        }
    });
    let mut series = names(trials);
    series.push("alone again".to_string());
    BarChart {
        title: "p99 of the load beside jobs, over that alone".to_string(),
        x_label: "load".to_string(),
        y_label: "p99 / alone".to_string(),
        y_max: Some(4.0),
        series,
        groups: groups.collect(),
        line: None,
    }
}

fn cpu_chart(trials: &[&Trial]) -> BarChart {
    let groups = trials.iter().map(|trial| {
        let used = |against: &Against| Some(Bar::exact(against.ratios.idle_cpu_used));
        Group {
            label: trial.name.clone(),
            bars: trial.contenders.iter().map(used).collect(),
            line: None,
        }
    });
    BarChart {
        title: "CPU that jobs used, over what the load alone leaves idle".to_string(),
        x_label: "load".to_string(),
        y_label: "used / idle".to_string(),
        y_max: None,
        series: names(trials),
        groups: groups.collect(),
        line: None,
    }
}

/// Returns the names of the contenders, which are the same in all trials.
fn names(trials: &[&Trial]) -> Vec<String> {
    let contenders = trials[0].contenders.iter();
    contenders.map(|against| against.name.clone()).collect()
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

#[cfg(test)]
mod tests {
    use super::super::ratios::tests::window;
    use super::super::trial::tests::trial;
    use super::*;

    fn near(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9
    }

    #[test]
    fn a_row_of_a_load_has_the_ratios_of_its_trial() {
        let two = |slowest_us, cores| vec![window(slowest_us, cores), window(slowest_us, cores)];
        let windows = vec![
            two(1000, 0.0),
            two(1000, 0.0),
            two(1100, 0.7),
            two(3000, 1.4),
        ];
        let row = LoadRow::new(0.3, 50, 2, trial(&["managed", "unmanaged"], windows));
        assert!(near(row.load_achieved, 0.3), "{row:?}");
        for managed in [
            row.managed_p99_over_alone_low,
            row.managed_p99_over_alone,
            row.managed_p99_over_alone_high,
            row.managed_p999_over_alone,
        ] {
            assert!(near(managed, 1.1), "{row:?}");
        }
        assert!(near(row.unmanaged_p99_over_alone, 3.0), "{row:?}");
        assert!(near(row.alone_again_p99_over_alone, 1.0), "{row:?}");
        assert!(near(row.noise_p99, 1.0), "{row:?}");
        let used = (row.idle_cpu_used, row.unmanaged_idle_cpu_used);
        assert!(near(used.0, 0.5) && near(used.1, 1.0), "{row:?}");

        let table = table(&row.trial);
        for part in ["alone again", "unmanaged", "1.10 (1.10-1.10)", "1000 ops/s"] {
            assert!(table.contains(part), "{part} in {table}");
        }
        for chart in [latency_chart(&[&row.trial]), cpu_chart(&[&row.trial])] {
            let svg = chart.to_svg();
            assert!(svg.contains("unmanaged") && !svg.contains("NaN"), "{svg}");
        }
    }
}
