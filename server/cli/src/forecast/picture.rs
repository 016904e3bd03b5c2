//! Forecast and measured load over time, as SVG.

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use ebb_scheduler::forecast::{Evaluation, Predicted};

const WIDTH: f64 = 1060.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 42.0;
const BOTTOM: f64 = 36.0;

/// Slots in a picture: about one per pixel.
const SLOTS_MAX: usize = 960;

/// Of a standalone picture, and of the report.
pub(super) const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#5b6775}\
    .title{font-weight:600;fill:#1d2733}.grid{stroke:#dfe4ea}\
    .band{fill:#4269d0;fill-opacity:.22}.point{fill:none;stroke:#4269d0;stroke-width:1.8}\
    .load{fill:none;stroke:#1d2733;stroke-width:1}";

/// Where values go on the paper.
struct Axes {
    from_s: f64,
    until_s: f64,
    most: f64,
}

impl Axes {
    fn x(&self, t_s: f64) -> f64 {
        LEFT + (t_s - self.from_s) / (self.until_s - self.from_s) * (WIDTH - LEFT - RIGHT)
    }

    /// Loads above the frame are drawn at its edge.
    fn y(&self, load: f64) -> f64 {
        HEIGHT - BOTTOM - (load / self.most).min(1.0) * (HEIGHT - TOP - BOTTOM)
    }

    fn line(&self, points: impl Iterator<Item = (f64, Option<f64>)>) -> String {
        let mut path = String::new();
        let mut pen = 'M';
        for (t_s, load) in points {
            let Some(load) = load else {
                pen = 'M';
                continue;
            };
            let _ = write!(path, "{pen}{:.1} {:.1}", self.x(t_s), self.y(load));
            pen = 'L';
        }
        path
    }

    fn frame(&self, title: &str) -> String {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let mut svg = format!(
            r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}"><text x="{LEFT}" y="16" class="title">{title}</text>"#
        );
        let step = round_step(self.most / 4.0);
        let mut load = 0.0;
        while load <= self.most {
            let y = self.y(load);
            let _ = write!(
                svg,
                r#"<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1}" y2="{y:.1}"/><text x="{}" y="{:.1}" text-anchor="end">{}</text>"#,
                LEFT - 8.0,
                y + 4.0,
                number(load, step)
            );
            load += step;
        }
        // About ten labels, at midnight.
        let days = (self.until_s - self.from_s) / DAY_S;
        let every_s = (days / 10.0).ceil().max(1.0) * DAY_S;
        let mut t_s = (self.from_s / DAY_S).ceil() * DAY_S;
        while t_s <= self.until_s {
            let x = self.x(t_s);
            let _ = write!(
                svg,
                r#"<line class="grid" x1="{x:.1}" x2="{x:.1}" y1="{bottom}" y2="{TOP}"/><text x="{x:.1}" y="{}" text-anchor="middle">{}</text>"#,
                bottom + 18.0,
                date(t_s)
            );
            t_s += every_s;
        }
        svg
    }
}

const DAY_S: f64 = 86_400.0;

/// The last slots of an evaluation: measured, forecast, and the interval of 80%.
pub(super) fn load(evaluation: &Evaluation) -> String {
    // Where forecasts overlap, each time is shown by the one that reached furthest.
    let mut slots: Vec<&Predicted> = Vec::new();
    for slot in &evaluation.slots {
        if slots.last().is_none_or(|last| last.t_s < slot.t_s) {
            slots.push(slot);
        }
    }
    let slots = &slots[slots.len().saturating_sub(SLOTS_MAX)..];
    let [first, .., last] = slots else {
        return String::new();
    };
    // A single burst must not press everything else flat.
    let mut highest: Vec<f64> = slots
        .iter()
        .map(|s| s.high.max(s.value.unwrap_or(0.0)))
        .collect();
    highest.sort_unstable_by(f64::total_cmp);
    let most = highest[(highest.len() - 1) * 99 / 100];
    let axes = Axes {
        from_s: first.t_s,
        until_s: last.t_s,
        most: if most > 0.0 { most * 1.05 } else { 1.0 },
    };
    let mut svg = axes.frame("Measured load, forecast, and where 80% should lie");
    let edge = |bound: fn(&Predicted) -> f64| move |s: &&Predicted| (s.t_s, Some(bound(s)));
    let high = axes.line(slots.iter().map(edge(|s| s.high)));
    let low = axes.line(slots.iter().rev().map(edge(|s| s.low)));
    let _ = write!(
        svg,
        r#"<path class="band" d="{high}{}Z"/>"#,
        low.replacen('M', "L", 1)
    );
    let point = axes.line(slots.iter().map(edge(|s| s.point)));
    let _ = write!(svg, r#"<path class="point" d="{point}"/>"#);
    let load = axes.line(slots.iter().map(|s| (s.t_s, s.value)));
    let _ = write!(svg, r#"<path class="load" d="{load}"/>"#);
    for (index, (class, name)) in [("load", "measured"), ("point", "forecast")]
        .into_iter()
        .enumerate()
    {
        let x = LEFT + 120.0 * index as f64;
        let _ = write!(
            svg,
            r#"<path class="{class}" d="M{x} 30h20"/><text x="{}" y="34">{name}</text>"#,
            x + 26.0
        );
    }
    svg + "</svg>"
}

/// A picture that stands alone.
pub(super) fn standalone(svg: &str) -> String {
    let svg = svg.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1);
    let ground = r##"<rect width="100%" height="100%" fill="#fff"/>"##;
    svg.replacen('>', &format!("><style>{STYLE}</style>{ground}"), 1)
}

/// The largest of 1, 2 and 5 times a power of ten that is not above `most`;
/// positive.
fn round_step(most: f64) -> f64 {
    let power = 10f64.powf(most.log10().floor());
    let step = [5.0, 2.0].into_iter().find(|step| step * power <= most);
    step.unwrap_or(1.0) * power
}

/// With as many decimals as steps of `step` need.
fn number(load: f64, step: f64) -> String {
    let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
    format!("{load:.decimals$}")
}

/// Month and day where the trace tells dates, else the day's number.
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
    fn steps_are_round_and_told_with_the_decimals_they_need() {
        for (most, step, told) in [
            (8030.0, 5000.0, "5000"),
            (28.1, 20.0, "20"),
            (1.0, 1.0, "1"),
            (0.3, 0.2, "0.2"),
            (0.06, 0.05, "0.05"),
        ] {
            assert!((round_step(most) - step).abs() < 1e-9, "{most}");
            assert_eq!(number(step, step), told);
        }
    }

    #[test]
    fn days_are_dates_where_the_times_are() {
        assert_eq!(date(1_404_172_800.0), "07-01");
        assert_eq!(date(3.0 * DAY_S), "day 3");
    }
}
