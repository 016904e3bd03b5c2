//! The measured times of the tasks of applications.

use anyhow::Result;
use ebb_jobs::history::ProfileRecord;
use ebb_scheduler::runtime::TaskMeasures;
use indicatif::HumanBytes;

use crate::print::{counted, json_or_text};

/// Prints the profiles: the measured CPU time and memory of the tasks of applications, with
/// separate rows for map tasks and reduce tasks.
pub(super) fn print(profiles: &[ProfileRecord], json: bool) -> Result<()> {
    json_or_text(json, &profiles, |printer| {
        let head = [
            "application",
            "input",
            "job",
            "tasks",
            "CPU s a task",
            "at most",
            "CPU s a MiB",
            "memory a task",
        ];
        let rows: Vec<_> = profiles.iter().flat_map(rows).collect();
        printer.table(&head, &head[4..], &rows)
    })
}

fn rows(profile: &ProfileRecord) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (name, measured) in &profile.measured {
        for (kind, measures) in [("map", measured.map), ("reduce", measured.reduce)] {
            if measures.tasks > 0 {
                rows.push(row(profile, name, kind, &measures));
            }
        }
    }
    rows
}

fn row(profile: &ProfileRecord, name: &str, kind: &str, measures: &TaskMeasures) -> Vec<String> {
    let mib = measures.bytes_in as f64 / f64::from(1 << 20);
    let per_mib = (mib > 0.0).then(|| format!("{:.4}", measures.cpu_s / mib));
    vec![
        name.to_string(),
        profile.input.clone(),
        profile.job.clone(),
        counted(measures.tasks, kind),
        format!("{:.3}", measures.cpu_s / measures.tasks as f64),
        format!("{:.3}", measures.cpu_s_max),
        per_mib.unwrap_or_default(),
        HumanBytes(measures.memory_bytes_max).to_string(),
    ]
}
