//! Rows for this terminal from a server, which has none: they come by a file.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ebb_jobs::ScratchDir;
use ebb_jobs::request::{JobRequest, OutputPlace};

/// A file in a hidden folder, which goes with it. What a killed command leaves goes when
/// the next job of the database spills.
pub(super) struct Spool {
    file: PathBuf,
    _folder: ScratchDir,
}

impl Spool {
    /// One where the server of the database in `data` spills.
    pub(super) fn create_for(data: &Path) -> Result<Self> {
        let spills = data.canonicalize().map(|data| data.join("spill"));
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

    /// The request whose rows go to the file as they would go to the terminal.
    pub(super) fn instead_of_terminal(&self, mut request: JobRequest) -> JobRequest {
        request.output.format = Some(request.output.row_format());
        request.output.header = true;
        request.output.to = OutputPlace::File(self.file.clone());
        request
    }

    /// Prints the rows, if the job has written any.
    pub(super) fn print(self) -> Result<()> {
        let mut rows = match File::open(&self.file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            opened => opened.context("cannot read the rows for the terminal")?,
        };
        let mut out = io::stdout().lock();
        (io::copy(&mut rows, &mut out).and_then(|_| out.flush())).context("cannot write to stdout")
    }
}
