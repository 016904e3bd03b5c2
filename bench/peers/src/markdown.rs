//! The summary as Markdown: a table for each metric, a row for each phase.

use std::fmt::Write;

use crate::plan::Entrant;
use crate::summary::Row;
use crate::table::number;

/// Metrics that get a table, in order, each with the heading of its table.
const METRICS: [(&str, &str); 26] = [
    ("ops_per_cpu_s", "Operations per CPU second"),
    ("ops_per_s", "Operations per second"),
    ("read_p50_us", "Reads, median, us"),
    ("read_p99_us", "Reads, 99th percentile, us"),
    ("read_p999_us", "Reads, 99.9th percentile, us"),
    ("update_p50_us", "Updates, median, us"),
    ("update_p99_us", "Updates, 99th percentile, us"),
    ("update_p999_us", "Updates, 99.9th percentile, us"),
    ("insert_p99_us", "Inserts, 99th percentile, us"),
    ("scan_p99_us", "Short scans, 99th percentile, us"),
    (
        "read_modify_write_p99_us",
        "Read-modify-writes, 99th percentile, us",
    ),
    ("mb_per_s", "Full scans, MB/s"),
    (
        "over_raw",
        "Full scans by reading, checking and decompressing the same files, in MB of the files per second",
    ),
    (
        "given_over_raw",
        "The same, where a scan counts only what it gives",
    ),
    (
        "write_amplification",
        "Bytes written for each byte of the user",
    ),
    ("directory_bytes", "Size of the directory"),
    ("memory_peak_bytes", "Most memory resident"),
    (
        "live_all_held_over_none",
        "Live reads beside ten snapshots by live reads beside none, median",
    ),
    (
        "oldest_over_none",
        "Reads of the oldest of ten by live reads beside none, median",
    ),
    (
        "snapshot_over_live",
        "Snapshot reads by live reads after half was overwritten, median",
    ),
    (
        "snapshot_creation_p50_us",
        "Creating a snapshot, median, us",
    ),
    ("disk_over_live", "Disk after the overwrites by live data"),
    ("disk_peak_over_live", "Disk at most by live data"),
    (
        "disk_over_live_after_drop",
        "Disk after the snapshot was dropped by live data",
    ),
    (
        "memory_over_none",
        "Memory with a snapshot by memory without",
    ),
    ("write_wait_max_us", "Longest time that a write was held up, us"),
];

/// Renders the summary: medians, with the smallest and the largest round in brackets, then ebb's
/// ratio to its own second run and to the best LSM peer.
pub fn render(rows: &[Row], entrants: &[Entrant]) -> String {
    let mut text = String::new();
    for (metric, title) in METRICS {
        let rows: Vec<_> = rows.iter().filter(|row| row.metric == metric).collect();
        if !rows.is_empty() {
            // Writing to a string does not fail.
            let _ = write_table(&mut text, title, &rows, entrants);
        }
    }
    text
}

fn write_table(
    text: &mut String,
    title: &str,
    rows: &[&Row],
    entrants: &[Entrant],
) -> std::fmt::Result {
    let shown = || entrants.iter().filter(|entrant| !entrant.is_again);
    let labels: Vec<_> = shown().map(Entrant::label).collect();
    writeln!(text, "### {title}\n")?;
    writeln!(text, "| | {} | ebb/ebb | ebb/best |", labels.join(" | "))?;
    writeln!(text, "| --- |{}", " ---: |".repeat(labels.len() + 2))?;
    for row in rows {
        write!(text, "| {} |", row.phase)?;
        for label in &labels {
            match row.entrants.get(label) {
                None => write!(text, " |")?,
                Some(spread) if spread.min == spread.max => {
                    write!(text, " {} |", number(&row.metric, spread.median))?;
                }
                Some(spread) => {
                    let [median, min, max] = [spread.median, spread.min, spread.max]
                        .map(|value| number(&row.metric, value));
                    write!(text, " {median} ({min} to {max}) |")?;
                }
            }
        }
        let again = entrants.iter().find(|entrant| entrant.is_again);
        let noise = again.and_then(|again| row.ebb_over.get(&again.label()).copied());
        for ratio in [noise, row.ebb_over_best_lsm] {
            match ratio {
                Some(ratio) => write!(text, " {ratio:.2} |")?,
                None => write!(text, " |")?,
            }
        }
        writeln!(text)?;
    }
    writeln!(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineName;
    use crate::statistics::Spread;

    #[test]
    fn a_metric_has_a_table_with_a_row_for_each_phase() {
        let entrants = Entrant::all(&[EngineName::Ebb]);
        let row = |phase: &str, median, max| Row {
            phase: phase.into(),
            metric: "ops_per_s".into(),
            entrants: [(
                "ebb".to_string(),
                Spread {
                    median,
                    min: median,
                    max,
                },
            )]
            .into(),
            ebb_over: [("ebb-again".to_string(), 1.01)].into(),
            ebb_over_best_lsm: Some(1.5),
        };
        let text = render(&[row("a", 100.0, 100.0), row("b", 200.0, 300.0)], &entrants);
        let lines: Vec<_> = text.lines().filter(|line| !line.is_empty()).collect();
        let expected = [
            "### Operations per second",
            "| | ebb | ebb/ebb | ebb/best |",
            "| --- | ---: | ---: | ---: |",
            "| a | 100 | 1.01 | 1.50 |",
            "| b | 200 (200 to 300) | 1.01 | 1.50 |",
        ];
        assert_eq!(lines, expected);
    }
}
