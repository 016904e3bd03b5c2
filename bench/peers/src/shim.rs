//! The library that delays every fsync of a child process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

const SOURCE: &str = include_str!("../shim/delay_fsync.c");

/// The compiled library, and the delay that it adds.
#[derive(Debug)]
pub struct Shim {
    library: PathBuf,
    delay: Duration,
}

impl Shim {
    /// Compiles the library into a directory.
    ///
    /// # Errors
    /// If there is no C compiler `cc`, or it fails.
    pub fn compile(dir: &Path, delay: Duration) -> Result<Self> {
        let (source, library) = (dir.join("delay_fsync.c"), dir.join("delay_fsync.so"));
        std::fs::write(&source, SOURCE)?;
        let status = Command::new("cc")
            .args(["-shared", "-fPIC", "-O2", "-o"])
            .args([&library, &source])
            .arg("-ldl")
            .status()
            .context("cannot run cc, which compiles the delay of fsyncs: install a C compiler")?;
        ensure!(status.success(), "cc failed on {}", source.display());
        Ok(Self { library, delay })
    }

    /// Sets the environment of a command so that its process loads the library.
    pub fn preload(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("FSYNC_DELAY_US", self.delay.as_micros().to_string());
    }
}
