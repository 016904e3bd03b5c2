//! The responses that are remembered, by the hash of principal, method, path and key: the next step for a
//! request, and which responses are dropped. There is no clock here: times are milliseconds since 1970.

use std::collections::{HashMap, VecDeque};

use axum::body::Bytes;
use axum::http::{HeaderValue, StatusCode};
use ebb_jobs::history::{KEY_LIFETIME, KEYS_MAX, Submission};

/// The most bytes of response bodies that are kept in memory. Beyond that, the oldest responses are dropped.
const ANSWERS_BYTES_MAX: usize = 32 << 20;

#[derive(Debug, Default)]
pub(super) struct Remembered {
    of: HashMap<String, Answer>,
    /// The keys of complete responses, the oldest first.
    complete: VecDeque<String>,
    bytes: usize,
}

/// The state of the requests with one idempotency key.
#[derive(Debug)]
enum Answer {
    /// The request of this hash is being executed, or the row of its response is being written.
    Awaited { request: String },
    /// The request with the hash `request` was executed; a retry gets this response.
    Given {
        request: String,
        response: StoredResponse,
    },
    /// The response was dropped, and its row is being deleted.
    Dropped,
}

/// The parts of a response that are stored, to be sent again in response to a retry.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StoredResponse {
    pub at_unix_ms: u64,
    pub status: StatusCode,
    pub content_type: Option<HeaderValue>,
    pub location: Option<HeaderValue>,
    pub body: Bytes,
}

/// The next step for a request with an idempotency key.
#[derive(Debug)]
pub(super) enum Step {
    Execute,
    Replay(StoredResponse),
    /// Refuse the request: an earlier, different request had its key.
    Conflict,
    /// Refuse the request for now: the first one with its key is being executed, or the row of its response
    /// is being written or deleted.
    Busy,
}

impl Remembered {
    /// Returns the next step for a request. If the step is [`Step::Execute`], no other request can use the
    /// key until [`Self::end`] or [`Self::release`].
    pub(super) fn begin(&mut self, by: &Submission, now_unix_ms: u64) -> Step {
        // Their rows expire by themselves.
        self.drop_old(now_unix_ms);
        match self.of.get(&by.key) {
            Some(Answer::Awaited { request } | Answer::Given { request, .. })
                if *request != by.request =>
            {
                Step::Conflict
            }
            Some(Answer::Awaited { .. } | Answer::Dropped) => Step::Busy,
            Some(Answer::Given { response, .. }) => Step::Replay(response.clone()),
            None => {
                let request = by.request.clone();
                self.of.insert(by.key.clone(), Answer::Awaited { request });
                Step::Execute
            }
        }
    }

    /// Stores the response to a request. Returns the keys of the responses that have expired or are dropped
    /// to make room. No request can use these keys until [`Self::release`], so that their rows can be
    /// deleted.
    pub(super) fn end(&mut self, by: &Submission, response: StoredResponse) -> Vec<String> {
        let now_unix_ms = response.at_unix_ms;
        self.bytes += response.body.len();
        self.complete.push_back(by.key.clone());
        let request = by.request.clone();
        let answer = Answer::Given { request, response };
        self.of.insert(by.key.clone(), answer);
        let dropped = self.drop_old(now_unix_ms);
        for key in &dropped {
            self.of.insert(key.clone(), Answer::Dropped);
        }
        dropped
    }

    /// Releases reserved keys: the next request with one of them is executed. This is for the key of a
    /// request that failed, and for the keys of dropped responses.
    pub(super) fn release(&mut self, taken: &[String]) {
        for key in taken {
            self.of.remove(key);
        }
    }

    /// Drops responses that are older than [`KEY_LIFETIME`], and then the oldest ones until at most
    /// [`KEYS_MAX`] responses are left, with bodies of at most [`ANSWERS_BYTES_MAX`] together. Returns the keys
    /// of the dropped responses.
    fn drop_old(&mut self, now_unix_ms: u64) -> Vec<String> {
        let mut dropped = Vec::new();
        while let Some(key) = self.complete.front() {
            let response = match self.of.get(key) {
                Some(Answer::Given { response, .. }) => Some(response),
                _ => None,
            };
            let is_old = |response: &StoredResponse| {
                let age_ms = now_unix_ms.saturating_sub(response.at_unix_ms);
                u128::from(age_ms) >= KEY_LIFETIME.as_millis()
            };
            let is_full = self.complete.len() > KEYS_MAX || self.bytes > ANSWERS_BYTES_MAX;
            if !is_full && !response.is_none_or(is_old) {
                break;
            }
            self.bytes -= response.map_or(0, |response| response.body.len());
            if let Some(key) = self.complete.pop_front() {
                self.of.remove(&key);
                dropped.push(key);
            }
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time of the first request.
    const START_MS: u64 = 1_800_000_000_000;
    const DAY_MS: u64 = 24 * 3600 * 1000;

    fn response(at_unix_ms: u64, bytes: usize) -> StoredResponse {
        StoredResponse {
            at_unix_ms,
            status: StatusCode::CREATED,
            content_type: None,
            location: None,
            body: vec![b'x'; bytes].into(),
        }
    }

    fn by(key: usize, request: usize) -> Submission {
        Submission {
            key: key.to_string(),
            request: request.to_string(),
        }
    }

    #[test]
    fn a_request_is_executed_once_in_a_day() {
        let mut all = Remembered::default();
        assert!(matches!(all.begin(&by(1, 7), START_MS), Step::Execute));
        assert!(matches!(all.begin(&by(1, 7), START_MS), Step::Busy));
        assert!(matches!(all.begin(&by(1, 8), START_MS), Step::Conflict));
        assert_eq!(all.end(&by(1, 7), response(START_MS, 3)), [""; 0]);
        let replayed = all.begin(&by(1, 7), START_MS + DAY_MS - 1);
        assert!(matches!(replayed, Step::Replay(response) if response.body == "xxx"));
        assert!(matches!(all.begin(&by(1, 8), START_MS), Step::Conflict));
        let next_day = START_MS + DAY_MS;
        assert!(
            matches!(all.begin(&by(1, 8), next_day), Step::Execute),
            "the response is dropped"
        );
        all.release(&["1".to_string()]);
        assert!(
            matches!(all.begin(&by(1, 9), next_day), Step::Execute),
            "the execution gave no response"
        );
    }

    #[test]
    fn the_key_of_a_dropped_response_is_taken_until_its_row_is_deleted() {
        let mut all = Remembered::default();
        for key in 0..2 {
            assert!(matches!(all.begin(&by(key, 7), START_MS), Step::Execute));
        }
        assert_eq!(all.end(&by(0, 7), response(START_MS, 1)), [""; 0]);
        let dropped = all.end(&by(1, 7), response(START_MS, ANSWERS_BYTES_MAX));
        assert_eq!(dropped, ["0"]);
        for request in [7, 8] {
            assert!(matches!(all.begin(&by(0, request), START_MS), Step::Busy));
        }
        assert!(matches!(all.begin(&by(2, 7), START_MS), Step::Execute));
        all.release(&dropped);
        assert!(matches!(all.begin(&by(0, 8), START_MS), Step::Execute));
    }

    #[test]
    fn the_oldest_of_too_many_responses_are_dropped() {
        let mut all = Remembered::default();
        let mut dropped = Vec::new();
        let mut answer = |number, bytes| {
            assert!(matches!(all.begin(&by(number, 0), START_MS), Step::Execute));
            let for_this = all.end(&by(number, 0), response(START_MS, bytes));
            all.release(&for_this);
            dropped.extend(for_this);
        };
        for number in 0..KEYS_MAX + 2 {
            answer(number, 1);
        }
        answer(KEYS_MAX + 2, ANSWERS_BYTES_MAX);
        assert_eq!(dropped.len(), KEYS_MAX + 2);
        assert_eq!(&dropped[..2], ["0", "1"]);
        assert!(!all.of.contains_key(&(KEYS_MAX + 1).to_string()));
        assert!(all.of.contains_key(&(KEYS_MAX + 2).to_string()));
        assert_eq!(all.bytes, ANSWERS_BYTES_MAX);
    }
}
