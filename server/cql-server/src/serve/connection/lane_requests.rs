//! The requests of a connection that run on other threads, or wait for them.

use std::future::pending;

use tokio::sync::mpsc;

use crate::serve::lane_result::LaneResult;
use crate::serve::lanes::Share;

/// The number of a connection's requests on other threads, and the way of their results to the
/// connection.
#[derive(Default)]
pub(super) struct RequestsInLanes {
    running: usize,
    /// The number of scans among the requests of `running`.
    scans: usize,
    /// `None` before the first such request, because a channel takes some KiB.
    results: Option<Results>,
}

struct Results {
    sender: mpsc::UnboundedSender<LaneResult>,
    receiver: mpsc::UnboundedReceiver<LaneResult>,
    /// The slots of this connection for results that wait until the client reads them.
    share: Share,
}

impl RequestsInLanes {
    /// Returns the number of requests that run on other threads, or wait for them.
    pub(super) fn running(&self) -> usize {
        self.running
    }

    /// Returns whether at least half of the requests are scans.
    pub(super) fn are_mostly_scans(&self) -> bool {
        self.scans * 2 >= self.running
    }

    /// Counts a request that begins. Returns the sender for its result, and the slots for results.
    pub(super) fn begin(&mut self, is_scan: bool) -> (mpsc::UnboundedSender<LaneResult>, Share) {
        self.running += 1;
        self.scans += usize::from(is_scan);
        let results = self.results.get_or_insert_with(|| {
            let (sender, receiver) = mpsc::unbounded_channel();
            Results {
                sender,
                receiver,
                share: Share::default(),
            }
        });
        (results.sender.clone(), results.share.clone())
    }

    /// Waits for the next result; for ever if the connection never had such a request. Cancel-safe:
    /// dropping the future loses no result.
    pub(super) async fn next(&mut self) -> LaneResult {
        if let Some(results) = &mut self.results
            && let Some(result) = results.receiver.recv().await
        {
            return self.ended(result);
        }
        pending().await
    }

    /// Returns the next result, if it is ready.
    pub(super) fn try_next(&mut self) -> Option<LaneResult> {
        let result = self.results.as_mut()?.receiver.try_recv().ok()?;
        Some(self.ended(result))
    }

    fn ended(&mut self, result: LaneResult) -> LaneResult {
        self.running -= 1;
        self.scans -= usize::from(result.is_scan);
        result
    }
}
