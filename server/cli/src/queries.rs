//! `ebb queries`: the queries of CQL that wait or run in a server; kills some of them.

mod kill;
mod list;

use anyhow::Result;

use super::attached::Attached;
use super::print::json_or_text;

const EXAMPLES: &str = "\
Examples:
  ebb queries
  ebb queries --json | jq '.[] | select(.running_ms > 60000)'
  ebb queries kill 17
  EBB_TOKEN=... ebb queries --server https://10.0.0.5:9043

Scans, reads that name no partition, changes of the schema and other long statements are listed,
the oldest first. Reads and writes of a few rows are not. Constants are shown as ?.

A server at --server URL needs a token of scope admin, the server that has the directory open
none. In CQL, the table system_views.queries has the same list, and KILL QUERY 17 kills a query.";

/// List the CQL queries that wait or run in a server.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    attached: Attached,
    /// Print a JSON array: id, address, user, keyspace, statement (its text, or the first one
    /// of a batch), statements (their number), lane (the queue: scan, range for reads without a
    /// partition, moved for statements that turned out to be long, schema or control), state,
    /// waits_for, queued_ms, running_ms.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Kill(kill::Args),
}

pub(super) fn run(args: Args) -> Result<()> {
    if let Some(Command::Kill(kill)) = args.command {
        return kill::run(kill);
    }
    let queries = args.attached.client()?.queries()?;
    json_or_text(args.json, &queries, |printer| {
        printer.lines(list::lines(&queries))
    })
}
