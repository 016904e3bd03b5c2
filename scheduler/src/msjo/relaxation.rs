//! The relaxation as a linear programme, and COGE: constraints generated as they are
//! violated (Algorithm 1).
//!
//! ```text
//!   precedence, releases (1)-(3) ──> solve ──> order by middle finish time
//!        ▲                                          │
//!        └── prefixes of that order that are violated, until none is, or
//!            what is lost is at most a part eps
//! ```
//!
//! Start times of a schedule satisfy, for each set B of tasks that share |M| machines,
//! equation (4): the sum of p S over B is at least (sum p)^2 / 2|M| - (sum p^2) / 2. Of
//! all sets, those violated most are prefixes of the tasks sorted by middle finish time
//! S + p/2, so that a solution without a violated prefix satisfies all of (4).
//!
//! | file | what it holds |
//! | --- | --- |
//! | `by_jobs` | the programme for jobs: a variable for each job |
//! | `by_tasks` | the programme for tasks: a variable for each task |
//! | `cuts` | which violated prefixes become rows, and which rows are dropped again |
//! | `solved` | the solution of a programme |

mod by_jobs;
mod by_tasks;
mod cuts;
mod solved;

use super::instance::Instance;
use super::schedule::Objective;
use crate::lp::LpError;
use by_jobs::ByJobs;
use by_tasks::ByTasks;
use cuts::{Chain, Cuts, Row};
use solved::Solved;
use std::borrow::Cow;

/// Violations of an inequality that are smaller than this fraction of its right side, or of 1 if
/// that is larger, are ignored: the errors of the solver are as large.
const VIOLATION_MIN: f64 = 1e-5;

/// The largest number of linear programmes that are solved for one relaxation. If constraints are
/// still violated after that, the violations are errors of the solver.
const ITERATIONS_MAX: u32 = 300;

/// Tasks that share machines.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// The positions of the tasks in the instance.
    pub tasks: Vec<usize>,
    /// The number of machines that the tasks share.
    pub machines: usize,
}

/// The kind of inequality that a relaxation requires for each set of tasks that share machines (a
/// pool): a lower bound on the sum of length times start, or length times end, over the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inequality {
    /// Equation (4) of Ling et al.: for lengths p and starts S of a set of tasks on |M| machines,
    /// the sum of p S is at least (sum p)^2 / 2|M| - (sum p^2) / 2.
    StartTimes,
    /// Equation (13) of Ling et al.: for lengths p and completion times C of a set of tasks on |M|
    /// machines, the sum of p C is at least ((sum p)^2 + sum p^2) / 2|M|. With more than one
    /// machine it is weaker than the inequality on start times.
    CompletionTimes,
}

impl Inequality {
    /// Returns the right side of the inequality for a set of tasks: a lower bound on the sum of
    /// length times start. [`Self::CompletionTimes`] is converted to start times. `sum` is the sum
    /// of the tasks' lengths, `squares` that of the squared lengths.
    fn right_side(self, machines: f64, sum: f64, squares: f64) -> f64 {
        let shared = sum * sum / (2.0 * machines);
        match self {
            Self::StartTimes => shared - squares / 2.0,
            Self::CompletionTimes => shared + squares / (2.0 * machines) - squares,
        }
    }

    /// Returns the sort key of a task that starts at `start_s` and takes `length_s`, both in
    /// seconds, in a pool with `machines` machines. If any set of the pool's tasks violates this
    /// inequality, the set that violates it most consists of the first tasks in ascending order of
    /// their keys.
    fn key(self, machines: f64, start_s: f64, length_s: f64) -> f64 {
        match self {
            Self::StartTimes => start_s + length_s / 2.0,
            Self::CompletionTimes => start_s + length_s - length_s / (2.0 * machines),
        }
    }
}

/// A relaxation: a linear programme that minimises the objective of an instance. Instead of
/// running each task on one machine, it only requires an [`Inequality`] for each set of
/// tasks that share machines.
#[derive(Clone, Debug, PartialEq)]
pub struct Relaxation<'a> {
    /// The jobs, tasks and machines.
    pub instance: &'a Instance,
    /// The objective to minimise.
    pub objective: Objective,
    /// The sets of tasks that share machines. In the problem of Ling et al. (MSJO) all tasks share
    /// all machines: one pool.
    pub pools: Vec<Pool>,
    /// The kind of inequality that every set of tasks in a pool must satisfy.
    pub inequality: Inequality,
}

/// A lower bound on the objective of all schedules, by constraint generation (COGE in Ling et al.):
/// linear programmes are solved one after another, and constraints that the solution of one
/// violates are added to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The lower bound: the value of the last linear programme. No schedule that keeps tasks to the
    /// machines of their pools has a smaller value.
    pub value: f64,
    /// The start times in the solution of the last linear programme (S^LP in Ling et al.), in
    /// seconds.
    pub start_s: Vec<f64>,
    /// An upper bound on the optimum of the relaxation with all its constraints: the smallest
    /// objective of all start times found that violate no constraint. Each linear programme yields
    /// such times: those of its solution, raised until no constraint is violated.
    pub no_violation_value: f64,
    /// The number of linear programmes solved.
    pub iterations: u32,
    /// The number of constraints on sets of tasks in the last linear programme.
    pub set_rows: usize,
    /// Whether the start times in `start_s` violate no constraint. Theorem 3 of Ling et al. (MarS
    /// is at most 3 times as bad as the bound) assumes this.
    pub all_hold: bool,
}

impl<'a> Relaxation<'a> {
    /// Returns the relaxation of the problem of Ling et al. (MSJO), their equations (1) to (4):
    /// every task may run on every machine.
    #[must_use]
    pub fn msjo(instance: &'a Instance, objective: Objective) -> Self {
        let all = Pool {
            tasks: (0..instance.tasks.len()).collect(),
            machines: instance.machines(),
        };
        Self {
            instance,
            objective,
            pools: vec![all],
            inequality: Inequality::StartTimes,
        }
    }

    /// Runs COGE, the constraint generation of Ling et al.: solves linear programmes, and adds
    /// constraints until none is violated, or until the value is at least (1 - `eps`) times
    /// [`Bound::no_violation_value`]. After 300 programmes it stops in any case. `eps` is at least
    /// 0 and less than 1; Ling et al. take 0.3. With 0, COGE stops when violations are as small as
    /// the solver's errors.
    ///
    /// # Errors
    /// When the solver finds no solution: lengths that differ by many orders of magnitude.
    pub fn coge(&self, eps: f64) -> Result<Bound, LpError> {
        self.generate(eps, Cuts::COGE)
    }

    /// Solves the relaxation with all its constraints to the relative precision `eps`, which is
    /// positive; after 300 linear programmes it stops in any case. The optimum of the relaxation
    /// lies between [`Bound::value`] and [`Bound::no_violation_value`]. Each round adds other
    /// constraints than [`Self::coge`] does, so that fewer linear programmes have to be solved.
    ///
    /// # Errors
    /// As [`Self::coge`].
    pub fn converged(&self, eps: f64) -> Result<Bound, LpError> {
        self.generate(eps, Cuts::CONVERGED)
    }

    fn generate(&self, eps: f64, cuts: Cuts) -> Result<Bound, LpError> {
        if self.instance.tasks.is_empty() {
            return Ok(Bound {
                value: 0.0,
                start_s: Vec::new(),
                no_violation_value: 0.0,
                iterations: 0,
                set_rows: 0,
                all_hold: true,
            });
        }
        // Equation (4) is weak if the times are long after 0. It holds with any origin
        // before which nothing can start, so times count from the first possible start.
        let first_s = first_start_s(self.instance);
        let instance = from_time(self.instance, first_s);
        let shifted = Relaxation {
            instance: &instance,
            pools: self.pools.clone(),
            ..*self
        };
        let mut bound = shifted.generate_from_0(eps, cuts)?;
        let weight: f64 = match self.objective {
            Objective::Jobs => instance.jobs.iter().map(|job| job.job.weight).sum(),
            Objective::Tasks => instance.tasks.iter().map(|task| task.weight).sum(),
        };
        bound.value += weight * first_s;
        bound.no_violation_value += weight * first_s;
        for start_s in &mut bound.start_s {
            *start_s += first_s;
        }
        Ok(bound)
    }

    fn generate_from_0(&self, eps: f64, cuts: Cuts) -> Result<Bound, LpError> {
        let programme = Programme::new(self);
        let mut chains = Vec::<Chain>::new();
        let (mut iterations, mut best) = (0, f64::NEG_INFINITY);
        let mut no_violation: Option<(f64, Vec<f64>)> = None;
        loop {
            iterations += 1;
            let Solved { value, start_s } = programme.solve(&chains)?;
            let set_rows = chains.iter().map(|chain| chain.rows.len()).sum();
            // Rows are dropped only while the value rises, or the same ones would come and
            // go.
            if cuts.drop_slack && value > best * (1.0 + 1e-5) {
                for chain in &mut chains {
                    chain.drop_slack(self.instance, &start_s);
                }
                chains.retain(|chain| !chain.rows.is_empty());
            }
            best = best.max(value);
            let halfway = (no_violation.as_ref())
                .filter(|_| cuts.halfway)
                .map(|(_, other_s)| mean(&start_s, &programme.late(other_s)));
            let before = chains.len();
            let raised = self.separate(&start_s, cuts, &mut chains);
            let all_hold = chains.len() == before;
            let mut feasible = vec![raised];
            if let Some(halfway_s) = halfway.filter(|_| !all_hold) {
                feasible.push(self.separate(&halfway_s, cuts, &mut chains));
            }
            for raised_s in feasible {
                let value = self.value(&raised_s);
                if no_violation.as_ref().is_none_or(|(best, _)| value < *best) {
                    no_violation = Some((value, raised_s));
                }
            }
            let no_violation_value = no_violation.as_ref().map_or(value, |(value, _)| *value);
            let near = value >= (1.0 - eps) * no_violation_value;
            if all_hold || near || iterations == ITERATIONS_MAX {
                return Ok(Bound {
                    value,
                    start_s,
                    no_violation_value,
                    iterations,
                    set_rows,
                    all_hold,
                });
            }
        }
    }

    /// Finds the constraints that the start times `start_s` violate, and appends those that `cuts`
    /// chooses to `chains`: at least one if any is violated. Returns the start times raised until
    /// they violate no constraint.
    fn separate(&self, start_s: &[f64], cuts: Cuts, chains: &mut Vec<Chain>) -> Vec<f64> {
        let mut raised_s = start_s.to_vec();
        for pool in &self.pools {
            let order = self.order(pool, start_s);
            let violated = self.violated(pool, &order, start_s, &mut raised_s);
            if !violated.is_empty() {
                chains.push(Chain {
                    machines: pool.machines,
                    order,
                    rows: cuts.chosen(&violated, self.pools.len()),
                });
            }
        }
        raised_s
    }

    /// Returns the pool's tasks sorted by [`Inequality::key`]; tasks with equal keys are ordered by
    /// position. Only the prefixes of this order need to be checked: if they satisfy the
    /// inequality, all sets of tasks do.
    fn order(&self, pool: &Pool, start_s: &[f64]) -> Vec<usize> {
        let machines = pool.machines as f64;
        let key = |at: usize| {
            let length_s = self.instance.tasks[at].length_s;
            self.inequality.key(machines, start_s[at], length_s)
        };
        let mut order = pool.tasks.clone();
        order.sort_by(|&a, &b| key(a).total_cmp(&key(b)).then(a.cmp(&b)));
        order
    }

    /// Checks, for each prefix of `order`, that the sum of length times start is at least
    /// [`Inequality::right_side`]. Returns the violated prefixes, ascending, each with its right
    /// side.
    ///
    /// Writes to `raised_s` start times that violate no prefix: where the sum of a prefix is too
    /// small by some amount, its last task and all later tasks start later by that amount divided
    /// by the last task's length.
    fn violated(
        &self,
        pool: &Pool,
        order: &[usize],
        start_s: &[f64],
        raised_s: &mut [f64],
    ) -> Vec<Row> {
        let machines = pool.machines as f64;
        let (mut sum, mut squares) = (0.0, 0.0);
        let (mut left, mut raised_left) = (0.0, 0.0);
        let mut offset_s = 0.0_f64;
        let mut violated = Vec::new();
        for (at, &task) in order.iter().enumerate() {
            let length_s = self.instance.tasks[task].length_s;
            sum += length_s;
            squares += length_s * length_s;
            left += length_s * start_s[task];
            raised_left += length_s * (start_s[task] + offset_s);
            let right = self.inequality.right_side(machines, sum, squares);
            if left < right - VIOLATION_MIN * right.abs().max(1.0) {
                violated.push(Row {
                    length: at + 1,
                    right,
                });
            }
            if raised_left < right {
                offset_s += (right - raised_left) / length_s;
                raised_left = right;
            }
            raised_s[task] = start_s[task] + offset_s;
        }
        violated
    }

    /// Returns the value of the objective if the tasks start at `start_s`.
    fn value(&self, start_s: &[f64]) -> f64 {
        let instance = self.instance;
        let end_s = |at: usize| start_s[at] + instance.tasks[at].length_s;
        match self.objective {
            Objective::Jobs => (instance.jobs.iter())
                .map(|job| job.job.weight * job.last_tasks().map(end_s).fold(0.0, f64::max))
                .sum(),
            Objective::Tasks => (instance.tasks.iter().enumerate())
                .map(|(at, task)| task.weight * end_s(at))
                .sum(),
        }
    }
}

/// Returns the earliest time at which any task can start.
fn first_start_s(instance: &Instance) -> f64 {
    let released_s = instance.tasks.iter().map(|task| task.released_s);
    let free_s = instance.free_s.iter().copied();
    let first_s = released_s.fold(f64::INFINITY, f64::min);
    first_s.max(free_s.fold(f64::INFINITY, f64::min))
}

/// Returns the instance with times that count from `first_s`; earlier times become 0.
fn from_time(instance: &Instance, first_s: f64) -> Cow<'_, Instance> {
    if first_s == 0.0 {
        return Cow::Borrowed(instance);
    }
    let mut instance = instance.clone();
    let free_s = instance.free_s.iter_mut();
    let submitted_s = instance.jobs.iter_mut().map(|job| &mut job.job.submitted_s);
    let released_s = instance.tasks.iter_mut().map(|task| &mut task.released_s);
    for time_s in free_s.chain(submitted_s).chain(released_s) {
        *time_s = (*time_s - first_s).max(0.0);
    }
    Cow::Owned(instance)
}

fn mean(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter()
        .zip(b)
        .map(|(a, b)| f64::midpoint(*a, *b))
        .collect()
}

#[derive(Debug)]
enum Programme<'a> {
    Jobs(ByJobs<'a>),
    Tasks(ByTasks<'a>),
}

impl<'a> Programme<'a> {
    fn new(relaxation: &Relaxation<'a>) -> Self {
        match relaxation.objective {
            Objective::Jobs => Self::Jobs(ByJobs::new(relaxation.instance)),
            Objective::Tasks => Self::Tasks(ByTasks::new(relaxation.instance)),
        }
    }

    fn solve(&self, chains: &[Chain]) -> Result<Solved, LpError> {
        match self {
            Self::Jobs(programme) => programme.solve(chains),
            Self::Tasks(programme) => programme.solve(chains),
        }
    }

    /// Returns the latest start times that do not delay the end of any job. They have the same
    /// objective as `start_s`, and violate no constraint more than `start_s` does. For
    /// [`Objective::Tasks`], returns `start_s` unchanged.
    fn late(&self, start_s: &[f64]) -> Vec<f64> {
        match self {
            Self::Jobs(programme) => programme.late(start_s),
            Self::Tasks(_) => start_s.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::{job, one_job};
    use super::*;

    /// One machine; a map of 1 s of a job of weight 1, and one of 3 s of a job of weight 9. At the
    /// optimum the long map runs first: 9 * 3 + 1 * 4 = 31. Without constraints on sets of tasks
    /// (`set_rows`) both would start at 0: 9 * 3 + 1 * 1 = 28.
    #[test]
    fn rows_are_added_until_none_is_violated() {
        let jobs = vec![
            job(0, 0.0, 1.0, &[(1.0, 0.0)], &[]),
            job(1, 0.0, 9.0, &[(3.0, 0.0)], &[]),
        ];
        let instance = Instance::new(1, jobs).unwrap();
        let relaxation = Relaxation::msjo(&instance, Objective::Jobs);
        for bound in [relaxation.coge(0.0), relaxation.converged(1e-4)] {
            let bound = bound.unwrap();
            assert!((bound.value - 31.0).abs() < 1e-2, "{bound:?}");
            assert!((bound.start_s[0] - 3.0).abs() < 1e-2);
            assert!(bound.iterations > 1 && bound.set_rows > 0);
        }
        // 28 is less than 0.9 times the value that satisfies the rows, but more than 0.67
        // times.
        let early = relaxation.coge(0.3).unwrap();
        assert!((early.value - 28.0).abs() < 1e-4 && !early.all_hold);
        assert_eq!(early.iterations, 1);
        assert!(early.no_violation_value >= 31.0 - 1e-6);
    }

    /// With enough machines only precedence counts. The job is released at 2 s; its longest chain
    /// is a map of 4 s, 1 s until the output arrives, and a reduce of 3 s: it ends at 10 s.
    #[test]
    fn precedence_alone_gives_the_longest_chain() {
        let instance = one_job(5, 2.0, &[(4.0, 1.0), (2.0, 0.5)], &[3.0]);
        let bound = Relaxation::msjo(&instance, Objective::Jobs)
            .coge(0.0)
            .unwrap();
        assert!((bound.value - 10.0).abs() < 1e-5 && bound.all_hold);
        // Completions of tasks: 6, 4 and 10.
        let bound = Relaxation::msjo(&instance, Objective::Tasks)
            .coge(0.0)
            .unwrap();
        assert!((bound.value - 20.0).abs() < 1e-5);
    }
}
