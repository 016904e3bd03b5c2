//! An object that is written in parts, which are sent while the next one is filled.

use std::fmt;
use std::io::{self, Write};
use std::mem;
use std::time::Duration;

use object_store::{MultipartUpload, PutPayload};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{Result, Target, TargetError};

/// The size of a part of an upload to a bucket, in bytes. S3 takes at most 10,000 parts, each of at
/// least 5 MiB, so an object has at most 78 GiB.
pub(super) const PART_BYTES: usize = 8 << 20;

/// The size of a part of an upload to a folder, in bytes. The limits of S3 do not apply there, and
/// no request crosses a network, so larger parts would only take memory.
pub(super) const FOLDER_PART_BYTES: usize = 1 << 20;

/// The greatest number of parts of an upload that are sent at once. Together with the part that is
/// being filled, an upload to a bucket takes 24 MiB of memory, and the uploads of four tasks
/// 96 MiB. An upload to a folder takes 3 MiB.
const PARTS_IN_FLIGHT: usize = 2;

/// The longest time for which an aborted upload waits until its parts are removed. If the store stalls
/// longer, the parts stay until a rule of the bucket's lifecycle removes them.
const ABORT_TIMEOUT: Duration = Duration::from_secs(5);

/// An object that is being written. If the upload is dropped before it is complete, it leaves nothing behind,
/// unless the process ends or the store stalls.
pub struct Upload {
    target: Target,
    name: String,
    /// The upload in the store; `None` once the object is complete or the upload is aborted.
    upload: Option<Box<dyn MultipartUpload>>,
    sending: JoinSet<object_store::Result<()>>,
    part: Vec<u8>,
    /// The size of a full part.
    part_bytes: usize,
    take_space: Box<TakeSpace>,
}

/// A function that takes the disk space for a number of bytes, or refuses it.
type TakeSpace = dyn FnMut(u64) -> io::Result<()> + Send;

/// The output leaves out the upload, because that of S3 contains credentials.
impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload")
            .field("target", &self.target)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Upload {
    pub(super) fn new(target: Target, name: String, upload: Box<dyn MultipartUpload>) -> Self {
        let part_bytes = if target.folder.is_some() {
            FOLDER_PART_BYTES
        } else {
            PART_BYTES
        };
        Self {
            target,
            name,
            upload: Some(upload),
            sending: JoinSet::new(),
            part: Vec::new(),
            part_bytes,
            take_space: Box::new(|_| Ok(())),
        }
    }

    /// Sets the function that takes the disk space for a part, given its size in bytes, before the part is
    /// sent. An error of the function fails the upload with [`TargetError::DiskFull`].
    #[must_use]
    pub fn taking_space(
        mut self,
        take: impl FnMut(u64) -> io::Result<()> + Send + 'static,
    ) -> Self {
        self.take_space = Box::new(take);
        self
    }

    /// Sends the last part, waits for all parts, and makes the object appear under its name.
    ///
    /// # Errors
    /// If a request to the target fails. It is then unknown whether the object exists.
    pub fn complete(mut self) -> Result<()> {
        if !self.part.is_empty() {
            self.send_part()?;
        }
        self.wait_for_parts(0)?;
        let Some(upload) = &mut self.upload else {
            return Err(self.has_ended());
        };
        match self.target.runtime.block_on(upload.complete()) {
            Ok(_) => {
                self.upload = None;
                Ok(())
            }
            Err(error) => Err(self.target.failed("writing", &self.name, &error)),
        }
    }

    /// Begins to send the part that is being filled. First waits until fewer than [`PARTS_IN_FLIGHT`] other
    /// parts are being sent.
    ///
    /// # Errors
    /// If there is no space for the part, or if one of the other parts could not be sent: the upload is then
    /// aborted.
    fn send_part(&mut self) -> Result<()> {
        self.wait_for_parts(PARTS_IN_FLIGHT - 1)?;
        if let Err(error) = (self.take_space)(self.part.len() as u64) {
            self.abort();
            return Err(TargetError::DiskFull(error));
        }
        let Some(upload) = &mut self.upload else {
            return Err(self.has_ended());
        };
        let part = PutPayload::from(mem::take(&mut self.part));
        let handle = self.target.runtime.handle();
        self.sending.spawn_on(upload.put_part(part), handle);
        Ok(())
    }

    /// Waits until at most `left` parts are being sent.
    ///
    /// # Errors
    /// If one of the parts could not be sent. Aborts the upload first.
    fn wait_for_parts(&mut self, left: usize) -> Result<()> {
        while self.sending.len() > left {
            let sent = self.target.runtime.block_on(self.sending.join_next());
            let error = match sent {
                Some(Ok(Err(error))) => error,
                Some(Err(error)) => error.into(),
                Some(Ok(Ok(()))) | None => continue,
            };
            let error = self.target.failed("writing", &self.name, &error);
            self.abort();
            return Err(error);
        }
        Ok(())
    }

    /// Aborts the upload, unless it is complete or aborted already, and removes the parts that were sent.
    /// Waits at most [`ABORT_TIMEOUT`].
    fn abort(&mut self) {
        let Some(mut upload) = self.upload.take() else {
            return;
        };
        let mut sending = mem::take(&mut self.sending);
        self.target.runtime.block_on(async {
            sending.shutdown().await;
            let _ = timeout(ABORT_TIMEOUT, upload.abort()).await;
        });
    }

    fn has_ended(&self) -> TargetError {
        TargetError::Object {
            call: "writing",
            url: self.target.url(&self.name),
            reason: "a part of the object could not be written before".to_owned(),
        }
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.part.capacity() == 0 {
            // Growing by itself, a part could hold twice its size.
            self.part.reserve_exact(self.part_bytes);
        }
        let room = self.part_bytes - self.part.len();
        let taken = bytes.len().min(room);
        self.part.extend_from_slice(&bytes[..taken]);
        if self.part.len() == self.part_bytes {
            self.send_part().map_err(io::Error::other)?;
        }
        Ok(taken)
    }

    /// Does nothing: parts are sent when they are full.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.abort();
    }
}
