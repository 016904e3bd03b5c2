//! The levels of the log: one for all lines, and others for the lines of some areas.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use tracing_subscriber::filter::{LevelFilter, Targets};

/// The area of lines about the process: its start and its end, TLS, the log itself. The area of a
/// line is the `target` of its event.
pub(super) const SERVER: &str = "server";
/// The area (the name in the settings of the log) of log lines about clients of CQL.
pub(super) const CQL: &str = "cql";
/// The area of log lines about requests over HTTP and over the socket for jobs.
pub(super) const HTTP: &str = "http";
/// The area of log lines about jobs, and about what the load leaves for them.
pub(super) const JOBS: &str = "jobs";
/// The area of log lines about files, merges and space.
pub(super) const STORAGE: &str = "storage";

const AREAS: [&str; 5] = [SERVER, CQL, HTTP, JOBS, STORAGE];

/// The least severe level at which lines are written: one for all areas of the log, and exceptions
/// for some areas.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LogLevels {
    all: LevelFilter,
    /// The levels of those areas, such as `cql`, that have another level than `all`.
    areas: BTreeMap<&'static str, LevelFilter>,
}

impl LogLevels {
    /// Returns the filter that lets the lines of these levels through.
    pub(super) fn filter(&self) -> Targets {
        let filter = Targets::new().with_default(self.all);
        filter.with_targets(self.areas.clone())
    }
}

impl FromStr for LogLevels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut levels = Self {
            all: LevelFilter::INFO,
            areas: BTreeMap::new(),
        };
        for part in text.split(',') {
            let Some((name, text)) = part.split_once('=') else {
                levels.all = level(part)?;
                continue;
            };
            let Some(area) = AREAS.into_iter().find(|area| *area == name) else {
                let areas = AREAS.join(", ");
                return Err(format!("{name:?} is no area of the log: there are {areas}"));
            };
            levels.areas.insert(area, level(text)?);
        }
        Ok(levels)
    }
}

fn level(text: &str) -> Result<LevelFilter, String> {
    match text.parse() {
        Ok(level) if !text.is_empty() => Ok(level),
        _ => Err(format!(
            "{text:?} is no level: there are off, error, warn, info, debug and trace"
        )),
    }
}

impl fmt::Display for LogLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.all)?;
        let mut areas = self.areas.iter();
        areas.try_for_each(|(area, level)| write!(f, ",{area}={level}"))
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn areas_have_levels_of_their_own() {
        let levels: LogLevels = "storage=debug,warn,cql=off".parse().unwrap();
        assert_eq!(levels.to_string(), "warn,cql=off,storage=debug");
        let again: LogLevels = levels.to_string().parse().unwrap();
        assert_eq!(again, levels);
        let filter = levels.filter();
        for (area, level, is_written) in [
            (STORAGE, Level::DEBUG, true),
            (STORAGE, Level::TRACE, false),
            (JOBS, Level::WARN, true),
            (JOBS, Level::INFO, false),
            (CQL, Level::ERROR, false),
            ("hyper::proto", Level::WARN, true),
            ("hyper::proto", Level::INFO, false),
        ] {
            let enabled = filter.would_enable(area, &level);
            assert_eq!(enabled, is_written, "{area} {level}");
        }
        let only: LogLevels = "http=debug".parse().unwrap();
        assert_eq!(only.to_string(), "info,http=debug");
    }

    #[test]
    fn what_is_no_level_or_area_is_refused() {
        for (text, reason) in [
            ("loud", "\"loud\" is no level"),
            ("info,", "\"\" is no level"),
            ("cql=", "\"\" is no level"),
            ("disk=debug", "there are server, cql, http, jobs, storage"),
        ] {
            let error = text.parse::<LogLevels>().unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
