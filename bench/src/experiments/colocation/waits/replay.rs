//! Goes through a trace, and finds out how long request threads waited for a core, who had
//! it meanwhile, and what these threads did all the time.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::event::{Event, Tid, Trace, What};

/// What a thread is to the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Serves requests.
    Request,
    /// Runs a task of a job.
    Task,
    /// Flushes, merges, or syncs the log.
    Store,
    /// Runs the control cycle, or the guard.
    Control,
    /// Another thread of this process.
    Own,
    /// Of the kernel.
    Kernel,
    /// Of another process.
    Other,
}

/// Who had the core for which a request thread waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Holder {
    /// A task in its own code.
    Task,
    /// A task in a system call.
    TaskInCall,
    /// Another request thread, while another core ran a task.
    RequestBesideTask,
    /// The same, while another core was idle.
    RequestBesideIdle,
    /// The same, while all other cores ran something else.
    Request,
    /// A flush, a merge, a sync of the log.
    Store,
    /// The control cycle or the guard.
    Control,
    /// Another thread of this process.
    Own,
    /// A thread of the kernel.
    Kernel,
    /// Another process.
    Other,
    /// Nobody: the core was idle, and took that long to begin.
    Nobody,
}

impl Holder {
    /// As tables show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Task => "a task",
            Self::TaskInCall => "a task in a system call",
            Self::RequestBesideTask => "a request thread; another core ran a task",
            Self::RequestBesideIdle => "a request thread; another core was idle",
            Self::Request => "a request thread; no other core had room",
            Self::Store => "a flush, merge or sync",
            Self::Control => "control cycle, guard",
            Self::Own => "another thread of the process",
            Self::Kernel => "a thread of the kernel",
            Self::Other => "another process",
            Self::Nobody => "nobody: the core woke up",
        }
    }
}

/// A request thread was ready to run and had no core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// Until it ran.
    pub length_us: u64,
    /// It had slept; otherwise it was displaced.
    pub is_wake_up: bool,
    /// Who had the core for most of it.
    pub holder: Holder,
}

/// What a request thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Runs its own code.
    OnCore,
    /// Runs a system call.
    InCall,
    /// Is ready, and has no core.
    NoCore,
    /// Sleeps: it waits for a time, a lock or a disk.
    Asleep,
}

/// A part of a request thread's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its start, in microseconds of the monotonic clock.
    pub from_us: u64,
    /// Its end.
    pub to_us: u64,
    /// What the thread did.
    pub state: State,
}

/// What a trace says of the request threads.
#[derive(Debug, Clone, Default)]
pub struct Replayed {
    /// Their waits for a core, as they ended.
    pub waits: Vec<Wait>,
    /// Each one's life, from the first event on that shows where it is.
    pub lives: HashMap<Tid, Vec<Span>>,
    /// When they touched memory that was not there.
    pub faults: HashMap<Tid, Vec<u64>>,
}

/// Of a request thread.
#[derive(Debug, Default)]
struct Thread {
    /// And since when.
    state: Option<(State, u64)>,
    in_call: bool,
    waiting: Option<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    since_us: u64,
    is_wake_up: bool,
    core: u32,
    /// Who had that core for how long.
    held_us: Vec<(Holder, u64)>,
}

struct Replay<'a> {
    role: &'a dyn Fn(Tid) -> Role,
    /// What each core runs, as far as known.
    running: HashMap<u32, Tid>,
    /// Tasks that are in a system call.
    tasks_in_call: HashSet<Tid>,
    threads: HashMap<Tid, Thread>,
    now_us: u64,
    out: Replayed,
}

/// Replays a trace; `role` says what each thread is.
pub fn replay(trace: &Trace, role: impl Fn(Tid) -> Role) -> Replayed {
    let mut replay = Replay {
        role: &role,
        running: HashMap::new(),
        tasks_in_call: HashSet::new(),
        threads: HashMap::new(),
        now_us: 0,
        out: Replayed::default(),
    };
    for event in &trace.events {
        replay.advance(event.at_us);
        replay.take(event);
    }
    replay.finish()
}

impl Replay<'_> {
    fn is_request(&self, tid: Tid) -> bool {
        tid != 0 && (self.role)(tid) == Role::Request
    }

    /// Counts the time since the event before for whoever had the cores.
    fn advance(&mut self, at_us: u64) {
        let passed_us = at_us.saturating_sub(self.now_us);
        self.now_us = self.now_us.max(at_us);
        if passed_us == 0 {
            return;
        }
        let waiting: Vec<(Tid, u32)> = (self.threads.iter())
            .filter_map(|(tid, thread)| Some((*tid, thread.waiting.as_ref()?.core)))
            .collect();
        for (tid, core) in waiting {
            let holder = self.holder(core);
            let thread = self.threads.get_mut(&tid);
            let waiting = thread.and_then(|thread| thread.waiting.as_mut());
            let held = &mut waiting.expect("it waits").held_us;
            match held.iter_mut().find(|(known, _)| *known == holder) {
                Some((_, us)) => *us += passed_us,
                None => held.push((holder, passed_us)),
            }
        }
    }

    fn holder(&self, core: u32) -> Holder {
        let Some(&tid) = self.running.get(&core).filter(|tid| **tid != 0) else {
            return Holder::Nobody;
        };
        match (self.role)(tid) {
            Role::Request => self.request_holds(core),
            Role::Task if self.tasks_in_call.contains(&tid) => Holder::TaskInCall,
            Role::Task => Holder::Task,
            Role::Store => Holder::Store,
            Role::Control => Holder::Control,
            Role::Own => Holder::Own,
            Role::Kernel => Holder::Kernel,
            Role::Other => Holder::Other,
        }
    }

    fn request_holds(&self, core: u32) -> Holder {
        let elsewhere = self.running.iter().filter(|(other, _)| **other != core);
        let roles: Vec<Option<Role>> = elsewhere
            .map(|(_, &tid)| (tid != 0).then(|| (self.role)(tid)))
            .collect();
        if roles.contains(&None) {
            Holder::RequestBesideIdle
        } else if roles.contains(&Some(Role::Task)) {
            Holder::RequestBesideTask
        } else {
            Holder::Request
        }
    }

    fn take(&mut self, event: &Event) {
        match event.what {
            What::Switch {
                from,
                is_runnable,
                to,
            } => {
                if self.is_request(from) {
                    self.leaves_core(from, is_runnable, event.core);
                }
                self.running.insert(event.core, to);
                if self.is_request(to) {
                    self.gets_core(to);
                }
            }
            What::Waking(tid) if self.is_request(tid) => {
                let thread = self.threads.entry(tid).or_default();
                // One that is on its core has not gone to sleep yet.
                if let None | Some((State::Asleep, _)) = thread.state {
                    thread.waiting = Some(Waiting {
                        since_us: self.now_us,
                        is_wake_up: true,
                        core: event.core,
                        held_us: Vec::new(),
                    });
                    self.becomes(tid, State::NoCore);
                }
            }
            What::Placed(tid, core) | What::Moved(tid, core) => {
                let thread = self.threads.get_mut(&tid);
                if let Some(waiting) = thread.and_then(|thread| thread.waiting.as_mut()) {
                    waiting.core = core;
                }
            }
            What::Enters(_) | What::Leaves => {
                let enters = event.what != What::Leaves;
                if self.is_request(event.thread) {
                    self.threads.entry(event.thread).or_default().in_call = enters;
                    self.becomes(
                        event.thread,
                        if enters { State::InCall } else { State::OnCore },
                    );
                } else if enters {
                    self.tasks_in_call.insert(event.thread);
                } else {
                    self.tasks_in_call.remove(&event.thread);
                }
            }
            What::Faults if self.is_request(event.thread) => {
                let faults = self.out.faults.entry(event.thread).or_default();
                faults.push(event.at_us);
            }
            What::Waking(_) | What::Faults => {}
        }
    }

    fn leaves_core(&mut self, tid: Tid, is_runnable: bool, core: u32) {
        if is_runnable {
            self.threads.entry(tid).or_default().waiting = Some(Waiting {
                since_us: self.now_us,
                is_wake_up: false,
                core,
                held_us: Vec::new(),
            });
        }
        self.becomes(
            tid,
            match is_runnable {
                true => State::NoCore,
                false => State::Asleep,
            },
        );
    }

    fn gets_core(&mut self, tid: Tid) {
        let thread = self.threads.entry(tid).or_default();
        if let Some(waiting) = thread.waiting.take() {
            let most = waiting.held_us.iter().max_by_key(|(_, us)| *us);
            self.out.waits.push(Wait {
                length_us: self.now_us.saturating_sub(waiting.since_us),
                is_wake_up: waiting.is_wake_up,
                holder: most.map_or(Holder::Nobody, |(holder, _)| *holder),
            });
        }
        let state = match thread.in_call {
            true => State::InCall,
            false => State::OnCore,
        };
        self.becomes(tid, state);
    }

    fn becomes(&mut self, tid: Tid, state: State) {
        let now_us = self.now_us;
        let thread = self.threads.entry(tid).or_default();
        let before = thread.state.replace((state, now_us));
        if let Some((state, from_us)) = before
            && from_us < now_us
        {
            let life = self.out.lives.entry(tid).or_default();
            life.push(Span {
                from_us,
                to_us: now_us,
                state,
            });
        }
    }

    fn finish(mut self) -> Replayed {
        let tids: Vec<Tid> = self.threads.keys().copied().collect();
        for tid in tids {
            // Its last span ends with the trace.
            self.becomes(tid, State::Asleep);
        }
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Tid = 1;
    const SECOND: Tid = 2;
    const TASK: Tid = 9;
    const FLUSH: Tid = 5;

    fn role(tid: Tid) -> Role {
        match tid {
            REQUEST | SECOND => Role::Request,
            TASK => Role::Task,
            FLUSH => Role::Store,
            _ => Role::Other,
        }
    }

    fn trace(events: &[(u64, u32, Tid, What)]) -> Trace {
        let events = events.iter();
        Trace {
            events: events
                .map(|&(at_us, core, thread, what)| Event {
                    at_us,
                    core,
                    thread,
                    what,
                })
                .collect(),
            ..Trace::default()
        }
    }

    fn switch(from: Tid, is_runnable: bool, to: Tid) -> What {
        What::Switch {
            from,
            is_runnable,
            to,
        }
    }

    fn wait(length_us: u64, is_wake_up: bool, holder: Holder) -> Wait {
        Wait {
            length_us,
            is_wake_up,
            holder,
        }
    }

    #[test]
    fn a_wait_belongs_to_who_had_the_core_for_most_of_it() {
        let replayed = replay(
            &trace(&[
                (10, 0, 0, switch(0, true, TASK)),
                (12, 1, REQUEST, switch(REQUEST, false, SECOND)),
                // Waits behind the other request thread, and is moved at last.
                (20, 0, TASK, What::Waking(REQUEST)),
                (21, 0, TASK, What::Placed(REQUEST, 1)),
                (100, 0, TASK, What::Moved(REQUEST, 0)),
                (110, 0, TASK, switch(TASK, true, REQUEST)),
                (150, 0, REQUEST, switch(REQUEST, false, TASK)),
                // Waits for a task that is in the kernel.
                (160, 0, TASK, What::Enters(1)),
                (170, 1, SECOND, What::Waking(REQUEST)),
                (170, 1, SECOND, What::Placed(REQUEST, 0)),
                (200, 0, TASK, What::Leaves),
                (205, 0, TASK, switch(TASK, true, REQUEST)),
            ]),
            role,
        );
        assert_eq!(
            replayed.waits,
            [
                wait(90, true, Holder::RequestBesideTask),
                wait(35, true, Holder::TaskInCall),
            ]
        );
    }

    #[test]
    fn a_pair_on_one_core_is_told_by_what_the_other_core_does() {
        let pair = |other: Tid| {
            let replayed = replay(
                &trace(&[
                    (1, 0, 0, switch(TASK, false, other)),
                    (2, 1, REQUEST, switch(REQUEST, false, SECOND)),
                    (3, 1, SECOND, What::Waking(REQUEST)),
                    (3, 1, SECOND, What::Placed(REQUEST, 1)),
                    (90, 1, SECOND, switch(SECOND, false, REQUEST)),
                ]),
                role,
            );
            replayed.waits[0].holder
        };
        assert_eq!(pair(0), Holder::RequestBesideIdle);
        assert_eq!(pair(TASK), Holder::RequestBesideTask);
        assert_eq!(pair(FLUSH), Holder::Request);
        assert_eq!(pair(77), Holder::Request);
    }

    #[test]
    fn who_is_displaced_waits_without_having_slept() {
        let replayed = replay(
            &trace(&[
                (1, 0, 0, switch(0, true, REQUEST)),
                (50, 0, REQUEST, switch(REQUEST, true, FLUSH)),
                (90, 0, FLUSH, switch(FLUSH, false, REQUEST)),
            ]),
            role,
        );
        assert_eq!(replayed.waits, [wait(40, false, Holder::Store)]);
    }

    #[test]
    fn a_thread_s_life_has_no_gaps() {
        let replayed = replay(
            &trace(&[
                (100, 0, 0, switch(0, true, REQUEST)),
                (110, 0, REQUEST, What::Enters(202)),
                (115, 0, REQUEST, What::Faults),
                (120, 0, REQUEST, switch(REQUEST, false, 0)),
                // A second call for it while it sleeps changes nothing.
                (150, 0, 0, What::Waking(REQUEST)),
                (151, 0, 0, What::Waking(REQUEST)),
                (155, 0, 0, switch(0, true, REQUEST)),
                (160, 0, REQUEST, What::Leaves),
                (190, 0, REQUEST, switch(REQUEST, true, 77)),
                (200, 0, 77, switch(77, false, 0)),
            ]),
            role,
        );
        let spans = [
            (100, State::OnCore),
            (110, State::InCall),
            (120, State::Asleep),
            (150, State::NoCore),
            (155, State::InCall),
            (160, State::OnCore),
            (190, State::NoCore),
        ];
        let life = &replayed.lives[&REQUEST];
        let begun: Vec<_> = life.iter().map(|span| (span.from_us, span.state)).collect();
        assert_eq!(begun, spans);
        assert!(life.windows(2).all(|two| two[0].to_us == two[1].from_us));
        assert_eq!(life.last().map(|span| span.to_us), Some(200));
        assert_eq!(replayed.faults[&REQUEST], [115]);
        assert_eq!(replayed.waits, [wait(5, true, Holder::Nobody)]);
    }
}
