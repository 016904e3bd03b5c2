//! Semi-online scheduling (section 5.3): each batch interval ends with a plan for the jobs
//! that have arrived.

use super::instance::{Instance, JobTasks};
use super::schedule::Schedule;
use crate::model::NodeId;

/// The tasks that are to be planned at the end of a batch interval: those that have arrived and
/// have not started.
struct Rest {
    instance: Instance,
    /// For each task of `instance`, its position in the instance with all jobs, including those
    /// that arrive later.
    whole: Vec<usize>,
}

/// Returns the schedule that results if jobs become known only at their release. At the end of each
/// interval of `interval_s` seconds in which jobs were released, all tasks that are released and
/// have not started are planned again. Tasks run as in the latest plan. With `plan` by
/// [`super::mars()`] this is SO-MarS.
///
/// # Errors
/// The first error of `plan`.
///
/// # Panics
/// When `interval_s` is not positive.
pub fn semi_online<E>(
    instance: &Instance,
    interval_s: f64,
    mut plan: impl FnMut(&Instance) -> Result<Schedule, E>,
) -> Result<Schedule, E> {
    assert!(interval_s > 0.0, "an interval takes time");
    // A task that is not planned yet counts as not started.
    let mut whole = Schedule {
        start_s: vec![f64::INFINITY; instance.tasks.len()],
        node: vec![NodeId(0); instance.tasks.len()],
    };
    // A job that is submitted at the very end of an interval belongs to the next one. Jobs are
    // assigned to intervals by number, because the computed end of an interval may equal the
    // submission of a job in it.
    let interval_of = |job: &JobTasks| (job.job.submitted_s / interval_s).floor();
    let mut intervals: Vec<f64> = instance.jobs.iter().map(interval_of).collect();
    intervals.sort_by(f64::total_cmp);
    intervals.dedup();
    for interval in intervals {
        let now_s = (interval + 1.0) * interval_s;
        let is_submitted = |job: &JobTasks| interval_of(job) <= interval;
        let rest = rest(instance, &whole, now_s, is_submitted);
        let planned = plan(&rest.instance)?;
        for (at, &task) in rest.whole.iter().enumerate() {
            whole.start_s[task] = planned.start_s[at];
            whole.node[task] = planned.node[at];
        }
    }
    Ok(whole)
}

/// Returns the problem that is left at `now_s`: the tasks of the submitted jobs, without the tasks
/// that start before `now_s` in the schedule so far. No job that `is_submitted` accepts may have been
/// submitted after `now_s`.
fn rest(
    instance: &Instance,
    so_far: &Schedule,
    now_s: f64,
    is_submitted: impl Fn(&JobTasks) -> bool,
) -> Rest {
    let started = |at: usize| so_far.start_s[at] < now_s;
    let mut rest = Rest {
        instance: Instance {
            // The plan is made at `now_s`, so nothing starts before that.
            free_s: instance
                .free_s
                .iter()
                .map(|free_s| free_s.max(now_s))
                .collect(),
            jobs: Vec::new(),
            tasks: Vec::new(),
        },
        whole: Vec::new(),
    };
    // Started tasks are not interrupted, and keep their machines until they end.
    for at in (0..instance.tasks.len()).filter(|&at| started(at)) {
        let free_s = &mut rest.instance.free_s[so_far.node[at].0 as usize];
        *free_s = free_s.max(so_far.end_s(instance, at));
    }
    for job in instance.jobs.iter().filter(|job| is_submitted(job)) {
        // For reduces, the arrival of output that is under way is a release.
        let arrivals_s = (job.maps.clone())
            .filter(|&map| started(map))
            .map(|map| so_far.end_s(instance, map) + instance.tasks[map].delay_s);
        let arrived_s = arrivals_s.fold(now_s, f64::max);
        let mut take = |tasks: std::ops::Range<usize>, from_s: f64| {
            let start = rest.instance.tasks.len();
            for at in tasks.filter(|&at| !started(at)) {
                let mut task = instance.tasks[at];
                task.job = rest.instance.jobs.len();
                task.released_s = task.released_s.max(from_s);
                rest.instance.tasks.push(task);
                rest.whole.push(at);
            }
            start..rest.instance.tasks.len()
        };
        let maps = take(job.maps.clone(), now_s);
        let reduces = take(job.reduces.clone(), arrived_s);
        // The reduces follow the maps, so this holds if there is a task of either kind. A job whose
        // tasks have all started is no part of the problem.
        if maps.start < reduces.end {
            rest.instance.jobs.push(JobTasks {
                job: job.job,
                maps,
                reduces,
            });
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::super::example::{job, one_job};
    use super::super::rules::Rule;
    use super::super::schedule::Objective;
    use super::*;

    /// A task that runs when the next plan is made is not interrupted. One machine, a plan every 10
    /// s, high job weights first. Job 0 (weight 1) is released at 0 and planned at 10: its maps run
    /// at 10..18 and 18..26. Job 1 (weight 2) is released at 12 and planned at 20, while job 0's
    /// second map runs: it gets 26..31. Job 0's reduce, whose input has arrived at 27, follows at
    /// 31..34.
    #[test]
    fn tasks_that_run_at_the_end_of_an_interval_run_on() {
        let jobs = vec![
            job(0, 0.0, 1.0, &[(8.0, 1.0), (8.0, 1.0)], &[3.0]),
            job(1, 12.0, 2.0, &[(5.0, 0.0)], &[]),
        ];
        let instance = Instance::new(1, jobs).unwrap();
        let plan = |rest: &Instance| {
            let schedule = Rule::HighJobWeightFirst.planned(rest);
            assert_eq!(schedule.check(rest), Ok(()));
            Ok::<_, ()>(schedule)
        };
        let schedule = semi_online(&instance, 10.0, plan).unwrap();
        assert_eq!(schedule.start_s, [10.0, 18.0, 31.0, 26.0]);
        assert_eq!(schedule.check(&instance), Ok(()));
        assert_eq!(schedule.value(&instance, Objective::Jobs), 34.0 + 62.0);
    }

    /// Regression: a job was never planned if the computed end of its interval was equal to its
    /// submission.
    #[test]
    fn a_job_is_planned_though_the_end_of_its_interval_is_rounded_to_its_submission() {
        for (interval_s, submitted_s) in [(0.1, 0.6), (6.4, 38.4), (0.1, 4.3)] {
            let instance = one_job(1, submitted_s, &[(1.0, 0.0)], &[]);
            let plan = |rest: &Instance| Ok::<_, ()>(Rule::HighJobWeightFirst.planned(rest));
            let schedule = semi_online(&instance, interval_s, plan).unwrap();
            assert_eq!(schedule.check(&instance), Ok(()));
            let start_s = schedule.start_s[0];
            assert!(
                (submitted_s..=submitted_s + interval_s).contains(&start_s),
                "submitted at {submitted_s}, started at {start_s}"
            );
        }
    }
}
