//! A store's measurements of its own requests, for the co-location loop.

use std::time::{Duration, Instant};

use ebb_colocate::{
    LatencySource, LatencyWindow, ObservedWindow, Quantile, RequestRates, RequestSource,
};
use ebb_storage::{Db, Meter};

/// The rates and latencies of a store's requests, for a [`LoadMonitor`](ebb_colocate::LoadMonitor).
#[derive(Debug)]
pub struct StoreRequests(Meter);

impl StoreRequests {
    /// Starts counting the requests of `db`.
    pub fn new(db: &Db) -> Self {
        Self(db.meter())
    }
}

impl RequestSource for StoreRequests {
    fn take(&mut self) -> RequestRates {
        let metered = self.0.take();
        let requests = metered.all();
        let length_s = metered.length_s.max(1e-9);
        let quantile_us = |quantile| requests.quantile_us(quantile).unwrap_or(0.0);
        RequestRates {
            requests_per_s: requests.count() as f64 / length_s,
            bytes_per_s: requests.bytes() as f64 / length_s,
            p50_us: quantile_us(0.5),
            p99_us: quantile_us(0.99),
            p999_us: quantile_us(0.999),
        }
    }
}

/// Latency windows over all requests of a store, for a guard that has no better source of latencies.
///
/// A latency begins with the call of the store. It lacks the time for which the request waited for a
/// connection, a thread of the server or a core, though the client waits for that too: these latencies
/// can meet an objective that clients see missed by far. A server that has the times of arrival
/// [records](ebb_colocate::Colocated::record) its own latencies instead.
#[derive(Debug)]
pub struct StoreWindows {
    meter: Meter,
    quantile: Quantile,
    window: Duration,
    started: Instant,
    /// The end of the last window that was returned, or the start of the first.
    ended: Instant,
}

impl StoreWindows {
    /// Begins to collect the latencies of the requests of `db`, in windows of at least 100 ms: a window
    /// ends with the first call of [`ended`](LatencySource::ended) after that time.
    pub fn new(db: &Db, quantile: Quantile) -> Self {
        Self::of_length(db, quantile, Duration::from_millis(100))
    }

    fn of_length(db: &Db, quantile: Quantile, window: Duration) -> Self {
        let started = Instant::now();
        Self {
            meter: db.meter(),
            quantile,
            window,
            started,
            ended: started,
        }
    }
}

impl LatencySource for StoreWindows {
    fn ended(&mut self) -> Vec<ObservedWindow> {
        if self.ended.elapsed() < self.window {
            return Vec::new();
        }
        self.ended = Instant::now();
        let metered = self.meter.take();
        let requests = metered.all();
        let window = LatencyWindow {
            t_s: (self.ended - self.started).as_secs_f64(),
            length_s: metered.length_s,
            requests: requests.count(),
            latency_us: requests.quantile_us(self.quantile.part()).unwrap_or(0.0),
        };
        let latencies = requests.latencies().collect();
        vec![ObservedWindow { window, latencies }]
    }
}

#[cfg(test)]
mod tests {
    use ebb_colocate::LoadMonitor;
    use ebb_storage::{Options, TableOptions};

    use super::*;

    #[test]
    fn each_request_is_in_one_window() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), Options::default()).unwrap();
        let keyspace = db.keyspace("app").unwrap();
        let table = keyspace.table("t", TableOptions::default()).unwrap();
        let mut source = StoreWindows::of_length(&db, Quantile::P99, Duration::ZERO);
        let mut windows = source.ended();
        for key in 0..300_u32 {
            table.put(&key.to_be_bytes(), b"v").unwrap();
            if key % 100 == 99 {
                windows.extend(source.ended());
            }
        }
        let requests: Vec<_> = windows.iter().map(|seen| seen.window.requests).collect();
        assert_eq!(requests, [0, 100, 100, 100]);
        assert_eq!(windows[0].window.latency_us, 0.0);
        assert!(windows[1..].iter().all(|seen| seen.window.latency_us > 0.0));
        assert!(windows.is_sorted_by(|a, b| a.window.t_s < b.window.t_s));
        let mut slow = StoreWindows::of_length(&db, Quantile::P99, Duration::MAX);
        assert!(slow.ended().is_empty());
    }

    #[test]
    fn requests_of_the_store_are_seen_with_their_bytes_and_latencies() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), Options::default()).unwrap();
        let keyspace = db.keyspace("app").unwrap();
        let table = keyspace.table("t", TableOptions::default()).unwrap();
        let mut monitor = LoadMonitor::start()
            .unwrap()
            .with_requests(Box::new(StoreRequests::new(&db)));
        for key in 0..50_u32 {
            table.put(&key.to_be_bytes(), &[7; 96]).unwrap();
            table.get(&key.to_be_bytes()).unwrap();
        }
        let requests = monitor.sample().unwrap().requests.unwrap();
        let bytes_each = requests.bytes_per_s / requests.requests_per_s;
        assert!(
            (bytes_each - (100.0 + 96.0) / 2.0).abs() < 1e-6,
            "{requests:?}"
        );
        assert!(0.0 < requests.p50_us && requests.p50_us <= requests.p99_us);
        assert_eq!(
            monitor.sample().unwrap().requests,
            Some(RequestRates::default())
        );
    }
}
