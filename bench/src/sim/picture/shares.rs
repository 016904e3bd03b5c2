//! Chart of the cores that jobs held over time, below f(t).

use super::time;
use crate::chart::{COLOURS, Picture, Plane, escape, text};
use crate::sim::result::PolicyResult;

const TOP: f64 = 46.0;
const BOTTOM: f64 = 40.0;
const HEIGHT: f64 = 320.0;

const STYLE: &str = ".goal{stroke:#1d2733;stroke-width:1.5;stroke-dasharray:5 4}\
    .forecast{fill:none;stroke:#1d2733;stroke-width:2}";

/// Draws the cores that each listed job held over time, stacked, and f(t), the capacity for
/// jobs. Dashed lines with the names of jobs mark their goals.
#[must_use]
pub fn shares(title: &str, result: &PolicyResult) -> String {
    let samples = &result.shares;
    let end_s = samples.last().map_or(1.0, |sample| sample.t_s);
    let goals = result.jobs.iter().filter_map(|job| job.record.job.goal_s);
    // Goals may come after the last sample. The last of them gets a margin, for its name.
    let x_max_s = goals.fold(end_s, f64::max).max(1.0) * 1.02;
    // f(t) itself and not the samples of it, which end before a later goal.
    let forecast = (0..=200).map(|step| {
        let t_s = x_max_s * f64::from(step) / 200.0;
        (t_s, result.availability.at(t_s) / 100.0)
    });
    let forecast: Vec<(f64, f64)> = forecast.collect();
    // The picture has room for f(t) and for the cores that jobs held, whichever are more.
    let held_cores = samples.iter().map(|sample| {
        let held = sample.held_hundredths.iter();
        held.map(|(_, held)| f64::from(*held)).sum::<f64>() / 100.0
    });
    let forecast_cores = forecast.iter().map(|(_, cores)| *cores);
    let y_max = held_cores.chain(forecast_cores).fold(1.0, f64::max).ceil();
    let mut picture = Picture::new(title, HEIGHT);
    picture.legend(result.jobs.iter().map(|job| job.name.as_str()));
    let plane = Plane::new(TOP, HEIGHT - TOP - BOTTOM, (0.0, x_max_s), (0.0, y_max));
    let svg = &mut picture.body;
    let quarters = (0..=4).map(|tick| y_max * f64::from(tick) / 4.0);
    plane.grid(svg, quarters.map(|cores| (cores, format!("{cores:.0}"))));

    let mut below = vec![0.0; samples.len()];
    for (job, colour) in result.jobs.iter().zip(COLOURS.iter().cycle()) {
        let id = job.record.job.id;
        // A step from each sample to the next, because jobs hold their cores until then.
        let mut steps = Vec::with_capacity(2 * samples.len());
        for (index, (sample, below)) in samples.iter().zip(&mut below).enumerate() {
            let held = sample.held_hundredths.iter().find(|(held, _)| *held == id);
            let low = *below;
            *below += held.map_or(0.0, |(_, held)| f64::from(*held) / 100.0);
            let until_s = samples.get(index + 1).map_or(end_s, |next| next.t_s);
            steps.extend([(sample.t_s, low, *below), (until_s, low, *below)]);
        }
        plane.area(svg, &steps, &format!(r#"fill="{colour}""#), "");
    }
    // Goals are drawn last, or the areas of jobs would cover them.
    for job in &result.jobs {
        if let Some(goal_s) = job.record.job.goal_s {
            plane.upright(svg, goal_s, r#"class="goal""#);
            let at = (plane.at_x(goal_s) + 4.0, TOP + 10.0);
            text(svg, at, "", &escape(&job.name));
        }
    }
    plane.line(svg, forecast, r#"class="forecast""#, "");
    let sixths = (0..=6).map(|tick| x_max_s * f64::from(tick) / 6.0);
    plane.labels(svg, sixths.map(|t_s| (t_s, time(t_s, x_max_s))));
    picture.to_svg_with(STYLE)
}
