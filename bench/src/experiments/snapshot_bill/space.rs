//! Disk and memory of one case, now and at most.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::resources::{bytes_of_files, memory_bytes, memory_peak_bytes};

/// What a database takes at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Space {
    /// SSTables on disk, in bytes, those included that are about to be deleted.
    pub sstable_bytes: u64,
    /// The log on disk, in bytes.
    pub wal_bytes: u64,
    /// Resident memory of the process, in bytes.
    pub memory_bytes: u64,
}

impl Space {
    /// SSTables and log, in bytes.
    pub fn disk_bytes(&self) -> u64 {
        self.sstable_bytes + self.wal_bytes
    }
}

/// The most that a database took.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Peak {
    /// SSTables and log, in bytes, at the same moment.
    pub disk_bytes: u64,
    pub memory_bytes: u64,
}

/// Samples a database's files from outside.
pub struct SpaceWatch {
    dir: PathBuf,
    disk_bytes_max: u64,
    sampled: Instant,
}

/// Between two samples.
const SAMPLE_EVERY: Duration = Duration::from_millis(50);

impl SpaceWatch {
    pub fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            disk_bytes_max: 0,
            sampled: Instant::now(),
        }
    }

    pub fn sample(&mut self) -> Result<Space> {
        let files = |extension| {
            bytes_of_files(&self.dir, |path| {
                path.extension() == Some(str::as_ref(extension))
            })
            .with_context(|| format!("cannot list {}", self.dir.display()))
        };
        let space = Space {
            sstable_bytes: files("sst")?,
            wal_bytes: files("log")?,
            memory_bytes: memory_bytes()?,
        };
        self.disk_bytes_max = self.disk_bytes_max.max(space.disk_bytes());
        self.sampled = Instant::now();
        Ok(space)
    }

    /// Samples for the peak if the last sample was a while ago.
    pub fn poll(&mut self) -> Result<()> {
        match self.sampled.elapsed() < SAMPLE_EVERY {
            true => Ok(()),
            false => self.sample().map(drop),
        }
    }

    /// Samples for the peak for so long; `progress` is given how long so far.
    pub fn wait(&mut self, length: Duration, progress: impl Fn(Duration)) -> Result<()> {
        let from = Instant::now();
        while let Some(left) = length.checked_sub(from.elapsed()) {
            thread::park_timeout(left.min(SAMPLE_EVERY));
            self.poll()?;
            progress(from.elapsed());
        }
        Ok(())
    }

    pub fn peak(&self) -> Result<Peak> {
        Ok(Peak {
            disk_bytes: self.disk_bytes_max,
            memory_bytes: memory_peak_bytes()?,
        })
    }
}
