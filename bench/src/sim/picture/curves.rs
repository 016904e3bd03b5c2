//! Curves over a common axis.

use crate::chart::{COLOURS, Picture, Plane};

const HEIGHT: f64 = 360.0;

/// A chart of several curves.
#[derive(Clone, Debug)]
pub struct Curves<'a> {
    pub title: &'a str,
    /// The label of the horizontal axis, with its unit.
    pub x_label: &'a str,
    /// The values at both ends of the horizontal axis.
    pub x: (f64, f64),
    /// The label of the vertical axis, with its unit.
    pub y_label: &'a str,
    /// The values at both ends of the vertical axis.
    pub y: (f64, f64),
    /// The curves, each with a colour of its own.
    pub lines: Vec<Line>,
    /// The value of a dotted horizontal line; `None` for no line.
    pub level: Option<f64>,
}

/// A curve.
#[derive(Clone, Debug)]
pub struct Line {
    /// The name in the legend.
    pub name: String,
    /// The points, from left to right.
    pub points: Vec<(f64, f64)>,
}

impl Curves<'_> {
    /// Returns the chart as an SVG file.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let mut picture = Picture::new(self.title, HEIGHT);
        picture.legend(self.lines.iter().map(|line| line.name.as_str()));
        let plane = Plane::new(62.0, HEIGHT - 62.0 - 48.0, self.x, self.y);
        let svg = &mut picture.body;
        plane.y_label(svg, self.y_label);
        plane.grid_y(svg, 5);
        plane.labels_x(svg, self.x_label);
        if let Some(level) = self.level {
            plane.across(svg, level, r#"class="level""#);
        }
        for (line, colour) in self.lines.iter().zip(COLOURS.iter().cycle()) {
            let how = format!(r#"class="curve" stroke="{colour}""#);
            plane.line(svg, line.points.iter().copied(), &how, "");
        }
        picture.to_svg()
    }
}
