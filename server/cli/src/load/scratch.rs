//! Where rows wait before they are loaded: a hidden folder in the database's own, so that
//! they need not be copied into it. It goes with the load; what a killed one left goes with
//! the next load or job.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ebb_jobs::ScratchDir;

use crate::database::{Location, disk};

/// The folder in the data directory that scratch folders are in.
const PARENT: &str = "spill";

pub(super) struct Scratch {
    // Dropped before the directories around it.
    scratch: Option<ScratchDir>,
    data: PathBuf,
    /// There was none before.
    is_data_new: bool,
}

impl Scratch {
    /// In the directory of a database, which is made when absent, with the mode that the database
    /// gives it.
    pub(super) fn create_in(location: &Location) -> Result<Self> {
        let data = &location.data;
        let mut scratch = Self {
            scratch: None,
            data: data.clone(),
            is_data_new: !data.exists(),
        };
        let made = disk(location.group_readable)
            .create_dir_all(data)
            .and_then(|()| ScratchDir::create_with_parent(&scratch.parent()));
        let made = made.with_context(|| format!("cannot write in {}", data.display()))?;
        scratch.scratch = Some(made);
        Ok(scratch)
    }

    fn parent(&self) -> PathBuf {
        self.data.join(PARENT)
    }

    pub(super) fn path(&self) -> &Path {
        self.scratch.as_ref().map_or(&self.data, ScratchDir::path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.scratch = None;
        // Only when empty: a database may be in there by now.
        let _ = fs::remove_dir(self.parent());
        if self.is_data_new {
            let _ = fs::remove_dir(&self.data);
        }
    }
}
