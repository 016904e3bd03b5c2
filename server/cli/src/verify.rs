//! `ebb verify`: checks a database's files, and reads the schema as a server does when it starts. Without a
//! server it runs unpaced unless `--rate` is given: no other process has the database open for writing.

use anyhow::{Context, Result};
use ebb_jobs::history::VERIFY;
use ebb_server::http::{JobsClient, VerifiedDatabase};
use ebb_storage::Finding;
use ebb_tables::unreadable_objects;
use indicatif::HumanBytes;

use super::attached::Attached;
use super::database::Location;
use super::error::CliError;
use super::print::{Printer, counted, json_or_text};
use super::progress::maintenance_bar;
use super::rate::Rate;
use super::server_progress::with_server_progress;

const EXAMPLES: &str = "\
Examples:
  ebb verify
  ebb verify --data ./ebb-backup --json | jq '.findings[].path'

Every file is read, a damaged SSTable twice, also both copies of CURRENT and of the manifest, then
the schema of each table, type and snapshot, the roles and the records of the node, as a server
reads them. Nothing is repaired; a server puts damaged SSTables into quarantine. If anything is damaged the exit code is 5. `ebb restore` takes damaged files from a
backup. Without a backup, `ebb repair` saves what can be read: into another directory, or with
--online by rewriting the damaged files in place.

A server that has the database open, or that --server names, reads the files itself, with the
CPU time that jobs may use. It removes no file meanwhile, and no segment of its log until that is
read or exceeds --wal-bytes-max, so a low --rate takes space. Ctrl-C ends the work in the server,
too. `ebb jobs` lists it as application verify, and `ebb jobs cancel` ends it.";

/// Check every file of a database: checksums, order, bounds, log, snapshots; and the schema.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    attached: Attached,
    #[command(flatten)]
    rate: Rate,
    /// Print the report as one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<()> {
    let location = &args.attached.location;
    let server = args.attached.server()?;
    let report = match &server {
        Some(server) => {
            let what = "the server reads its files";
            let verify = || server.verify(args.rate.bytes_per_s);
            with_server_progress(&args.attached, VERIFY, what, verify)?
        }
        None => verified(location, args.rate)?,
    };
    json_or_text(args.json, &report, |printer| tell(printer, &report))?;
    let dir = server.as_ref().map_or(&*location.data, JobsClient::data);
    let dir = dir.display();
    let (damaged, unreadable) = (report.files.findings.len(), report.unreadable.len());
    let advice = match (damaged, &server) {
        (0, _) => "each line names what to do".to_string(),
        (_, Some(_)) => served_advice(&report.files.findings, &dir.to_string()),
        (_, None) => {
            let opens = report.schema_not_read.is_none();
            closed_advice(&report.files.findings, &dir.to_string(), opens)
        }
    };
    match damaged + unreadable {
        0 => Ok(()),
        1 => Err(CliError::Damaged(format!("1 thing is wrong in {dir}; {advice}")).into()),
        n => Err(CliError::Damaged(format!("{n} things are wrong in {dir}; {advice}")).into()),
    }
}

/// The kinds of files in which something is wrong.
struct Kinds {
    sstables: bool,
    /// True if something is wrong in the manifest, or in CURRENT, the file that names the manifest.
    manifest: bool,
    log: bool,
}

impl Kinds {
    fn of(findings: &[Finding]) -> Self {
        let any = |is_it: fn(&str) -> bool| {
            let mut names = findings.iter().filter_map(|found| found.path.file_name());
            names.any(|name| is_it(&name.to_string_lossy()))
        };
        Self {
            sstables: any(|name| name.ends_with(".sst")),
            manifest: any(|name| name.starts_with("CURRENT") || name.starts_with("MANIFEST-")),
            log: any(|name| name.starts_with("wal-")),
        }
    }
}

/// Returns the advice about damaged files of a database that no process has open. `opens` is true if the
/// database could be opened to read the schema. If damage to the log or to the manifest prevents that,
/// `ebb restore` and `ebb repair --online` can do nothing.
fn closed_advice(findings: &[Finding], dir: &str, opens: bool) -> String {
    let kinds = Kinds::of(findings);
    if !opens && (kinds.log || kinds.manifest) {
        return format!(
            "the database does not open: put a backup of all of it in the place of {dir}, or save \
             what can be read with: ebb repair --data {dir} NEWDIR"
        );
    }
    let mut advice = Vec::new();
    if kinds.sstables {
        advice.push(format!(
            "take the files from a backup with: ebb restore --data {dir} BACKUP; without one, save \
             what can be read with: ebb repair --data {dir} NEWDIR, or of one table in its place with: \
             ebb repair --data {dir} --online KEYSPACE.TABLE"
        ));
    }
    if kinds.manifest {
        let anew = "a start of the server writes CURRENT and the manifest anew";
        advice.push(anew.to_string());
    }
    joined(advice)
}

fn joined(advice: Vec<String>) -> String {
    if advice.is_empty() {
        return "each line names what is wrong".to_string();
    }
    advice.join("; ")
}

/// Returns the advice about damaged files of a database that a server has open. For a damaged manifest the
/// advice is a backup: the server has the state of the manifest in memory, and writes a manifest from it
/// into each backup. A backup has the damage of the log, too. But the server has the rows of the log in
/// memory, and writes them to SSTables when it stops within `--grace`.
fn served_advice(findings: &[Finding], dir: &str) -> String {
    let kinds = Kinds::of(findings);
    let mut advice = Vec::new();
    if kinds.sstables {
        advice.push(
            "take the files from a backup with: ebb restore BACKUP; without one, list what is lost \
             with: ebb repair --online KEYSPACE.TABLE"
                .to_string(),
        );
    }
    if kinds.manifest {
        advice.push(format!(
            "a start of the server writes CURRENT and the manifest anew if one copy of each is \
             whole; make a backup before, with: ebb backup NEWDIR, which can take the place of {dir}"
        ));
    }
    if kinds.log {
        advice.push(format!(
            "for the log, stop the server with SIGTERM, so that it writes the rows in its memory to \
             SSTables, and then save what can be read with: ebb repair --data {dir} NEWDIR"
        ));
    }
    joined(advice)
}

/// Reads the files, and then the schema.
///
/// # Errors
/// If the database does not exist or another process writes to it. If all files are intact, but the schema
/// cannot be read.
fn verified(location: &Location, rate: Rate) -> Result<VerifiedDatabase> {
    let options = location.options();
    let files = maintenance_bar(|tell| {
        ebb_storage::verify(&location.data, &options, &mut rate.paced(tell))
    })?;
    let read = || -> Result<_> { Ok(unreadable_objects(&location.open_to_read()?)?) };
    VerifiedDatabase::new(files, read()).context("cannot read the schema")
}

fn tell(printer: &mut Printer, report: &VerifiedDatabase) -> Result<()> {
    let VerifiedDatabase {
        files: report,
        unreadable,
        schema_not_read,
    } = report;
    for finding in &report.findings {
        let path = finding.path.display();
        printer.line(format_args!(
            "{path} at offset {}: {}",
            finding.offset, finding.detail
        ))?;
    }
    for path in &report.lifted {
        printer.line(format_args!("{path} is whole, and no longer in quarantine"))?;
    }
    printer.lines(unreadable)?;
    if let Some(why) = schema_not_read {
        printer.line(format_args!("the schema was not read: {why}"))?;
    }
    printer.line(format_args!(
        "read {} in {}: {} in {}, {} in the log, {}",
        HumanBytes(report.bytes),
        counted(report.files, "file"),
        counted(report.entries, "version"),
        counted(report.runs, "run"),
        counted(report.wal_records, "commit"),
        counted(report.bookmarks, "snapshot"),
    ))?;
    if report.wal_torn_bytes > 0 {
        printer.line(format_args!(
            "the log ends with {} that a crash left unfinished; the next opening cuts them",
            HumanBytes(report.wal_torn_bytes)
        ))?;
    }
    if report.wal_unchecked_bytes > 0 {
        printer.line(format_args!(
            "{} of the log were not checked: the log reached its bound (--wal-bytes-max) while the \
             verification waited; verify again with a higher --rate, or while jobs have CPU time",
            HumanBytes(report.wal_unchecked_bytes)
        ))?;
    }
    if report.findings.is_empty() && unreadable.is_empty() {
        printer.line(match report.wal_unchecked_bytes {
            0 => "nothing is wrong",
            _ => "nothing is wrong with what was read",
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn missing(name: &str) -> Finding {
        Finding {
            path: Path::new("/db").join(name),
            offset: 0,
            detail: "it is missing".to_string(),
        }
    }

    /// Regression: for damage to the log or to the manifest, the advice named `ebb repair --online` and
    /// `ebb restore`. Both have to open the database, which such damage prevents.
    #[test]
    fn the_advice_without_a_server_names_commands_that_open_only_what_opens() {
        let sstable = "ebb restore --data /db BACKUP";
        for (names, opens, command) in [
            (&["000007.sst"][..], true, sstable),
            // The schema is in the damaged file.
            (&["000007.sst"][..], false, sstable),
            (&["000007.sst", "CURRENT.copy"][..], true, sstable),
            (&["CURRENT.copy"][..], true, "a start of the server"),
            (
                &["wal-000003.log"][..],
                false,
                "ebb repair --data /db NEWDIR",
            ),
            (
                &["MANIFEST-000004"][..],
                false,
                "ebb repair --data /db NEWDIR",
            ),
            (
                &["000007.sst", "wal-000003.log"][..],
                false,
                "ebb repair --data /db NEWDIR",
            ),
        ] {
            let findings: Vec<_> = names.iter().map(|name| missing(name)).collect();
            let advice = closed_advice(&findings, "/db", opens);
            assert!(advice.contains(command), "{names:?}: {advice}");
            for other in ["ebb restore", "--online"] {
                assert_eq!(advice.contains(other), command == sstable, "{names:?}");
            }
        }
    }

    /// Regression: for damage to the log, the advice named `ebb restore` and `ebb repair --online`, which
    /// both leave the log as it is.
    #[test]
    fn the_advice_names_commands_that_help_with_the_damaged_kind_of_file() {
        let advice = |name: &str| served_advice(&[missing(name)], "/db");
        for (name, command) in [
            ("000007.sst", "ebb restore BACKUP"),
            ("wal-000003.log", "ebb repair --data /db NEWDIR"),
            ("MANIFEST-000004.copy", "ebb backup NEWDIR"),
            ("CURRENT", "ebb backup NEWDIR"),
        ] {
            let advice = advice(name);
            assert!(advice.contains(command), "{name}: {advice}");
            assert_eq!(advice.contains("restore"), name.ends_with(".sst"), "{name}");
            assert_eq!(advice.contains("SIGTERM"), name.ends_with(".log"), "{name}");
        }
    }
}
