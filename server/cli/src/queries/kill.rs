//! `ebb queries kill`: kills queries of a server.

use anyhow::Result;

use crate::attached::Attached;
use crate::print::print_each;

const EXAMPLES: &str = "\
Examples:
  ebb queries kill 17
  ebb queries kill 17 19

The client of a query gets the error READ_FAILURE, \"an operator killed the query\", after which
drivers do not send it again. Only reads are killed: writes and changes of the schema go on.";

/// Kill CQL queries; only those that read can be killed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    attached: Attached,
    /// Ids of the queries, as `ebb queries` shows them.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<u64>,
}

/// Kills the queries with the given ids, also after one of them could not be killed.
///
/// # Errors
/// The last error, if queries could not be killed; the errors before it are printed to stderr.
pub(super) fn run(args: Args) -> Result<()> {
    let server = args.attached.client()?;
    print_each(args.ids, |id| {
        server.kill_query(id)?;
        Ok(format!("killed query {id}"))
    })
}
