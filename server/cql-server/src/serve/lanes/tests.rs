use std::sync::mpsc::{Sender, channel};

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use ebb_test_support::wait::{self, HANG};
use ebb_threads::{FLOOR_NICE, SchedulingClass, current_nice};

use super::*;
use crate::serve::response_memory::SMALL_BYTES;
use crate::serve::scan_threads::tests::{SIMULATED, never, role};

fn lanes(options: &ServeOptions) -> Lanes {
    Lanes::with_class(options, SIMULATED).unwrap()
}

async fn run_as<T: Send + 'static>(
    lanes: &Lanes,
    lane: Lane,
    user: &str,
    share: &Share,
    work: impl FnOnce(&mut ResultMemory) -> T + Send + 'static,
) -> Option<Waiting<T>> {
    let progress = Arc::default();
    let (user, interrupt) = (role(user), never());
    (lanes.run(lane, &user, share, &interrupt, &progress, work)).await
}

async fn run<T: Send + 'static>(
    lanes: &Lanes,
    lane: Lane,
    share: &Share,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<Waiting<T>> {
    let work = |_: &mut ResultMemory| work();
    run_as(lanes, lane, "ada", share, work).await
}

/// A request that runs until the sender `end` is dropped.
struct Endless {
    task: JoinHandle<bool>,
    end: Sender<()>,
}

/// Starts an endless request, and waits until it runs.
async fn begin(lanes: &Arc<Lanes>, lane: Lane, share: &Share) -> Endless {
    let (lanes, share) = (lanes.clone(), share.clone());
    let (begins, begun) = channel();
    let (end, until) = channel::<()>();
    let task = tokio::spawn(async move {
        let work = move || {
            begins.send(()).unwrap();
            until.recv().is_err()
        };
        run(&lanes, lane, &share, work).await.is_some()
    });
    let begun = spawn_blocking(move || begun.recv());
    begun.await.unwrap().unwrap();
    Endless { task, end }
}

#[tokio::test]
async fn ranges_run_beneath_requests_and_survive_a_panic() {
    let lanes = lanes(&ServeOptions::default());
    let share = Share::default();
    let class_in = async |lane| {
        let class = run(&lanes, lane, &share, SIMULATED.current).await;
        class.unwrap().value
    };
    assert_eq!(class_in(Lane::Scan).await, SchedulingClass::Normal);
    assert_eq!(class_in(Lane::Moved).await, SchedulingClass::Normal);
    assert_eq!(class_in(Lane::Range).await, SchedulingClass::Idle);
    assert_eq!(class_in(Lane::Login).await, SchedulingClass::Normal);
    let nice = || rustix::process::getpriority_process(Some(rustix::thread::gettid())).unwrap();
    let of_logins = run(&lanes, Lane::Login, &share, nice).await;
    assert_eq!(of_logins.unwrap().value, (nice() + LOGIN_NICE).min(19));
    for _ in 0..8 {
        let panicked = run(&lanes, Lane::Range, &share, || panic!("on purpose")).await;
        assert!(panicked.is_none_or(|_: Waiting<()>| false));
    }
    let ran = run(&lanes, Lane::Range, &share, || 7).await;
    assert_eq!(ran.unwrap().value, 7);
}

#[tokio::test]
async fn ranges_run_in_the_normal_class_if_the_idle_class_is_off() {
    let options = ServeOptions {
        idle_class: false,
        ..ServeOptions::default()
    };
    let lanes = lanes(&options);
    let share = Share::default();
    let class = run(&lanes, Lane::Range, &share, SIMULATED.current).await;
    assert_eq!(class.unwrap().value, SchedulingClass::Normal);
}

#[tokio::test]
async fn ranges_run_on_the_floor_while_that_is_in_use() {
    let share = Arc::new(FloorShare::new());
    let lanes = lanes(&ServeOptions {
        floor: Some(Arc::clone(&share)),
        ..ServeOptions::default()
    });
    let results = Share::default();
    let run_in = async |cores| {
        share.set(cores);
        let thread = || (current_nice(), (SIMULATED.current)());
        let ran = run(&lanes, Lane::Range, &results, thread).await;
        ran.unwrap().value
    };
    assert_eq!(run_in(None).await.1, SchedulingClass::Idle);
    let (nice, class) = run_in(Some(0.5)).await;
    assert!(nice >= FLOOR_NICE);
    assert_eq!(class, SchedulingClass::Normal);
    assert_eq!(run_in(None).await.1, SchedulingClass::Idle);
}

/// Regression: changes of the schema, KILL QUERY and large requests ran in the runtime's pool
/// for blocking work. If the system refused the pool another thread, they got no response.
#[test]
fn requests_run_although_the_runtime_gets_no_more_threads() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().max_blocking_threads(1);
    runtime.build().unwrap().block_on(async {
        let lanes = lanes(&ServeOptions::default());
        let (end, until) = channel::<()>();
        let busy = spawn_blocking(move || until.recv().is_err());
        let share = Share::default();
        for lane in [Lane::Schema, Lane::Control] {
            let ran = timeout(HANG, run(&lanes, lane, &share, || 7)).await;
            assert_eq!(ran.unwrap().unwrap().value, 7, "{lane:?}");
        }
        let large = timeout(HANG, lanes.run_large(&role("ada"), &never(), || 7)).await;
        assert_eq!(large.unwrap(), Some(7));
        drop(end);
        assert!(busy.await.unwrap());
    });
}

/// Regression: the large requests of all users had one queue, and the long analyses of one user
/// delayed those of others until the deadline.
#[tokio::test]
async fn large_requests_of_one_user_do_not_delay_those_of_others() {
    let lanes = Arc::new(lanes(&ServeOptions {
        threads: 2,
        ..ServeOptions::default()
    }));
    let (begins, begun) = channel();
    let (end, until) = channel::<()>();
    let busy = tokio::spawn({
        let lanes = lanes.clone();
        async move {
            let work = move || {
                begins.send(()).unwrap();
                until.recv().is_err()
            };
            lanes.run_large(&role("ada"), &never(), work).await
        }
    });
    let begun = spawn_blocking(move || begun.recv());
    begun.await.unwrap().unwrap();
    let other = timeout(HANG, lanes.run_large(&role("eve"), &never(), || 7)).await;
    assert_eq!(other.unwrap(), Some(7));
    drop(end);
    assert_eq!(busy.await.unwrap(), Some(true));
}

#[tokio::test]
async fn changes_of_the_schema_run_one_at_a_time_and_do_not_delay_kills() {
    let lanes = Arc::new(lanes(&ServeOptions::default()));
    let share = Share::default();
    let first = begin(&lanes, Lane::Schema, &share).await;
    let mut second = Box::pin(run(&lanes, Lane::Schema, &share, || 7));
    // The second change is queued before the kill, which ends all the same.
    assert!(timeout(Duration::ZERO, &mut second).await.is_err());
    assert!(run(&lanes, Lane::Control, &share, || ()).await.is_some());
    assert!(timeout(Duration::ZERO, &mut second).await.is_err());
    drop(first.end);
    assert!(first.task.await.unwrap());
    assert_eq!(second.await.unwrap().value, 7);
}

/// Regression: queued work was executed although its connection had ended, even after the
/// server had stopped.
#[tokio::test]
async fn queued_work_is_not_executed_once_its_caller_has_stopped_waiting() {
    let lanes = Arc::new(lanes(&ServeOptions::default()));
    let share = Share::default();
    let first = begin(&lanes, Lane::Schema, &share).await;
    let (ran, runs) = channel();
    let mut second = Box::pin(run(&lanes, Lane::Schema, &share, move || ran.send(())));
    assert!(timeout(Duration::ZERO, &mut second).await.is_err());
    drop(second);
    drop(first.end);
    assert!(first.task.await.unwrap());
    assert!(run(&lanes, Lane::Schema, &share, || ()).await.is_some());
    assert!(runs.try_recv().is_err());
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_no_more_than_its_share() {
    let lanes = lanes(&ServeOptions::default());
    let (deaf, other) = (Share::default(), Share::default());
    let mut unread = Vec::new();
    for _ in 0..SHARE_RESULTS {
        unread.push(run(&lanes, Lane::Scan, &deaf, || ()).await);
    }
    let more = run(&lanes, Lane::Scan, &deaf, || ());
    assert!(timeout(Duration::from_millis(20), more).await.is_err());
    assert!(run(&lanes, Lane::Scan, &other, || ()).await.is_some());
    unread.pop();
    assert!(run(&lanes, Lane::Scan, &deaf, || ()).await.is_some());
}

#[tokio::test]
async fn the_memory_of_a_result_is_taken_until_its_work_ends() {
    let lanes = Arc::new(lanes(&ServeOptions::default()));
    let share = Share::default();
    let scan = begin(&lanes, Lane::Scan, &share).await;
    scan.task.abort();
    assert!(scan.task.await.unwrap_err().is_cancelled());
    // The caller has stopped waiting, but the work still fills its result.
    assert_eq!(share.scans.available_permits(), SHARE_RESULTS - 1);
    drop(scan.end);
    let is_free = || share.scans.available_permits() == SHARE_RESULTS;
    wait::until("the memory to be free", is_free);
}

/// Regression: the scans of one user took all memory for results before they waited for a
/// thread, and no scan of another user began.
#[tokio::test]
async fn scans_that_wait_for_their_turn_take_no_memory_from_those_of_others() {
    let lanes = Arc::new(lanes(&ServeOptions {
        scans_max: 1,
        lane_result_bytes_max: 2 * PAGE_BYTES,
        ..ServeOptions::default()
    }));
    let bad = begin(&lanes, Lane::Scan, &Share::default()).await;
    let waiting: Vec<_> = (0..8)
        .map(|_| {
            let lanes = lanes.clone();
            tokio::spawn(async move {
                let ran = run(&lanes, Lane::Scan, &Share::default(), || ()).await;
                ran.is_some()
            })
        })
        .collect();
    tokio::task::yield_now().await;
    assert!(!lanes.is_short());
    let share = Share::default();
    let work = |_: &mut ResultMemory| 7;
    let good = run_as(&lanes, Lane::Scan, "eve", &share, work).await;
    assert_eq!(good.unwrap().value, 7);
    drop(bad.end);
    assert!(bad.task.await.unwrap());
    for scan in waiting {
        assert!(scan.await.unwrap());
    }
}

/// Regression: a batch that computed for more than 5 ms waited behind ten scans of its client,
/// and for memory that their results held, until its timeout.
#[tokio::test]
async fn moved_statements_wait_neither_for_scans_nor_for_memory() {
    let lanes = Arc::new(lanes(&ServeOptions {
        scans_max: 1,
        lane_result_bytes_max: PAGE_BYTES,
        ..ServeOptions::default()
    }));
    let share = Share::default();
    let bad = begin(&lanes, Lane::Scan, &share).await;
    assert!(lanes.is_short());
    let mut unread = Vec::new();
    for number in 0..SHARE_RESULTS {
        let moved = run(&lanes, Lane::Moved, &share, move || number)
            .await
            .unwrap();
        assert_eq!(moved.value, number);
        unread.push(moved);
    }
    drop(bad.end);
    assert!(bad.task.await.unwrap());
}

#[tokio::test]
async fn results_count_with_their_size_and_fail_without_room() {
    let lanes = lanes(&ServeOptions {
        lane_result_bytes_max: 8 * PAGE_BYTES,
        ..ServeOptions::default()
    });
    let share = Share::default();
    let hold = async |bytes: usize| {
        let work = move |memory: &mut ResultMemory| memory.try_hold(bytes);
        let ran = run_as(&lanes, Lane::Scan, "ada", &share, work).await;
        ran.unwrap()
    };
    let large = hold(5 * PAGE_BYTES).await;
    assert!(large.value && !lanes.is_short());
    assert!(!hold(2 * PAGE_BYTES).await.value);
    let page = hold(PAGE_BYTES).await;
    assert!(page.value && lanes.is_short());
    drop((large, page));
    assert!(!hold(7 * PAGE_BYTES).await.value);
    let most = hold(6 * PAGE_BYTES).await;
    let reserved = [hold(PAGE_BYTES).await, hold(PAGE_BYTES).await];
    assert!(most.value && reserved.iter().all(|page| page.value));
    // A moved statement has no memory before its result is ready.
    let moved = async |bytes: usize| {
        let work = move |memory: &mut ResultMemory| memory.try_hold(bytes);
        let ran = run_as(&lanes, Lane::Moved, "ada", &share, work).await;
        ran.unwrap().value
    };
    assert!(moved(SMALL_BYTES - 1).await);
    assert!(!moved(SMALL_BYTES).await);
}
