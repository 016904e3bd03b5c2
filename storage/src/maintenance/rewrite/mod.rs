//! Replaces the damaged files of a table by new files with the readable part. The unreadable part
//! is given up.
//!
//! ```text
//!   damaged file ─► what can be read ─► list of what is lost
//!                                         │ accepted
//!                                         ▼
//!                   a name in `damaged` for the old file ─► new files ─► edit of the manifest
//! ```
//!
//! Every version keeps its number, and none that can be read is left out. So for all keys that are
//! not on the list each reader finds what it found before, and snapshots do, too. For a key on the
//! list an older value may show, or none: the newest version may be lost, a deletion or an operand.

mod aside;
mod loss;
mod report;
mod token;

use std::sync::Arc;

use aside::keep_aside;
use loss::{Reading, lost_parts};
pub use report::{FileLoss, LossReport};
use token::{hash_of, token_of};

use super::Lost;
use super::damaged::{damaged_files, flush_waiting_runs};
use crate::db::{Engine, Event, Rest, TableCore};
use crate::error::{Error, Result};
use crate::key::{KeyRange, RunId, TableId};
use crate::mutation::{self, Mutation};
use crate::runs::{FileMeta, Run, RunBuilder};
use crate::sstable::{LostBlock, Origin, Salvage};

/// See [`Db::list_lost`](crate::Db::list_lost).
pub(crate) fn list_lost(engine: &Engine, keyspace: &str, table: &str) -> Result<LossReport> {
    let damaged = Damaged::all(engine, keyspace, table)?;
    let token = token_of_all(&damaged);
    Ok(report_of(damaged, token))
}

/// Replaces the damaged files of a table by new files with the readable part of them, if `accepted`
/// is the token of the present losses. Returns `None` if it is another token, and an empty report if
/// nothing is damaged. See [`Db::rewrite_damaged`](crate::Db::rewrite_damaged).
pub(crate) fn rewrite_damaged(
    engine: &Engine,
    keyspace: &str,
    table: &str,
    accepted: &str,
) -> Result<Option<LossReport>> {
    engine.check_access()?;
    flush_waiting_runs(engine)?;
    engine.retry_unreadable_now()?;
    let report = engine.while_none_reopens(|| {
        let mut damaged = Damaged::all(engine, keyspace, table)?;
        let token = token_of_all(&damaged);
        if token.as_ref().is_some_and(|token| token != accepted) {
            return Ok(None);
        }
        // A new file that a crash leaves beside a missing one keeps the database from
        // opening. So files without a new file go first.
        damaged.sort_by_key(|file| file.loss.entries_read > 0);
        for file in &mut damaged {
            file.rewrite(engine)?;
        }
        Ok(Some(report_of(damaged, token)))
    });
    engine.release_retired();
    report
}

fn token_of_all(damaged: &[Damaged]) -> Option<String> {
    let hashes = damaged.iter().map(|file| hash_of(&file.file, &file.loss));
    token_of(hashes.collect())
}

fn report_of(damaged: Vec<Damaged>, token: Option<String>) -> LossReport {
    LossReport {
        files: damaged.into_iter().map(|file| file.loss).collect(),
        token,
    }
}

/// A file that is damaged, missing or unreadable.
struct Damaged {
    table: Arc<TableCore>,
    run: RunId,
    file: FileMeta,
    loss: FileLoss,
}

impl Damaged {
    /// Returns the damaged files of a table, and of tables of this name that were dropped and are
    /// kept for snapshots. Reads every file of these tables.
    fn all(engine: &Engine, keyspace: &str, name: &str) -> Result<Vec<Self>> {
        let mut tables = engine.tables();
        tables.retain(|table| table.keyspace == keyspace && table.name == name);
        if tables.is_empty() {
            return Err(Error::not_found("table", format!("{keyspace}.{name}")));
        }
        let mut all = Vec::new();
        for table in tables {
            for run in table.version().all_runs() {
                for (file, reason) in damaged_files(run, |_, table| table.verify_past_caches())? {
                    let readable = read(engine, file)?;
                    all.push(Self {
                        table: table.clone(),
                        run: run.id(),
                        file: file.clone(),
                        loss: loss_of(engine, &table, run, (file, reason), &readable),
                    });
                }
            }
        }
        Ok(all)
    }

    /// Rewrites the file if its loss is still the one that was accepted, and notes in `loss`
    /// whether this was done. First gives the damaged file a second name in the folder `damaged`.
    /// Removes this name again if the file was not replaced: the table was dropped meanwhile, the
    /// file was restored, or an error occurred. Keeps the name if it is uncertain whether the edit
    /// of the manifest was written.
    fn rewrite(&mut self, engine: &Engine) -> Result<()> {
        let (table, file) = (&self.table, &self.file);
        let (mut loss, mut kept_as) = (self.loss.clone(), None);
        let accepted = hash_of(file, &self.loss);
        let write = |run: &Run| -> Result<Option<Rest>> {
            let readable = read(engine, file)?;
            let reason = self.loss.detail.clone();
            loss = loss_of(engine, table, run, (file, reason), &readable);
            if hash_of(file, &loss) != accepted {
                return Ok(None);
            }
            kept_as = keep_aside(engine, file.number)?;
            let rest = match readable {
                Ok(salvage) => write_rest(engine, table, run, file, salvage)?,
                Err(_) => None,
            };
            Ok(Some(Rest(rest)))
        };
        let replaced = engine.accept_loss(table, (self.run, file.number), write);
        if !matches!(replaced, Ok(true)) && kept_as.take().is_some() {
            aside::remove(engine, file.number);
        }
        let is_rewritten = replaced?;
        if is_rewritten {
            engine.events.tell(Event::LossAccepted {
                keyspace: &table.keyspace,
                table: &table.name,
                path: &loss.path,
                entries_lost: loss.entries_lost,
                kept_as: kept_as.as_deref(),
            });
        }
        self.loss = FileLoss {
            is_rewritten,
            kept_as: kept_as.map(|path| path.display().to_string()),
            ..loss
        };
        Ok(())
    }
}

/// Reads what can be read of a file. The inner error is the reason why nothing of it can be read; the
/// outer error has another cause than the file.
fn read(engine: &Engine, file: &FileMeta) -> Result<Result<Salvage>> {
    match engine.runs.salvage(file) {
        Err(error) if error.is_of_file() => Ok(Err(error)),
        salvage => salvage.map(Ok),
    }
}

/// Returns the report on a damaged `file`, with its lost parts; `reason` is the damage.
fn loss_of(
    engine: &Engine,
    table: &TableCore,
    run: &Run,
    (file, reason): (&FileMeta, String),
    readable: &Result<Salvage>,
) -> FileLoss {
    let parts = match readable {
        Ok(salvage) => {
            let reading = Reading {
                lost: &salvage.lost,
                entries: salvage.entries(),
                has_tombstones: salvage.tombstones.is_some(),
            };
            lost_parts(file, run.keys_that_count(), &reading)
        }
        Err(error) => {
            // Without bounds of keys: `lost_parts` takes those that the manifest records of the file.
            let whole = LostBlock {
                bytes: file.bytes,
                detail: error.to_string(),
                ..LostBlock::default()
            };
            let reading = Reading {
                lost: &[whole],
                entries: 0,
                has_tombstones: false,
            };
            lost_parts(file, run.keys_that_count(), &reading)
        }
    };
    let (name, path) = (
        format!("{}.{}", table.keyspace, table.name),
        engine.runs.name(file.number),
    );
    let entries_read = readable.as_ref().map_or(0, Salvage::entries);
    // Damage among keys that earlier parts of a merge have taken over is no loss.
    let entries_lost = if parts.is_empty() {
        0
    } else {
        file.entries.saturating_sub(entries_read)
    };
    let lost = parts.into_iter().map(|part| Lost {
        path: path.clone(),
        offset: part.offset,
        bytes: part.bytes,
        table: Some(name.clone()),
        from_key: part.from_key,
        to_key: part.to_key,
        detail: part.detail,
    });
    FileLoss {
        lost: lost.collect(),
        table: name,
        path,
        detail: reason,
        entries_read,
        entries_lost,
        // `Damaged::rewrite` sets these two.
        is_rewritten: false,
        kept_as: None,
    }
}

/// Writes the readable part of a file into new files; `None` if none of it is needed any more.
fn write_rest(
    engine: &Engine,
    table: &TableCore,
    run: &Run,
    file: &FileMeta,
    mut salvage: Salvage,
) -> Result<Option<Arc<Run>>> {
    let meta = run.meta();
    let (origin, keys) = origin(table, run, file, &salvage);
    // The files of an ingested run belong to no table.
    let table_id = match meta.ingested_at {
        Some(_) => TableId::default(),
        None => table.id,
    };
    let oldest = table.version().runs.last().map(|run| run.id());
    let is_oldest = oldest == Some(run.id());
    let mut builder = RunBuilder::new(
        (&engine.runs, engine),
        table_id,
        table.options().sstable.of_run(is_oldest),
        origin,
        table.merger.operator(),
    )
    .with_prefixes(table.merger.prefixes())
    .beginning_at((!keys.start.is_empty()).then(|| keys.start.clone()));
    let counting = run.counting(KeyRange::all());
    let tombstones = salvage.tombstones.take();
    let tombstones = tombstones.map(|tombstones| tombstones.within(&counting));
    let mut last = None;
    for version in salvage.versions(|_| ()) {
        let (key, version) = version?;
        let is_lost = last.as_ref() == Some(&key) && mutation::is(Mutation::LoseOlderVersions);
        if counting.contains(&key) && !is_lost {
            builder.add(&key, &version)?;
        }
        last = Some(key);
    }
    let span = (meta.smallest_seq, meta.largest_seq);
    let rest = builder.finish(span, tombstones.unwrap_or_default(), keys.end)?;
    let named = engine.runs.finish_runs(&rest);
    named.inspect_err(|_| rest.iter().for_each(|rest| rest.retire()))?;
    Ok(rest)
}

/// Returns the origin that the new files record (the part of the table's history that they contain,
/// as sequence numbers and keys), and the key range of the new files. Both come from the properties
/// of the damaged file. If the properties are lost, the sequence numbers are those of the file's
/// run, and the keys are those in the manifest. The key range leaves out keys that the run no longer
/// has, because other files have a later state of them.
fn origin(table: &TableCore, run: &Run, file: &FileMeta, salvage: &Salvage) -> (Origin, KeyRange) {
    let properties = salvage.properties.as_ref();
    match properties.and_then(|properties| properties.origin.clone()) {
        Some(origin) => {
            let keys = origin.keys.as_ref().map(|keys| keys.range().clone());
            let keys = run.counting(keys.unwrap_or_else(KeyRange::all));
            (origin, keys)
        }
        None => {
            let (meta, keys) = (run.meta(), file.ranges().cloned());
            let keys = keys.reduce(|a, b| a.hull(&b)).unwrap_or_else(KeyRange::all);
            let span = (meta.smallest_seq, meta.largest_seq);
            (table.origin(span), run.counting(keys))
        }
    }
}
