//! `ebb jobs submit`: has a server run a job that is written down.

use std::fs;
use std::io::{Read, stdin};
use std::path::PathBuf;

use anyhow::{Context, Result};
use ebb_jobs::request::JobRequest;
use ebb_server::jobs::Jobs;
use serde_json::json;

use crate::attached::Attached;
use crate::print::json_or_text;

const EXAMPLES: &str = "\
Examples:
  ebb jobs submit words.json
  EBB_TOKEN=... ebb jobs submit --server http://10.0.0.5:9043 - < words.json
  ebb jobs watch $(ebb jobs submit words.json)

The request is that of the chapter on jobs: ebb run makes one of its arguments. Paths in it are
those of the server's machine.";

/// Submit a job request to a server, and print the job's id.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    attached: Attached,
    /// File with the job request in JSON; `-` is standard input.
    #[arg(value_name = "FILE")]
    request: PathBuf,
    /// Print the job as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    let named = || format!("the job request {}", args.request.display());
    let text = match args.request.to_str() {
        Some("-") => {
            let mut text = String::new();
            stdin().read_to_string(&mut text).map(|_| text)
        }
        _ => fs::read_to_string(&args.request),
    };
    let request = serde_json::from_str(&text.with_context(named)?).with_context(named)?;
    let request = JobRequest::from_json(request)?;
    let job = args.attached.client()?.submit(&request)?;
    let object = json!(job);
    json_or_text(args.json, &object, |printer| printer.line(&job.record.id))
}
