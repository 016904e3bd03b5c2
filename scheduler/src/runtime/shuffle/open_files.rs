//! Opens spill files while the process may have few file descriptors left.
//!
//! A lack of descriptors passes: other tasks, clients and the database close files. A merge of many runs does
//! not wait for that if it can open some of them: it reads fewer runs at once, in more passes. A merge that
//! waits for its first two runs has no run open. Only the creation of a run waits while others are open, and
//! each merge leaves [`SPARE_FILES`] descriptors for that.

use crate::runtime::error::TaskError;
use rustix::io::Errno;
use std::thread;
use std::time::Duration;

/// The number of descriptors that must be free besides those of a merge's sources, because the task also
/// opens files for its output. A merge of fewer sources leaves as many as it has sources.
const SPARE_FILES: usize = 4;

/// The pause between two tries to open files.
const RETRY_AFTER: Duration = Duration::from_millis(10);

/// The number of tries after which a lack of descriptors is an error. Together they take five seconds, as
/// reads of the database do.
const TRIES_MAX: u32 = 500;

/// Opens `sources`, in their order. If the process has too few file descriptors for them and for
/// [`SPARE_FILES`], opens only the first half of them, or the first quarter, and so on, but at least two.
///
/// # Errors
/// Fails if there are too few descriptors even for two sources (or the only one), and when `open` fails for
/// another reason. No file stays open then.
pub(super) fn open_some<S, F>(
    mut sources: &[S],
    open: impl Fn(&S) -> Result<F, TaskError>,
) -> Result<Vec<F>, TaskError> {
    loop {
        // Spare files are further files of the first sources, which are closed again.
        let spare = sources.iter().take(SPARE_FILES);
        let files: Result<Vec<F>, TaskError> = sources.iter().chain(spare).map(&open).collect();
        match files {
            Ok(mut files) => {
                files.truncate(sources.len());
                return Ok(files);
            }
            // At least two: a merge of one source would not reduce their number.
            Err(error) if is_lack(&error) && sources.len() > 2 => {
                sources = &sources[..sources.len().div_ceil(2)];
            }
            Err(error) => return Err(error),
        }
    }
}

/// Calls `open` again and again while it fails for lack of file descriptors, for five seconds at most.
///
/// # Errors
/// The last error of `open`.
pub(super) fn open_patiently<T>(
    mut open: impl FnMut() -> Result<T, TaskError>,
) -> Result<T, TaskError> {
    let mut tries = 0;
    loop {
        let opened = open();
        tries += 1;
        match opened {
            Err(error) if is_lack(&error) && tries < TRIES_MAX => thread::park_timeout(RETRY_AFTER),
            opened => return opened,
        }
    }
}

/// Returns whether a file could not be opened because the process or the machine has too many open files.
fn is_lack(error: &TaskError) -> bool {
    let TaskError::Io { source, .. } = error else {
        return false;
    };
    matches!(
        Errno::from_io_error(source),
        Some(Errno::MFILE | Errno::NFILE)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    /// Returns a function that opens files while fewer than `max` are open: each is a number and a clone of
    /// `process`.
    fn opener(
        process: &Rc<()>,
        max: usize,
    ) -> impl Fn(&usize) -> Result<(usize, Rc<()>), TaskError> {
        move |number: &usize| {
            if Rc::strong_count(process) > max {
                return Err(TaskError::io("opening a file")(Errno::MFILE.into()));
            }
            Ok((*number, Rc::clone(process)))
        }
    }

    #[test]
    fn all_files_are_opened_or_else_as_few_as_leave_spare_ones() {
        for (sources, max, opened) in [
            (0, 0, 0),
            (1, 2, 1),
            (2, 4, 2),
            (8, 12, 8),
            (9, 12, 5),
            (64, 12, 8),
            (64, 4, 2),
        ] {
            let process = Rc::new(());
            let wanted: Vec<usize> = (0..sources).collect();
            let files = open_some(&wanted, opener(&process, max)).unwrap();
            let numbers: Vec<usize> = files.iter().map(|(number, _)| *number).collect();
            assert_eq!(numbers, wanted[..opened], "{sources} of {max}");
            assert_eq!(Rc::strong_count(&process), 1 + opened);
        }
    }

    #[test]
    fn a_lack_of_files_is_waited_out_without_open_files() {
        let process = Rc::new(());
        let mut max = 0;
        let files = open_patiently(|| {
            assert_eq!(Rc::strong_count(&process), 1);
            max += 1;
            open_some(&[0_usize, 1, 2], opener(&process, max))
        });
        assert_eq!((files.unwrap().len(), max), (2, 4));

        let mut errors = vec![Errno::ACCESS, Errno::NFILE, Errno::MFILE];
        let refused = open_patiently(|| {
            let error = errors.pop().unwrap();
            Err::<(), _>(TaskError::io("opening a file")(error.into()))
        });
        assert!(refused.is_err() && errors.is_empty());
    }
}
