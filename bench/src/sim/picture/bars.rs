//! Bar charts of one number for each policy and point, with confidence intervals.

use std::collections::BTreeMap;

use ebb_scheduler::sim::Interval;

use crate::chart::{Bar, BarChart, Group, Line, stack};
use crate::sim::result::{PointResult, PolicyResult};

/// Draws charts with a bar for each policy at each point. A point is a combination of values of the
/// swept fields. `of` returns the height of a bar; for `None` the place of the bar stays empty.
/// `level` returns a value of the point, such as a bound. A dashed line across the bars of the
/// point marks this value; for `None` there is no line.
///
/// A chart has a group of bars for each value of one field of the sweep: the load if it is swept,
/// else the last field. For each combination of the other fields there is another chart below.
#[must_use]
pub fn bars(
    title: &str,
    unit: &str,
    points: &[PointResult],
    of: impl Fn(&PolicyResult) -> Option<Interval>,
    level: impl Fn(&PointResult) -> Option<f64>,
) -> String {
    let fields = points.first().map(|point| point.set.keys());
    let along = fields.and_then(|mut fields| {
        let load = fields.clone().find(|field| field.ends_with(".load"));
        load.or(fields.next_back()).cloned()
    });
    let has_level = points.iter().any(|point| level(point).is_some());
    // Only charts with a level have it in their legend.
    let levels = has_level.then(|| Line::Levels("any scheduler, at least".into()));
    // A list and no map, so that charts have the order of their first points.
    let mut charts: Vec<(BTreeMap<String, String>, BarChart)> = Vec::new();
    for point in points {
        let mut others = point.set.clone();
        let label = (along.as_ref()).and_then(|field| others.remove(field));
        let group = Group {
            // Without a sweep there is one group, which needs no label.
            label: label.unwrap_or_default(),
            bars: point
                .policies
                .iter()
                .map(|policy| of(policy).map(bar))
                .collect(),
            line: level(point),
        };
        match charts.iter_mut().find(|(set, _)| *set == others) {
            Some((_, chart)) => chart.groups.push(group),
            None => {
                let chart = BarChart {
                    title: match PointResult::words(&others) {
                        none if none.is_empty() => title.to_string(),
                        words => format!("{title}: {words}"),
                    },
                    x_label: along.as_deref().map(PointResult::short).unwrap_or_default(),
                    y_label: unit.to_string(),
                    // All charts of percentages have the same axis, also if all bars are low.
                    y_max: (unit == "%").then_some(100.0),
                    series: (point.policies.iter())
                        .map(|policy| policy.policy.clone())
                        .collect(),
                    groups: vec![group],
                    line: levels.clone(),
                };
                charts.push((others, chart));
            }
        }
    }
    let charts: Vec<BarChart> = charts.into_iter().map(|(_, chart)| chart).collect();
    stack(title, &charts)
}

/// Returns the bar of a mean with its confidence interval. Both are cut at 0, where the axis begins.
fn bar(interval: Interval) -> Bar {
    let value = interval.mean.max(0.0);
    Bar {
        value,
        low: (value - interval.half_width_95).max(0.0),
        high: value + interval.half_width_95,
    }
}
