//! `ebb repair --online`: lists what a table has lost in its damaged files, and has these rewritten once the
//! user accepts exactly the listed loss.

use anyhow::{Context, Result};
use ebb_jobs::Failure;
use ebb_jobs::history::SYSTEM_KEYSPACE;
use ebb_model::key::SCHEMA_KEY;
use ebb_server::http::{ClientError, Problem};
use ebb_storage::{FileLoss, LossReport};
use indicatif::HumanBytes;
use serde_json::Value;

use super::{keys, spell_keys};
use crate::attached::Attached;
use crate::error::CliError;
use crate::names::TableName;
use crate::print::{Printer, counted, json_or_text};
use crate::progress::spinner_while;

/// The consequences of a loss for readers, and the work that is left for the operator.
const CONSEQUENCES: &str = "\
A lost version may be a deletion, an operand of a counter or a list, or the header of a partition. So
older values of these keys may show, or none, and rows behind them that the header deleted. Snapshots
lose the same. Indexes of the table may lack entries or have too many: drop and create them afterwards.";

/// Printed if the record of a table's schema may be lost. The text begins with a condition, because the
/// report does not contain whether CQL created the table.
const SCHEMA_LOST: &str = "\
If CQL created the table, the lost keys may include the record of its schema. A server that runs now and
serves the table writes it again. Without one, the table is out of service at the next start, or has an older
schema: take the files from a backup.";

/// Printed if records of keyspaces or roles may be lost.
const SYSTEM_LOST: &str = "\
A server that runs now writes lost records of the keyspaces and roles that it serves again. Without one, they
are gone or older at the next start: take the files from a backup.";

/// Lists what a table has lost in its damaged files. Rewrites these files if `accepted` is the token of that
/// list.
///
/// # Errors
/// When a file is still damaged at the end: its loss is not accepted, or it could not be rewritten.
pub(super) fn run(
    attached: &Attached,
    table: &TableName,
    accepted: Option<&str>,
    as_json: bool,
) -> Result<()> {
    let rewritten = match accepted {
        Some(token) => rewritten(attached, table, token)?,
        None => None,
    };
    let (report, is_accepted) = match rewritten {
        Some(report) => (report, true),
        None => (listed(attached, table)?, false),
    };
    json_or_text(as_json, &json(&report)?, |printer| {
        tell(printer, table, &report, is_accepted)
    })?;
    let left = report.files.iter().filter(|file| !file.is_rewritten);
    let left = left.count() as u64;
    match &report.token {
        Some(_) if is_accepted && left > 0 => {
            let files = counted(left, "damaged file");
            let text = format!("{table} still has {files}: list what is lost again");
            Err(CliError::Damaged(text).into())
        }
        Some(token) if !is_accepted => {
            Err(CliError::Damaged(advice(table, &report, token, accepted)).into())
        }
        _ => Ok(()),
    }
}

/// Returns the advice for a user who has not accepted the loss. `token` identifies the loss that `report`
/// lists. `accepted` is the token that the user gave, if any; it belongs to an older list.
fn advice(table: &TableName, report: &LossReport, token: &str, accepted: Option<&str>) -> String {
    let (files, lost) = (
        counted(report.files.len() as u64, "damaged file"),
        counted(report.entries_lost(), "version"),
    );
    let change = accepted.map_or_else(String::new, |accepted| {
        format!("nothing was changed, because this is another loss than that of {accepted}: ")
    });
    format!(
        "{change}{table} has {files}, and {lost} in them cannot be read; take the files from a backup \
         with: ebb restore BACKUP; without one, give up what is lost with: ebb repair --online {table} \
         --accept-loss {token}"
    )
}

fn listed(attached: &Attached, table: &TableName) -> Result<LossReport> {
    Ok(match attached.server()? {
        Some(server) => spinner_while("the server reads its files", || server.loss(table))?,
        None => {
            let db = attached.location.open_to_read()?;
            db.list_lost(&table.keyspace, &table.table)?
        }
    })
}

/// Rewrites the damaged files of a table. `token` identifies the loss that the user has accepted.
/// If there is a server, it rewrites the files; otherwise this process opens the database and does
/// so. Returns `None` and changes nothing if the table has lost other data by now. Returns an empty
/// report if no file is damaged any more.
fn rewritten(attached: &Attached, table: &TableName, token: &str) -> Result<Option<LossReport>> {
    let Some(server) = attached.server()? else {
        let db = attached.location.open_existing()?;
        return Ok(db.rewrite_damaged(&table.keyspace, &table.table, token)?);
    };
    let accept = || server.accept_loss(table, token);
    let is_of_other_loss =
        |problem: &Problem| problem.status == 409 && problem.failure == Failure::Corrupt;
    match spinner_while("the server rewrites the damaged files", accept) {
        Err(ClientError::Refused(problem)) if is_of_other_loss(&problem) => Ok(None),
        report => Ok(Some(report?)),
    }
}

fn tell(
    printer: &mut Printer,
    table: &TableName,
    report: &LossReport,
    is_accepted: bool,
) -> Result<()> {
    for file in &report.files {
        tell_file(printer, file, is_accepted)?;
    }
    if report.entries_lost() > 0 {
        printer.line(CONSEQUENCES)?;
    }
    if table.keyspace == SYSTEM_KEYSPACE {
        let has_records = matches!(table.table.as_str(), "keyspaces" | "roles");
        if has_records && report.entries_lost() > 0 {
            printer.line(SYSTEM_LOST)?;
        }
    } else if report.files.iter().any(may_lose_schema) {
        printer.line(SCHEMA_LOST)?;
    }
    match &report.token {
        Some(token) if !is_accepted => {
            printer.line(format_args!("the token of this list: {token}"))?
        }
        Some(_) => {}
        None => printer.line(format_args!("no file of {table} is damaged"))?,
    }
    Ok(())
}

/// Returns whether a lost part of a file may contain the record of the table's schema. Only tables that CQL
/// created have such a record.
fn may_lose_schema(file: &FileLoss) -> bool {
    let mut lost = file.lost.iter();
    lost.any(|lost| lost.concerns(&file.table, SCHEMA_KEY))
}

fn tell_file(printer: &mut Printer, file: &FileLoss, is_accepted: bool) -> Result<()> {
    let path = file.path.display();
    printer.line(format_args!("{path} of {}: {}", file.table, file.detail))?;
    for lost in &file.lost {
        printer.line(format_args!(
            "  lost: {} at offset {}: {} ({})",
            HumanBytes(lost.bytes),
            lost.offset,
            lost.detail,
            keys(lost)
        ))?;
    }
    let all = counted(file.entries_read + file.entries_lost, "version");
    printer.line(format_args!("  lost: {} of {all}", file.entries_lost))?;
    if file.is_rewritten {
        let place = match &file.kept_as {
            Some(path) => format!("the damaged file is {path} now"),
            None => "the damaged file is gone".to_owned(),
        };
        printer.line(format_args!("  rewritten without them; {place}"))?;
    } else if is_accepted {
        printer.line("  not rewritten: it was replaced or dropped meanwhile, or has lost more")?;
    }
    Ok(())
}

/// Returns the report as JSON, with keys as text, or as hexadecimal digits if they are not UTF-8.
fn json(report: &LossReport) -> Result<Value> {
    let mut value = serde_json::to_value(report).context("cannot encode the report")?;
    let files = value["files"].as_array_mut().into_iter().flatten();
    for (json, file) in files.zip(&report.files) {
        spell_keys(&mut json["lost"], &file.lost);
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use ebb_storage::Lost;

    use super::*;

    #[test]
    fn the_schema_may_be_lost_with_the_first_key_of_a_table_only() {
        let loss = |from_key: Option<&[u8]>, to_key: Option<&[u8]>| FileLoss {
            table: "app.t".to_owned(),
            path: PathBuf::new(),
            detail: String::new(),
            entries_read: 0,
            entries_lost: 1,
            lost: vec![Lost {
                path: PathBuf::new(),
                offset: 0,
                bytes: 1,
                table: Some("app.t".to_owned()),
                from_key: from_key.map(<[u8]>::to_vec),
                to_key: to_key.map(<[u8]>::to_vec),
                detail: String::new(),
            }],
            is_rewritten: false,
            kept_as: None,
        };
        assert!(may_lose_schema(&loss(None, None)));
        assert!(may_lose_schema(&loss(Some(SCHEMA_KEY), Some(b"\x80"))));
        assert!(!may_lose_schema(&loss(Some(b"\x80"), None)));
    }
}
