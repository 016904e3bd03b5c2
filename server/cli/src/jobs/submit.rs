//! `ebb jobs submit`: has a server run the job that a file requests.

use std::path::PathBuf;

use anyhow::Result;
use ebb_jobs::request::JobRequest;
use ebb_server::http::{KEY_BYTES_MAX, is_idempotency_key};
use ebb_server::jobs::Jobs;
use serde_json::json;

use crate::attached::Attached;
use crate::print::json_or_text;
use crate::request_file;

const EXAMPLES: &str = "\
Examples:
  ebb jobs submit words.json
  EBB_TOKEN=... ebb jobs submit --server http://10.0.0.5:9043 - < words.json
  ebb jobs watch $(ebb jobs submit words.json)
  ebb jobs submit --key nightly-2026-11-23 words.json

A request that counts the words of a table, with a goal of 30 s:
  {\"application\": {\"wordcount\": {}}, \"inputs\": [{\"table\": {\"table\": \"app.lines\"}}],
   \"output\": {\"to\": {\"table\": \"app.counts\"}}, \"directory\": \"/srv\", \"goal_s\": 30}

Paths in a request are those of the server's machine; relative ones start at its directory field.";

/// Submit a job request to a server, and print the job's id.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    attached: Attached,
    /// File with the job request in JSON; `-` is standard input.
    #[arg(value_name = "FILE")]
    request: PathBuf,
    /// Idempotency key, 1 to 128 visible ASCII characters. For a day, the same key with the same
    /// request starts no other job and prints the same id, so a script can repeat the command.
    #[arg(long, value_name = "KEY", value_parser = key)]
    key: Option<String>,
    /// Print the job as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    let request = JobRequest::from_json(request_file::read(&args.request)?)?;
    let client = args.attached.client()?;
    let job = match &args.key {
        Some(key) => client.submit_once(&request, key)?,
        None => client.submit(&request)?,
    };
    let object = json!(job);
    json_or_text(args.json, &object, |printer| printer.line(&job.record.id))
}

/// Checks that a text may be an idempotency key.
fn key(text: &str) -> Result<String, String> {
    if is_idempotency_key(text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "a key has 1 to {KEY_BYTES_MAX} visible ASCII characters"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_short_and_visible() {
        let longest = "k".repeat(KEY_BYTES_MAX);
        assert_eq!(key(&longest), Ok(longest.clone()));
        for wrong in ["", "a b", "n\u{e4}chtlich", &format!("{longest}k")] {
            assert!(key(wrong).is_err(), "{wrong}");
        }
    }
}
