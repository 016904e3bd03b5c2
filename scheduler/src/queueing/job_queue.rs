//! A queue with a part for each job (Wang, section II: "subqueues").

use super::task::Task;

const NONE: u32 = u32::MAX;

/// A pool of list nodes that many queues share. So a queue itself needs little memory.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// Each task, and the position of the next task in its queue, or [`NONE`].
    nodes: Vec<(Task, u32)>,
    /// The first free list node; each free one has the position of the next one, like a
    /// queued task.
    free: Option<u32>,
}

impl Tasks {
    fn insert(&mut self, task: Task) -> u32 {
        match self.free {
            Some(at) => {
                let node = &mut self.nodes[at as usize];
                self.free = (node.1 != NONE).then_some(node.1);
                *node = (task, NONE);
                at
            }
            None => {
                self.nodes.push((task, NONE));
                self.nodes.len() as u32 - 1
            }
        }
    }

    /// Removes the task at position `at`; returns it and the position of the next task in
    /// its queue.
    fn remove(&mut self, at: u32) -> (Task, u32) {
        let node = &mut self.nodes[at as usize];
        let out = *node;
        node.1 = self.free.unwrap_or(NONE);
        self.free = Some(at);
        out
    }
}

/// The tasks of one job in one queue, a list in order of arrival.
#[derive(Clone, Copy, Debug)]
struct Part {
    job: u32,
    head: u32,
    tail: u32,
}

/// A queue of tasks, grouped by job.
#[derive(Debug, Default)]
pub(super) struct JobQueue {
    /// The waiting tasks of each job that has any, oldest job first.
    parts: Vec<Part>,
    len: u32,
}

impl JobQueue {
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Appends a task. All tasks of a job must arrive together.
    pub fn push(&mut self, tasks: &mut Tasks, task: Task) {
        let at = tasks.insert(task);
        match self.parts.last_mut() {
            Some(part) if part.job == task.job => {
                tasks.nodes[part.tail as usize].1 = at;
                part.tail = at;
            }
            _ => self.parts.push(Part {
                job: task.job,
                head: at,
                tail: at,
            }),
        }
        self.len += 1;
    }

    /// Removes and returns the first task of the job with the fewest running tasks; among
    /// equals, of the oldest job. `None` if the queue is empty. `running[j]` is the number of
    /// running tasks of job j.
    pub fn pop_fewest(&mut self, tasks: &mut Tasks, running: &[u32]) -> Option<Task> {
        let mut best = (u32::MAX, 0);
        for (at, part) in self.parts.iter().enumerate() {
            let runs = running[part.job as usize];
            if runs < best.0 {
                best = (runs, at);
                if runs == 0 {
                    break;
                }
            }
        }
        let part = self.parts.get_mut(best.1)?;
        let (task, next) = tasks.remove(part.head);
        if next == NONE {
            self.parts.remove(best.1);
        } else {
            part.head = next;
        }
        self.len -= 1;
        Some(task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Job 0 has two running tasks, jobs 1 and 2 have one each. Job 1 comes first because
    /// it is older. Its task then runs, so job 2 comes next. Now all jobs have two, and
    /// job 0 is the oldest.
    #[test]
    fn the_job_with_the_fewest_running_tasks_comes_first_then_the_oldest() {
        let mut tasks = Tasks::default();
        let mut queue = JobQueue::default();
        for (job, index) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)] {
            queue.push(&mut tasks, Task::new(job, index, &[0]));
        }
        let mut running = [2, 1, 1];
        let order: Vec<(u32, u32)> = std::iter::from_fn(|| {
            let task = queue.pop_fewest(&mut tasks, &running)?;
            running[task.job as usize] += 1;
            Some((task.job, task.index))
        })
        .collect();
        assert_eq!(order, [(1, 0), (2, 0), (0, 0), (1, 1), (0, 1)]);
        assert_eq!(queue.len(), 0);
        queue.push(&mut tasks, Task::new(1, 7, &[0]));
        assert_eq!(tasks.nodes.len(), 5, "places are used again");
    }
}
