//! Curves over a common axis.

use super::plane::{LEFT, Plane, legend, open};
use super::{COLOURS, escape};
use std::fmt::Write as _;

const HEIGHT: f64 = 360.0;

/// A family of curves.
#[derive(Clone, Debug)]
pub struct Curves<'a> {
    /// What it shows.
    pub title: &'a str,
    /// What is drawn to the right, with its unit.
    pub x_label: &'a str,
    /// Both ends of that axis.
    pub x: (f64, f64),
    /// What is drawn upwards, with its unit.
    pub y_label: &'a str,
    /// Both ends of that axis.
    pub y: (f64, f64),
    /// The curves, told apart by colour.
    pub lines: Vec<Line>,
    /// A dotted line across.
    pub level: Option<f64>,
}

/// One curve.
#[derive(Clone, Debug)]
pub struct Line {
    /// What the legend calls it.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

impl Curves<'_> {
    /// Draws them.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let mut svg = open(self.title, HEIGHT);
        let names = self.lines.iter().map(|line| line.name.as_str());
        legend(&mut svg, names);
        let plane = Plane {
            top: 62.0,
            height: HEIGHT - 62.0 - 48.0,
            x: self.x,
            y: self.y,
        };
        let _ = write!(
            svg,
            "<text x=\"8\" y=\"52\">{}</text>",
            escape(self.y_label)
        );
        plane.grid_y(&mut svg, 5);
        plane.labels_x(&mut svg, self.x_label);
        if let Some(level) = self.level {
            let at = plane.at_y(level);
            let _ = write!(
                svg,
                "<line class=\"level\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>",
                plane.at_x(self.x.1)
            );
        }
        for (line, colour) in self.lines.iter().zip(COLOURS.iter().cycle()) {
            let points = line.points.iter();
            let points: Vec<String> = points
                .map(|&(x, y)| format!("{:.1},{:.1}", plane.at_x(x), plane.at_y(y)))
                .collect();
            let _ = write!(
                svg,
                "<polyline class=\"curve\" stroke=\"{colour}\" points=\"{}\"/>",
                points.join(" ")
            );
        }
        svg + "</svg>\n"
    }
}
