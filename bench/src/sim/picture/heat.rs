//! A heat map: a value over two axes, as colour.

use std::fmt::Write as _;

use crate::chart::{LEFT, Picture, Plane, RIGHT, WIDTH, escape, text};

const HEIGHT: f64 = 420.0;
const SCALE_WIDTH: f64 = 240.0;
/// The number of colours: a reader can tell a few levels apart, but not the shades of a gradient.
const STEPS: u32 = 10;

/// A heat map of a function of two numbers.
pub struct Heat<'a> {
    pub title: &'a str,
    /// The label of the horizontal axis, with its unit.
    pub x_label: &'a str,
    /// The values at both ends of the horizontal axis.
    pub x: (f64, f64),
    pub columns: u32,
    /// The label of the vertical axis, with its unit.
    pub y_label: &'a str,
    /// The values at both ends of the vertical axis.
    pub y: (f64, f64),
    pub rows: u32,
    /// The label of the colours, and the values of the lightest and the darkest colour.
    pub scale: (&'a str, f64, f64),
    /// The function, called with the middle of a cell; the cell is blank if it returns NaN.
    pub value: &'a dyn Fn(f64, f64) -> f64,
}

impl Heat<'_> {
    /// Returns the heat map as an SVG file.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let mut picture = Picture::new(self.title, HEIGHT);
        let plane = Plane::new(62.0, HEIGHT - 62.0 - 48.0, self.x, self.y);
        let svg = &mut picture.body;
        self.draw_scale(svg);
        plane.y_label(svg, self.y_label);
        plane.grid_y(svg, 6);
        plane.labels_x(svg, self.x_label);
        let step = |(low, high): (f64, f64), count: u32| (high - low) / f64::from(count);
        let (x_step, y_step) = (step(self.x, self.columns), step(self.y, self.rows));
        for row in 0..self.rows {
            let y = self.y.0 + y_step * f64::from(row);
            let cell = |column: u32| {
                let x = self.x.0 + x_step * f64::from(column);
                self.level((self.value)(x + x_step / 2.0, y + y_step / 2.0))
            };
            // Neighbouring cells of the same colour are drawn as one rectangle.
            let mut from = 0;
            for column in 1..=self.columns {
                if column < self.columns && cell(column) == cell(from) {
                    continue;
                }
                if let Some(level) = cell(from) {
                    let at = |column: u32| plane.at_x(self.x.0 + x_step * f64::from(column));
                    let _ = write!(
                        svg,
                        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"/>",
                        at(from),
                        plane.at_y(y + y_step),
                        at(column) - at(from) + 0.2,
                        plane.at_y(y) - plane.at_y(y + y_step) + 0.2,
                        colour(level)
                    );
                }
                from = column;
            }
        }
        picture.to_svg()
    }

    /// Returns the colour of a value, from 0 to [`STEPS`] - 1; values beyond an end of the scale
    /// have the colour of that end. `None` for NaN.
    fn level(&self, value: f64) -> Option<u32> {
        let (_, low, high) = self.scale;
        let part = (value - low) / (high - low);
        (!part.is_nan()).then(|| {
            ((part * f64::from(STEPS))
                .floor()
                .clamp(0.0, f64::from(STEPS - 1))) as u32
        })
    }

    fn draw_scale(&self, svg: &mut String) {
        let (label, low, high) = self.scale;
        let left = WIDTH - RIGHT - SCALE_WIDTH;
        let cell = SCALE_WIDTH / f64::from(STEPS);
        for level in 0..STEPS {
            let _ = write!(
                svg,
                "<rect x=\"{:.1}\" y=\"24\" width=\"{cell:.1}\" height=\"10\" fill=\"{}\"/>",
                left + cell * f64::from(level),
                colour(level)
            );
        }
        let end = r#"text-anchor="end""#;
        text(svg, (left, 48.0), "", &low.to_string());
        text(svg, (WIDTH - RIGHT, 48.0), end, &high.to_string());
        text(svg, ((left - 8.0).max(LEFT), 33.0), end, &escape(label));
    }
}

/// Returns a colour between a light and a dark blue.
fn colour(level: u32) -> String {
    let part = f64::from(level) / f64::from(STEPS - 1);
    let mix = |light: f64, dark: f64| (light + (dark - light) * part).round() as u8;
    format!(
        "#{:02x}{:02x}{:02x}",
        mix(239.0, 22.0),
        mix(243.0, 40.0),
        mix(255.0, 120.0)
    )
}
