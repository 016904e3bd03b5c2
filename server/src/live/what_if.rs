//! Predicts the end of a hypothetical job, and the jobs that it would make late.
//!
//! The end of the hypothetical job is corrected by the errors of earlier predictions, like that of
//! a running job. The two looks ahead that show the victims are compared as they are. A correction
//! moves all ends by the same factor, without a new decision of the policy. But under overload a
//! policy that plans by goals lets jobs end shortly before their goals, and gives up another job if
//! time gets short. So corrected ends would be past the goals of jobs that the policy saves, in both
//! looks or in one of them.

use std::time::Instant;

use ebb_jobs::JobError;
use ebb_jobs::history::{JobAttempt, JobRecord, RecordState};
use ebb_jobs::launch::TableCheck;
use ebb_jobs::request::JobRequest;
use ebb_scheduler::model::TaskKind;
use ebb_scheduler::runtime::{AttemptOutcome, HypotheticalJob};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Shared;
use super::ahead::Ahead;
use super::prediction::PredictedEnd;
use crate::jobs::ReadJobs;
use crate::node::Node;

/// The most map tasks, and the most reduce tasks, of a hypothetical job that is given by its tasks.
const TASKS_MAX: u32 = 1_000_000;
/// The longest task and the latest goal, in seconds: ten years. The weight has the same bound.
const SECONDS_MAX: f64 = 315_360_000.0;

/// A hypothetical job, described in one of three ways.
#[derive(Debug, Clone, PartialEq)]
pub enum WhatIf {
    /// A job with this request. The number of its tasks follows from the input, their length from
    /// the profile of earlier jobs.
    Job(Box<JobRequest>),
    /// A job with tasks like those of another one.
    Like(LikeJob),
    /// A job with these tasks.
    Tasks(Tasks),
}

/// A hypothetical job with tasks like those of a job that runs or has succeeded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LikeJob {
    /// The id of the job whose tasks the hypothetical job has. That job runs or has succeeded.
    pub like: String,
    /// The goal: the number of seconds from now within which the job is to end. No goal by default.
    #[serde(default)]
    pub goal_s: Option<f64>,
    /// The weight of the job relative to other jobs, for policies that share by weight; 1 by default.
    #[serde(default)]
    pub weight: Option<f64>,
}

/// A job given by the number and length of its tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Tasks {
    /// Number of map tasks, 1 to 1,000,000.
    pub maps: u32,
    /// CPU time of a map task, in seconds.
    pub map_s: f64,
    /// Number of reduce tasks, at most 1,000,000.
    #[serde(default)]
    pub reduces: u32,
    /// CPU time of a reduce task, in seconds; by default that of a map task.
    #[serde(default)]
    pub reduce_s: Option<f64>,
    /// The goal: the number of seconds from now within which the job is to end. No goal by default.
    #[serde(default)]
    pub goal_s: Option<f64>,
    /// The weight of the job relative to other jobs, for policies that share by weight; 1 by default.
    #[serde(default)]
    pub weight: Option<f64>,
}

/// The predicted effect of a hypothetical job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WhatIfAnswer {
    /// The time of the prediction by the server's clock, in milliseconds since 1970. Clients subtract it from
    /// the other times to get durations, because their own clocks may be set differently. Older servers leave
    /// it out.
    #[serde(default)]
    pub now_unix_ms: Option<u64>,
    /// The predicted end, in milliseconds since 1970; null if it is not within a week.
    pub finish_unix_ms: Option<u64>,
    /// The lower bound of the end, in milliseconds since 1970. In 9 of 10 cases, a job ends between
    /// this and `high_unix_ms`. Null if `finish_unix_ms` is null.
    pub low_unix_ms: Option<u64>,
    /// The upper bound of the end, in milliseconds since 1970. In 9 of 10 cases, a job ends between
    /// `low_unix_ms` and this. Null if `finish_unix_ms` is null.
    pub high_unix_ms: Option<u64>,
    /// Whether the job would meet its goal; false also if `finish_unix_ms` is null. Null without a goal.
    pub meets_goal: Option<bool>,
    /// The jobs that would meet their goals without the hypothetical job, and would miss them with it. This
    /// follows from two predictions, which are not corrected by the errors of earlier ones.
    pub victims: Vec<Victim>,
    /// The time that the prediction took, in milliseconds.
    pub answered_in_ms: f64,
}

/// A job that the hypothetical job would make late. The predicted ends here are not corrected by the errors
/// of earlier predictions, so they can differ from the predicted end of the job in the list of jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Victim {
    /// The id of the job.
    pub job_id: String,
    /// The application of the job.
    pub name: String,
    /// The goal of the job, in milliseconds since 1970.
    pub goal_unix_ms: u64,
    /// The predicted end without the hypothetical job, in milliseconds since 1970.
    pub finish_without_unix_ms: u64,
    /// The predicted end with the hypothetical job, in milliseconds since 1970; null if it is not within a
    /// week.
    pub finish_with_unix_ms: Option<u64>,
}

/// Predicts when a hypothetical job would end, and which goals other jobs would miss because of it: see
/// [`Live::what_if`](super::Live::what_if).
pub(super) fn answer(
    shared: &Shared,
    what_if: &WhatIf,
    check: &TableCheck<'_>,
) -> Result<WhatIfAnswer, JobError> {
    let began = Instant::now();
    let node = &shared.node;
    let unknown =
        || JobError::senseless("the server has not measured its load yet: retry in a few seconds");
    let mut ahead = Ahead::of(node, &node.running_jobs()).ok_or_else(unknown)?;
    let job = hypothetical(node, &ahead, what_if, check)?;
    let around = |now_s: f64, finish_s: f64| shared.lock().ledger.around(now_s, finish_s);
    let answer = predicted(&mut ahead, &job, around);
    Ok(WhatIfAnswer {
        answered_in_ms: began.elapsed().as_secs_f64() * 1e3,
        ..answer
    })
}

/// Predicts the effect of `job` on the jobs of `ahead`, and adds it to them. `around` returns the interval around
/// a predicted end; its arguments are the present and that end, in seconds of the runtime's time. In the result,
/// `answered_in_ms` is 0.
fn predicted(
    ahead: &mut Ahead,
    job: &HypotheticalJob,
    around: impl FnOnce(f64, f64) -> PredictedEnd,
) -> WhatIfAnswer {
    let without = ahead.situation.finishes(&ahead.expected);
    let id = ahead.situation.add(job);
    let with = ahead.situation.finishes(&ahead.expected);
    let own = with.iter().find(|finish| finish.job.id == id);
    let own_s = own.and_then(|finish| finish.finish_s);
    let now_s = ahead.situation.now_s;
    let own = own_s.map(|finish_s| around(now_s, finish_s));
    let mut victims = Vec::new();
    for other in &ahead.jobs {
        let (Some(goal), Some(without_s)) = (other.goal, other.finish_s(&without)) else {
            continue;
        };
        let with_s = other.finish_s(&with);
        if loses_its_goal(goal.s, without_s, with_s) {
            victims.push(Victim {
                job_id: other.job_id.clone(),
                name: other.application.clone(),
                goal_unix_ms: goal.unix_ms,
                finish_without_unix_ms: ahead.unix_ms(without_s),
                finish_with_unix_ms: with_s.map(|with_s| ahead.unix_ms(with_s)),
            });
        }
    }
    let meets = |goal_s: f64| own.is_some_and(|own| own.finish_s <= now_s + goal_s);
    WhatIfAnswer {
        now_unix_ms: Some(ahead.unix_ms(now_s)),
        finish_unix_ms: own.map(|own| ahead.unix_ms(own.finish_s)),
        low_unix_ms: own.map(|own| ahead.unix_ms(own.low_s)),
        high_unix_ms: own.map(|own| ahead.unix_ms(own.high_s)),
        meets_goal: job.goal_s.map(meets),
        victims,
        answered_in_ms: 0.0,
    }
}

/// Returns whether a job that would end at `without_s` meets its goal, and would miss it if it ended
/// at `with_s`; `None` stands for an end beyond the horizon.
fn loses_its_goal(goal_s: f64, without_s: f64, with_s: Option<f64>) -> bool {
    without_s <= goal_s && with_s.is_none_or(|with_s| with_s > goal_s)
}

/// Resolves a hypothetical job to the number and length of its tasks.
fn hypothetical(
    node: &Node,
    ahead: &Ahead,
    what_if: &WhatIf,
    check: &TableCheck<'_>,
) -> Result<HypotheticalJob, JobError> {
    match what_if {
        WhatIf::Tasks(tasks) => of_tasks(tasks),
        WhatIf::Like(like) => {
            let found = like_job(node, ahead, &like.like)?;
            Ok(HypotheticalJob {
                goal_s: checked("goal_s", like.goal_s)?,
                weight: checked("weight", like.weight)?.unwrap_or(1.0),
                ..found
            })
        }
        WhatIf::Job(request) => {
            let sized = node.sized(request, check)?;
            Ok(HypotheticalJob {
                maps: sized.maps,
                map_cpu_s: sized.map_task_cpu_s,
                reduces: sized.reduces,
                reduce_cpu_s: sized.reduce_task_cpu_s,
                goal_s: checked("goal_s", request.goal_s)?,
                weight: 1.0,
                cores: Some(sized.cores),
                steps: 1,
            })
        }
    }
}

fn of_tasks(tasks: &Tasks) -> Result<HypotheticalJob, JobError> {
    if !(1..=TASKS_MAX).contains(&tasks.maps) || tasks.reduces > TASKS_MAX {
        let text = format!("a job has 1 to {TASKS_MAX} maps, and at most as many reduces");
        return Err(JobError::senseless(text));
    }
    let map_s = checked("map_s", Some(tasks.map_s))?.unwrap_or(1.0);
    Ok(HypotheticalJob {
        maps: tasks.maps,
        map_cpu_s: map_s,
        reduces: tasks.reduces,
        reduce_cpu_s: checked("reduce_s", tasks.reduce_s)?.unwrap_or(map_s),
        goal_s: checked("goal_s", tasks.goal_s)?,
        weight: checked("weight", tasks.weight)?.unwrap_or(1.0),
        cores: None,
        steps: 1,
    })
}

fn checked(what: &str, value: Option<f64>) -> Result<Option<f64>, JobError> {
    match value {
        Some(value) if !(value > 0.0 && value <= SECONDS_MAX) => Err(JobError::senseless(format!(
            "{what} must be positive and at most {SECONDS_MAX}, got {value}"
        ))),
        value => Ok(value),
    }
}

/// Returns a hypothetical job with tasks like those of the job `id`. If that job does not run, the number
/// and length of the tasks follow from its successful attempts in the history.
fn like_job(node: &Node, ahead: &Ahead, id: &str) -> Result<HypotheticalJob, JobError> {
    let record = node.job(id)?;
    let running = (ahead.jobs.iter()).find(|job| job.job_id == record.id);
    if let Some(job) = running
        && let Some(like) = ahead.situation.like(job.id)
    {
        let steps = job.steps.max(1);
        return Ok(HypotheticalJob { steps, ..like });
    }
    let attempts = node.attempts(&record.id)?;
    of_attempts(&record, &attempts)
}

/// Returns a hypothetical job with tasks like those of a job that does not run, from its attempts
/// in the history.
///
/// # Errors
/// When the history may lack tasks of the job: for a job that ended early, nothing else has the
/// numbers of its maps, reduces and steps. The end predicted from fewer tasks would be too early.
fn of_attempts(record: &JobRecord, attempts: &[JobAttempt]) -> Result<HypotheticalJob, JobError> {
    let id = &record.id;
    let steps = attempts.iter().map(|attempt| attempt.job).max();
    let steps = steps.unwrap_or(1).max(1);
    // The tasks of a step, and the mean CPU time of one.
    let tasks = |kind: TaskKind| {
        let done = attempts.iter().map(|attempt| &attempt.record);
        let done = done.filter(|attempt| attempt.outcome == AttemptOutcome::Done);
        let (mut count, mut cpu_s) = (0_u64, 0.0);
        for attempt in done.filter(|attempt| attempt.kind == kind) {
            count += 1;
            cpu_s += attempt.cpu_s;
        }
        let each_s: f64 = cpu_s / count.max(1) as f64;
        (count.div_ceil(steps) as u32, each_s.max(1e-6))
    };
    let ((maps, map_cpu_s), (reduces, reduce_cpu_s)) =
        (tasks(TaskKind::Map), tasks(TaskKind::Reduce));
    if maps == 0 {
        let text = format!(
            "job {id} has no finished map task to predict from: name another job, or give the number of maps and the time of one"
        );
        return Err(JobError::senseless(text));
    }
    if record.state != RecordState::Succeeded || record.attempts_dropped > 0 {
        let text = format!(
            "job {id} has not succeeded, or the history lacks some of its tasks: name another job, \
             or give the number of maps and the time of one"
        );
        return Err(JobError::senseless(text));
    }
    Ok(HypotheticalJob {
        maps,
        map_cpu_s,
        reduces,
        reduce_cpu_s,
        goal_s: None,
        weight: 1.0,
        cores: record.request().ok().and_then(|request| request.cores),
        steps: steps as u32,
    })
}

#[cfg(test)]
mod tests {
    use ebb_jobs::history::MaintenanceOptions;
    use serde_json::json;

    use super::super::ahead::testing;
    use super::super::prediction::Ledger;
    use super::*;

    fn done(kind: &str, index: u32, cpu_s: f64) -> JobAttempt {
        let attempt = json!({
            "job": 1, "kind": kind, "index": index, "attempt": 1, "started_s": 0.0, "ended_s": 9.0,
            "cpu_s": cpu_s, "shuffle_cpu_s": 0.0, "bytes_in": 1, "bytes_out": 1, "spilled_bytes": 0,
            "memory_bytes_max": 1, "outcome": {"kind": "done"},
        });
        serde_json::from_value(attempt).unwrap()
    }

    /// Regression: a job like a cancelled one had only the tasks that were done before its end.
    #[test]
    fn a_job_is_like_another_one_only_if_all_tasks_of_that_one_are_known() {
        let attempts = [
            done("map", 0, 1.0),
            done("map", 1, 3.0),
            done("reduce", 0, 5.0),
        ];
        let options = MaintenanceOptions {
            by: "a test".to_string(),
            rate_bytes_per_s: None,
        };
        let record = |state, attempts_dropped| JobRecord {
            state,
            attempts_dropped,
            ..JobRecord::of_verification("1".to_string(), &options, 1)
        };
        let whole = of_attempts(&record(RecordState::Succeeded, 0), &attempts).unwrap();
        assert_eq!((whole.maps, whole.map_cpu_s), (2, 2.0));
        assert_eq!((whole.reduces, whole.reduce_cpu_s), (1, 5.0));
        for (state, dropped) in [
            (RecordState::Cancelled, 0),
            (RecordState::Failed, 0),
            (RecordState::Started, 0),
            (RecordState::Succeeded, 1),
        ] {
            let refused = of_attempts(&record(state, dropped), &attempts);
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("has not succeeded"), "{refused}");
        }
    }

    /// Regression: only the limit of a job that still ran was kept.
    #[test]
    fn a_job_like_one_that_has_ended_has_the_same_limit_of_cores() {
        let request = |cores: Option<u32>| {
            let request = json!({
                "application": {"pi": {"points": 1, "seed": 1, "variant": "plain"}},
                "output": {"to": {"file": "pi.tsv"}}, "directory": "/", "cores": cores,
            });
            JobRequest::from_json(request).unwrap()
        };
        for cores in [None, Some(1)] {
            let record = JobRecord {
                state: RecordState::Succeeded,
                ..JobRecord::new("1".to_string(), &request(cores), Vec::new(), 1)
            };
            let like = of_attempts(&record, &[done("map", 0, 1.0)]).unwrap();
            assert_eq!(like.cores, cores);
        }
    }

    /// Three jobs of 10 s of CPU share two cores in equal parts: they end after some 15 s, and after 20 s beside a
    /// fourth job. The goal of 18 s is missed only beside the fourth job, and the goal of 1 s in any case.
    #[test]
    fn a_job_that_only_the_hypothetical_one_makes_late_is_its_victim() {
        let job = |maps: u32, goal_s: Option<f64>| HypotheticalJob {
            goal_s,
            ..testing::job(maps)
        };
        let jobs = [Some(18.0), Some(1.0), None].map(|goal_s| job(10, goal_s));
        let mut ahead = testing::ahead_of(&jobs);
        let ledger = Ledger::default();
        let around = |now_s: f64, finish_s: f64| ledger.around(now_s, finish_s);
        let answer = predicted(&mut ahead, &job(100, Some(30.0)), around);
        let [victim] = &answer.victims[..] else {
            panic!("{answer:?}");
        };
        assert_eq!((&victim.job_id[..], &victim.name[..]), ("1", "wordcount"));
        let now_unix_ms = answer.now_unix_ms.unwrap();
        let after_ms = |unix_ms: u64| unix_ms - now_unix_ms;
        assert_eq!(after_ms(victim.goal_unix_ms), 18_000);
        let without_ms = after_ms(victim.finish_without_unix_ms);
        assert!((14_000..17_000).contains(&without_ms), "{answer:?}");
        let with_ms = after_ms(victim.finish_with_unix_ms.unwrap());
        assert!((19_000..21_000).contains(&with_ms), "{answer:?}");
        // All four need 130 s of CPU.
        let own_ms = after_ms(answer.finish_unix_ms.unwrap());
        assert!((64_000..67_000).contains(&own_ms), "{answer:?}");
        assert_eq!(answer.meets_goal, Some(false));
    }

    #[test]
    fn a_job_that_is_late_in_any_case_is_no_victim() {
        for (without_s, with_s, is_victim) in [
            (9.0, Some(9.5), false),
            (9.0, Some(10.0), false),
            (9.0, Some(10.5), true),
            (9.0, None, true),
            (10.5, Some(11.0), false),
            (10.5, Some(9.0), false),
            (10.5, None, false),
        ] {
            let found = loses_its_goal(10.0, without_s, with_s);
            assert_eq!(found, is_victim, "{without_s} without, {with_s:?} with");
        }
    }
}
