//! The queue of events. Each stream has a position in it.
//!
//! An event is serialized once, in the format of `text/event-stream`, and all streams share the
//! bytes. A stream that is more than [`BEHIND_MAX`] events behind is ended, so that no stream holds
//! up the others. Its client may reconnect with the id of the last event that it received: the
//! latest [`KEPT_MAX`] events are kept for that.
//!
//! Streams that wait for an event do not all get it at once. Each stream has one of [`STEPS`], and the
//! streams of a step follow those of the step before after [`STEP`]. Otherwise two hundred streams would
//! keep a core busy for milliseconds at each tick, and requests of the load that need this core would
//! wait.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use serde::Serialize;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender, channel};
use tokio::time::sleep;

/// The most events that a stream may be behind: four minutes of samples, if there are no other events. A
/// stream that is further behind ends.
const BEHIND_MAX: usize = 256;
/// The number of latest events that are kept for clients that reconnect.
const KEPT_MAX: usize = 1024;
/// The number of groups of streams, called steps, which get an event one after the other. With 256
/// streams, the most of one listener of HTTP, a step has 13.
const STEPS: u32 = 20;
/// The time between the deliveries of an event to two steps (groups of streams). The last step gets
/// it 0.19 s after the first: events of one second do not mix with those of the next, and people do
/// not notice.
const STEP: Duration = Duration::from_millis(10);
/// The first event of a stream that cannot go on after the last event of its client, because the events since
/// then are no longer kept, or the client's id is unknown. The client has to fetch the state again.
const RESET: &[u8] = b"event: reset\ndata: {}\n\n";

#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The id. Ids ascend, also over a restart of the server, as long as its clock is not set back.
    pub id: u64,
    /// The event in the format of `text/event-stream`.
    pub text: Bytes,
}

/// The queue of events of a node.
#[derive(Debug)]
pub struct Events(Mutex<Queue>);

#[derive(Debug)]
struct Queue {
    kept: VecDeque<Event>,
    last_id: u64,
    /// The sender to all streams; `None` once the queue is closed.
    sender: Option<Sender<Event>>,
    /// The group that the next new stream joins, from 0 to [`STEPS`] - 1. The groups get an event
    /// one after the other.
    next_step: u32,
}

/// The position of a stream in the queue.
#[derive(Debug)]
pub struct Subscription {
    missed: VecDeque<Bytes>,
    receiver: Option<Receiver<Event>>,
    /// The time that an event is held back if the stream waited for it, so that not all streams get
    /// the event at once.
    delay: Duration,
    /// The event that is being held back. It is kept here because the caller may drop the future of
    /// [`next`](Self::next) meanwhile.
    delayed: Option<Bytes>,
}

impl Events {
    /// Creates an empty queue of events. The first event gets the id `last_id` + 1.
    pub(super) fn after(last_id: u64) -> Self {
        Self(Mutex::new(Queue {
            kept: VecDeque::new(),
            last_id,
            sender: Some(channel(BEHIND_MAX).0),
            next_step: 0,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends an event to all streams.
    pub(super) fn send(&self, kind: &str, data: &impl Serialize) {
        let data = serde_json::to_string(data).expect("events have text keys only");
        let mut queue = self.lock();
        queue.last_id += 1;
        let id = queue.last_id;
        let text = Bytes::from(format!("id: {id}\nevent: {kind}\ndata: {data}\n\n"));
        let event = Event { id, text };
        if queue.kept.len() == KEPT_MAX {
            queue.kept.pop_front();
        }
        queue.kept.push_back(event.clone());
        if let Some(sender) = &queue.sender {
            // An error means that there are no streams.
            let _without_streams = sender.send(event);
        }
    }

    /// Returns the position of a new stream: right after the event with the id `after`, or, without `after`,
    /// at the end of the queue. If the events after `after` are no longer kept, or the id is unknown, the
    /// stream begins with [`RESET`] and goes on with new events.
    pub(super) fn subscribe(&self, after: Option<u64>) -> Subscription {
        let mut queue = self.lock();
        let missed = match after {
            None => VecDeque::new(),
            Some(after) => {
                let first = queue
                    .kept
                    .front()
                    .map_or(queue.last_id, |event| event.id - 1);
                if (first..=queue.last_id).contains(&after) {
                    let at = queue.kept.partition_point(|event| event.id <= after);
                    let missed = queue.kept.range(at..);
                    missed.map(|event| event.text.clone()).collect()
                } else {
                    VecDeque::from([Bytes::from_static(RESET)])
                }
            }
        };
        let step = queue.next_step;
        queue.next_step = (step + 1) % STEPS;
        Subscription {
            missed,
            receiver: queue.sender.as_ref().map(Sender::subscribe),
            delay: STEP * step,
            delayed: None,
        }
    }

    /// Ends each stream after the events that were sent so far.
    pub(super) fn close(&self) {
        self.lock().sender = None;
    }
}

impl Subscription {
    /// Returns the next event in the format of `text/event-stream`; `None` once the queue is closed and
    /// all its events were returned, and for a stream that is too far behind. If the future is dropped
    /// before it is ready, no event is lost.
    pub async fn next(&mut self) -> Option<Bytes> {
        if let Some(missed) = self.missed.pop_front() {
            return Some(missed);
        }
        if self.delayed.is_none() {
            let receiver = self.receiver.as_mut()?;
            let waits = receiver.is_empty();
            let text = match receiver.recv().await {
                Ok(event) => event.text,
                Err(RecvError::Lagged(_) | RecvError::Closed) => return None,
            };
            if !waits || self.delay.is_zero() {
                return Some(text);
            }
            self.delayed = Some(text);
        }
        sleep(self.delay).await;
        self.delayed.take()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn text(of: &str) -> Vec<u8> {
        of.as_bytes().to_vec()
    }

    #[tokio::test]
    async fn a_stream_goes_on_where_it_was() {
        let events = Events::after(10);
        let mut from_start = events.subscribe(None);
        events.send("sample", &1);
        events.send("job", &2);
        let first = from_start.next().await.unwrap();
        assert_eq!(first, text("id: 11\nevent: sample\ndata: 1\n\n"));
        let second = text("id: 12\nevent: job\ndata: 2\n\n");
        assert_eq!(from_start.next().await.unwrap(), second);
        for (after, next) in [(11, &second), (10, &first.to_vec())] {
            assert_eq!(events.subscribe(Some(after)).next().await.unwrap(), *next);
        }
        for unknown in [9, 13] {
            let mut stream = events.subscribe(Some(unknown));
            assert_eq!(stream.next().await.unwrap(), RESET);
        }
        let mut latest = events.subscribe(Some(12));
        events.close();
        assert_eq!(latest.next().await, None);
        assert_eq!(events.subscribe(None).next().await, None);
    }

    #[test]
    fn streams_are_spread_evenly_over_the_steps() {
        let events = Events::after(0);
        let streams = (0..2 * STEPS).map(|_| events.subscribe(None));
        let mut delays: Vec<Duration> = streams.map(|stream| stream.delay).collect();
        delays.sort();
        let expected = (0..STEPS).flat_map(|step| [STEP * step; 2]);
        assert_eq!(delays, expected.collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn an_event_that_waits_for_its_step_is_not_lost_with_the_future() {
        let events = Events::after(0);
        let _first = events.subscribe(None);
        let mut second = events.subscribe(None);
        assert_eq!(second.delay, STEP);
        {
            let mut next = pin!(second.next());
            let mut context = Context::from_waker(Waker::noop());
            assert!(next.as_mut().poll(&mut context).is_pending());
            events.send("sample", &1);
            events.send("job", &2);
            assert!(next.as_mut().poll(&mut context).is_pending());
        }
        for expected in [
            "id: 1\nevent: sample\ndata: 1\n\n",
            "id: 2\nevent: job\ndata: 2\n\n",
        ] {
            assert_eq!(second.next().await.unwrap(), text(expected));
        }
    }

    #[tokio::test]
    async fn what_is_too_long_ago_is_not_kept_and_a_slow_stream_is_ended() {
        let events = Events::after(0);
        let mut slow = events.subscribe(None);
        for n in 0..2 * KEPT_MAX {
            events.send("sample", &n);
        }
        assert_eq!(slow.next().await, None);
        assert_eq!(events.lock().kept.len(), KEPT_MAX);
        let mut back = events.subscribe(Some(5));
        assert_eq!(back.next().await.unwrap(), RESET);
    }
}
