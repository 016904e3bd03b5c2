//! Forecast and measured load over time, as SVG.

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use ebb_bench::chart::{LEFT, Picture, Plane, text};
use ebb_scheduler::forecast::{Evaluation, Predicted};

const HEIGHT: f64 = 340.0;
const TOP: f64 = 42.0;
const BOTTOM: f64 = 36.0;

/// The greatest number of time slots that a picture shows: about one per pixel.
const SLOTS_MAX: usize = 960;

/// The style sheet of a standalone picture, and of the report.
pub(super) const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#5b6775}\
    .title{font-weight:600;fill:#1d2733}.grid{stroke:#dfe4ea}\
    .band{fill:#4269d0;fill-opacity:.22}.point{fill:none;stroke:#4269d0;stroke-width:1.8}\
    .load{fill:none;stroke:#1d2733;stroke-width:1}";

const DAY_S: f64 = 86_400.0;

/// Marks at most eleven midnights on the time axis, an equal number of days apart.
fn draw_days(svg: &mut String, plane: &Plane) {
    let (from_s, until_s) = plane.x.values;
    let days = (until_s - from_s) / DAY_S;
    let every_s = (days / 10.0).ceil().max(1.0) * DAY_S;
    let mut t_s = (from_s / DAY_S).ceil() * DAY_S;
    while t_s <= until_s {
        plane.upright(svg, t_s, r#"class="grid""#);
        plane.labels(svg, [(t_s, date(t_s))]);
        t_s += every_s;
    }
}

/// Draws the last slots of an evaluation: the measured load, the forecast, and its interval of 80%. Returns
/// `None` if there are fewer than two slots.
pub(super) fn load(evaluation: &Evaluation) -> Option<Picture> {
    // Where forecasts overlap, each time is shown by the one that reached furthest.
    let mut slots: Vec<&Predicted> = Vec::new();
    for slot in &evaluation.slots {
        if slots.last().is_none_or(|last| last.t_s < slot.t_s) {
            slots.push(slot);
        }
    }
    let slots = &slots[slots.len().saturating_sub(SLOTS_MAX)..];
    let [first, .., last] = slots else {
        return None;
    };
    // A single burst must not press everything else flat.
    let mut highest: Vec<f64> = slots
        .iter()
        .map(|s| s.high.max(s.value.unwrap_or(0.0)))
        .collect();
    highest.sort_unstable_by(f64::total_cmp);
    let most = highest[(highest.len() - 1) * 99 / 100];
    let most = if most > 0.0 { most * 1.05 } else { 1.0 };

    let title = "Measured load, forecast, and where 80% should lie";
    let mut picture = Picture::new(title, HEIGHT);
    let svg = &mut picture.body;
    let height = HEIGHT - TOP - BOTTOM;
    let plane = Plane::new(TOP, height, (first.t_s, last.t_s), (0.0, most));
    plane.grid_y(svg, 4);
    draw_days(svg, &plane);
    let band: Vec<_> = slots.iter().map(|s| (s.t_s, s.low, s.high)).collect();
    plane.area(svg, &band, r#"class="band""#, "");
    let point = slots.iter().map(|s| (s.t_s, s.point));
    plane.line(svg, point, r#"class="point""#, "");
    let measured = slots.iter().map(|s| (s.t_s, s.value.unwrap_or(f64::NAN)));
    plane.line(svg, measured, r#"class="load""#, "");
    for (index, (class, name)) in [("load", "measured"), ("point", "forecast")]
        .into_iter()
        .enumerate()
    {
        let x = LEFT + 120.0 * index as f64;
        let _ = write!(svg, r#"<path class="{class}" d="M{x} 30h20"/>"#);
        text(svg, (x + 26.0, 34.0), "", name);
    }
    Some(picture)
}

/// Returns month and day if the times of the trace are dates, otherwise the number of the day.
fn date(t_s: f64) -> String {
    let year = 365.0 * DAY_S;
    if !(year..200.0 * year).contains(&t_s) {
        return format!("day {:.0}", t_s / DAY_S);
    }
    let time = UNIX_EPOCH + Duration::from_secs_f64(t_s);
    let text = humantime::format_rfc3339_seconds(time).to_string();
    text[5..10].to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates_where_the_times_are() {
        assert_eq!(date(1_404_172_800.0), "07-01");
        assert_eq!(date(3.0 * DAY_S), "day 3");
    }
}
