//! A rectangle of a picture, with its axes.

use std::fmt::Write as _;

use super::picture::{LEFT, RIGHT, WIDTH, escape, text};
use super::scale::{Scale, short, ticks};

const END: &str = r#"text-anchor="end""#;
const MIDDLE: &str = r#"text-anchor="middle""#;

/// A rectangle in which values are drawn, with a scale for each axis.
#[derive(Clone, Copy, Debug)]
pub struct Plane {
    /// The scale of the horizontal axis: from values to pixels from the left.
    pub x: Scale,
    /// The scale of the vertical axis: from values to pixels from the top.
    pub y: Scale,
}

impl Plane {
    /// Creates a plane over the whole width of a picture of width [`WIDTH`]. `x` and `y` are the values at the
    /// ends of the axes.
    #[must_use]
    pub fn new(top: f64, height: f64, x: (f64, f64), y: (f64, f64)) -> Self {
        let scale = |values, pixels| Scale {
            values,
            pixels,
            is_log: false,
        };
        Self {
            x: scale(x, (LEFT, WIDTH - RIGHT)),
            y: scale(y, (top + height, top)),
        }
    }

    /// Makes the vertical axis logarithmic; both its ends must be positive.
    #[must_use]
    pub fn log_y(mut self) -> Self {
        self.y.is_log = true;
        self
    }

    /// Moves the left and the right edge of the plane to these positions, in pixels from the left.
    #[must_use]
    pub fn between(mut self, left: f64, right: f64) -> Self {
        self.x.pixels = (left, right);
        self
    }

    /// Returns the horizontal position of `x`, in pixels from the left.
    pub fn at_x(&self, x: f64) -> f64 {
        self.x.at(x)
    }

    /// Returns the vertical position of `y`, in pixels from the top.
    pub fn at_y(&self, y: f64) -> f64 {
        self.y.at(y)
    }

    /// Draws a horizontal line at each value, with a label on the left.
    pub fn grid(&self, svg: &mut String, labelled: impl IntoIterator<Item = (f64, String)>) {
        for (value, label) in labelled {
            let at = self.at_y(value);
            self.across(svg, value, r#"class="grid""#);
            text(svg, (self.x.pixels.0 - 6.0, at + 4.0), END, &label);
        }
    }

    /// Draws about `lines` horizontal lines at round values, with labels.
    pub fn grid_y(&self, svg: &mut String, lines: usize) {
        let ticks = ticks(self.y.values, lines).into_iter();
        self.grid(svg, ticks.map(|tick| (tick, short(tick))));
    }

    /// Draws a horizontal line at a value; `how` has the SVG attributes of the line.
    pub fn across(&self, svg: &mut String, value: f64, how: &str) {
        let (at, (left, right)) = (self.at_y(value), self.x.pixels);
        let _ = write!(
            svg,
            r#"<line {how} x1="{left:.0}" x2="{right:.0}" y1="{at:.1}" y2="{at:.1}"/>"#
        );
    }

    /// Draws a vertical line at a value; `how` has the SVG attributes of the line.
    pub fn upright(&self, svg: &mut String, value: f64, how: &str) {
        let (at, (bottom, top)) = (self.at_x(value), self.y.pixels);
        let _ = write!(
            svg,
            r#"<line {how} x1="{at:.1}" x2="{at:.1}" y1="{top:.1}" y2="{bottom:.1}"/>"#
        );
    }

    /// Draws a label below the plane at each value.
    pub fn labels(&self, svg: &mut String, labelled: impl IntoIterator<Item = (f64, String)>) {
        let below = self.y.pixels.0 + 18.0;
        for (value, label) in labelled {
            text(svg, (self.at_x(value), below), MIDDLE, &label);
        }
    }

    /// Draws the label of the horizontal axis.
    pub fn x_label(&self, svg: &mut String, label: &str) {
        let (left, right) = self.x.pixels;
        let at = ((left + right) / 2.0, self.y.pixels.0 + 36.0);
        text(svg, at, MIDDLE, &escape(label));
    }

    /// Draws labels at round values below the plane, and the label of the horizontal axis.
    pub fn labels_x(&self, svg: &mut String, label: &str) {
        let ticks = ticks(self.x.values, 8).into_iter();
        self.labels(svg, ticks.map(|tick| (tick, short(tick))));
        self.x_label(svg, label);
    }

    /// Draws the label of the vertical axis, above its upper end.
    pub fn y_label(&self, svg: &mut String, label: &str) {
        text(svg, (8.0, self.y.pixels.1 - 10.0), "", &escape(label));
    }

    /// Returns a path of straight lines from point to point, with a gap at each NaN.
    pub fn path(&self, points: impl IntoIterator<Item = (f64, f64)>) -> String {
        let mut path = String::new();
        let mut pen = 'M';
        for (x, y) in points {
            if x.is_nan() || y.is_nan() {
                pen = 'M';
                continue;
            }
            let _ = write!(path, "{pen}{:.1} {:.1}", self.at_x(x), self.at_y(y));
            pen = 'L';
        }
        path
    }

    /// Draws a line through the points, with gaps at NaN. `title` is the tooltip; `how` has the SVG
    /// attributes of the line.
    pub fn line(
        &self,
        svg: &mut String,
        points: impl IntoIterator<Item = (f64, f64)>,
        how: &str,
        title: &str,
    ) {
        let path = self.path(points);
        draw(svg, &path, how, title);
    }

    /// Draws the area between two lines, given as points (x, low, high). `title` is the tooltip;
    /// `how` has the SVG attributes of the area.
    pub fn area(&self, svg: &mut String, points: &[(f64, f64, f64)], how: &str, title: &str) {
        let high = points.iter().map(|&(x, _, high)| (x, high));
        let low = points.iter().rev().map(|&(x, low, _)| (x, low));
        let path = self.path(high.chain(low)) + "Z";
        draw(svg, &path, how, title);
    }
}

fn draw(svg: &mut String, path: &str, how: &str, title: &str) {
    let _ = match title {
        "" => write!(svg, r#"<path {how} d="{path}"/>"#),
        title => {
            let title = escape(title);
            write!(
                svg,
                r#"<path {how} d="{path}"><title>{title}</title></path>"#
            )
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_gaps_and_an_area_is_closed() {
        let plane = Plane::new(0.0, 100.0, (0.0, 1.0), (0.0, 10.0));
        let line = [(0.0, 0.0), (0.5, f64::NAN), (1.0, 10.0)];
        assert_eq!(plane.path(line), "M72.0 100.0M940.0 0.0");
        let mut svg = String::new();
        plane.area(&mut svg, &[(0.0, 0.0, 5.0), (1.0, 0.0, 10.0)], "", "a & b");
        let path = "M72.0 50.0L940.0 0.0L940.0 100.0L72.0 100.0Z";
        assert!(
            svg.contains(path) && svg.contains("<title>a &amp; b</title>"),
            "{svg}"
        );
    }
}
