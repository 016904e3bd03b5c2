//! Who held what over time, under f(t).

use std::fmt::Write as _;

use super::plane::legend;
use super::{COLOURS, escape, time};
use crate::sim::result::PolicyResult;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 40.0;
const HEIGHT: f64 = 320.0;

const STYLE: &str = "<style>text{font:12px system-ui,sans-serif;fill:#5b6775}\
    .title{font-weight:600;fill:#1d2733}.grid{stroke:#dfe4ea}.error{stroke:#1d2733}\
    .goal{stroke:#1d2733;stroke-width:1.5;stroke-dasharray:5 4}\
    .forecast{fill:none;stroke:#1d2733;stroke-width:2}</style>\
    <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>";

/// The frame with its title, a legend, and lines at values up to `y_max`.
fn frame(title: &str, names: &[String], y_max: f64, unit: &str) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"{title}\">{STYLE}<text class=\"title\" x=\"{LEFT}\" y=\"16\">{title}</text>",
        title = escape(title),
    );
    legend(&mut svg, names.iter().map(String::as_str));
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

/// Cores held by each listed job over time, on top of each other, under f(t).
/// Goals are dashed lines with the name of the job.
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
        below = top;
    }
    // On top of all, or a goal would vanish in its own job's colour.
    for job in &result.jobs {
        if let Some(goal_s) = job.record.job.goal_s {
            let at = x(goal_s);
            let _ = write!(
                svg,
                "<line class=\"goal\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                HEIGHT - BOTTOM,
                at + 4.0,
                TOP + 10.0,
                escape(&job.name),
            );
        }
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
