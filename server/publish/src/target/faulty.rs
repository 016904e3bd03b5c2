//! Targets for tests, over a store one of whose calls fails or is interrupted.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use async_trait::async_trait;
use futures_util::future::{self, BoxFuture};
use futures_util::stream::{self, BoxStream, StreamExt as _};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};

use super::{Target, TargetError};

/// The event at one call of a store: a fault, or an action of another thread.
#[derive(Clone)]
pub enum Event {
    /// The publisher is killed: this call and all later ones fail, without an effect.
    Kill,
    /// The publisher is killed right after the call: this call takes effect without an answer, and all later
    /// ones fail without an effect.
    KillAfter,
    /// The call takes effect, but its answer is lost. Later calls are not affected.
    LoseAnswer,
    /// This call and all later ones have no effect and get no answer: the caller waits for ever.
    Stall,
    /// Another thread runs this function before the call, which then continues as usual.
    Meanwhile(Arc<dyn Fn() + Send + Sync>),
}

/// The output leaves out the function of [`Event::Meanwhile`].
impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kill => "Kill",
            Self::KillAfter => "KillAfter",
            Self::LoseAnswer => "LoseAnswer",
            Self::Stall => "Stall",
            Self::Meanwhile(_) => "Meanwhile",
        })
    }
}

/// The way in which a call ends.
pub(crate) enum Fate {
    Answered,
    AnswerLost,
    Refused,
    Unanswered,
}

/// A store that passes calls on to `inner`, with an [`Event`] (mostly a fault) at one of them.
struct FaultyStore {
    inner: Arc<dyn ObjectStore>,
    calls: Arc<Calls>,
}

/// A counter of the calls of a store and of its uploads, with the event that happens at one of them. Requests
/// to a catalog count, too, if a test passes the counter to the catalog.
#[derive(Debug)]
pub struct Calls {
    made: AtomicUsize,
    at: usize,
    event: Event,
}

/// Returns a target in memory whose root has the location `url`. Its clones share their objects.
///
/// # Errors
/// If the thread of the target cannot be started.
pub fn in_memory(url: &str) -> Result<Target, TargetError> {
    Target::over(Arc::new(InMemory::new()), url.to_owned())
}

/// Returns a target with the store and the catalog of `target`, and the counter of its calls. `event` happens
/// at call number `at` of the store, counted from 0. Requests to the catalog are not counted.
///
/// The new target has a thread of its own: a call that waits for other calls of `target` must not hold up the
/// thread that makes them.
///
/// # Errors
/// If this thread cannot be started.
pub fn with_event(
    target: &Target,
    at: usize,
    event: Event,
) -> Result<(Target, Arc<Calls>), TargetError> {
    let calls = Arc::new(Calls {
        made: AtomicUsize::new(0),
        at,
        event,
    });
    let store = FaultyStore {
        inner: Arc::clone(&target.store),
        calls: Arc::clone(&calls),
    };
    let faulty = Target::over(Arc::new(store), target.url.clone())?;
    let faulty = Target {
        store: faulty.store,
        runtime: faulty.runtime,
        ..target.clone()
    };
    Ok((faulty, calls))
}

/// Returns a target over the store `inner`, without faults.
#[cfg(test)]
pub(crate) fn target(inner: &InMemory) -> Target {
    Target::over(Arc::new(inner.clone()), "memory://store".to_owned()).unwrap()
}

/// Returns a target over the store `inner`, with `event` at call number `at`, and the counter of its calls,
/// as [`with_event`] does.
#[cfg(test)]
pub(crate) fn faulty_target(inner: &InMemory, at: usize, event: Event) -> (Target, Arc<Calls>) {
    with_event(&target(inner), at, event).unwrap()
}

impl Calls {
    /// Returns whether the event has happened.
    pub fn met_event(&self) -> bool {
        self.made.load(Ordering::Relaxed) > self.at
    }

    /// Counts a call, and returns how it ends. Runs the function of [`Event::Meanwhile`] if this is its call.
    pub(crate) fn next(&self) -> Fate {
        let call = self.made.fetch_add(1, Ordering::Relaxed);
        match &self.event {
            Event::Kill if call >= self.at => Fate::Refused,
            Event::KillAfter if call > self.at => Fate::Refused,
            Event::Stall if call >= self.at => Fate::Unanswered,
            Event::KillAfter | Event::LoseAnswer if call == self.at => Fate::AnswerLost,
            Event::Meanwhile(act) if call == self.at => {
                // A thread of its own: this one drives a runtime, and cannot begin to drive another.
                thread::scope(|scope| scope.spawn(&**act).join()).unwrap();
                Fate::Answered
            }
            _ => Fate::Answered,
        }
    }

    async fn meet<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        match self.next() {
            Fate::Answered => call.await,
            Fate::AnswerLost => {
                let _ = call.await;
                Err(failure())
            }
            Fate::Refused => Err(failure()),
            Fate::Unanswered => future::pending().await,
        }
    }

    fn meet_stream<T: Send + 'static>(
        &self,
        call: BoxStream<'static, Result<T>>,
    ) -> BoxStream<'static, Result<T>> {
        match self.next() {
            Fate::Answered => call,
            Fate::AnswerLost => call.map(|_| Err(failure())).boxed(),
            Fate::Refused => stream::once(future::ready(Err(failure()))).boxed(),
            Fate::Unanswered => stream::pending().boxed(),
        }
    }
}

fn failure() -> Error {
    Error::Generic {
        store: "faulty",
        source: "the connection was closed".into(),
    }
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultyStore")
    }
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultyStore")
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let call = self.inner.put_opts(location, payload, opts);
        self.calls.meet(call).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let call = self.inner.put_multipart_opts(location, opts);
        let inner = self.calls.meet(call).await?;
        let calls = self.calls.clone();
        Ok(Box::new(FaultyUpload { inner, calls }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let call = self.inner.get_opts(location, options);
        self.calls.meet(call).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.calls.meet_stream(self.inner.delete_stream(locations))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        // The event comes first: this store looks at its objects at once.
        match self.calls.next() {
            Fate::Answered => self.inner.list(prefix),
            Fate::AnswerLost | Fate::Refused => stream::once(future::ready(Err(failure()))).boxed(),
            Fate::Unanswered => stream::pending().boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let call = self.inner.list_with_delimiter(prefix);
        self.calls.meet(call).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let call = self.inner.copy_opts(from, to, options);
        self.calls.meet(call).await
    }
}

struct FaultyUpload {
    inner: Box<dyn MultipartUpload>,
    calls: Arc<Calls>,
}

impl fmt::Debug for FaultyUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultyUpload")
    }
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let call: BoxFuture<'static, Result<()>> = self.inner.put_part(data);
        let calls = self.calls.clone();
        Box::pin(async move { calls.meet(call).await })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let calls = self.calls.clone();
        calls.meet(self.inner.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        let calls = self.calls.clone();
        calls.meet(self.inner.abort()).await
    }
}
