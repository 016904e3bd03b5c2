//! `ebb get`: one value.

use std::ffi::OsString;

use anyhow::Result;

use super::attached::Attached;
use super::database;
use super::error::CliError;
use super::names::{TableName, key_bytes};
use super::print::{self, Printer};

const EXAMPLES: &str = "\
Examples:
  ebb get app.users ada
  ebb get app.users ada --snapshot monday
  ebb get --json app.users ada | jq -r .value

The value is printed as it is, with a newline behind it. If the key has no value, the
exit code is 3. If a server has the database open, or --server names one, the server
reads the row; it sends rows of up to 8 MiB.";

/// Print the value of a key, now or as it was at a snapshot.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    attached: Attached,
    /// The table.
    #[arg(value_name = "KEYSPACE.TABLE")]
    table: TableName,
    /// The key.
    key: OsString,
    /// Read the table as it was at this snapshot.
    #[arg(long, value_name = "NAME")]
    snapshot: Option<String>,
    /// Print a JSON object with key and value; bytes that are not UTF-8 as
    /// key_hex and value_hex.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    let key = key_bytes(&args.key);
    let value = match args.attached.server()? {
        Some(server) => server.value(&args.table, key, args.snapshot.as_deref())?,
        None => stored(&args)?,
    };
    let mut printer = Printer::new();
    if args.json {
        printer.json(&print::row(key, Some(&value)))?;
    } else {
        printer.fields(&[&value])?;
    }
    printer.finish()
}

/// Reads the value from the database, which no server has open.
///
/// # Errors
/// When the key has no value, or the database, the table or the snapshot does not exist.
fn stored(args: &Args) -> Result<Vec<u8>> {
    let db = args.attached.location.open_to_read()?;
    let key = key_bytes(&args.key);
    let value = match &args.snapshot {
        Some(snapshot) => database::snapshot_table(&db, &args.table, snapshot)?.get(key)?,
        None => database::table(&db, &args.table)?.get(key)?,
    };
    let no_key = || {
        let snapshot = args.snapshot.as_ref();
        let at = snapshot.map(|name| format!(" at snapshot {name}"));
        let (key, at) = (args.key.display().to_string(), at.unwrap_or_default());
        CliError::NotFound(format!("no key {key:?} in {}{at}", args.table))
    };
    Ok(value.ok_or_else(no_key)?.to_vec())
}
