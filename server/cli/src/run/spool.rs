//! The temporary file for rows that a server computes for this command's terminal. The server cannot
//! write to that terminal, so it writes the file, and the command prints it.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ebb_jobs::request::{JobRequest, OutputPlace};
use ebb_jobs::{SPILLS, ScratchDir};

use crate::print::{to_stdout, unless_closed};

/// The temporary file for rows that a server computes and this command prints, in a hidden folder of its own.
/// Dropping the spool removes the folder and the file. If the command is killed, the next job or load that
/// makes such a folder in the database's directory removes them.
pub(super) struct Spool {
    file: PathBuf,
    _folder: ScratchDir,
}

impl Spool {
    /// Creates a hidden folder for the file, beside the folders for spills of the database in `data`.
    pub(super) fn create_for(data: &Path) -> Result<Self> {
        let spills = data.canonicalize().map(|data| data.join(SPILLS));
        let folder = spills.and_then(|spills| ScratchDir::create_with_parent(&spills));
        let folder = folder.with_context(|| {
            let data = data.display();
            format!("cannot make a folder in {data} for the rows on their way to the terminal")
        })?;
        Ok(Self {
            file: folder.path().join("rows"),
            _folder: folder,
        })
    }

    /// Changes a request so that its rows are written to the file, in the format for the terminal.
    pub(super) fn instead_of_terminal(&self, mut request: JobRequest) -> JobRequest {
        request.output.format = Some(request.output.row_format());
        request.output.to = OutputPlace::Spool(self.file.clone());
        request
    }

    /// Prints the rows, if the job has written any. A reader that has closed stdout is no error, as for a job of
    /// this process.
    pub(super) fn print(self) -> Result<()> {
        let mut rows = match File::open(&self.file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            opened => opened.context("cannot read the rows for the terminal")?,
        };
        let mut out = io::stdout().lock();
        let printed = io::copy(&mut rows, &mut out).and_then(|_| out.flush());
        unless_closed(to_stdout(printed))
    }
}
