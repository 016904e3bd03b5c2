//! The summary as a picture: operations per CPU second of each engine, the best
//! LSM peer taken as 1.

use std::fmt::Write;

use crate::plan::Entrant;
use crate::statistics::Spread;
use crate::summary::{Row, YCSB};

const METRIC: &str = "ops_per_cpu_s";
const TITLE: &str = "Operations per CPU second, background work included; the best LSM peer is 1";

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 58.0;
const BOTTOM: f64 = 36.0;
/// What is higher is cut, and says how high it is.
const RATIO_MAX: f64 = 3.0;
/// The part of a group's width that its bars take.
const FILLED: f64 = 0.84;
/// One for each entrant, in the order of the tables; told apart also without
/// colour vision.
const COLOURS: [&str; 5] = ["#4269d0", "#a3b6e8", "#ff725c", "#efb118", "#6cc5b0"];

const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#5b6775}\
    .title{font-weight:600;fill:#1d2733}.grid{stroke:#dfe4ea}.error{stroke:#1d2733}";

/// Draws it; `None` when no YCSB workload was run with an LSM peer.
pub fn draw(rows: &[Row], entrants: &[Entrant]) -> Option<String> {
    let groups: Vec<_> = YCSB
        .iter()
        .filter_map(|phase| Group::of(phase, rows, entrants))
        .collect();
    if groups.is_empty() {
        return None;
    }
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{TITLE}"><style>{STYLE}</style><rect width="100%" height="100%" fill="white"/>"#
    );
    // Writing to a string does not fail.
    let _ = write_frame(&mut svg, entrants);
    for (position, group) in groups.iter().enumerate() {
        let width = (WIDTH - LEFT - RIGHT) / groups.len() as f64;
        let _ = group.write(&mut svg, LEFT + width * position as f64, width);
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

/// The bars of a phase.
struct Group<'a> {
    phase: &'a str,
    /// For each entrant, in order, what it did by the best LSM peer.
    bars: Vec<Option<Spread>>,
}

impl<'a> Group<'a> {
    fn of(phase: &'a str, rows: &[Row], entrants: &[Entrant]) -> Option<Self> {
        let row = rows
            .iter()
            .find(|row| row.phase == phase && row.metric == METRIC)?;
        let ebb = entrants.iter().find(|entrant| entrant.is_ebb())?.label();
        let best = row.entrants.get(&ebb)?.median / row.ebb_over_best_lsm?;
        let bar = |entrant: &Entrant| {
            row.entrants.get(&entrant.label()).map(|spread| Spread {
                median: spread.median / best,
                min: spread.min / best,
                max: spread.max / best,
            })
        };
        Some(Self {
            phase,
            bars: entrants.iter().map(bar).collect(),
        })
    }

    fn write(&self, svg: &mut String, left: f64, width: f64) -> std::fmt::Result {
        let bar_width = width * FILLED / self.bars.len() as f64;
        let first = left + width * (1.0 - FILLED) / 2.0;
        for (position, bar) in self.bars.iter().enumerate() {
            let Some(bar) = bar else { continue };
            let x = first + bar_width * position as f64;
            let (top, colour) = (y(bar.median), COLOURS[position % COLOURS.len()]);
            write!(
                svg,
                r#"<rect x="{x:.1}" y="{top:.1}" width="{:.1}" height="{:.1}" fill="{colour}"/>"#,
                bar_width * 0.9,
                y(0.0) - top
            )?;
            let middle = x + bar_width * 0.45;
            write!(
                svg,
                r#"<line class="error" x1="{middle:.1}" x2="{middle:.1}" y1="{:.1}" y2="{:.1}"/>"#,
                y(bar.min),
                y(bar.max)
            )?;
            if bar.median > RATIO_MAX {
                write!(
                    svg,
                    r#"<text x="{middle:.1}" y="{:.1}" text-anchor="middle">{:.1}</text>"#,
                    top - 4.0,
                    bar.median
                )?;
            }
        }
        write!(
            svg,
            r#"<text x="{:.1}" y="{}" text-anchor="middle">{}</text>"#,
            left + width / 2.0,
            HEIGHT - 12.0,
            self.phase.to_uppercase()
        )
    }
}

fn y(ratio: f64) -> f64 {
    let part = ratio.clamp(0.0, RATIO_MAX) / RATIO_MAX;
    HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)
}

fn write_frame(svg: &mut String, entrants: &[Entrant]) -> std::fmt::Result {
    write!(
        svg,
        r#"<text class="title" x="{LEFT}" y="16">{TITLE}</text>"#
    )?;
    for half in 0..=(RATIO_MAX * 2.0) as u32 {
        let ratio = f64::from(half) / 2.0;
        let at = y(ratio);
        write!(
            svg,
            r#"<line class="grid" x1="{LEFT}" x2="{}" y1="{at:.1}" y2="{at:.1}"/>"#,
            WIDTH - RIGHT
        )?;
        write!(
            svg,
            r#"<text x="{}" y="{:.1}" text-anchor="end">{ratio}</text>"#,
            LEFT - 6.0,
            at + 4.0
        )?;
    }
    for (position, entrant) in entrants.iter().enumerate() {
        let x = LEFT + 110.0 * position as f64;
        let colour = COLOURS[position % COLOURS.len()];
        write!(
            svg,
            r#"<rect x="{x}" y="24" width="12" height="12" fill="{colour}"/><text x="{}" y="35">{}</text>"#,
            x + 17.0,
            entrant.label()
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineName;

    fn row(phase: &str, over_best: Option<f64>) -> Row {
        let spread = |median| Spread {
            median,
            min: median,
            max: median,
        };
        Row {
            phase: phase.into(),
            metric: METRIC.into(),
            entrants: [
                ("ebb".to_string(), spread(300.0)),
                ("ebb-again".to_string(), spread(900.0)),
            ]
            .into(),
            ebb_over: [].into(),
            ebb_over_best_lsm: over_best,
        }
    }

    #[test]
    fn bars_are_as_high_as_the_ratio_to_the_best_peer() {
        let entrants = Entrant::all(&[EngineName::Ebb]);
        let group = Group::of("a", &[row("a", Some(1.5))], &entrants);
        let medians: Vec<_> = group
            .unwrap()
            .bars
            .iter()
            .map(|b| b.unwrap().median)
            .collect();
        assert_eq!(medians, [1.5, 4.5]);
        let svg = draw(&[row("a", Some(1.5)), row("sync-1", Some(2.0))], &entrants).unwrap();
        assert_eq!(svg.matches(">A</text>").count(), 1);
        assert!(svg.contains(">4.5</text>"), "what is cut says its height");
        assert!(!svg.contains("SYNC"));
    }

    #[test]
    fn without_a_peer_there_is_nothing_to_draw() {
        let entrants = Entrant::all(&[EngineName::Ebb]);
        assert_eq!(draw(&[row("a", None)], &entrants), None);
    }
}
