//! A model of requests and the probe, which explores every order of their operations.
//!
//! The threads of the model execute the functions of [`Wakeup`]. To find a thread's next operation,
//! the model runs the thread from the start: it replays the results of the operations so far, and
//! unwinds at the next operation.
//!
//! A store becomes visible to other threads some time after its execution, so that a later load may
//! overtake it. A `SeqCst` load waits for the `SeqCst` stores of its thread, and a `SeqCst` swap
//! for all of its stores. This is the reordering that matters to two threads that each store and
//! then load. Loads that overtake loads are not in the model.

use std::cell::RefCell;
use std::collections::HashSet;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use super::*;

/// A flag of [`Wakeup`] in the model, which stands for an atomic in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Busy,
    Awake,
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    Load(Place, Ordering),
    Store(Place, bool, Ordering),
    Swap(Place, bool, Ordering),
    Notify,
    /// Waits for a notification, or consumes one that was sent earlier, as `tokio::sync::Notify`
    /// does.
    Wait,
}

impl Flag for Place {
    fn load(&self, order: Ordering) -> bool {
        perform(Operation::Load(*self, order))
    }

    fn store(&self, value: bool, order: Ordering) {
        perform(Operation::Store(*self, value, order));
    }

    fn swap(&self, value: bool, order: Ordering) -> bool {
        perform(Operation::Swap(*self, value, order))
    }
}

thread_local! {
    /// The results of the operations that the current thread replays, because the model has
    /// executed them already. They are in reverse order: the last element is the result of the next
    /// operation.
    static REPLAY: RefCell<Vec<bool>> = RefCell::default();
}

/// Returns the recorded result of the next operation, if the thread has executed the operation
/// before. Otherwise unwinds the thread with the operation: the model executes it, and later
/// replays the thread from the start.
fn perform(operation: Operation) -> bool {
    let result = REPLAY.with_borrow_mut(Vec::pop);
    result.unwrap_or_else(|| resume_unwind(Box::new(operation)))
}

type Thread = fn(&Wakeup<Place>);

/// Returns the operation that a thread executes after earlier ones, whose results are `results`;
/// `None` if the thread has ended.
fn next_operation(thread: Thread, results: &[bool]) -> Option<Operation> {
    REPLAY.set(results.iter().rev().copied().collect());
    let wakeup = Wakeup {
        is_busy: Place::Busy,
        is_awake: Place::Awake,
    };
    let unwound = catch_unwind(AssertUnwindSafe(|| thread(&wakeup))).err()?;
    match unwound.downcast::<Operation>() {
        Ok(operation) => Some(*operation),
        Err(panic) => resume_unwind(panic),
    }
}

/// A store that is not visible to other threads yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Hidden {
    place: Place,
    value: bool,
    order: Ordering,
}

/// The state of a simulated thread: the results of its operations so far, and its writes to flags
/// that are not visible to others yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Local {
    results: Vec<bool>,
    /// The writes to flags that other threads do not see yet, in the order of their execution.
    hidden: Vec<Hidden>,
}

impl Local {
    /// Returns whether the write at index `at` of `hidden` may become visible to other threads now.
    /// Writes to one flag become visible in order. A write that is not `Relaxed` becomes visible
    /// after all earlier ones.
    fn may_show(&self, at: usize) -> bool {
        let (before, store) = (&self.hidden[..at], &self.hidden[at]);
        let is_behind = |other: &Hidden| store.order != Relaxed || other.place == store.place;
        !before.iter().any(is_behind)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    memory: [bool; 2],
    is_notified: bool,
    locals: Vec<Local>,
}

impl State {
    /// Returns the states that one step of one thread may lead to from this state.
    fn followers(&self, threads: &[Thread]) -> Vec<Self> {
        let mut followers = Vec::new();
        for (thread, local) in self.locals.iter().enumerate() {
            for at in (0..local.hidden.len()).filter(|at| local.may_show(*at)) {
                let mut next = self.clone();
                let shown = next.locals[thread].hidden.remove(at);
                next.memory[shown.place as usize] = shown.value;
                followers.push(next);
            }
            let operation = next_operation(threads[thread], &local.results);
            let mut next = self.clone();
            if let Some(result) = operation.and_then(|operation| next.execute(thread, operation)) {
                next.locals[thread].results.push(result);
                followers.push(next);
            }
        }
        followers
    }

    /// Executes an operation, and returns its result; `None` if the operation has to wait.
    fn execute(&mut self, thread: usize, operation: Operation) -> Option<bool> {
        let hidden = &mut self.locals[thread].hidden;
        match operation {
            Operation::Load(place, order) => {
                let waits = order == SeqCst && hidden.iter().any(|store| store.order == SeqCst);
                let own = hidden.iter().rfind(|store| store.place == place);
                let value = own.map_or(self.memory[place as usize], |store| store.value);
                (!waits).then_some(value)
            }
            Operation::Store(place, value, order) => {
                hidden.push(Hidden {
                    place,
                    value,
                    order,
                });
                Some(value)
            }
            Operation::Swap(place, value, order) => {
                let waits = (hidden.iter()).any(|store| order == SeqCst || store.place == place);
                (!waits).then(|| mem::replace(&mut self.memory[place as usize], value))
            }
            Operation::Notify => {
                self.is_notified = true;
                Some(true)
            }
            Operation::Wait => mem::take(&mut self.is_notified).then_some(true),
        }
    }
}

/// Explores all orders of the operations of three threads: two that note a request each, and the
/// probe, the task that has to notice requests and sleeps at first. Returns a state in which no
/// thread can go on and the probe has not noticed a request; `None` if there is no such state.
fn lost_request(request: Thread, probe: Thread) -> Option<State> {
    let threads = [request, request, probe];
    let mut seen = HashSet::new();
    let mut left = vec![State {
        memory: [false; 2],
        is_notified: false,
        locals: vec![Local::default(); threads.len()],
    }];
    while let Some(state) = left.pop() {
        if !seen.insert(state.clone()) {
            continue;
        }
        let followers = state.followers(&threads);
        if followers.is_empty() && state.memory[Place::Busy as usize] {
            return Some(state);
        }
        left.extend(followers);
    }
    None
}

fn request(wakeup: &Wakeup<Place>) {
    if wakeup.note_request() {
        perform(Operation::Notify);
    }
}

/// Runs a probe (the task that measures waits) that goes to sleep as soon as it finds no request.
fn probe(wakeup: &Wakeup<Place>) {
    loop {
        perform(Operation::Wait);
        wakeup.unpark();
        while wakeup.take_requests() {}
        if wakeup.park() {
            perform(Operation::Notify);
        }
    }
}

#[test]
fn the_probe_looks_after_every_request() {
    assert_eq!(lost_request(request, probe), None);
}

/// Notes a request as `Wakeup::note_request` does, but with these memory orders of the store and of
/// the load, to show that weaker ones lose requests.
fn weaker_request(wakeup: &Wakeup<Place>, store: Ordering, load: Ordering) {
    if !wakeup.is_busy.load(Relaxed) {
        wakeup.is_busy.store(true, store);
        if !wakeup.is_awake.load(load) {
            perform(Operation::Notify);
        }
    }
}

/// Like [`probe`], but goes to sleep by `park` in place of `Wakeup::park`, to show that weaker
/// memory orders lose requests. `park` returns true if requests arrived meanwhile.
fn other_probe(wakeup: &Wakeup<Place>, park: fn(&Wakeup<Place>) -> bool) {
    loop {
        perform(Operation::Wait);
        wakeup.unpark();
        while wakeup.take_requests() {}
        if park(wakeup) {
            perform(Operation::Notify);
        }
    }
}

#[test]
fn the_model_finds_the_lost_request_if_a_load_overtakes_its_store() {
    let requests: [Thread; 3] = [
        |wakeup| weaker_request(wakeup, Relaxed, Relaxed),
        |wakeup| weaker_request(wakeup, Release, SeqCst),
        |wakeup| weaker_request(wakeup, SeqCst, Relaxed),
    ];
    for (case, request) in requests.into_iter().enumerate() {
        assert!(lost_request(request, probe).is_some(), "request {case}");
    }
    let probes: [Thread; 4] = [
        |wakeup| {
            other_probe(wakeup, |wakeup| {
                wakeup.is_awake.store(false, Release);
                wakeup.is_busy.load(SeqCst)
            });
        },
        |wakeup| {
            other_probe(wakeup, |wakeup| {
                wakeup.is_awake.store(false, SeqCst);
                wakeup.is_busy.load(Relaxed)
            });
        },
        |wakeup| {
            other_probe(wakeup, |wakeup| {
                let came = wakeup.is_busy.load(SeqCst);
                wakeup.is_awake.store(false, SeqCst);
                came
            });
        },
        |wakeup| {
            other_probe(wakeup, |wakeup| {
                wakeup.is_awake.store(false, SeqCst);
                false
            });
        },
    ];
    for (case, probe) in probes.into_iter().enumerate() {
        assert!(lost_request(request, probe).is_some(), "probe {case}");
    }
}
