//! A rectangle of a picture, with its axes.

use super::{COLOURS, escape};
use std::fmt::Write as _;

pub(super) const WIDTH: f64 = 960.0;
pub(super) const LEFT: f64 = 72.0;
pub(super) const RIGHT: f64 = 20.0;

pub(super) const STYLE: &str = "<style>text{font:12px system-ui,sans-serif;fill:#5b6775}\
    .title{font-weight:600;fill:#1d2733}.grid{stroke:#dfe4ea}\
    .curve{fill:none;stroke-width:1.6}.level{stroke:#1d2733;stroke-dasharray:2 4}\
    .mark{stroke-width:1.2;stroke-dasharray:5 4}</style>\
    <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>";

/// Where values are drawn: from the left, and from the top, in pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plane {
    pub top: f64,
    pub height: f64,
    pub x: (f64, f64),
    pub y: (f64, f64),
}

impl Plane {
    pub fn at_x(&self, value: f64) -> f64 {
        let (low, high) = self.x;
        LEFT + ((value - low) / (high - low)).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    pub fn at_y(&self, value: f64) -> f64 {
        let (low, high) = self.y;
        self.top + self.height * (1.0 - ((value - low) / (high - low)).clamp(0.0, 1.0))
    }

    /// Lines across at round values, labelled on the left.
    pub fn grid_y(&self, svg: &mut String, lines: usize) {
        for tick in ticks(self.y, lines) {
            let at = self.at_y(tick);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.0,
                short(tick)
            );
        }
    }

    /// Labels below at round values.
    pub fn labels_x(&self, svg: &mut String, label: &str) {
        let below = self.top + self.height + 18.0;
        for tick in ticks(self.x, 8) {
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{}</text>",
                self.at_x(tick),
                short(tick)
            );
        }
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            below + 18.0,
            escape(label)
        );
    }
}

/// The start of a picture: the title at the top left.
pub(super) fn open(title: &str, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{title}\">{STYLE}<text class=\"title\" x=\"{LEFT}\" y=\"16\">{title}</text>",
        title = escape(title),
    )
}

/// The names below the title, each behind its colour.
pub(super) fn legend<'a>(svg: &mut String, names: impl Iterator<Item = &'a str>) {
    let mut x = LEFT;
    for (name, colour) in names.zip(COLOURS.iter().cycle()) {
        let _ = write!(
            svg,
            "<rect x=\"{x:.0}\" y=\"24\" width=\"10\" height=\"10\" fill=\"{colour}\"/>\
             <text x=\"{:.0}\" y=\"33\">{}</text>",
            x + 14.0,
            escape(name)
        );
        x += 32.0 + 7.0 * name.chars().count() as f64;
    }
}

/// About `count` round values between the ends, both included if they are round.
fn ticks((low, high): (f64, f64), count: usize) -> Vec<f64> {
    let rough = (high - low) / count.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = steps.into_iter().find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|tick| tick as f64 * step).collect()
}

/// Two decimals at most, none that say nothing.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" {
        "0".into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_ends() {
        assert_eq!(ticks((0.0, 100.0), 5), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks((-2.0, 1.0), 3), [-2.0, -1.0, 0.0, 1.0]);
        assert_eq!(ticks((0.0, 6130.0), 4), [0.0, 2000.0, 4000.0, 6000.0]);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(short(0.25), "0.25");
        assert_eq!(short(20.0), "20");
        assert_eq!(short(-0.0), "0");
    }
}
