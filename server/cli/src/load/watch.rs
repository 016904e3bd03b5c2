//! Shows the progress of a load, and cancels it on a signal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ebb_text::{LoadControl, LoadPhase, LoadProgress};
use indicatif::ProgressBar;

use crate::print::counted;
use crate::progress;

pub(super) struct Watch {
    bar: ProgressBar,
    cancelled: Arc<AtomicBool>,
    rows_read: AtomicU64,
    is_writing: AtomicBool,
}

impl Watch {
    /// Begins to show the progress of a load of `bytes_total` bytes: a bar, or a count if the total
    /// is not known.
    pub(super) fn new(bytes_total: Option<u64>, cancelled: Arc<AtomicBool>) -> Self {
        Self {
            bar: bytes_total.map_or_else(progress::byte_spinner, progress::byte_bar),
            cancelled,
            rows_read: AtomicU64::new(0),
            is_writing: AtomicBool::new(false),
        }
    }

    /// Shows that the rows are being put in place. From then on the load cannot be cancelled.
    pub(super) fn finishing(&self) {
        self.bar.set_message("making them part of the table");
    }

    pub(super) fn done(&self) {
        self.bar.finish_and_clear();
    }
}

impl LoadControl for Watch {
    fn progress(&self, now: LoadProgress) {
        match now.phase {
            LoadPhase::Read => {
                self.rows_read.fetch_max(now.rows, Ordering::Relaxed);
                self.bar.set_position(now.bytes_read);
                self.bar.set_message(counted(now.rows, "row"));
            }
            LoadPhase::Write => {
                if !self.is_writing.swap(true, Ordering::Relaxed) {
                    let rows = self.rows_read.load(Ordering::Relaxed);
                    progress::restart_with_rows(&self.bar, rows);
                }
                self.bar.set_position(now.rows);
            }
        }
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.done();
    }
}
