//! The pictures of a day, as SVG: cores over time (the thesis's Figure 5.15)
//! and, on the same time axis, latency and what the guard did about it.

use std::fmt::Write as _;

use super::day::HOURS;
use super::outcome::Outcome;

/// One colour per job, in the order of submission; told apart also without
/// colour vision.
pub(super) const JOB_COLOURS: [&str; 4] = ["#4269d0", "#efb118", "#ff725c", "#6cc5b0"];
pub(super) const LOAD_COLOUR: &str = "var(--load)";

const WIDTH: f64 = 960.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 40.0;

/// Where values go on the paper.
struct Axes {
    height: f64,
    x_max: f64,
    /// Lower and upper end of the values.
    y: (f64, f64),
    log: bool,
}

impl Axes {
    fn x(&self, value: f64) -> f64 {
        LEFT + value / self.x_max * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        let scale = |value: f64| {
            if self.log {
                value.max(1e-9).log10()
            } else {
                value
            }
        };
        let (low, high) = (scale(self.y.0), scale(self.y.1));
        let part = ((scale(value) - low) / (high - low)).clamp(0.0, 1.0);
        self.height - BOTTOM - part * (self.height - TOP - BOTTOM)
    }

    /// The frame, the hours, and a line for each value.
    fn frame(&self, title: &str, ticks: &[(f64, String)]) -> String {
        let (bottom, right) = (self.height - BOTTOM, WIDTH - RIGHT);
        let mut svg = format!(
            r#"<svg viewBox="0 0 {WIDTH} {}" role="img" aria-label="{title}">"#,
            self.height
        );
        for (value, label) in ticks {
            let y = self.y(*value);
            let _ = write!(
                svg,
                r#"<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1}" y2="{y:.1}"/>"#
            );
            let _ = write!(
                svg,
                r#"<text x="{}" y="{:.1}" text-anchor="end">{label}</text>"#,
                LEFT - 8.0,
                y + 4.0
            );
        }
        for hour in (0..=HOURS as u32).step_by(3) {
            let x = self.x(f64::from(hour));
            let _ = write!(
                svg,
                r#"<line class="grid" x1="{x:.1}" x2="{x:.1}" y1="{bottom}" y2="{:.1}"/>"#,
                bottom + 4.0
            );
            let _ = write!(
                svg,
                r#"<text x="{x:.1}" y="{}" text-anchor="middle">{hour}</text>"#,
                bottom + 18.0
            );
        }
        let _ = write!(
            svg,
            r#"<text x="{LEFT}" y="14" class="title">{title}</text>"#
        );
        let middle = (LEFT + right) / 2.0;
        let _ = write!(
            svg,
            r#"<text x="{middle}" y="{}" text-anchor="middle">hour of the compressed day</text>"#,
            self.height - 4.0
        );
        svg
    }

    /// The goals, as vertical lines.
    fn goals(&self, outcome: &Outcome) -> String {
        let mut svg = String::new();
        for (job, colour) in outcome.jobs.iter().zip(JOB_COLOURS) {
            let Some(goal_s) = job.goal_s else { continue };
            let x = self.x(outcome.day().hour_of(goal_s));
            let _ = write!(
                svg,
                r#"<line class="goal" stroke="{colour}" x1="{x:.1}" x2="{x:.1}" y1="{TOP}" y2="{}"/>"#,
                self.height - BOTTOM
            );
            let _ = write!(
                svg,
                r#"<text x="{:.1}" y="{}" text-anchor="end">goal {}</text>"#,
                x - 4.0,
                TOP + 12.0,
                job.name
            );
        }
        svg
    }

    /// A filled area between two series of (hour, low, high), drawn in steps.
    fn area(&self, points: &[(f64, f64, f64)], fill: &str, title: &str) -> String {
        let mut path = String::new();
        let low = points.iter().rev().map(|&(hour, low, _)| (hour, low));
        let high = points.iter().map(|&(hour, _, high)| (hour, high));
        for (i, (hour, value)) in high.chain(low).enumerate() {
            let _ = write!(
                path,
                "{}{:.1} {:.1}",
                if i == 0 { "M" } else { "L" },
                self.x(hour),
                self.y(value)
            );
        }
        format!(r#"<path d="{path}Z" fill="{fill}"><title>{title}</title></path>"#)
    }

    fn line(&self, points: impl Iterator<Item = (f64, f64)>, class: &str, title: &str) -> String {
        let mut path = String::new();
        for (i, (hour, value)) in points.enumerate() {
            let _ = write!(
                path,
                "{}{:.1} {:.1}",
                if i == 0 { "M" } else { "L" },
                self.x(hour),
                self.y(value)
            );
        }
        format!(r#"<path class="{class}" d="{path}"><title>{title}</title></path>"#)
    }
}

/// Cores over time: the transactional share on top, each job's below.
pub(super) fn cores(outcome: &Outcome) -> String {
    let day = outcome.day();
    let cores = f64::from(outcome.cores);
    let axes = Axes {
        height: 380.0,
        x_max: HOURS,
        y: (0.0, cores),
        log: false,
    };
    let ticks: Vec<_> = (0..=4)
        .map(|i| cores * f64::from(i) / 4.0)
        .map(|v| (v, format!("{v:.1}")))
        .collect();
    let mut svg = axes.frame("Cores over time", &ticks);

    let load = outcome
        .series
        .load
        .iter()
        .filter(|sample| sample.t_s <= outcome.seconds);
    let load: Vec<_> = load
        .map(|s| {
            (
                day.hour_of(s.t_s),
                (cores - s.transactional_cores).max(0.0),
                cores,
            )
        })
        .collect();
    svg += &axes.area(&load, LOAD_COLOUR, "transactional load");

    let cycles: Vec<_> = outcome
        .series
        .cycles
        .iter()
        .filter(|c| c.length_s > 0.0 && c.t_s <= outcome.seconds)
        .collect();
    let mut below = vec![0.0; cycles.len()];
    for (job, colour) in outcome.jobs.iter().zip(JOB_COLOURS) {
        let points: Vec<_> = cycles
            .iter()
            .zip(&mut below)
            .map(|(cycle, below)| {
                let sample = cycle.jobs.iter().find(|sample| sample.job == job.id);
                let low = *below;
                *below += sample.map_or(0.0, |sample| sample.used_cpu_s / cycle.length_s);
                (day.hour_of(cycle.t_s), low, *below)
            })
            .collect();
        svg += &axes.area(&points, colour, &job.name);
    }
    let forecast = outcome
        .series
        .forecast
        .iter()
        .map(|&(t_s, hundredths)| (day.hour_of(t_s), hundredths / 100.0));
    svg += &axes.line(
        forecast,
        "forecast",
        "f(t): forecast of what the load leaves",
    );
    svg + &axes.goals(outcome) + "</svg>"
}

/// Latency of the load over time.
pub(super) fn latency(outcome: &Outcome) -> String {
    let day = outcome.day();
    let samples = &outcome.series.latency;
    let most = samples.iter().map(|s| s.p99_us).fold(1000.0, f64::max);
    let top = 10f64.powf(most.log10().ceil());
    let axes = Axes {
        height: 260.0,
        x_max: HOURS,
        y: (1.0, top),
        log: true,
    };
    let label = |us: f64| {
        if us < 1e3 {
            format!("{us} us")
        } else if us < 1e6 {
            format!("{} ms", us / 1e3)
        } else {
            format!("{} s", us / 1e6)
        }
    };
    let ticks: Vec<_> = (0..=top.log10() as i32)
        .map(|power| 10f64.powi(power))
        .map(|us| (us, label(us)))
        .collect();
    let mut svg = axes.frame(
        "Latency of the transactional load, from the intended start",
        &ticks,
    );
    let alone = outcome.transactional.alone.p99_us;
    svg += &axes.line(
        [(0.0, alone), (HOURS, alone)].into_iter(),
        "alone",
        "p99 alone",
    );
    svg += &axes.line(
        samples.iter().map(|s| (day.hour_of(s.t_s), s.p99_us)),
        "p99",
        "p99",
    );
    svg += &axes.line(
        samples.iter().map(|s| (day.hour_of(s.t_s), s.p50_us)),
        "p50",
        "median",
    );
    svg + &axes.goals(outcome) + "</svg>"
}

/// What the guard allowed over time.
pub(super) fn guard(outcome: &Outcome) -> String {
    let day = outcome.day();
    let axes = Axes {
        height: 200.0,
        x_max: HOURS,
        y: (0.0, 100.0),
        log: false,
    };
    let ticks: Vec<_> = (0..=4)
        .map(|i| f64::from(i) * 25.0)
        .map(|v| (v, format!("{v:.0}%")))
        .collect();
    let mut svg = axes.frame("Part of what the load leaves that the guard allows", &ticks);
    let samples = outcome.series.guard.iter();
    let allowed = samples
        .filter(|sample| sample.window.t_s <= outcome.seconds)
        .map(|sample| (day.hour_of(sample.window.t_s), sample.allowed * 100.0));
    svg += &axes.line(allowed, "p50", "allowed");
    svg + "</svg>"
}

/// A picture with its own colours, for a place without the report's style sheet.
pub(super) fn standalone(svg: &str) -> String {
    const STYLE: &str = "<style>\
        text{font:12px system-ui,sans-serif;fill:#5b6775}.title{font-weight:600;fill:#1d2733}\
        .grid{stroke:#dfe4ea}.goal{stroke-width:1.5;stroke-dasharray:5 4}\
        .forecast{fill:none;stroke:#1d2733;stroke-width:2}</style>\
        <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>";
    let svg = svg.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1);
    svg.replacen('>', &format!(">{STYLE}"), 1)
        .replace(LOAD_COLOUR, "#c9d1da")
}
