//! Pictures of a study, as SVG that stands alone: bars of missed goals with
//! their confidence intervals, and who held what over time.

use super::result::{PointResult, PolicyResult};
use ebb_scheduler::planning::Told;
use std::fmt::Write as _;

/// Told apart also without colour vision.
const COLOURS: [&str; 8] = [
    "#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5",
];

const WIDTH: f64 = 960.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 40.0;
const HEIGHT: f64 = 320.0;

const STYLE: &str = "<style>text{font:12px system-ui,sans-serif;fill:#5b6775}\
    .title{font-weight:600;fill:#1d2733}.grid{stroke:#dfe4ea}.error{stroke:#1d2733}\
    .bound{stroke:#1d2733;stroke-width:2;stroke-dasharray:6 3}\
    .goal{stroke-width:1.5;stroke-dasharray:5 4}\
    .forecast{fill:none;stroke:#1d2733;stroke-width:2}</style>\
    <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>";

/// The frame with its title, a legend, and lines at values up to `y_max`.
fn frame(title: &str, legend: &[String], y_max: f64, unit: &str) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"{title}\">{STYLE}<text class=\"title\" x=\"{LEFT}\" y=\"16\">{title}</text>",
        title = escape(title),
    );
    let mut x = LEFT;
    for (name, colour) in legend.iter().zip(COLOURS.iter().cycle()) {
        let _ = write!(
            svg,
            "<rect x=\"{x:.0}\" y=\"24\" width=\"10\" height=\"10\" fill=\"{colour}\"/>\
             <text x=\"{:.0}\" y=\"33\">{}</text>",
            x + 14.0,
            escape(name)
        );
        x += 30.0 + 7.0 * name.chars().count() as f64;
    }
    for tick in 0..=4 {
        let value = y_max * f64::from(tick) / 4.0;
        let at = y(value, y_max);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{value:.0}{unit}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0
        );
    }
    svg
}

fn y(value: f64, y_max: f64) -> f64 {
    HEIGHT - BOTTOM - (value / y_max).clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
}

/// Goals missed by each policy at each point, in percent, with the 95%
/// confidence interval of the mean. What any scheduler misses at least is dashed.
#[must_use]
pub fn missed_bars(title: &str, points: &[&PointResult]) -> String {
    let policies: Vec<String> = (points.iter().take(1))
        .flat_map(|point| point.policies.iter().map(|policy| policy.policy.clone()))
        .collect();
    let mut svg = frame(title, &policies, 100.0, "%");
    let group = (WIDTH - LEFT - RIGHT) / points.len().max(1) as f64;
    let bar = group * 0.8 / policies.len().max(1) as f64;
    for (index, point) in points.iter().enumerate() {
        let from = LEFT + group * (index as f64 + 0.1);
        for ((place, policy), colour) in (point.policies.iter().enumerate()).zip(COLOURS) {
            let missed = policy.missed_fraction;
            let (value, half) = (100.0 * missed.mean, 100.0 * missed.half_width_95);
            let (x, top) = (from + bar * place as f64, y(value, 100.0));
            let _ = write!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                 fill=\"{colour}\"><title>{}: {value:.1}% ± {half:.1}</title></rect>\
                 <line class=\"error\" x1=\"{centre:.1}\" x2=\"{centre:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
                bar * 0.92,
                HEIGHT - BOTTOM - top,
                escape(&policy.policy),
                y(value - half, 100.0),
                y(value + half, 100.0),
                centre = x + bar * 0.46,
            );
        }
        if let Some(bound) = &point.bound {
            let missed = 100.0 * bound.missed_fraction.mean;
            let _ = write!(
                svg,
                "<line class=\"bound\" x1=\"{from:.1}\" x2=\"{:.1}\" y1=\"{at:.1}\" \
                 y2=\"{at:.1}\"><title>any scheduler: {missed:.1}%</title></line>",
                from + group * 0.8,
                at = y(missed, 100.0),
            );
        }
        // One line for each value that was swept, or they run into each other.
        for (line, (field, value)) in point.set.iter().enumerate() {
            let short = field.rsplit('.').next().unwrap_or(field).replace('_', " ");
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                from + group * 0.4,
                HEIGHT - BOTTOM + 16.0 + 15.0 * line as f64,
                escape(&format!("{short} {value}"))
            );
        }
    }
    svg + "</svg>\n"
}

/// A reliability diagram: how many of the jobs that were told a probability met their
/// goals, against that probability, in percent. The diagonal is what was promised; a dot
/// is as large as the square root of its number of jobs.
#[must_use]
pub fn reliability(title: &str, lines: &[(String, Vec<Told>)]) -> String {
    let names: Vec<String> = lines.iter().map(|(name, _)| name.clone()).collect();
    let mut svg = frame(title, &names, 100.0, "%");
    let x = |part: f64| LEFT + part * (WIDTH - LEFT - RIGHT);
    let _ = write!(
        svg,
        "<line class=\"bound\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        x(0.0),
        y(0.0, 100.0),
        x(1.0),
        y(100.0, 100.0)
    );
    for ((_, told), colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let at = |told: &Told| (x(told.told), y(100.0 * told.met, 100.0));
        let points: Vec<String> = (told.iter().map(at))
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let _ = write!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\"/>",
            points.join(" ")
        );
        for told in told {
            let (x, y) = at(told);
            let radius = (f64::from(told.jobs).sqrt() / 6.0).clamp(1.5, 12.0);
            let _ = write!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" fill=\"{colour}\" \
                 fill-opacity=\"0.6\"><title>{} jobs: told {:.1}%, met {:.1}%</title></circle>",
                told.jobs,
                100.0 * told.told,
                100.0 * told.met
            );
        }
    }
    for tick in 0..=5 {
        let part = f64::from(tick) / 5.0;
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{:.0}%</text>",
            x(part),
            HEIGHT - BOTTOM + 18.0,
            100.0 * part
        );
    }
    let _ = write!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">told</text>",
        x(0.5),
        HEIGHT - 6.0
    );
    svg + "</svg>\n"
}

/// Cores held by each listed job over time, on top of each other, under f(t).
/// Goals are dashed lines.
#[must_use]
pub fn shares(title: &str, result: &PolicyResult) -> String {
    let samples = &result.shares;
    let end_s = samples.last().map_or(1.0, |sample| sample.t_s);
    let goals = result.jobs.iter().filter_map(|job| job.record.job.goal_s);
    let x_max_s = goals.fold(end_s, f64::max) * 1.02;
    let most = |sample: &ebb_scheduler::sim::ShareSample| {
        let held: u32 = sample.held_hundredths.iter().map(|(_, held)| held).sum();
        f64::from(held.max(sample.available_hundredths)) / 100.0
    };
    let y_max = samples.iter().map(most).fold(1.0, f64::max).ceil();
    let names: Vec<String> = result.jobs.iter().map(|job| job.name.clone()).collect();
    let mut svg = frame(title, &names, y_max, "");
    let x = |t_s: f64| LEFT + t_s / x_max_s * (WIDTH - LEFT - RIGHT);

    let mut below = vec![0.0; samples.len()];
    for (job, colour) in result.jobs.iter().zip(COLOURS.iter().cycle()) {
        let id = job.record.job.id;
        let held = samples.iter().map(|sample| {
            let held = sample.held_hundredths.iter().find(|(held, _)| *held == id);
            held.map_or(0.0, |(_, held)| f64::from(*held) / 100.0)
        });
        let top: Vec<f64> = below
            .iter()
            .zip(held)
            .map(|(below, held)| below + held)
            .collect();
        // Steps: what is held from one sample until the next.
        let mut path = String::new();
        for (index, sample) in samples.iter().enumerate() {
            let until_s = samples.get(index + 1).map_or(end_s, |next| next.t_s);
            let at = y(top[index], y_max);
            let _ = write!(
                path,
                "{:.1},{at:.1} {:.1},{at:.1} ",
                x(sample.t_s),
                x(until_s)
            );
        }
        for (index, sample) in samples.iter().enumerate().rev() {
            let until_s = samples.get(index + 1).map_or(end_s, |next| next.t_s);
            let at = y(below[index], y_max);
            let _ = write!(
                path,
                "{:.1},{at:.1} {:.1},{at:.1} ",
                x(until_s),
                x(sample.t_s)
            );
        }
        let _ = write!(svg, "<polygon points=\"{path}\" fill=\"{colour}\"/>");
        if let Some(goal_s) = job.record.job.goal_s {
            let _ = write!(
                svg,
                "<line class=\"goal\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.1}\" \
                 stroke=\"{colour}\"/>",
                HEIGHT - BOTTOM,
                at = x(goal_s),
            );
        }
        below = top;
    }
    let line: Vec<String> = (0..=200)
        .map(|step| {
            let t_s = x_max_s * f64::from(step) / 200.0;
            let cores = result.availability.at(t_s) / 100.0;
            format!("{:.1},{:.1}", x(t_s), y(cores, y_max))
        })
        .collect();
    let _ = write!(
        svg,
        "<polyline class=\"forecast\" points=\"{}\"/>",
        line.join(" ")
    );
    for tick in 0..=6 {
        let t_s = x_max_s * f64::from(tick) / 6.0;
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            x(t_s),
            HEIGHT - BOTTOM + 18.0,
            time(t_s, x_max_s)
        );
    }
    svg + "</svg>\n"
}

/// Hours where the whole is hours long, seconds otherwise.
fn time(t_s: f64, whole_s: f64) -> String {
    if whole_s > 4.0 * 3600.0 {
        format!("{:.1} h", t_s / 3600.0)
    } else {
        format!("{t_s:.0} s")
    }
}

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}
