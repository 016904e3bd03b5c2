//! Curves over a common axis.

use crate::chart::{COLOURS, Picture, Plane};

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
    /// The curves, each of a colour of its own.
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
