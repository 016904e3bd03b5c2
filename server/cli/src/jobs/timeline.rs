//! A timeline of the attempts of a job: a picture of a few lines.

use ebb_jobs::history::JobAttempt;
use ebb_scheduler::model::TaskKind;
use ebb_scheduler::runtime::AttemptOutcome;

/// The number of columns of the timeline. Each stands for an equal part of the time of all attempts.
const COLUMNS: usize = 64;

/// Returns a head, a line for each kind of task that ran and, if attempts failed, a line with marks where
/// they did. A column stands for an equal part of the time, and shows the number of attempts that ran in
/// it, as here with 16 of the [`COLUMNS`] columns:
///
/// ```text
/// attempts that ran, from 0.00 to 1.20 s; a column is 0.075 s:
///   maps    4444443321......
///   reduces ..........111111
/// ```
///
/// `+` stands for ten or more. Without attempts, returns no lines.
pub(super) fn timeline(attempts: &[JobAttempt]) -> Vec<String> {
    let times = |time_s: fn(&JobAttempt) -> f64| attempts.iter().map(time_s);
    let begins_s = times(|attempt| attempt.record.started_s).fold(f64::INFINITY, f64::min);
    let ends_s = times(|attempt| attempt.record.ended_s).fold(0.0, f64::max);
    if attempts.is_empty() {
        return Vec::new();
    }
    let length_s = (ends_s - begins_s).max(1e-9);
    let column = |time_s: f64| {
        let part = (time_s - begins_s) / length_s * COLUMNS as f64;
        (part as usize).min(COLUMNS - 1)
    };
    let mut lines = Vec::new();
    for (kind, name) in [(TaskKind::Map, "maps"), (TaskKind::Reduce, "reduces")] {
        let mut running = [0_u32; COLUMNS];
        for attempt in attempts
            .iter()
            .filter(|attempt| attempt.record.kind == kind)
        {
            let (from, to) = (attempt.record.started_s, attempt.record.ended_s);
            running[column(from)..=column(to)]
                .iter_mut()
                .for_each(|count| *count += 1);
        }
        if running.iter().any(|&count| count > 0) {
            let digits: String = running.map(digit).iter().collect();
            lines.push(format!("  {name:<8}{digits}"));
        }
    }
    let mut failed = [' '; COLUMNS];
    for attempt in attempts {
        if matches!(
            attempt.record.outcome,
            AttemptOutcome::Failed { .. } | AttemptOutcome::LeftBehind
        ) {
            failed[column(attempt.record.ended_s)] = 'x';
        }
    }
    if failed.contains(&'x') {
        let marks: String = failed.iter().collect();
        lines.push(format!("  {:<8}{}", "failed", marks.trim_end()));
    }
    let head = format!(
        "attempts that ran, from {begins_s:.2} to {ends_s:.2} s; a column is {:.3} s:",
        length_s / COLUMNS as f64
    );
    lines.insert(0, head);
    lines
}

fn digit(count: u32) -> char {
    match count {
        0 => '.',
        1..=9 => char::from_digit(count, 10).unwrap_or('+'),
        _ => '+',
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;
    use ebb_scheduler::runtime::AttemptRecord;

    /// Returns an attempt of task `index` that succeeded, and ran between the times `from` and `to`, in
    /// seconds.
    pub(in super::super) fn attempt(kind: TaskKind, index: u32, from: f64, to: f64) -> JobAttempt {
        JobAttempt {
            job: 1,
            record: AttemptRecord {
                kind,
                index,
                attempt: 1,
                started_s: from,
                ended_s: to,
                cpu_s: to - from,
                shuffle_cpu_s: 0.0,
                bytes_in: 0,
                bytes_out: 0,
                spilled_bytes: 0,
                memory_bytes_max: 0,
                outcome: AttemptOutcome::Done,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::attempt;
    use super::*;

    #[test]
    fn a_column_has_the_number_of_attempts_and_marks_failures() {
        // 64 s from 10 on: a column is a second.
        let mut attempts = vec![
            attempt(TaskKind::Map, 0, 10.0, 41.5),
            attempt(TaskKind::Map, 1, 10.0, 25.5),
            attempt(TaskKind::Reduce, 0, 42.0, 74.0),
        ];
        attempts[1].record.outcome = AttemptOutcome::LeftBehind;
        let lines = timeline(&attempts);
        let maps = format!(
            "  maps    {}{}{}",
            "2".repeat(16),
            "1".repeat(16),
            ".".repeat(32)
        );
        let reduces = format!("  reduces {}{}", ".".repeat(32), "1".repeat(32));
        let failed = format!("  failed  {}x", " ".repeat(15));
        assert_eq!(lines[1..], [maps, reduces, failed]);
        assert!(lines[0].contains("from 10.00 to 74.00 s"), "{}", lines[0]);
    }

    #[test]
    fn many_at_once_are_a_plus_and_one_of_no_length_is_seen() {
        let at_once = |index| attempt(TaskKind::Map, index, 1.0, 1.0);
        let lines = timeline(&(0..12).map(at_once).collect::<Vec<_>>());
        assert_eq!(lines[1], format!("  maps    +{}", ".".repeat(63)));
        assert!(timeline(&[]).is_empty());
    }
}
