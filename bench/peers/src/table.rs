//! The summary as a table for a terminal.

use std::fmt::Write;

use crate::plan::Entrant;
use crate::summary::Row;

/// The width of a column, in characters.
const CELL: usize = 13;
const RATIO: usize = 10;
const NAME: usize = 30;

/// Metrics that only the JSON file has.
const HIDDEN: [&str; 9] = [
    "operations",
    "elapsed_s",
    "settle_s",
    "cpu_s",
    "user_bytes_written",
    "wrong_reads",
    "live_bytes",
    "memory_bytes",
    "engine_written_bytes",
];

/// Renders the summary: a block for each phase, a line for each metric. A cell has the median of an
/// entrant and the distance of its farthest round; the last columns have the ratios of ebb.
pub fn render(rows: &[Row], entrants: &[Entrant]) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_all(&mut text, rows, entrants);
    text
}

fn write_all(text: &mut String, rows: &[Row], entrants: &[Entrant]) -> std::fmt::Result {
    for phase in rows.chunk_by(|a, b| a.phase == b.phase) {
        write_heading(text, &phase[0].phase, entrants)?;
        let mut shown: Vec<_> = phase
            .iter()
            .filter(|row| {
                !HIDDEN.contains(&row.metric.as_str())
                    && (!row.metric.ends_with("_max_us") || row.metric == "write_wait_max_us")
            })
            .collect();
        shown.sort_by_key(|row| !row.metric.starts_with("ops_per"));
        for row in shown {
            write_row(text, row, entrants)?;
        }
        writeln!(text)?;
    }
    Ok(())
}

fn write_heading(text: &mut String, phase: &str, entrants: &[Entrant]) -> std::fmt::Result {
    write!(text, "{phase:<NAME$}")?;
    for entrant in entrants {
        write!(text, "{:>CELL$}", entrant.label())?;
    }
    for other in entrants.iter().filter(|entrant| !entrant.is_ebb()) {
        let name = if other.is_again {
            "A/A".into()
        } else {
            format!("/{}", other.label())
        };
        write!(text, "{name:>RATIO$}")?;
    }
    writeln!(text, "{:>RATIO$}", "/best")
}

fn write_row(text: &mut String, row: &Row, entrants: &[Entrant]) -> std::fmt::Result {
    write!(text, "  {:<width$}", row.metric, width = NAME - 2)?;
    for entrant in entrants {
        let cell = match row.entrants.get(&entrant.label()) {
            Some(spread) => {
                let away = f64::max(spread.max - spread.median, spread.median - spread.min);
                let percent = match spread.median {
                    0.0 => 0.0,
                    median => 100.0 * away / median,
                };
                format!("{} ±{percent:.0}%", number(&row.metric, spread.median))
            }
            None => "-".to_string(),
        };
        write!(text, "{cell:>CELL$}")?;
    }
    let ratios = entrants
        .iter()
        .filter(|entrant| !entrant.is_ebb())
        .map(|other| row.ebb_over.get(&other.label()).copied())
        .chain([row.ebb_over_best_lsm]);
    for ratio in ratios {
        let cell = ratio.map_or("-".to_string(), |ratio| format!("{ratio:.2}"));
        write!(text, "{cell:>RATIO$}")?;
    }
    writeln!(text)
}

/// Formats a value of a metric: three digits and a unit prefix.
pub fn number(metric: &str, value: f64) -> String {
    let unit = if metric.ends_with("_bytes") || metric.ends_with("bytes_written") {
        "B"
    } else {
        ""
    };
    let (value, prefix) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}{prefix}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineName;
    use crate::statistics::Spread;

    #[test]
    fn numbers_have_three_digits_and_their_unit() {
        assert_eq!(number("ops_per_s", 123_456.0), "123k");
        assert_eq!(number("ops_per_s", 1_234_567.0), "1.23M");
        assert_eq!(number("read_p99_us", 12.345), "12.3");
        assert_eq!(number("directory_bytes", 2.5e9), "2.50GB");
        assert_eq!(number("write_amplification", 3.0), "3.00");
    }

    #[test]
    fn a_row_has_medians_spreads_and_ratios() {
        let entrants = Entrant::all(&[EngineName::Ebb]);
        let spread = |median, min, max| Spread { median, min, max };
        let row = Row {
            phase: "c".into(),
            metric: "ops_per_s".into(),
            entrants: [
                ("ebb".to_string(), spread(200.0, 190.0, 220.0)),
                ("ebb-again".to_string(), spread(100.0, 100.0, 100.0)),
            ]
            .into(),
            ebb_over: [("ebb-again".to_string(), 2.0)].into(),
            ebb_over_best_lsm: None,
        };
        let text = render(&[row], &entrants);
        let lines: Vec<Vec<_>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[0], ["c", "ebb", "ebb-again", "A/A", "/best"]);
        assert_eq!(
            lines[1],
            ["ops_per_s", "200", "±10%", "100", "±0%", "2.00", "-"]
        );
    }
}
