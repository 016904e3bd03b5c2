//! The page-wise execution of SELECTs.

use super::answers::{rows, table};
use super::{Open, Result, Run, inline};
use crate::flaw::Flaw;
use crate::model::Model;
use crate::reading::{Cursor, Found};
use crate::select::Select;
use crate::step::{CursorId, Source};
use crate::text::Text;
use crate::value::Value;

impl Run {
    /// Prepares to read a SELECT in pages of `size` rows; reads no page yet. A SELECT that is
    /// sorted over partitions has only one page. Returns `None` if the snapshot is gone, or the
    /// table no longer has the columns of the statement.
    pub(super) fn open(&self, select: &Select, source: Source, size: usize) -> Option<Open> {
        let (model, _) = self.view(source)?;
        if !select.fits(&model.schema) {
            return None;
        }
        let size = if select.is_sorted_over_partitions() {
            usize::MAX
        } else {
            size
        };
        let mut text = Text::new(false);
        select.write(&model.schema, &source.name(), &mut text);
        Some(Open {
            text,
            select: select.clone(),
            source,
            size,
            cursor: Cursor::new(select),
            state: None,
        })
    }

    /// Returns the model of the table that `source` names, and the time, in seconds since 1970, by
    /// which a read decides whether cells have expired. Returns `None` if there is no such
    /// snapshot.
    pub(super) fn view(&self, source: Source) -> Option<(&Model, i64)> {
        let Some(id) = source.snapshot() else {
            return Some((&self.model, self.now_s));
        };
        let snapshot = self.snapshots.get(&id)?;
        let now_s = if self.model.has(Flaw::SnapshotsJudgeNow) {
            self.now_s
        } else {
            snapshot.now_s
        };
        if self.model.has(Flaw::SnapshotsMove) {
            Some((&self.model, now_s))
        } else {
            Some((&snapshot.model, now_s))
        }
    }

    /// Reads a page. If there are more pages, stores the SELECT as `id`, so that a later step
    /// continues it, unless the rows of the next page are undefined.
    pub(super) fn advance(&mut self, id: CursorId, mut open: Open) -> Result<()> {
        let goes_on = self.next(&mut open)?;
        if goes_on && !open.cursor.is_ambiguous() {
            self.cursors.insert(id, open);
        }
        Ok(())
    }

    /// Reads a page and compares it with the model. Returns whether there are more pages. Also
    /// returns false if the server rejects the SELECT as it must.
    pub(super) fn next(&mut self, open: &mut Open) -> Result<bool> {
        let size = (open.size != usize::MAX).then_some(open.size);
        let page = self.server.page(&open.text, size, open.state.as_deref());
        let Some((model, _)) = self.view(open.source) else {
            return Ok(false);
        };
        let by_index = open.select.uses_index(&model.schema);
        let page = match (page, open.select.refused(&model.schema)) {
            (Ok(page), None) => page,
            (Err(error), Some(why)) if error.message.contains(why) => {
                self.counts.refused += 1;
                return Ok(false);
            }
            (page, why) => {
                let found = page
                    .map(|_| "is not refused")
                    .map_err(|error| error.message);
                return Err(format!(
                    "{}: {found:?}, expected {why:?}",
                    inline(&open.text)
                ));
            }
        };
        self.counts.pages += 1;
        self.counts.rows += page.rows.len() as u64;
        self.counts.by_index += u64::from(by_index);
        self.counts.grouped += u64::from(open.select.is_grouped());
        let Some((model, now_s)) = self.view(open.source) else {
            return Ok(false);
        };
        let moves = by_index && self.model.has(Flaw::IndexesOfSnapshotsMove);
        let model = if moves { &self.model } else { model };
        let expected = (open.cursor).page(model, &open.select, &self.tokens, now_s, open.size);
        let expected: Vec<Vec<Option<Value>>> = expected
            .into_iter()
            .map(|Found { shown, .. }| shown)
            .collect();
        let found = rows(&model.schema, &open.select, &page)?;
        if found != expected {
            return Err(format!(
                "{}\nof page size {size:?} in second {now_s} shows\n{}\nand must show\n{}",
                inline(&open.text),
                table(&found),
                table(&expected)
            ));
        }
        open.state = page.state.map(|state| state.to_vec());
        let is_one_page = open.select.is_one_row() || open.select.is_sorted_over_partitions();
        let is_short = is_one_page || found.len() < open.size;
        match (&open.state, is_short) {
            (Some(_), true) => Err(format!(
                "{}: a page of {} rows has another after it",
                inline(&open.text),
                found.len()
            )),
            (Some(_), false) => Ok(true),
            (None, _) => {
                let rest = open
                    .cursor
                    .page(model, &open.select, &self.tokens, now_s, 1);
                if rest.is_empty() || is_one_page {
                    Ok(false)
                } else {
                    Err(format!(
                        "{}: the last page is not the last",
                        inline(&open.text)
                    ))
                }
            }
        }
    }
}
