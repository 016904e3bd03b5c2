//! What the kernel's trace says, line by line.
//!
//! ```text
//!   ebb-task-812   [001] d..2.  1987.986936: sched_switch: prev_comm=ebb-task prev_pid=812 ...
//!   thread         core  flags  seconds      event         its fields
//! ```
//!
//! Other lines (comments, events that were not asked for) say nothing here.

use std::collections::HashMap;

/// A thread by its id; 0 stands for a core that has nothing to run.
pub type Tid = u32;

/// What happened on a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Microseconds of the monotonic clock.
    pub at_us: u64,
    /// On which core.
    pub core: u32,
    /// What that core ran then.
    pub thread: Tid,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The core goes from one thread to another.
    Switch {
        /// The one that ran.
        from: Tid,
        /// It could have run on.
        is_runnable: bool,
        /// The one that runs now.
        to: Tid,
    },
    /// A thread is to wake up; it waits for a core from now on.
    Waking(Tid),
    /// It waits for this core.
    Placed(Tid, u32),
    /// It waits for this one now.
    Moved(Tid, u32),
    /// The thread begins a system call of this number.
    Enters(u32),
    /// And ends it.
    Leaves,
    /// The thread touched memory that was not there.
    Faults,
}

/// A trace, in the order of time.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// What happened.
    pub events: Vec<Event>,
    /// What threads are called, at most 15 characters.
    pub names: HashMap<Tid, String>,
    /// Events that found no room.
    pub lost: u64,
}

impl Trace {
    /// Of a trace as the kernel prints it.
    pub fn parse(text: &str) -> Self {
        let mut trace = Self::default();
        for line in text.lines() {
            if let Some(event) = trace.line(line) {
                trace.events.push(event);
            }
        }
        trace
    }

    fn line(&mut self, line: &str) -> Option<Event> {
        let (thread, core, rest) = split_at_core(line)?;
        let (_flags, rest) = rest.split_once(' ')?;
        let (time, rest) = rest.trim_start().split_once(": ")?;
        let (name, fields) = rest.split_once(": ")?;
        let what = match name {
            "sched_switch" => {
                let from = self.thread(fields, "prev_comm=", " prev_pid=")?;
                let to = self.thread(fields, "next_comm=", " next_pid=")?;
                What::Switch {
                    from,
                    is_runnable: after(fields, " prev_state=")?.starts_with('R'),
                    to,
                }
            }
            "sched_waking" => What::Waking(self.thread(fields, "comm=", " pid=")?),
            "sched_wakeup" => {
                let thread = self.thread(fields, "comm=", " pid=")?;
                What::Placed(thread, number(fields, " target_cpu=")?)
            }
            "sched_migrate_task" => {
                let thread = self.thread(fields, "comm=", " pid=")?;
                What::Moved(thread, number(fields, " dest_cpu=")?)
            }
            "sys_enter" => What::Enters(number(fields, "NR ")?),
            "sys_exit" => What::Leaves,
            "page_fault_user" | "page_fault_kernel" => What::Faults,
            _ => return None,
        };
        Some(Event {
            at_us: micros(time)?,
            core,
            thread,
            what,
        })
    }

    fn thread(&mut self, fields: &str, name: &str, tid: &str) -> Option<Tid> {
        let (name, _) = after(fields, name)?.split_once(tid)?;
        let tid = number(fields, tid)?;
        if self.names.get(&tid).is_none_or(|known| known != name) {
            self.names.insert(tid, name.to_string());
        }
        Some(tid)
    }
}

/// The running thread, the core, and what follows; a thread's name may hold anything.
fn split_at_core(line: &str) -> Option<(Tid, u32, &str)> {
    let mut from = 0;
    loop {
        let at = from + line[from..].find(" [")?;
        let (inside, rest) = line[at + 2..].split_once(']')?;
        let tid = line[..at].trim_end().rsplit_once('-');
        let tid = tid.and_then(|(_, tid)| tid.parse().ok());
        if let (Some(tid), Ok(core)) = (tid, inside.parse()) {
            return Some((tid, core, rest.trim_start()));
        }
        from = at + 2;
    }
}

fn after<'a>(fields: &'a str, key: &str) -> Option<&'a str> {
    fields.find(key).map(|at| &fields[at + key.len()..])
}

fn number(fields: &str, key: &str) -> Option<u32> {
    let text = after(fields, key)?;
    let digits = text.find(|c: char| !c.is_ascii_digit());
    text[..digits.unwrap_or(text.len())].parse().ok()
}

/// Of `seconds.micros`.
fn micros(time: &str) -> Option<u64> {
    let (seconds, micros) = time.split_once('.')?;
    if micros.len() != 6 {
        return None;
    }
    let seconds: u64 = seconds.parse().ok()?;
    seconds
        .checked_mul(1_000_000)?
        .checked_add(micros.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_the_kernel_writes_them() {
        let trace = Trace::parse(
            "# tracer: nop\n\
             \x20 memfd:a-b [x]-30929   [001] d..2.  1987.987269: sched_switch: prev_comm=memfd:a-b [x] prev_pid=30929 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120\n\
             \x20         <idle>-0       [001] dNs4.  1988.060081: sched_migrate_task: comm=rcu_preempt pid=15 prio=120 orig_cpu=0 dest_cpu=1\n\
             \x20         <idle>-0       [000] d.h3.  1988.060082: sched_waking: comm=ycsb-worker pid=77 prio=120 target_cpu=001\n\
             \x20         <idle>-0       [000] dNh4.  1988.060083: sched_wakeup: comm=ycsb-worker pid=77 prio=120 target_cpu=001\n\
             \x20       ebb-task-9       [000] .....  1988.060084: sys_enter: NR 202 (b, 1, ffffffff, 0, 7, 0)\n\
             \x20       ebb-task-9       [000] .....  1988.060085: sys_exit: NR 202 = -110\n\
             \x20       ebb-task-9       [000] d....  1988.060086: page_fault_user: address=0x55 ip=0x55 error_code=0x7\n\
             \x20       ebb-task-9       [000] d..2.  1988.060087: sched_switch: prev_comm=ebb-task prev_pid=9 prev_prio=120 prev_state=R+ ==> next_comm=ycsb-worker next_pid=77 next_prio=120\n\
             CPU:1 [LOST 12 EVENTS]\n\
             \x20       ebb-task-9       [000] d....  1988.060088: something_else: x=1\n",
        );
        let at = |at_us, core, thread, what| Event {
            at_us,
            core,
            thread,
            what,
        };
        let switch = |from, is_runnable, to| What::Switch {
            from,
            is_runnable,
            to,
        };
        assert_eq!(
            trace.events,
            [
                at(1_987_987_269, 1, 30929, switch(30929, false, 0)),
                at(1_988_060_081, 1, 0, What::Moved(15, 1)),
                at(1_988_060_082, 0, 0, What::Waking(77)),
                at(1_988_060_083, 0, 0, What::Placed(77, 1)),
                at(1_988_060_084, 0, 9, What::Enters(202)),
                at(1_988_060_085, 0, 9, What::Leaves),
                at(1_988_060_086, 0, 9, What::Faults),
                at(1_988_060_087, 0, 9, switch(9, true, 77)),
            ]
        );
        assert_eq!(trace.names[&77], "ycsb-worker");
        assert_eq!(trace.names[&30929], "memfd:a-b [x]");
    }

    #[test]
    fn lines_that_are_cut_say_nothing() {
        for line in [
            "",
            "x",
            "a-1 [000] d..2.",
            "a-1 [000] d..2.  12: sched_waking: comm=a pid=1",
            "a-1 [000] d..2.  12.5: sched_waking: comm=a pid=1 prio=1 target_cpu=000",
            "a-1 [000] d..2.  99999999999999999999.000000: sys_exit: NR 1 = 0",
            "a-1 [000] d..2.  12.000000: sched_switch: prev_comm=a prev_pid=1 prev_prio=120",
        ] {
            assert_eq!(Trace::parse(line).events, [], "{line:?}");
        }
    }
}
