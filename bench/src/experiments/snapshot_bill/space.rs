//! Disk and memory usage of one case, current and highest.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::resources::{bytes_of_files, memory_bytes, memory_peak_bytes};

/// The usage of a database at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Space {
    /// Size of the SSTables on disk, in bytes. Includes files that are about to be deleted, except in
    /// the case `fresh`.
    pub sstable_bytes: u64,
    /// Size of the log on disk, in bytes.
    pub wal_bytes: u64,
    /// Resident memory of the process, in bytes.
    pub memory_bytes: u64,
}

impl Space {
    /// Returns the size of SSTables and log, in bytes.
    pub fn disk_bytes(&self) -> u64 {
        self.sstable_bytes + self.wal_bytes
    }
}

/// The highest usage of a database.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Peak {
    /// The highest sum of SSTables and log at one moment, in bytes.
    pub disk_bytes: u64,
    pub memory_bytes: u64,
}

/// Samples the size of a database's files by listing its directory.
pub struct SpaceWatch {
    dir: PathBuf,
    disk_bytes_max: u64,
    sampled: Instant,
}

/// The time between two samples.
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

    /// Samples if the last sample was at least [`SAMPLE_EVERY`] ago.
    pub fn poll(&mut self) -> Result<()> {
        if self.sampled.elapsed() < SAMPLE_EVERY {
            Ok(())
        } else {
            self.sample().map(drop)
        }
    }

    /// Samples for `length`, and calls `progress` with the time so far.
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
