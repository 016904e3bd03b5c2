//! The points of a scenario: one, or one for each combination of swept values.

use super::Point;
use super::build;
use super::error::FieldError;
use super::fits::PolicyMeasure;
use super::numbers::FieldResult;
use super::schema::File;
use super::trace::Traces;
use crate::sim::bounds::{KEPT_MAX, POINTS_MAX};
use serde::Deserialize;
use toml::{Table, Value};

/// Fields that hold for the whole file and cannot be swept.
const OF_THE_FILE: [&str; 6] = [
    "title",
    "policies",
    "replicas",
    "seed",
    "offline_bound",
    "sweep",
];

/// Swept fields, each with one of its values.
type Set<'a> = Vec<(&'a str, &'a Value)>;

/// Builds a point for each combination of swept values, and checks that each of `policies` can
/// run it.
pub(super) fn points(
    content: &File,
    table: &Table,
    traces: &Traces<'_>,
    policies: &[PolicyMeasure],
) -> FieldResult<Vec<Point>> {
    let mut points = Vec::new();
    let mut kept = 0;
    for set in combinations(content)? {
        let point = point(content, table, traces, policies, &set)?;
        kept += point.plan.size.kept();
        if kept > KEPT_MAX {
            let what = format!(
                "{} points have more than {KEPT_MAX} nodes, listed jobs and steps together",
                points.len() + 1
            );
            return Err(FieldError::new("nodes", what));
        }
        points.push(point);
    }
    Ok(points)
}

/// Returns every combination of swept values; without a sweep, one empty combination.
fn combinations(content: &File) -> FieldResult<Vec<Set<'_>>> {
    let mut sets: Vec<Set<'_>> = vec![Vec::new()];
    for (path, values) in &content.sweep {
        let error = |what: String| FieldError::new(format!("sweep.{path}"), what);
        let first = path.split(['.', '[']).next().unwrap_or_default();
        if OF_THE_FILE.contains(&first) {
            return Err(error(format!(
                "{first} is the same at all points: take it out of the sweep"
            )));
        }
        let count = sets.len().saturating_mul(values.len());
        if !(1..=POINTS_MAX).contains(&count) {
            let what = format!("makes {count} combinations; from 1 to {POINTS_MAX}");
            return Err(error(what));
        }
        let varied = sets.iter().flat_map(|set| {
            values.iter().map(move |value| {
                let mut set = set.clone();
                set.push((path, value));
                set
            })
        });
        sets = varied.collect();
    }
    Ok(sets)
}

fn point(
    content: &File,
    table: &Table,
    traces: &Traces<'_>,
    policies: &[PolicyMeasure],
    set: &Set<'_>,
) -> FieldResult<Point> {
    let mut table = table.clone();
    for &(path, value) in set {
        if !replace(&mut table, path, value) {
            let what = format!("the file has no field {path} to vary");
            return Err(FieldError::new(format!("sweep.{path}"), what));
        }
    }
    let plan = if set.is_empty() {
        build::plan(content, traces, policies)
    } else {
        let file = File::deserialize(table)
            .map_err(|error| FieldError::new("sweep", error.message().to_string()))?;
        build::plan(&file, traces, policies)
    };
    let swept: Vec<String> = (set.iter())
        .map(|(path, value)| format!("{path} = {value}"))
        .collect();
    let plan = plan.map_err(|mut error| {
        if !swept.is_empty() {
            error.what = format!("{} (with {})", error.what, swept.join(", "));
        }
        error
    })?;
    let set = (set.iter()).map(|&(path, value)| (path.to_string(), value.to_string()));
    Ok(Point {
        set: set.collect(),
        plan,
    })
}

/// Replaces the value at a path such as `nodes[0].count`. Returns false if the
/// table has no value there.
fn replace(table: &mut Table, path: &str, value: &Value) -> bool {
    let Some((first, rest)) = path.split_once('.') else {
        return match place(table, path) {
            Some(field) => {
                *field = value.clone();
                true
            }
            None => false,
        };
    };
    match place(table, first) {
        Some(Value::Table(inner)) => replace(inner, rest, value),
        _ => false,
    }
}

/// Returns the value in `table` that `part` names: `name`, or `name[index]` for an item of a list.
/// Returns `None` if there is no such value.
fn place<'a>(table: &'a mut Table, part: &str) -> Option<&'a mut Value> {
    match part.split_once('[') {
        None => table.get_mut(part),
        Some((name, index)) => {
            let index: usize = index.strip_suffix(']')?.parse().ok()?;
            table.get_mut(name)?.as_array_mut()?.get_mut(index)
        }
    }
}
