//! `ebb stats`: what a database consists of.

use std::time::Duration;

use anyhow::Result;
use ebb_server::http::StatsReport;
use ebb_server::memory::MemoryLimits;
use ebb_storage::{Stats, TableStats};
use indicatif::{HumanBytes, HumanCount};

use super::attached::Attached;
use super::exposure::Exposure;
use super::print::{Printer, counted, json_or_text, notice, table};

const EXAMPLES: &str = "\
Examples:
  ebb stats
  ebb stats --json | jq '.tables[] | {name, file_bytes}'

VERSIONS counts all stored versions of the rows. A version that a newer one replaces is
kept while a snapshot sees it, and until a merge drops it. KEPT is roughly the size of
such versions, where it is known. TO MERGE is the size of the files that merges will read.
CHECKS is the time since the oldest of the files' latest checks, if a server has checked files
(ebb serve --verify-every).
A line that starts with \"unreadable\" names a table, type, keyspace, role, table of a snapshot
or record of the node that cannot be read, and what to do. A server serves everything else.
A warning on stderr names files and directories that users other than their owner may open.

If a server has the database open, or --server names one, the numbers are the server's, and
\"budget\" is how it divides its --memory. Without a server, this command opens the database and
replays the log: memory, and the bounds of memory and log, are then those of the command itself.";

/// Show statistics of the database: tables, files, snapshots, log.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    attached: Attached,
    /// Print one JSON object with every number.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    let location = &args.attached.location;
    let (report, data) = match args.attached.server()? {
        Some(server) => (server.stats()?, server.data().to_path_buf()),
        None => {
            let db = location.open_to_read()?;
            (StatsReport::of(&db), location.data.clone())
        }
    };
    // The address of a server is no directory, so nothing is printed of it.
    if let Some(exposure) = Exposure::of(&data, location.group_readable) {
        notice(exposure);
    }
    json_or_text(args.json, &report, |printer| tell(printer, &report))
}

/// Prints the tables of the database, then a line for each further subject, such as snapshots, log and
/// memory. Lines about failures and damage are left out if there is none.
fn tell(printer: &mut Printer, report: &StatsReport) -> Result<()> {
    let stats = &report.stats;
    printer.lines(tables(stats))?;
    if !stats.tables.is_empty() {
        printer.line("")?;
    }
    printer.line(format_args!("snapshots  {}", snapshots(stats)))?;
    printer.line(format_args!(
        "log        {} of {} in {}",
        HumanBytes(stats.wal_bytes),
        HumanBytes(stats.wal_bytes_max),
        counted(stats.wal_segments as u64, "segment")
    ))?;
    printer.line(format_args!("memory     {}", memory(stats)))?;
    if let Some(limits) = &report.memory {
        printer.line(format_args!("budget     {}", budget(limits)))?;
    }
    printer.line(format_args!(
        "to merge   {}",
        HumanBytes(stats.compaction_debt_bytes)
    ))?;
    if let Some(ms) = stats.oldest_file_check_ms {
        // Rounded down to minutes: each unit that is not 0 is printed.
        let minutes = Duration::from_secs(ms / 60_000 * 60);
        printer.line(format_args!(
            "checks     the oldest of a file is {} old",
            humantime::format_duration(minutes)
        ))?;
    }
    // The writers of each table have a pressure of their own; the line has the highest.
    let pressures = stats.tables.iter().map(|table| table.pressure);
    printer.line(format_args!(
        "pressure   {:.0}% on writers",
        100.0 * pressures.fold(0.0, f64::max)
    ))?;
    // The engine refuses merges that a table's picker proposes if they are invalid or gain nothing.
    for table in stats.tables.iter().filter(|table| table.picks_refused > 0) {
        printer.line(format_args!(
            "merges     {} of {}.{} not done: {}",
            HumanCount(table.picks_refused),
            table.keyspace,
            table.name,
            table.pick_refused.as_deref().unwrap_or_default()
        ))?;
    }
    for table in &stats.tables {
        let bad = table.quarantine.iter().map(|file| ("damaged", file));
        let left_out = table.unreadable.iter().map(|file| ("left out", file));
        for (what, file) in bad.chain(left_out) {
            let end = file
                .to_key
                .as_ref()
                .map(|end| end.escape_ascii().to_string());
            printer.line(format_args!(
                "{what:<10} {}.{}: {} at offset {}: {} (keys from \"{}\" to before {})",
                table.keyspace,
                table.name,
                file.path.display(),
                file.offset,
                file.detail,
                file.from_key.escape_ascii(),
                end.map_or("the end".to_string(), |end| format!("\"{end}\""))
            ))?;
        }
    }
    if let Some(failure) = &stats.maintenance_failure {
        printer.line(format_args!("failure    {failure}"))?;
    }
    for object in &report.unreadable {
        printer.line(format_args!("unreadable {object}"))?;
    }
    match &report.schema_not_read {
        Some(why) => printer.line(format_args!("the schema was not read: {why}")),
        None => Ok(()),
    }
}

/// Returns the number of named snapshots, and the number of holds: snapshots of tables that are kept for
/// the next publication.
fn snapshots(stats: &Stats) -> String {
    match stats.holds {
        0 => stats.snapshots.to_string(),
        holds => format!(
            "{}, and {holds} of tables for their next publication",
            stats.snapshots
        ),
    }
}

/// Returns the line on memory: the bytes of each part, with their bounds.
fn memory(stats: &Stats) -> String {
    let all = match stats.memory_bytes_max {
        Some(bytes) => format!("; {} in all", HumanBytes(bytes)),
        None => String::new(),
    };
    format!(
        "memtables {} of {}, cache {} of {} (indexes and filters {}), open tables {}{all}",
        HumanBytes(stats.memtable_bytes),
        HumanBytes(stats.memtable_bytes_max),
        HumanBytes(stats.cache_bytes),
        HumanBytes(stats.cache_bytes_max),
        HumanBytes(stats.index_bytes),
        HumanBytes(stats.open_table_bytes),
    )
}

/// Returns the line on the memory budget of a server: the limit of each part.
fn budget(limits: &MemoryLimits) -> String {
    let part = |(name, bytes): (&str, u64)| format!("{name} {}", HumanBytes(bytes));
    let parts = limits.parts().map(part).join(", ");
    format!("{} in all: {parts}", HumanBytes(limits.all_bytes))
}

fn tables(stats: &Stats) -> Vec<String> {
    if stats.tables.is_empty() {
        return vec!["no tables yet".to_string(), String::new()];
    }
    let row = |table: &TableStats| {
        vec![
            format!(
                "{}.{}{}",
                table.keyspace,
                table.name,
                if table.dropped { " (dropped)" } else { "" }
            ),
            HumanCount(table.versions).to_string(),
            HumanBytes(table.file_bytes).to_string(),
            table.files.to_string(),
            table.runs.len().to_string(),
            HumanBytes(table.memtable_bytes).to_string(),
            table.bookmarks.to_string(),
            HumanBytes(table.kept_bytes + table.garbage_bytes).to_string(),
        ]
    };
    let rows: Vec<_> = stats.tables.iter().map(row).collect();
    let head = [
        "table",
        "versions",
        "on disk",
        "files",
        "runs",
        "in memory",
        "bookmarks",
        "kept",
    ];
    table(&head, &head[1..], &rows)
}
