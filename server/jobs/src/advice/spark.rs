//! The speed of Spark. It gives the number of machines with Spark that a late job needs.
//!
//! All numbers are measurements, which `tests/publish/spark_jobs` makes and `tests/publish/pays.py` puts into the
//! book's page `docs/src/guide/more-machines.md`. A test compares them with the page.

use crate::application::Application;
use crate::request::{AggregateRequest, PagerankRequest, WordcountRequest};

/// The time until Spark can begin a job, in seconds: until its driver and its executors run.
pub(super) const START_S: f64 = 8.8;

/// The CPU seconds of the same job over the same rows, by application: in ebb, then in Spark.
const CPU_S: [(&str, f64, f64); 3] = [
    (WordcountRequest::NAME, 11.8, 19.4),
    (AggregateRequest::NAME, 9.9, 3.1),
    (PagerankRequest::NAME, 42.0, 81.6),
];

/// Returns the CPU time of Spark for a job of `application` divided by that of ebb; `None` if it was not measured.
pub(super) fn cpu_ratio(application: &str) -> Option<f64> {
    let found = CPU_S.iter().find(|(name, ..)| *name == application);
    found.map(|(_, ebb_s, spark_s)| spark_s / ebb_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../docs/src/guide/more-machines.md");

    /// Returns the number in column `column`, from 0, of the row `name` in the book's table of measurements.
    fn in_book(name: &str, column: usize) -> f64 {
        let begin = format!("| {name} |");
        let row = PAGE.lines().find(|line| line.starts_with(&begin)).unwrap();
        let cell = row.trim_matches('|').split('|').nth(column).unwrap();
        cell.trim().parse().unwrap()
    }

    #[test]
    fn the_numbers_are_those_of_the_book() {
        assert_eq!(in_book("start of Spark", 1), START_S);
        for (name, ebb_s, spark_s) in CPU_S {
            assert_eq!(in_book(&format!("{name}, ebb"), 2), ebb_s);
            assert_eq!(in_book(&format!("{name}, Spark"), 2), spark_s);
        }
    }

    #[test]
    fn only_measured_applications_have_a_ratio() {
        assert_eq!(cpu_ratio("wordcount"), Some(19.4 / 11.8));
        assert_eq!(cpu_ratio("grep"), None);
    }
}
