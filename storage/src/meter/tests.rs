//! Tests of the meter.

use std::thread;

use super::*;

fn record(metering: &Metering, kind: RequestKind, latency_us: u64, bytes: u64) {
    metering.record(kind, Duration::from_micros(latency_us), 1);
    metering.add_bytes(kind, bytes);
}

#[test]
fn nothing_is_measured_without_a_meter() {
    let metering = Arc::new(Metering::default());
    assert_eq!(metering.begin(), None);
    metering.end(RequestKind::Read, None, 7);
    metering.note_written(7);
    assert!(metering.shards.get().is_none());
    let meters = [Meter::new(&metering), Meter::new(&metering)];
    assert!(metering.begin().is_some());
    drop(meters);
    assert_eq!(metering.begin(), None);
}

#[test]
fn quantiles_are_a_thirty_second_part_off_at_most() {
    let metering = Arc::new(Metering::default());
    let mut meter = Meter::new(&metering);
    for latency_us in 1..=1000 {
        record(&metering, RequestKind::Read, latency_us, 1);
    }
    let reads = meter.take().reads;
    assert_eq!((reads.count(), reads.bytes()), (1000, 1000));
    for (quantile, expected_us) in [(0.5, 500.0), (0.99, 990.0), (0.999, 999.0), (1.0, 1000.0)] {
        let us = reads.quantile_us(quantile).unwrap();
        let most_us = expected_us * (1.0 + 1.0 / 32.0);
        assert!((expected_us..=most_us).contains(&us), "{quantile}: {us}");
    }
    record(&metering, RequestKind::Read, u64::MAX / 1000, 0);
    assert!(meter.take().reads.quantile_us(0.5).unwrap() > 68e6);
}

#[test]
fn each_meter_counts_the_requests_of_all_threads_since_its_last_take() {
    let metering = Arc::new(Metering::default());
    let (mut often, mut once) = (Meter::new(&metering), Meter::new(&metering));
    let mut seen = 0;
    for _ in 0..3 {
        thread::scope(|scope| {
            for _ in 0..SHARDS + 1 {
                scope.spawn(|| record(&metering, RequestKind::Write, 10, 5));
            }
        });
        seen += often.take().writes.count();
    }
    let once = once.take();
    assert_eq!(seen, 3 * (SHARDS as u64 + 1));
    assert_eq!((once.writes.count(), once.writes.bytes()), (seen, 5 * seen));
    assert_eq!((once.all().count(), once.reads.count()), (seen, 0));
    assert_eq!(once.reads.quantile_us(0.99), None);
    assert_eq!(often.take().all(), Requests::default());
}

#[test]
fn a_scan_counts_once_and_its_bytes_when_it_ends() {
    let metering = Arc::new(Metering::default());
    assert!(Scan::begin(&metering).is_none());
    let mut meter = Meter::new(&metering);
    let mut scan = Scan::begin(&metering).unwrap();
    assert_eq!(meter.take().scans.count(), 0);
    scan.note(10);
    scan.note(20);
    let scans = meter.take().scans;
    assert_eq!((scans.count(), scans.bytes()), (1, 0));
    drop(scan);
    let scans = meter.take().scans;
    assert_eq!((scans.count(), scans.bytes()), (0, 30));
}

#[test]
fn a_busy_store_measures_a_sample_of_its_requests() {
    let metering = Arc::new(Metering::default());
    let mut meter = Meter::new(&metering);
    assert_eq!(metering.stride.load(Ordering::Relaxed), 1);
    for (requests, length_s, stride) in [
        (1_999, 0.001, 1),
        (2_000, 0.1, 1),
        (16_000, 0.1, 8),
        (u64::MAX, 1.0, STRIDE_MAX),
        (16_000, 1.0, 1),
    ] {
        metering.set_stride(requests, length_s);
        assert_eq!(metering.stride.load(Ordering::Relaxed), stride);
    }
    metering.stride.store(8, Ordering::Relaxed);
    const REQUESTS: u32 = 200_000;
    let mut measured = 0;
    for number in 0..REQUESTS {
        // Alternating reads and writes.
        let kind = match number % 2 {
            0 => RequestKind::Read,
            _ => RequestKind::Write,
        };
        let begun = metering.begin();
        measured += u32::from(begun.is_some());
        metering.end(kind, begun, 10);
    }
    let metered = meter.take();
    // The gaps are uniform in 1 to 15, so their number is off by 0.3% in a
    // standard deviation, and which half a request is in by as much again.
    let near = |estimate: u64, truth: u32| (estimate as f64 / f64::from(truth) - 1.0).abs() < 0.05;
    assert!(near(u64::from(measured) * 8, REQUESTS), "{measured}");
    for half in [&metered.reads, &metered.writes] {
        assert!(near(half.count(), REQUESTS / 2), "{metered:?}");
        assert_eq!(half.bytes(), 10 * half.count());
    }
    drop(meter);
    assert_eq!(metering.begin(), None);
}
