//! The position of the row of a key among all files of a table.

use std::mem;
use std::sync::Arc;

use super::Result;
use super::cursor::Cursor;
use super::deletes::RowPosition;
use super::files::{RowFiles, Span};

/// A search for rows by their keys. It keeps those files open whose key ranges contain the key of the last
/// search, because callers mostly search for ascending keys.
pub struct Positions {
    files: Arc<RowFiles>,
    /// The data files whose key ranges contain `last_key`, newest first. Each is given by the position of its
    /// key range in [`RowFiles::spans`], with a reader of the file once it is open.
    around: Vec<(usize, Option<Cursor>)>,
    /// The position in [`RowFiles::spans`] of the first key range that begins above `last_key`. The spans
    /// ascend by their least keys.
    ahead: usize,
    /// The key of the last search.
    last_key: Vec<u8>,
    /// The positions, in [`RowFiles::files`], of the files that the search has passed: an earlier key was in
    /// the file's key range, and `last_key` is above this range. [`take_passed`](Self::take_passed) removes
    /// them.
    passed: Vec<usize>,
}

impl Positions {
    /// Returns a search in `files`, which opens no file yet.
    pub fn new(files: Arc<RowFiles>) -> Self {
        Self {
            files,
            around: Vec::new(),
            ahead: 0,
            last_key: Vec::new(),
            passed: Vec::new(),
        }
    }

    /// Returns the positions, in [`RowFiles::files`], of the files whose key range contained an earlier key
    /// and ends below the key of the last search. Leaves out files that an earlier call returned. As long as
    /// keys ascend, no further row is found in these files.
    pub fn take_passed(&mut self) -> Vec<usize> {
        mem::take(&mut self.passed)
    }

    /// Returns the files in which rows are looked for.
    pub fn files(&self) -> &RowFiles {
        &self.files
    }

    /// Returns the position of the row of `key`; `None` if no file has such a row that is not deleted. If
    /// several files have one, returns that of the newest file. Keys that ascend from call to call are
    /// found fastest.
    ///
    /// # Errors
    /// If a request to the target fails, or if a file is damaged.
    pub fn locate(&mut self, key: &[u8]) -> Result<Option<RowPosition>> {
        self.surround(key);
        let files = &*self.files;
        for (place, cursor) in &mut self.around {
            let file = files.spans()[*place].file;
            let cursor = match cursor {
                Some(cursor) => cursor,
                None => cursor.insert(files.cursor(file)?),
            };
            if let Some(position) = cursor.find(key, files.keys())? {
                return Ok(Some(RowPosition { file, position }));
            }
        }
        Ok(None)
    }

    /// Updates `around`, `ahead` and `passed` for a search for `key`: only files whose key ranges
    /// contain the key can have its row.
    fn surround(&mut self, key: &[u8]) {
        let spans = self.files.spans();
        if *key < *self.last_key {
            self.around.clear();
            self.passed.clear();
            self.ahead = 0;
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        let is_below = |span: &Span| *span.last < *key;
        let passed = &mut self.passed;
        self.around.retain(|(place, _)| {
            let is_passed = is_below(&spans[*place]);
            if is_passed {
                passed.push(spans[*place].file);
            }
            !is_passed
        });
        let before = self.around.len();
        while let Some(span) = spans.get(self.ahead).filter(|span| *span.first <= *key) {
            if !is_below(span) {
                self.around.push((self.ahead, None));
            }
            self.ahead += 1;
        }
        if self.around.len() > before {
            let number = |place: usize| spans[place].sequence_number;
            self.around
                .sort_by_key(|(place, _)| std::cmp::Reverse(number(*place)));
        }
    }
}
