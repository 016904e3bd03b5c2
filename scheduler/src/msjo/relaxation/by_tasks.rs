//! The programme of an objective of tasks: a variable for the start of each task.
//!
//! The rows of one order share a chain of variables, each at most the previous one plus p S
//! of the tasks added, instead of a dense triangle of rows.

use super::cuts::Chain;
use super::solved::Solved;
use crate::lp::{LinearProgramme, LpError, Variable};
use crate::model::TaskKind;
use crate::msjo::instance::Instance;

/// The linear programme for `Objective::Tasks`. It has equations (1) and (2) of Ling et al.: no
/// task starts before its release, and no reduce before the outputs of its job's maps have arrived.
#[derive(Debug)]
pub(super) struct ByTasks<'a> {
    instance: &'a Instance,
    lp: LinearProgramme,
    /// S: the start of each task.
    starts: Vec<Variable>,
    /// The sum of weight times length over all tasks: the objective counts the ends of tasks, and the
    /// variables are their starts.
    constant: f64,
}

impl<'a> ByTasks<'a> {
    /// Builds the programme. A job with maps and reduces also gets a variable for the time at which
    /// the outputs of all its maps have arrived. Precedence then takes one constraint for each task
    /// instead of one for each pair of a map and a reduce.
    pub fn new(instance: &'a Instance) -> Self {
        let tasks = &instance.tasks;
        let mut lp = LinearProgramme::default();
        let starts: Vec<Variable> = tasks.iter().map(|task| lp.variable(task.weight)).collect();
        for job in &instance.jobs {
            let barrier =
                (!job.maps.is_empty() && !job.reduces.is_empty()).then(|| lp.variable(0.0));
            for at in job.tasks() {
                let (task, start) = (&tasks[at], starts[at]);
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
            }
        }
        Self {
            instance,
            lp,
            starts,
            constant: tasks.iter().map(|task| task.weight * task.length_s).sum(),
        }
    }

    pub fn solve(&self, chains: &[Chain]) -> Result<Solved, LpError> {
        let mut lp = self.lp.clone();
        for chain in chains {
            self.add(chain, &mut lp);
        }
        let solution = lp.minimise()?;
        Ok(Solved {
            value: solution.value + self.constant,
            start_s: self.starts.iter().map(|&start| solution[start]).collect(),
        })
    }

    fn add(&self, chain: &Chain, lp: &mut LinearProgramme) {
        let (tasks, order) = (&self.instance.tasks, &chain.order);
        // Sums are measured in mean tasks, so that all variables are about as large as
        // times.
        let work_s: f64 = order.iter().map(|&at| tasks[at].length_s).sum();
        let unit_s = work_s / order.len() as f64 * chain.machines as f64;
        let mut before: Option<(usize, Variable)> = None;
        for row in &chain.rows {
            let sum = lp.variable(0.0);
            let from = before.map_or(0, |(length, _)| length);
            let own = order[from..row.length].iter().map(|&at| {
                let part = tasks[at].length_s / unit_s;
                (self.starts[at], -part)
            });
            let terms = before.map(|(_, before)| (before, -1.0)).into_iter();
            let terms: Vec<_> = terms.chain(own).chain([(sum, 1.0)]).collect();
            lp.at_most(terms, 0.0);
            lp.at_least([(sum, 1.0)], row.right / unit_s);
            before = Some((row.length, sum));
        }
    }
}
