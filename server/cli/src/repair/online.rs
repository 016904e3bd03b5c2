//! `ebb repair --online`: lists what is lost of the damaged files of a table, and has them rewritten
//! without it.

use anyhow::{Context, Result};
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

/// Lists what is lost of the damaged files of a table, and with `accept_loss` has them rewritten.
///
/// # Errors
/// When a file is damaged, and the loss is not accepted.
pub(super) fn run(
    attached: &Attached,
    table: &TableName,
    accept_loss: bool,
    as_json: bool,
) -> Result<()> {
    let report = if accept_loss {
        accepted(attached, table)?
    } else {
        listed(attached, table)?
    };
    json_or_text(as_json, &json(&report)?, |printer| {
        tell(printer, table, &report, accept_loss)
    })?;
    let files = report.files.len() as u64;
    if files == 0 || accept_loss {
        return Ok(());
    }
    let (files, lost) = (
        counted(files, "damaged file"),
        counted(report.entries_lost(), "version"),
    );
    let text = format!(
        "{table} has {files}, and {lost} in them cannot be read; take the files from a backup with: ebb \
         restore BACKUP; without one, give up what is lost with: ebb repair --online {table} \
         --accept-loss"
    );
    Err(CliError::Damaged(text).into())
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

fn accepted(attached: &Attached, table: &TableName) -> Result<LossReport> {
    Ok(match attached.server()? {
        Some(server) => {
            let accept = || server.accept_loss(table);
            spinner_while("the server rewrites the damaged files", accept)?
        }
        None => {
            let db = attached.location.open_existing()?;
            db.rewrite_damaged(&table.keyspace, &table.table)?
        }
    })
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
    if report.files.is_empty() {
        printer.line(format_args!("no file of {table} is damaged"))?;
    }
    Ok(())
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
        printer.line("  not rewritten: it was replaced or dropped meanwhile; list again")?;
    }
    Ok(())
}

/// The report with keys as text, or as hexadecimal digits.
fn json(report: &LossReport) -> Result<Value> {
    let mut value = serde_json::to_value(report).context("cannot encode the report")?;
    let files = value["files"].as_array_mut().into_iter().flatten();
    for (json, file) in files.zip(&report.files) {
        spell_keys(&mut json["lost"], &file.lost);
    }
    Ok(value)
}
