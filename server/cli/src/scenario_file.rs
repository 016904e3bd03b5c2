//! A scenario on the disk, and what lies beside it.

use std::path::Path;

use anyhow::Result;
use ebb_scheduler::sim::scenario::Scenario;
use ebb_server::text::read_whole;

/// Reads a scenario; files that it names lie beside it.
///
/// # Errors
/// When one cannot be read or is too large, or it is no scenario.
pub(super) fn read(path: &Path) -> Result<Scenario> {
    let text = read_whole(path)?;
    let beside = |name: &str| {
        let path = path.parent().unwrap_or(Path::new("")).join(name);
        read_whole(&path).map_err(|error| format!("{error:#}"))
    };
    let scenario = Scenario::parse_with(&path.display().to_string(), &text, &beside)?;
    Ok(scenario)
}
