//! Runs several algorithms on one instance of the problem.

use anyhow::{Result, ensure};
use ebb_scheduler::lp::LpError;
use ebb_scheduler::msjo::{Algorithm, Bound, Instance, Objective, Search};
use ebb_threads::thread_cpu;
use serde::Serialize;

use crate::sim::{Progress, in_parallel};

/// The instance and the algorithms to compare.
#[derive(Clone, Debug)]
pub struct Study {
    pub title: String,
    /// The machines and the jobs.
    pub instance: Instance,
    /// The algorithms; at least one.
    pub algorithms: Vec<Algorithm>,
    /// The relative gap at which COGE, which generates the constraints of the linear programme,
    /// stops; from 0 to below 1.
    pub eps: f64,
    /// The relative gap, above 0, for a second bound: the solver of the converged relaxation, which
    /// has all constraints, stops at this gap. If this is `None`, the study computes no second
    /// bound.
    pub converged: Option<f64>,
    /// The limits of the search of `lp-search`.
    pub search: Search,
}

/// A lower bound on the weighted completion times of every schedule.
#[derive(Clone, Debug, Serialize)]
pub struct MsjoBound {
    /// `jobs` or `tasks`: the bound is on the weighted sum of their completion times.
    pub objective: &'static str,
    /// The accuracy of the bound: the relaxation (linear programme) is solved until `value` is at
    /// least (1 - `eps`) times `no_violation_value`.
    pub eps: f64,
    /// The lower bound on the weighted sum of completion times, in seconds.
    pub value: f64,
    /// The value of a solution of the relaxation that violates none of its constraints. The exact
    /// optimum of the relaxation lies between `value` and this.
    pub no_violation_value: f64,
    /// The number of linear programmes that were solved.
    pub programmes: u32,
    /// The number of constraints on sets of tasks in the last linear programme.
    pub set_rows: usize,
    /// CPU time of the computation of the bound, in seconds.
    pub cpu_s: f64,
}

/// The results of one algorithm.
#[derive(Clone, Debug, Serialize)]
pub struct MsjoRow {
    pub algorithm: &'static str,
    /// `jobs` or `tasks`: the algorithm minimizes the weighted sum of their completion times.
    pub objective: &'static str,
    /// The weighted sum of completion times, in seconds.
    pub value: f64,
    /// The ratio of `value` to the best lower bound; `None` if that bound is 0, for example because
    /// all weights are 0.
    pub over_bound: Option<f64>,
    /// The mean time from release to completion of the jobs, in seconds, without weights.
    pub job_mean_s: f64,
    /// The end of the last task, in seconds.
    pub makespan_s: f64,
    /// CPU time of the algorithm, in seconds, without the computation of the bounds.
    pub cpu_s: f64,
}

/// The results of a study.
#[derive(Clone, Debug, Serialize)]
pub struct MsjoResult {
    pub title: String,
    pub machines: usize,
    pub jobs: usize,
    pub tasks: usize,
    /// The lower bounds. For each objective that an algorithm minimizes, the bound of COGE comes
    /// first. COGE generates constraints of the linear programme until the gap is at most `eps`. If
    /// the study requests it, the bound of the converged relaxation, which has all constraints,
    /// comes second.
    pub bounds: Vec<MsjoBound>,
    /// The results of each algorithm.
    pub rows: Vec<MsjoRow>,
}

impl Study {
    /// Returns the objectives of the algorithms, each once.
    fn objectives(&self) -> Vec<Objective> {
        let both = [Objective::Jobs, Objective::Tasks].into_iter();
        let occurs = |objective: &Objective| {
            let mut all = self.algorithms.iter();
            all.any(|algorithm| algorithm.objective == *objective)
        };
        both.filter(occurs).collect()
    }

    /// Returns the number of computations of a study: its algorithms and its bounds. [`run`]
    /// reports progress once for each of these computations.
    #[must_use]
    pub fn runs(&self) -> usize {
        let bounds = 1 + usize::from(self.converged.is_some());
        self.algorithms.len() + bounds * self.objectives().len()
    }
}

const fn name(objective: Objective) -> &'static str {
    match objective {
        Objective::Jobs => "jobs",
        Objective::Tasks => "tasks",
    }
}

/// Computes the lower bounds, and runs all algorithms, on `threads` threads, at least one.
///
/// # Errors
/// If a linear programme cannot be solved, or an algorithm returns an invalid schedule.
pub fn run(study: &Study, threads: usize, progress: &dyn Progress) -> Result<MsjoResult> {
    let instance = &study.instance;
    // A converged bound has its gap here, and COGE's bound `None`. COGE's comes first for each objective,
    // where `next` below finds it, because schedules start from it.
    let tasks: Vec<(Objective, Option<f64>)> = (study.objectives().into_iter())
        .flat_map(|objective| {
            let whole = study.converged.map(Some).into_iter();
            std::iter::once(None)
                .chain(whole)
                .map(move |eps| (objective, eps))
        })
        .collect();
    // All bounds are known before the first schedule begins. Each has its CPU time by the clock of the
    // thread that computes it, because other threads run meanwhile.
    let solved = in_parallel(&tasks, threads, |&(objective, converged)| {
        let before = thread_cpu();
        let relaxation = Algorithm::relaxation(instance, objective);
        let bound = match converged {
            None => relaxation.coge(study.eps)?,
            Some(eps) => relaxation.converged(eps)?,
        };
        progress.run_done();
        Ok::<_, LpError>((bound, (thread_cpu() - before).as_secs_f64()))
    })?;
    // The bounds of an objective, in the order of `tasks`.
    let of = |objective: Objective| {
        let all = tasks.iter().zip(&solved);
        all.filter(move |((of, _), _)| *of == objective)
            .map(|(_, (bound, _))| bound)
    };
    let bounds = (tasks.iter().zip(&solved)).map(|(&(objective, eps), (bound, cpu_s))| MsjoBound {
        objective: name(objective),
        eps: eps.unwrap_or(study.eps),
        value: bound.value,
        no_violation_value: bound.no_violation_value,
        programmes: bound.iterations,
        set_rows: bound.set_rows,
        cpu_s: *cpu_s,
    });
    let rows = in_parallel(&study.algorithms, threads, |algorithm| {
        let coge = of(algorithm.objective).next().expect("it has been solved");
        // The greatest lower bound is the closest to the optimum.
        let best = of(algorithm.objective).map(|bound| bound.value);
        let row = row(study, *algorithm, coge, best.fold(0.0, f64::max))?;
        progress.run_done();
        Ok::<_, anyhow::Error>(row)
    })?;
    Ok(MsjoResult {
        title: study.title.clone(),
        machines: instance.machines(),
        jobs: instance.jobs.len(),
        tasks: instance.tasks.len(),
        bounds: bounds.collect(),
        rows,
    })
}

fn row(study: &Study, algorithm: Algorithm, coge: &Bound, best: f64) -> Result<MsjoRow> {
    let instance = &study.instance;
    let before = thread_cpu();
    let schedule = algorithm.schedule(instance, coge, study.eps, study.search)?;
    let cpu_s = (thread_cpu() - before).as_secs_f64();
    let checked = schedule.check(instance);
    ensure!(checked.is_ok(), "{}: {checked:?}", algorithm.name);
    let value = schedule.value(instance, algorithm.objective);
    let jobs = 0..instance.jobs.len();
    let flow_s =
        jobs.map(|job| schedule.completion_s(instance, job) - instance.jobs[job].job.submitted_s);
    let ends_s = (0..instance.tasks.len()).map(|task| schedule.end_s(instance, task));
    Ok(MsjoRow {
        algorithm: algorithm.name,
        objective: name(algorithm.objective),
        value,
        over_bound: (best > 0.0).then_some(value / best),
        job_mean_s: flow_s.sum::<f64>() / instance.jobs.len() as f64,
        makespan_s: ends_s.fold(0.0, f64::max),
        cpu_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_scheduler::msjo::{ALGORITHMS, RandomJobs};

    struct Silent;
    impl Progress for Silent {
        fn run_done(&self) {}
    }

    #[test]
    fn every_algorithm_gets_a_row_over_the_best_bound_of_its_objective() {
        let study = Study {
            title: "two jobs".into(),
            instance: RandomJobs::most_random(2).draw(3),
            algorithms: ALGORITHMS.to_vec(),
            eps: 0.3,
            converged: Some(0.01),
            search: Search { tries: 10, seed: 0 },
        };
        let result = run(&study, 2, &Silent).unwrap();
        assert_eq!(study.runs(), ALGORITHMS.len() + 4);
        let objectives: Vec<_> = result.bounds.iter().map(|bound| bound.objective).collect();
        assert_eq!(objectives, ["jobs", "jobs", "tasks", "tasks"]);
        let names: Vec<_> = result.rows.iter().map(|row| row.algorithm).collect();
        assert_eq!(names, ALGORITHMS.map(|algorithm| algorithm.name));
        for row in &result.rows {
            let bounds = result.bounds.iter();
            let of = bounds.filter(|bound| bound.objective == row.objective);
            let best = of.map(|bound| bound.value).fold(0.0, f64::max);
            assert_eq!(row.over_bound, Some(row.value / best));
            assert!(row.value / best >= 1.0 - 1e-6, "{row:?}");
            assert!(row.makespan_s > row.job_mean_s, "{row:?}");
        }
    }
}
