//! The check of the jobs' results.

use anyhow::{Context, Result};
use ebb_scheduler::runtime::JobReport;

use super::day_run::failure;
use super::jobs::{self, Application, RepeatedText};
use super::outcome::WordCountCheck;
use super::setup::Setup;

/// Checks the outputs of the word-count jobs that succeeded: counts the words of each job's input
/// again, without the runtime, and compares the counts. `run` is the name of the simulated day.
/// Each element of `jobs` has a job's name, application, input and report.
pub fn word_counts<'a>(
    setup: &Setup,
    run: &str,
    jobs: impl IntoIterator<Item = (&'a str, Application, &'a RepeatedText, &'a JobReport)>,
) -> Result<WordCountCheck> {
    let mut check = WordCountCheck {
        jobs: 0,
        words: 0,
        differences: 0,
    };
    for (name, application, input, report) in jobs {
        if application != Application::WordCount || failure(report).is_some() {
            continue;
        }
        let mut expected = input.count_words()?;
        check.jobs += 1;
        check.words = check.words.max(expected.len());
        let path = jobs::output_file(setup, run, name);
        let rows =
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for row in rows
            .split(|&byte| byte == b'\n')
            .filter(|row| !row.is_empty())
        {
            let tab = row
                .iter()
                .rposition(|&byte| byte == b'\t')
                .unwrap_or(row.len());
            let count = std::str::from_utf8(row.get(tab + 1..).unwrap_or_default());
            let count: Option<u64> = count.ok().and_then(|digits| digits.parse().ok());
            check.differences += usize::from(expected.remove(&row[..tab]) != count);
        }
        // Words that are missing from the job's output.
        check.differences += expected.len();
    }
    Ok(check)
}
