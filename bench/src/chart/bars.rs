//! Bars in groups, as SVG: the pictures of measured results.
//!
//! ```text
//!   y label │   ▌          ▏ spread
//!           │ ▐ ▌ ●──────● line, on an axis of its own
//!           │ ▐ ▌   ▐ ▌
//!           └──────────────
//!             group  group    x label
//! ```

use std::fmt::Write as _;

use super::picture::{LEFT, Picture, RIGHT, WIDTH, escape, text};
use super::plane::Plane;
use super::scale::{label, round_step};
use crate::number::fixed;

/// A bar chart: groups of bars, with one bar of a group for each series.
#[derive(Debug, Clone, PartialEq)]
pub struct BarChart {
    /// The title, drawn at the top left and read out by screen readers.
    pub title: String,
    /// The label of the horizontal axis, along which the groups are placed.
    pub x_label: String,
    /// The label of the vertical axis: the quantity that the bars show, and its unit.
    pub y_label: String,
    /// The upper end of the vertical axis. Higher bars are cut there and labelled with their value.
    /// With `None` the axis ends at a round number that is large enough for all bars and their
    /// error bars.
    pub y_max: Option<f64>,
    /// The names of the series; at most five, because there are five colours.
    pub series: Vec<String>,
    /// The groups, from left to right.
    pub groups: Vec<Group>,
    /// The form in which the [extra values](Group::line) of the groups are drawn: points joined by
    /// a line, or a mark across the bars of each group. `None` for a chart of bars only.
    pub line: Option<Line>,
}

/// The form in which the [extra values](Group::line) of the groups, such as bounds or a second
/// quantity, are drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    /// A line through the groups, on an axis of its own on the right. The text is the label of that
    /// axis: the quantity and its unit.
    Through(String),
    /// A dashed level across the bars of each group, on their axis. The text names it in the
    /// legend.
    Levels(String),
}

/// The bars of one group.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The text below the group.
    pub label: String,
    /// One bar for each series, in the order of the series; `None` leaves its place empty.
    pub bars: Vec<Option<Bar>>,
    /// One more value beside the bars, drawn as [`BarChart::line`] selects: as a point of the line
    /// through all groups, or as a level across the bars of this group. `None` draws neither here;
    /// a line then connects the points of the groups on both sides.
    pub line: Option<f64>,
}

/// A bar, and the spread of its value, which is drawn as an error bar. All three numbers are 0 or
/// more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// The height of the bar. A bar of infinite or NaN height is not drawn.
    pub value: f64,
    /// The lower end of the spread.
    pub low: f64,
    /// The upper end of the spread.
    pub high: f64,
}

impl Bar {
    /// Returns a bar without a spread.
    pub fn exact(value: f64) -> Self {
        Self {
            value,
            low: value,
            high: value,
        }
    }
}

/// The colours of the series, in order. The second is a light shade of the first. All five are
/// distinct under colour blindness, too.
pub(super) const COLOURS: [&str; 5] = ["#4269d0", "#a3b6e8", "#ff725c", "#efb118", "#6cc5b0"];

const STYLE: &str = ".error{stroke:#1d2733}\
    .line{fill:none;stroke:#1d2733;stroke-width:1.5}.dot{fill:#1d2733}\
    .least{stroke:#1d2733;stroke-width:2;stroke-dasharray:6 3}";

const HEIGHT: f64 = 360.0;
const TOP: f64 = 66.0;
const BOTTOM: f64 = 52.0;
/// Space to the right of the groups in a chart with [`Line::Through`], in pixels, for the labels of
/// the right axis.
const RIGHT_WITH_LINE: f64 = 64.0;
/// Distance between the entries of the legend, in pixels.
const LEGEND_STEP: f64 = 140.0;
/// The fraction of a group's width that its bars fill.
const FILLED: f64 = 0.84;
/// The fraction of the width available to a bar that the bar fills. The rest is the gap to the next
/// bar.
const BAR_FILLED: f64 = 0.9;
/// The approximate number of horizontal lines of the grid.
const TICKS: f64 = 6.0;

const MIDDLE: &str = r#"text-anchor="middle""#;

impl BarChart {
    /// Returns the chart as an SVG file of its own, with its own colours and background.
    pub fn to_svg(&self) -> String {
        self.draw().to_svg_with(STYLE)
    }

    fn draw(&self) -> Picture {
        let mut picture = Picture::new(&self.title, HEIGHT);
        let svg = &mut picture.body;
        self.draw_legend(svg);
        let bars = self.groups.iter().flat_map(|group| group.bars.iter());
        let axis = Axis::new(
            self.y_max,
            bars.flatten().map(|bar| bar.high.max(bar.value)),
        );
        let plane = self.plane(axis.max);
        plane.grid(svg, axis.ticks());
        text(svg, (8.0, TOP - 12.0), "", &escape(&self.y_label));
        plane.x_label(svg, &self.x_label);
        plane.labels(
            svg,
            self.groups
                .iter()
                .enumerate()
                .map(|(position, group)| (position as f64 + 0.5, escape(&group.label))),
        );
        for (position, group) in self.groups.iter().enumerate() {
            group.draw(svg, &plane, position as f64);
        }
        match &self.line {
            None => (),
            Some(Line::Through(_)) => self.draw_line(svg),
            Some(Line::Levels(_)) => self.draw_levels(svg, &plane),
        }
        picture
    }

    /// Returns the coordinate system of the chart: group n, counted from 0, extends from n to n + 1
    /// on the x axis.
    fn plane(&self, y_max: f64) -> Plane {
        let groups = self.groups.len().max(1) as f64;
        let mut plane = Plane::new(TOP, HEIGHT - TOP - BOTTOM, (0.0, groups), (0.0, y_max));
        plane.x.pixels.1 = match self.line {
            Some(Line::Through(_)) => WIDTH - RIGHT_WITH_LINE,
            _ => WIDTH - RIGHT,
        };
        plane
    }

    /// Draws the extra value of each group, if it has one, as a level across the group's bars.
    fn draw_levels(&self, svg: &mut String, plane: &Plane) {
        for (position, group) in self.groups.iter().enumerate() {
            let Some(level) = group.line else { continue };
            let from = position as f64 + (1.0 - FILLED) / 2.0;
            let ends = [from, from + FILLED].map(|x| (x, level));
            plane.line(svg, ends, r#"class="least""#, "");
        }
    }

    fn draw_legend(&self, svg: &mut String) {
        for (position, name) in self.series.iter().enumerate() {
            let x = LEFT + LEGEND_STEP * position as f64;
            let colour = COLOURS[position % COLOURS.len()];
            let _ = write!(
                svg,
                r#"<rect x="{x}" y="24" width="12" height="12" fill="{colour}"/>"#
            );
            text(svg, (x + 17.0, 35.0), "", &escape(name));
        }
        let x = LEFT + LEGEND_STEP * self.series.len() as f64;
        let name = match &self.line {
            None => return,
            Some(Line::Through(name)) => {
                let middle = x + 6.0;
                let _ = write!(
                    svg,
                    r#"<path class="line" d="M{x} 30h12"/><circle class="dot" cx="{middle}" cy="30" r="3"/>"#
                );
                name
            }
            Some(Line::Levels(name)) => {
                let _ = write!(svg, r#"<path class="least" d="M{x} 30h12"/>"#);
                name
            }
        };
        text(svg, (x + 17.0, 35.0), "", &escape(name));
    }

    /// Draws the extra values of the groups as points joined by a line, and their axis on the
    /// right.
    fn draw_line(&self, svg: &mut String) {
        let points = self.groups.iter().enumerate();
        let points =
            points.filter_map(|(position, group)| Some((position as f64 + 0.5, group.line?)));
        let points: Vec<_> = points.filter(|(_, value)| value.is_finite()).collect();
        if points.is_empty() {
            return;
        }
        let axis = Axis::new(None, points.iter().map(|(_, value)| *value));
        let plane = self.plane(axis.max);
        for (tick, label) in axis.ticks() {
            let at = (plane.x.pixels.1 + 6.0, plane.at_y(tick) + 4.0);
            text(svg, at, "", &label);
        }
        plane.line(svg, points.iter().copied(), r#"class="line""#, "");
        for (x, value) in points {
            let (x, y) = (plane.at_x(x), plane.at_y(value));
            let _ = write!(
                svg,
                r#"<circle class="dot" cx="{x:.1}" cy="{y:.1}" r="3"/>"#
            );
        }
    }
}

/// Draws several charts as one picture, the first on top. `title` is not drawn: only screen readers
/// read it.
pub fn stack(title: &str, charts: &[BarChart]) -> String {
    let mut picture = Picture::untitled(title, HEIGHT * charts.len() as f64);
    for (position, chart) in charts.iter().enumerate() {
        let y = HEIGHT * position as f64;
        let body = chart.draw().body;
        let _ = write!(
            picture.body,
            r#"<g transform="translate(0 {y})">{body}</g>"#
        );
    }
    picture.to_svg_with(STYLE)
}

impl Group {
    fn draw(&self, svg: &mut String, plane: &Plane, left: f64) {
        let place = FILLED / self.bars.len().max(1) as f64;
        for (position, bar) in self.bars.iter().enumerate() {
            // A ratio over 0 has no bar.
            let Some(bar) = bar.filter(|bar| bar.value.is_finite()) else {
                continue;
            };
            let from = left + (1.0 - FILLED) / 2.0 + place * position as f64;
            let (x, end) = (plane.at_x(from), plane.at_x(from + place * BAR_FILLED));
            let (top, colour) = (plane.at_y(bar.value), COLOURS[position % COLOURS.len()]);
            let _ = write!(
                svg,
                r#"<rect x="{x:.1}" y="{top:.1}" width="{:.1}" height="{:.1}" fill="{colour}"/>"#,
                end - x,
                plane.at_y(0.0) - top
            );
            let middle = (x + end) / 2.0;
            if bar.low < bar.high {
                let (low, high) = (plane.at_y(bar.low), plane.at_y(bar.high));
                let _ = write!(
                    svg,
                    r#"<line class="error" x1="{middle:.1}" x2="{middle:.1}" y1="{low:.1}" y2="{high:.1}"/>"#
                );
            }
            if bar.value > plane.y.values.1 {
                let label = fixed(bar.value, 1);
                text(svg, (middle, top - 4.0), MIDDLE, &label);
            }
        }
    }
}

/// A vertical axis from 0 to `max`, with a label at each multiple of `step`.
struct Axis {
    max: f64,
    step: f64,
}

impl Axis {
    fn new(max: Option<f64>, values: impl Iterator<Item = f64>) -> Self {
        let highest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let end = max.unwrap_or(highest);
        if end <= 0.0 {
            return Self {
                max: 1.0,
                step: 1.0,
            };
        }
        let step = round_step(end, TICKS);
        Self {
            max: max.unwrap_or((end / step).ceil() * step),
            step,
        }
    }

    fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        let count = (self.max / self.step + 1e-9).floor() as u32;
        let ticks = (0..=count).map(|i| f64::from(i) * self.step);
        ticks.map(|tick| (tick, self.label(tick)))
    }

    fn label(&self, tick: f64) -> String {
        if self.max >= 10_000.0 && tick > 0.0 {
            format!("{}k", tick / 1e3)
        } else {
            label(tick, self.step)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(values: &[f64]) -> BarChart {
        let group = |value: &f64| Group {
            label: format!("at {value}"),
            bars: vec![Some(Bar::exact(*value)), None],
            line: Some(value * 10.0),
        };
        BarChart {
            title: "Reads & \"writes\"".into(),
            x_label: "x".into(),
            y_label: "us".into(),
            y_max: None,
            series: vec!["a".into(), "b".into()],
            groups: values.iter().map(group).collect(),
            line: None,
        }
    }

    #[test]
    fn an_axis_ends_at_a_round_number_with_few_lines() {
        for (highest, max, step) in [
            (5.0, 5.0, 1.0),
            (23.0, 25.0, 5.0),
            (0.7, 0.8, 0.2),
            (6.0, 6.0, 1.0),
            (43_210.0, 50_000.0, 10_000.0),
            (0.0, 1.0, 1.0),
        ] {
            let axis = Axis::new(None, [highest].into_iter());
            assert!((axis.max - max).abs() < 1e-9, "{highest}: {}", axis.max);
            assert!((axis.step - step).abs() < 1e-9, "{highest}: {}", axis.step);
            let (last, _) = axis.ticks().last().unwrap();
            assert!((last - max).abs() < 1e-9, "{highest}: {last}");
        }
        assert_eq!(Axis::new(Some(0.8), [].into_iter()).label(0.4), "0.4");
        assert_eq!(Axis::new(Some(3e4), [].into_iter()).label(2e4), "20k");
    }

    #[test]
    fn every_value_has_a_bar_and_an_empty_place_has_none() {
        let svg = chart(&[1.0, 2.0, 4.0]).to_svg();
        let colours = |colour| svg.matches(&format!("fill=\"{colour}\"")).count();
        // Series 0 has three bars and an entry in the legend.
        assert_eq!((colours(COLOURS[0]), colours(COLOURS[1])), (4, 1));
        assert!(svg.contains("Reads &amp; &quot;writes&quot;"), "{svg}");
        assert!(!svg.contains(r#"<line class="error""#), "no spread: {svg}");
        assert!(!svg.contains("<circle"), "no line: {svg}");
    }

    #[test]
    fn bars_and_points_that_are_no_numbers_are_left_out() {
        let mut lined = chart(&[1.0, f64::NAN, f64::INFINITY]);
        lined.line = Some(Line::Through("ops/s".into()));
        lined
            .groups
            .iter_mut()
            .for_each(|group| group.label.clear());
        let svg = lined.to_svg();
        // Series 0 has one finite bar and an entry in the legend.
        assert_eq!(svg.matches(COLOURS[0]).count(), 2, "{svg}");
        assert_eq!(svg.matches("<circle").count(), 2, "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn levels_lie_on_the_axis_of_the_bars() {
        let mut chart = chart(&[1.0, 10.0]);
        chart.groups[0].line = Some(5.0);
        chart.groups[1].line = None;
        chart.line = Some(Line::Levels("least".into()));
        let svg = chart.to_svg();
        let y = chart.plane(10.0).at_y(5.0);
        assert!(svg.contains(&format!(" {y:.1}L")), "{svg}");
        // One line is in the legend.
        assert_eq!(svg.matches(r#"class="least""#).count(), 2);
    }

    #[test]
    fn a_cut_bar_is_labelled_with_its_value() {
        let mut cut = chart(&[1.3, 4.5]);
        cut.y_max = Some(3.0);
        let svg = cut.to_svg();
        assert!(svg.contains(">4.5</text>"), "{svg}");
        assert!(!svg.contains(">1.3</text>"), "{svg}");
    }

    #[test]
    fn stacked_charts_stand_below_each_other() {
        let svg = stack("both", &[chart(&[1.0]), chart(&[2.0])]);
        assert!(svg.contains(r#"viewBox="0 0 960 720""#), "{svg}");
        assert!(svg.contains(r#"<g transform="translate(0 360)">"#), "{svg}");
        assert_eq!(svg.matches("<svg").count(), 1);
    }

    #[test]
    fn a_line_has_a_point_for_each_group_and_an_axis() {
        let mut lined = chart(&[1.0, 2.0]);
        lined.line = Some(Line::Through("ops/s".into()));
        let svg = lined.to_svg();
        assert_eq!(svg.matches("<circle").count(), 3, "one in the legend");
        assert!(svg.contains(">20</text>"), "{svg}");
    }
}
