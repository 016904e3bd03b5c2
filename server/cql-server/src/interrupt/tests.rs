use std::cell::Cell;

use ebb_colocate::FloorShare;

use super::*;

thread_local! {
    /// Set to true when a statement calls the function that lowers its thread's scheduling class.
    /// The tests do not enter the idle class: on busy cores a thread of that class makes hardly any
    /// progress.
    static LOWERED: Cell<bool> = const { Cell::new(false) };
    /// The units of work that statements on this thread have passed to [`charge`], about one for
    /// each microsecond.
    pub(super) static CHARGED: Cell<u64> = const { Cell::new(0) };
}

/// Returns the result of `execute`, and the number of units of work that `execute` charged.
pub(crate) fn charged<T>(execute: impl FnOnce() -> T) -> (T, u64) {
    let before = CHARGED.get();
    let done = execute();
    (done, CHARGED.get().wrapping_sub(before))
}

/// Returns the interrupt of a request whose client is gone.
pub(crate) fn cancelled() -> Interrupt {
    let gone = Arc::new(AtomicBool::new(true));
    Interrupt::new(now(), DAY, gone)
}

const DAY: Duration = Duration::from_secs(86_400);
const READ: TimeOut = TimeOut::Read(Consistency::One);

fn now() -> Instant {
    Instant::now() // clock: an interrupt has the instant at which its time begins
}

fn never() -> Interrupt {
    Interrupt::new(now(), DAY, Arc::default())
}

/// Calls [`charge`] for one unit of work at a time, until it returns the error that ends the
/// statement of this thread. Returns that error.
fn charge_for_ever() -> ErrorResponse {
    loop {
        if let Err(error) = charge(1) {
            return error;
        }
    }
}

#[test]
fn a_cancelled_statement_ends_at_the_next_look_at_the_clock() {
    let (error, units) = charged(|| scope(&cancelled(), READ, charge_for_ever));
    assert!(matches!(error.kind, ErrorKind::ReadTimeout { .. }));
    assert_eq!(units, UNITS_PER_LOOK);
    // An operation that takes longer than the interval does not begin.
    let ended = scope(&cancelled(), READ, || charge_bytes(1 << 20));
    assert!(ended.is_err());
    // A little work is done without a look.
    let ended = scope(&cancelled(), READ, || charge(UNITS_PER_LOOK - 1));
    assert_eq!(ended, Ok(()));
}

#[test]
fn a_statement_ends_when_the_server_stops() {
    let is_stopped = Arc::new(AtomicBool::new(false));
    let interrupt = never().stopped_by(is_stopped.clone());
    assert_eq!(scope(&interrupt, READ, || charge(u64::MAX)), Ok(()));
    is_stopped.store(true, Ordering::Relaxed);
    assert!(scope(&interrupt, READ, || charge(u64::MAX)).is_err());
}

#[test]
fn a_statement_goes_on_within_its_time_and_without_a_limit() {
    assert_eq!(scope(&never(), READ, || charge(u64::MAX)), Ok(()));
    assert_eq!(charge(u64::MAX), Ok(()));
}

#[test]
fn the_limit_of_a_statement_ends_with_it_also_if_it_panics() {
    let interrupt = cancelled();
    let panicked: std::thread::Result<()> =
        std::panic::catch_unwind(|| scope(&interrupt, READ, || panic!("on purpose")));
    assert!(panicked.is_err());
    assert_eq!(charge(u64::MAX), Ok(()));
    // A nested statement has its own limit.
    let (inner, outer) = scope(&interrupt, READ, || {
        (
            scope(&never(), READ, || charge(u64::MAX)),
            charge(u64::MAX).is_err(),
        )
    });
    assert_eq!((inner, outer), (Ok(()), true));
}

#[test]
fn the_timeout_of_a_write_has_its_write_type() {
    let write = |write_type| TimeOut::Write(Consistency::Quorum, write_type).error();
    let simple = write(WriteType::Simple);
    assert!(matches!(simple.kind, ErrorKind::WriteTimeout { .. }));
    assert!(simple.message.starts_with("Operation timed out"));
    assert!(write(WriteType::Cas).message.starts_with("CAS operation"));
}

#[test]
fn a_statement_that_reached_its_cpu_limit_may_go_on_unless_its_time_is_over() {
    let brief = |whole: &Interrupt| {
        let brief = whole.capped(Instant::now(), Duration::ZERO); // clock: an instant that has passed
        scope(&brief, READ, || Err::<(), _>(charge_for_ever()))
    };
    let whole = never();
    assert!(whole.may_go_on(&brief(&whole)));
    assert!(!cancelled().may_go_on(&brief(&cancelled())));
    // A result or an error of the statement itself is final.
    assert!(!whole.may_go_on(&Ok(())));
    assert!(!whole.may_go_on(&Err::<(), _>(ErrorResponse::invalid("no"))));
    assert!(at_most(Duration::ZERO, || Err::<(), _>(charge_for_ever())).is_none());
    assert_eq!(at_most(Duration::ZERO, || Ok(7)), Some(Ok(7)));
}

#[test]
fn a_statement_within_its_cpu_limit_goes_on() {
    let now = Instant::now(); // clock: a limit that is days away
    let long = never().capped(now, DAY);
    assert_eq!(scope(&long, READ, || charge(u64::MAX)), Ok(()));
    // The timeout counts besides the CPU limit.
    let ended = scope(&cancelled().capped(now, DAY), READ, || charge(u64::MAX));
    assert!(ended.is_err());
}

#[test]
fn a_statement_left_behind_ends_if_it_can_begin_anew() {
    let thread = std::thread::spawn(|| {
        let share = Arc::new(FloorShare::new());
        floor::pretend_to_be_bound(&share);
        let moving = never().ending_if_left_behind();
        let long = || charge(u64::MAX);
        assert_eq!(scope(&moving, READ, long), Ok(()), "there is no floor");
        share.set(Some(1.0));
        let ended = scope(&moving, READ, long);
        assert!(ended.is_err() && moving.may_go_on(&ended));
        assert_eq!(scope(&never(), READ, long), Ok(()));
        // The deadline has passed, too.
        let over = cancelled().ending_if_left_behind();
        assert!(!over.may_go_on(&scope(&over, READ, long)));
    });
    thread.join().unwrap();
}

#[test]
fn a_scan_lowers_its_thread_once_when_it_has_used_its_cpu_time() {
    let is_lowered = |after: Option<Duration>| {
        LOWERED.set(false);
        let interrupt = match after {
            Some(after) => never().lowering(after, || {
                assert!(!LOWERED.replace(true), "it is lowered once");
            }),
            None => never(),
        };
        scope(&interrupt, READ, || {
            charge(UNITS_PER_LOOK).unwrap();
            charge(UNITS_PER_LOOK).unwrap();
        });
        LOWERED.get()
    };
    assert!(!is_lowered(None));
    assert!(!is_lowered(Some(DAY)));
    assert!(is_lowered(Some(Duration::ZERO)));
}
