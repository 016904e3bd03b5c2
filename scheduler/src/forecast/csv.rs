//! A series as text: lines of `time,value`.

use super::series::{Point, Series, SeriesError};
use std::time::SystemTime;
use thiserror::Error;

/// The reason why a text is no series, and the line of the fault.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("line {line}: {problem}")]
pub struct CsvError {
    /// Number of the line, from 1; the last line with a value if the series as a whole is
    /// at fault.
    pub line: usize,
    /// The fault.
    pub problem: CsvProblem,
}

/// A fault of a line or of the series.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum CsvProblem {
    /// The line does not have two fields.
    #[error("expected `time,value`, got {0:?}")]
    Fields(String),
    /// The time has none of the forms that [`Series::parse_csv`] reads.
    #[error("{0:?} is no time: give seconds or YYYY-MM-DD HH:MM:SS")]
    Time(String),
    /// The value is no number.
    #[error("{0:?} is no number")]
    Value(String),
    /// The lines are well formed, but their numbers make no series.
    #[error(transparent)]
    Series(#[from] SeriesError),
}

impl Series {
    /// Reads `time,value` lines in the order of time. A time is a number of seconds, or
    /// `YYYY-MM-DD HH:MM:SS` in UTC with `T` or a blank in the middle, which becomes seconds since 1970.
    /// The first line is skipped as a heading if it has two fields and the first of them is no
    /// time. Blank lines are skipped, and so are lines without a value, which leave a gap between
    /// the lines around them.
    ///
    /// # Errors
    /// When a line is not of this form, or the numbers make no series; see [`Series::from_points`].
    pub fn parse_csv(text: &str) -> Result<Self, CsvError> {
        let mut points = Vec::new();
        let mut lines = Vec::new();
        for (index, text) in text.lines().enumerate() {
            let line = index + 1;
            let text = text.trim_start_matches('\u{feff}').trim();
            if text.is_empty() {
                continue;
            }
            match point(text) {
                Ok(Some(point)) => {
                    points.push(point);
                    lines.push(line);
                }
                Ok(None) => {}
                Err(CsvProblem::Time(_)) if line == 1 => {}
                Err(problem) => return Err(CsvError { line, problem }),
            }
        }
        Self::from_points(&points).map_err(|error| {
            let last = lines.last().copied().unwrap_or(1);
            CsvError {
                line: error.index().map_or(last, |index| lines[index]),
                problem: error.into(),
            }
        })
    }
}

fn point(text: &str) -> Result<Option<Point>, CsvProblem> {
    let mut fields = text.split(',').map(str::trim);
    let (Some(time), Some(value), None) = (fields.next(), fields.next(), fields.next()) else {
        return Err(CsvProblem::Fields(text.to_string()));
    };
    let t_s = time_s(time).ok_or_else(|| CsvProblem::Time(time.to_string()))?;
    if value.is_empty() {
        return Ok(None);
    }
    let value = value
        .parse()
        .map_err(|_| CsvProblem::Value(value.to_string()))?;
    Ok(Some(Point { t_s, value }))
}

fn time_s(text: &str) -> Option<f64> {
    if let Ok(seconds) = text.parse() {
        return Some(seconds);
    }
    let time = humantime::parse_rfc3339_weak(text).ok()?;
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(since.as_secs_f64())
}
