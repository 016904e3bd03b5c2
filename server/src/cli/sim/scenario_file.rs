//! A scenario on the disk, and what lies beside it.

use std::path::Path;

use anyhow::{Context, Result};
use ebb_scheduler::sim::scenario::Scenario;

/// Reads a scenario; files that it names lie beside it.
///
/// # Errors
/// When one cannot be read, or it is no scenario.
pub(super) fn read(path: &Path) -> Result<Scenario> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let beside = |name: &str| {
        let path = path.parent().unwrap_or(Path::new("")).join(name);
        std::fs::read_to_string(&path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    let scenario = Scenario::parse_with(&path.display().to_string(), &text, &beside)?;
    Ok(scenario)
}
