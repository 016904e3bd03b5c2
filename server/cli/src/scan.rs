//! `ebb scan`: the rows of a key range. Without a server it runs unpaced: no process that serves a
//! load has the database open.

use std::ops::Bound;

use anyhow::{Error, Result};
use ebb_server::http::{JobsClient, Octets, ScanRequest};
use ebb_storage::Entry;

use super::attached::Attached;
use super::database;
use super::key_range::KeyRange;
use super::names::TableName;
use super::print::{self, Printer};

const EXAMPLES: &str = "\
Examples:
  ebb scan app.users
  ebb scan app.users --prefix ada --limit 10
  ebb scan app.users --from a --to n --snapshot monday
  ebb scan app.users --reverse --limit 1 --keys-only
  ebb scan app.users --json | jq -r .key

Rows are printed as KEY<TAB>VALUE, as they are: a tab or newline inside them is
not escaped. Use --json where that matters.

If a server has the database open, or --server names one, the server reads the rows: up to
1,000 at a time, of up to 8 MiB each. Rows that are written meanwhile may be among them; with
--snapshot all rows are as of one moment.";

/// The largest number of rows in a request to a server: the most that a page of the server has.
const PAGE_ROWS: u32 = 1000;

/// Print the rows of a key range in order, now or as they were at a snapshot.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    attached: Attached,
    /// The table.
    #[arg(value_name = "KEYSPACE.TABLE")]
    table: TableName,
    #[command(flatten)]
    range: KeyRange,
    /// Stop after this many rows.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print the rows from the last to the first.
    #[arg(long)]
    reverse: bool,
    /// Leave the values out.
    #[arg(long)]
    keys_only: bool,
    /// Read the table as it was at this snapshot.
    #[arg(long, value_name = "NAME")]
    snapshot: Option<String>,
    /// Print a JSON object per line, with key and value; bytes that are not
    /// UTF-8 as key_hex and value_hex.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    if let Some(server) = args.attached.server()? {
        return print_pages(&args, &server);
    }
    let db = args.attached.location.open_to_read()?;
    let bounds = args.range.bounds();
    let rows = match &args.snapshot {
        Some(snapshot) => database::snapshot_table(&db, &args.table, snapshot)?.scan(bounds),
        None => database::table(&db, &args.table)?.range(bounds),
    };
    let limit = args.limit.unwrap_or(usize::MAX);
    if args.reverse {
        print_rows(&args, rows.rev().take(limit))
    } else {
        print_rows(&args, rows.take(limit))
    }
}

fn print_rows(args: &Args, rows: impl Iterator<Item = ebb_storage::Result<Entry>>) -> Result<()> {
    let mut printer = Printer::new();
    for row in rows {
        let (key, value) = row?;
        let value = (!args.keys_only).then_some(&value[..]);
        print_row(&mut printer, args.json, &key, value)?;
    }
    printer.finish()
}

/// Prints the rows that a server has, page by page.
fn print_pages(args: &Args, server: &JobsClient) -> Result<()> {
    let octets = |bound: Bound<&[u8]>| match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(Octets::from(key)),
        Bound::Unbounded => None,
    };
    let (from, to) = args.range.bounds();
    let mut request = ScanRequest {
        from: octets(from.as_ref().map(Vec::as_slice)),
        to: octets(to.as_ref().map(Vec::as_slice)),
        after: None,
        reverse: args.reverse,
        keys_only: args.keys_only,
        limit: None,
        snapshot: args.snapshot.clone(),
    };
    let mut printer = Printer::new();
    let mut left = args.limit.unwrap_or(usize::MAX);
    loop {
        // Also for no rows there is a request, which fails if the table or the snapshot is not there.
        let limit = u32::try_from(left).unwrap_or(PAGE_ROWS);
        request.limit = Some(limit.clamp(1, PAGE_ROWS));
        let page = server.rows(&args.table, &request)?;
        let rows = page.rows.into_iter().take(left);
        left = left.saturating_sub(rows.len());
        for row in rows {
            let bytes = |octets: Octets| octets.into_bytes().map_err(Error::msg);
            let (key, value) = (bytes(row.key)?, row.value.map(bytes).transpose()?);
            print_row(&mut printer, args.json, &key, value.as_deref())?;
        }
        request.after = page.next;
        if left == 0 || request.after.is_none() {
            break;
        }
    }
    printer.finish()
}

fn print_row(printer: &mut Printer, json: bool, key: &[u8], value: Option<&[u8]>) -> Result<()> {
    match (json, value) {
        (true, value) => printer.json(&print::row(key, value)),
        (false, Some(value)) => printer.fields(&[key, value]),
        (false, None) => printer.fields(&[key]),
    }
}
