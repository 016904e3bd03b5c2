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
//! Rows of one order share a chain of variables, each at most the one before it plus its
//! own tasks' p S, instead of a dense triangle of rows.

use super::instance::Instance;
use super::schedule::Objective;
use crate::lp::{LinearProgramme, LpError, Variable};
use crate::model::TaskKind;

/// Which violated prefixes of an order become rows.
#[derive(Clone, Copy, Debug)]
struct Cuts {
    /// Every how many-th. Neighbours say nearly the same, and the rest follows in later
    /// rounds if it has to.
    every: usize,
    /// At most so many of one order: rows of many orders meet in the solver's matrices,
    /// which fill up.
    rows_max: usize,
    /// Whether rows of earlier orders go that the last solution is far from.
    drop_slack: bool,
}

impl Cuts {
    /// COGE's: with these the most random scenario comes to the published ratios.
    const COGE: Self = Self {
        every: 8,
        rows_max: usize::MAX,
        drop_slack: false,
    };
    /// To converge.
    const CONVERGED: Self = Self {
        every: 1,
        rows_max: 48,
        drop_slack: true,
    };

    /// Of the `violated` prefixes, by their length, those that become rows: the longest of
    /// each stretch, which says most about the tasks behind it.
    fn chosen(self, violated: &[Row]) -> Vec<Row> {
        let every = self
            .every
            .max(violated.len().div_ceil(self.rows_max.max(1)));
        let mut chosen: Vec<Row> = violated.iter().rev().step_by(every).copied().collect();
        chosen.reverse();
        chosen
    }
}

/// A slack of a row, as a part of its right side, from which on it may go.
const SLACK_MIN: f64 = 1e-3;

/// That the sum of p S over a prefix is at least the right side.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// How many tasks of the order.
    length: usize,
    right: f64,
}

/// Rows of one order of a pool's tasks.
#[derive(Debug)]
struct Chain {
    machines: usize,
    order: Vec<usize>,
    rows: Vec<Row>,
}

impl Chain {
    fn drop_slack(&mut self, instance: &Instance, start_s: &[f64]) {
        let (mut sum, mut at) = (0.0, 0);
        let order = &self.order;
        self.rows.retain(|row| {
            let own = order[at..row.length].iter();
            sum += own
                .map(|&task| instance.tasks[task].length_s * start_s[task])
                .sum::<f64>();
            at = row.length;
            sum - row.right < SLACK_MIN * row.right.abs()
        });
    }
}

/// The smallest violation that counts, as a part of the right side: what the solver's
/// accuracy allows.
const VIOLATION_MIN: f64 = 1e-5;

/// After so many programmes what is left are the solver's errors.
const ITERATIONS_MAX: u32 = 300;

/// Tasks that share machines.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Their positions in the instance.
    pub tasks: Vec<usize>,
    /// How many machines they share.
    pub machines: usize,
}

/// The inequality that holds for each set of tasks of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inequality {
    /// Equation (4), of start times.
    StartTimes,
    /// Equation (13), of completion times: the sum of p C is at least
    /// ((sum p)^2 + sum p^2) / 2|M|. Weaker than (4) with more than one machine.
    CompletionTimes,
}

impl Inequality {
    /// The right side R for the sum of p S, from the sums of p and of p^2.
    fn right_side(self, machines: f64, sum: f64, squares: f64) -> f64 {
        let shared = sum * sum / (2.0 * machines);
        match self {
            Self::StartTimes => shared - squares / 2.0,
            Self::CompletionTimes => shared + squares / (2.0 * machines) - squares,
        }
    }

    /// Sorted by this, prefixes are the sets that are violated most.
    fn key(self, machines: f64, start_s: f64, length_s: f64) -> f64 {
        match self {
            Self::StartTimes => start_s + length_s / 2.0,
            Self::CompletionTimes => start_s + length_s - length_s / (2.0 * machines),
        }
    }
}

/// What to solve.
#[derive(Clone, Debug, PartialEq)]
pub struct Relaxation<'a> {
    /// The instance.
    pub instance: &'a Instance,
    /// What to minimise.
    pub objective: Objective,
    /// Which tasks share machines. One pool of all: MSJO.
    pub pools: Vec<Pool>,
    /// The inequality.
    pub inequality: Inequality,
}

/// What COGE found.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The value of the last linear programme: no schedule has a smaller one (of those
    /// that use the pools).
    pub value: f64,
    /// S^LP: the start times that it comes with, in seconds.
    pub start_s: Vec<f64>,
    /// The least value of the no-violation solutions met: the whole relaxation's is not
    /// above it.
    pub no_violation_value: f64,
    /// Programmes solved.
    pub iterations: u32,
    /// Rows for sets of tasks in the last one.
    pub set_rows: usize,
    /// Whether S^LP violates none of the constraints: what the bound of 3 assumes.
    pub all_hold: bool,
}

impl<'a> Relaxation<'a> {
    /// MSJO's, equations (1) to (4): all tasks share all machines.
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

    /// COGE: adds constraints until none is violated, or the value is at least
    /// (1 - `eps`) times that of the no-violation solution. `eps` from 0 to below 1; the
    /// paper takes 0.3. With 0 it stops when violations are as small as the solver's
    /// errors.
    ///
    /// # Errors
    /// When the solver finds no solution: lengths that differ by many orders of magnitude.
    pub fn coge(&self, eps: f64) -> Result<Bound, LpError> {
        self.generate(eps, Cuts::COGE)
    }

    /// The whole relaxation to a part `eps`, which is positive: its value lies between the
    /// bound's and the no-violation solution's. Other rows than COGE's lead there sooner.
    ///
    /// # Errors
    /// As [`Self::coge`].
    pub fn converged(&self, eps: f64) -> Result<Bound, LpError> {
        self.generate(eps, Cuts::CONVERGED)
    }

    fn generate(&self, eps: f64, cuts: Cuts) -> Result<Bound, LpError> {
        let (base, mut chains) = (Programme::new(self), Vec::<Chain>::new());
        let (mut iterations, mut best) = (0, f64::NEG_INFINITY);
        let mut no_violation_value = f64::INFINITY;
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
        loop {
            iterations += 1;
            let mut programme = base.clone();
            for chain in &chains {
                programme.add(chain, self.instance);
            }
            let solution = programme.lp.minimise()?;
            let value = solution.value + programme.constant;
            let starts = programme.starts.iter();
            let start_s: Vec<f64> = starts.map(|&start| solution[start]).collect();
            let set_rows = chains.iter().map(|chain| chain.rows.len()).sum();
            // Rows go only while the value rises, or the same ones would come and go.
            if cuts.drop_slack && value > best * (1.0 + 1e-5) {
                for chain in &mut chains {
                    chain.drop_slack(self.instance, &start_s);
                }
                chains.retain(|chain| !chain.rows.is_empty());
            }
            best = best.max(value);
            let (mut raised_s, mut all_hold) = (start_s.clone(), true);
            for pool in &self.pools {
                let order = self.order(pool, &start_s);
                let violated = self.violated(pool, &order, &start_s, &mut raised_s);
                if !violated.is_empty() {
                    all_hold = false;
                    chains.push(Chain {
                        machines: pool.machines,
                        order,
                        rows: cuts.chosen(&violated),
                    });
                }
            }
            no_violation_value = no_violation_value.min(self.value(&raised_s));
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

    /// The order of a pool's tasks whose prefixes are looked at, ties by position.
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

    /// The violated prefixes of `order` by their length, with their right sides. Raises
    /// `raised_s`, the no-violation solution, from the last task of each on by as much as
    /// it still lacks.
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

    /// The objective at these start times.
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

    /// Whether start times satisfy equations (1) and (2): what the tests ask of S^LP.
    #[must_use]
    pub fn precedes(&self, start_s: &[f64], tolerance_s: f64) -> bool {
        self.instance.jobs.iter().all(|job| {
            let arrivals_s = job.maps.clone().map(|at| {
                let map = &self.instance.tasks[at];
                start_s[at] + map.length_s + map.delay_s
            });
            let arrived_s = arrivals_s.fold(0.0, f64::max);
            let released_s = |at: usize| self.instance.tasks[at].released_s;
            (job.maps.clone()).all(|map| start_s[map] >= released_s(map) - tolerance_s)
                && (job.reduces.clone()).all(|reduce| {
                    start_s[reduce] >= arrived_s.max(released_s(reduce)) - tolerance_s
                })
        })
    }
}

/// The linear programme.
#[derive(Clone)]
struct Programme {
    lp: LinearProgramme,
    /// S of each task.
    starts: Vec<Variable>,
    /// What the objective has beside its variables.
    constant: f64,
}

impl Programme {
    /// Equations (1) to (3). A variable for each job stands between its maps and its
    /// reduces: maps plus reduces rows instead of maps times reduces.
    fn new(relaxation: &Relaxation<'_>) -> Self {
        let instance = relaxation.instance;
        let mut lp = LinearProgramme::default();
        let mut constant = 0.0;
        let by_tasks = relaxation.objective == Objective::Tasks;
        let starts: Vec<Variable> = (instance.tasks.iter())
            .map(|task| {
                let weight = if by_tasks { task.weight } else { 0.0 };
                constant += weight * task.length_s;
                lp.variable(weight)
            })
            .collect();
        for job in &instance.jobs {
            let barrier =
                (!job.maps.is_empty() && !job.reduces.is_empty()).then(|| lp.variable(0.0));
            let end = (!by_tasks).then(|| lp.variable(job.job.weight));
            for at in job.tasks() {
                let (task, start) = (&instance.tasks[at], starts[at]);
                match (task.id.kind, barrier) {
                    (TaskKind::Map, Some(barrier)) => lp.at_least(
                        [(barrier, 1.0), (start, -1.0)],
                        task.length_s + task.delay_s,
                    ),
                    (TaskKind::Reduce, Some(barrier)) => {
                        lp.at_least([(start, 1.0), (barrier, -1.0)], 0.0);
                    }
                    (_, None) => {}
                }
                let implied = task.id.kind == TaskKind::Reduce
                    && barrier.is_some()
                    && task.released_s <= job.job.submitted_s;
                if !implied {
                    lp.at_least([(start, 1.0)], task.released_s);
                }
                if let Some(end) = end
                    && job.last_tasks().contains(&at)
                {
                    lp.at_least([(end, 1.0), (start, -1.0)], task.length_s);
                }
            }
        }
        Self {
            lp,
            starts,
            constant,
        }
    }

    fn add(&mut self, chain: &Chain, instance: &Instance) {
        let (tasks, order) = (&instance.tasks, &chain.order);
        // Sums are measured in mean tasks, so that all variables are of the size of times.
        let work_s: f64 = order.iter().map(|&at| tasks[at].length_s).sum();
        let unit_s = work_s / order.len() as f64 * chain.machines as f64;
        let mut before: Option<(usize, Variable)> = None;
        for row in &chain.rows {
            let sum = self.lp.variable(0.0);
            let from = before.map_or(0, |(length, _)| length);
            let own = order[from..row.length].iter().map(|&at| {
                let part = tasks[at].length_s / unit_s;
                (self.starts[at], -part)
            });
            let terms = before.map(|(_, before)| (before, -1.0)).into_iter();
            let terms: Vec<_> = terms.chain(own).chain([(sum, 1.0)]).collect();
            self.lp.at_most(terms, 0.0);
            self.lp.at_least([(sum, 1.0)], row.right / unit_s);
            before = Some((row.length, sum));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::{job, one_job};
    use super::*;

    /// One machine, maps of 1 s and 3 s of jobs of weights 1 and 9: the long one first,
    /// 9 * 3 + 1 * 4. Without set rows both start at 0: 9 * 3 + 1.
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
        // 28 is not within a tenth of what satisfies the rows, but within a third.
        let early = relaxation.coge(0.3).unwrap();
        assert!((early.value - 28.0).abs() < 1e-4 && !early.all_hold);
        assert_eq!(early.iterations, 1);
        assert!(early.no_violation_value >= 31.0 - 1e-6);
    }

    /// A chain alone: released at 2, map 4, delay 1, reduce 3.
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
