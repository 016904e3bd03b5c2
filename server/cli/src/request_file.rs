//! Files with job requests.

use std::fs;
use std::io::{Read, stdin};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::error::CliError;

/// Reads the job request in a file; `-` is standard input.
///
/// # Errors
/// When the file cannot be read or is not JSON.
pub(super) fn read(path: &Path) -> Result<Value> {
    let text = if path.as_os_str() == "-" {
        let mut text = Vec::new();
        stdin().read_to_end(&mut text).map(|_| text)
    } else {
        fs::read(path)
    };
    let shown = path.display();
    let text = text.with_context(|| format!("cannot read the job request {shown}"))?;
    let parsed = serde_json::from_slice(&text);
    Ok(parsed
        .map_err(|error| CliError::Usage(format!("the job request {shown} is no JSON: {error}")))?)
}
