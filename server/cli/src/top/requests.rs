//! Requests to the server, made by a thread of their own: the server may take any time to respond, and keys
//! must have their effect meanwhile.
//!
//! ```text
//!   Requests ── Request ──> thread ─┐
//!       ^                           │ HTTP
//!       └───── Response <───────────┘      in the order of the requests
//! ```

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use super::model::ServerState;

/// A request to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    /// Reads the state of the server.
    State,
    /// Cancels the job, the backup or the verification with this id.
    Cancel(String),
}

/// The response to a request, or the error with which the request failed.
pub(super) enum Response {
    State(Result<ServerState>),
    Cancel {
        id: String,
        /// True if the work will stop; false if it is too late for that.
        is_stopping: Result<bool>,
    },
}

/// The thread that makes requests, one after the other, and its channels.
pub(super) struct Requests {
    sender: Sender<Request>,
    responses: Receiver<Response>,
    /// The requests without a response, the oldest first, with the time of each.
    open: VecDeque<(Request, Instant)>,
    /// The time of the last response.
    responded: Option<Instant>,
}

impl Requests {
    /// Starts the thread. It calls `respond` for each request, which returns the response to that request.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(super) fn start(respond: impl Fn(Request) -> Response + Send + 'static) -> Result<Self> {
        let (sender, requests) = mpsc::channel();
        let (responder, responses) = mpsc::channel();
        let serve = move || {
            for request in requests {
                if responder.send(respond(request)).is_err() {
                    // The command ends.
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("ebb-requests".to_owned());
        thread.spawn(serve).context("cannot start a thread")?;
        Ok(Self {
            sender,
            responses,
            open: VecDeque::new(),
            responded: None,
        })
    }

    /// Sends a request at the time `now`, behind those that have no response yet.
    pub(super) fn send(&mut self, request: Request, now: Instant) {
        self.open.push_back((request.clone(), now));
        // It fails only after a panic of the thread, which `next_response` reports.
        let _ = self.sender.send(request);
    }

    /// Returns the next response if it has come by the time `now`. Does not wait for it.
    ///
    /// # Errors
    /// When the thread has panicked.
    pub(super) fn next_response(&mut self, now: Instant) -> Result<Option<Response>> {
        match self.responses.try_recv() {
            Ok(response) => {
                self.open.pop_front();
                self.responded = Some(now);
                Ok(Some(response))
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(has_ended()),
        }
    }

    /// Returns for how long the oldest open request has been waiting for the server at the time `now`; `None`
    /// if there is none.
    pub(super) fn silence(&self, now: Instant) -> Option<Duration> {
        let (_, sent) = self.open.front()?;
        // Until the response before, the request was still in this process.
        let since = self
            .responded
            .map_or(*sent, |responded| responded.max(*sent));
        Some(now.saturating_duration_since(since))
    }

    /// Returns whether `request` has no response yet.
    pub(super) fn is_open(&self, request: &Request) -> bool {
        self.open.iter().any(|(open, _)| open == request)
    }

    /// Waits until each cancellation has a response, but for at most `wait`.
    ///
    /// # Errors
    /// When a cancellation has no response by then, or comes too late; the first error of a cancellation.
    pub(super) fn finish(mut self, wait: Duration) -> Result<()> {
        let deadline = Instant::now() + wait;
        while let Some(id) = self.cancellation() {
            let left = deadline.saturating_duration_since(Instant::now());
            let response = match self.responses.recv_timeout(left) {
                Ok(response) => response,
                Err(RecvTimeoutError::Disconnected) => return Err(has_ended()),
                Err(RecvTimeoutError::Timeout) => bail!(
                    "the server has not responded to the request to cancel {id}: `ebb jobs {id}` shows \
                     whether it runs"
                ),
            };
            self.open.pop_front();
            if let Response::Cancel { id, is_stopping } = response
                && !is_stopping?
            {
                bail!("it is too late to cancel {id}: its output is being put in place");
            }
        }
        Ok(())
    }

    /// Returns the id in the oldest open request for a cancellation; `None` if there is none.
    fn cancellation(&self) -> Option<String> {
        self.open.iter().find_map(|(request, _)| match request {
            Request::Cancel(id) => Some(id.clone()),
            Request::State => None,
        })
    }
}

/// Returns the error after a panic of the thread.
fn has_ended() -> anyhow::Error {
    anyhow!("the thread for requests has ended")
}

#[cfg(test)]
mod tests {
    use ebb_test_support::wait::until_some;

    use super::*;

    /// Starts requests that get a response, all with the same result, once the test sends a permit.
    fn requests(is_stopping: fn() -> Result<bool>) -> (Requests, Sender<()>) {
        let (permits, permit) = mpsc::channel();
        let respond = move |request: Request| {
            // An error means that the test has ended.
            let _ = permit.recv();
            match request {
                Request::State => Response::State(Err(anyhow!("no state"))),
                Request::Cancel(id) => Response::Cancel {
                    id,
                    is_stopping: is_stopping(),
                },
            }
        };
        (Requests::start(respond).unwrap(), permits)
    }

    /// Returns a time for the requests of a test.
    fn any_time() -> Instant {
        Instant::now() // clock: a base for the times handed to the requests
    }

    fn cancel(id: &str) -> Request {
        Request::Cancel(id.to_owned())
    }

    #[test]
    fn silence_counts_from_the_oldest_open_request_or_the_response_before() {
        let (mut requests, permits) = requests(|| Ok(true));
        let start = any_time();
        let at = |second| start + Duration::from_secs(second);
        assert_eq!(requests.silence(at(0)), None);
        requests.send(Request::State, at(1));
        requests.send(cancel("7"), at(2));
        assert!(requests.next_response(at(5)).unwrap().is_none());
        assert_eq!(requests.silence(at(5)), Some(Duration::from_secs(4)));
        permits.send(()).unwrap();
        let first = until_some("a response", || requests.next_response(at(6)).unwrap());
        assert!(matches!(first, Response::State(Err(_))));
        assert!(!requests.is_open(&Request::State) && requests.is_open(&cancel("7")));
        assert_eq!(requests.silence(at(9)), Some(Duration::from_secs(3)));
        permits.send(()).unwrap();
        let second = until_some("a response", || requests.next_response(at(9)).unwrap());
        assert!(matches!(second, Response::Cancel { id, .. } if id == "7"));
        assert_eq!(requests.silence(at(20)), None);
    }

    #[test]
    fn the_end_waits_for_cancellations_and_for_no_other_request() {
        let (mut idle, _permits) = requests(|| Ok(true));
        idle.send(Request::State, any_time());
        idle.finish(Duration::from_secs(3600)).unwrap();
        let begun = |is_stopping: fn() -> Result<bool>| {
            let (mut requests, permits) = requests(is_stopping);
            requests.send(Request::State, any_time());
            requests.send(cancel("7"), any_time());
            (requests, permits)
        };
        let (silent, _permits) = begun(|| Ok(true));
        let error = silent.finish(Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("request to cancel 7"), "{error}");
        let (good, permits) = begun(|| Ok(true));
        drop(permits);
        good.finish(Duration::from_secs(3600)).unwrap();
        let (late, permits) = begun(|| Ok(false));
        drop(permits);
        let error = late.finish(Duration::from_secs(3600)).unwrap_err();
        assert!(
            error.to_string().starts_with("it is too late to cancel 7"),
            "{error}"
        );
        let (refused, permits) = begun(|| Err(anyhow!("no scope")));
        drop(permits);
        let error = refused.finish(Duration::from_secs(3600)).unwrap_err();
        assert_eq!(error.to_string(), "no scope");
    }
}
