//! The scratch folder of a load: a hidden folder in the database's directory, so that sorted rows need
//! not be copied into it. It is removed at the end of the load. The folder of a killed load is removed
//! by the next load or job.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ebb_jobs::{SPILLS, ScratchDir};

use crate::database::{Location, disk};

pub(super) struct Scratch {
    // Dropped before the directories around it.
    scratch: Option<ScratchDir>,
    data: PathBuf,
    /// True if this load created the directory of the database. Dropping the scratch folder then removes the
    /// directory, too, if it is empty.
    is_data_new: bool,
}

impl Scratch {
    /// Creates a scratch folder in the directory of a database. The directory is created if absent, with
    /// the mode that the database gives it.
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
        self.data.join(SPILLS)
    }

    pub(super) fn path(&self) -> &Path {
        self.scratch.as_ref().map_or(&self.data, ScratchDir::path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.scratch = None;
        // `remove_dir` fails unless the folder is empty: there may be a database by now.
        let _ = fs::remove_dir(self.parent());
        if self.is_data_new {
            let _ = fs::remove_dir(&self.data);
        }
    }
}
