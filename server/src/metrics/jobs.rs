//! The metrics of jobs: their number by state, their shares, and goals met and missed.

use std::fmt;

use ebb_scheduler::runtime::{JobState, JobStatus};

use super::sheet::{Sheet, write_each};
use crate::node::Node;

pub(super) fn write(sheet: &mut Sheet<'_>, node: &Node) -> fmt::Result {
    let status = node.runtime().status();
    // The status also lists the latest jobs that have ended. Leases are no jobs that clients submitted, and
    // have a gauge of their own below.
    let is_live = |job: &&JobStatus| job.finished_s.is_none() && !job.is_lease;
    let live: Vec<&JobStatus> = status.jobs.iter().filter(is_live).collect();
    let states = [
        (JobState::Waiting, "waiting"),
        (JobState::Running, "running"),
        (JobState::Committing, "committing"),
        (JobState::Stopping, "stopping"),
    ];
    let states = states.map(|(state, name)| {
        let count = live.iter().filter(|job| job.state == state).count();
        ([("state", name)], count as f64)
    });
    sheet.gauges("jobs", "Jobs of the runtime that have not ended", states)?;
    // A dropped lease is not kept among the ended jobs, so all of these are open.
    let leases = status.jobs.iter().filter(|job| job.is_lease).count();
    let sum = |of: fn(&JobStatus) -> u32| {
        let sum: u64 = live.iter().map(|job| u64::from(of(job))).sum();
        sum as f64
    };
    // A task that also has a speculative attempt runs twice, so the difference may be below 0.
    let left = |job: &JobStatus| {
        (job.maps_total + job.reduces_total)
            .saturating_sub(job.maps_done + job.reduces_done + job.tasks_running)
    };
    // From the node: a job of the runtime may be one step of a chain, with a goal of its own long before the
    // goal of the chain.
    let running = node.running_jobs();
    let late = running.iter().filter(|job| {
        let goal_s = job.request().goal_s;
        goal_s.is_some_and(|goal_s| job.begun_s() + goal_s < status.now_s)
    });
    write_each!(sheet.gauge {
        "leases": leases as f64, "Backups, exports and the like that run under a lease";
        "jobs_late": late.count() as f64, "Jobs that have not ended and are past their goal";
        "jobs_share_cores": sum(|job| job.share_hundredths) / 100.0,
            "Cores that jobs may use by their shares";
        "tasks_running": sum(|job| job.tasks_running), "Attempts at tasks that run";
        "tasks_waiting": sum(left), "Tasks of live jobs that have not started";
        "analytics_memory_bytes": status.memory_bytes as f64,
            "Memory that attempts have reserved for their records";
    });
    // From the node: the runtime forgets old jobs, and counts each step of a chain as a job.
    let ended = node.ended();
    let outcomes = [
        ([("outcome", "succeeded")], ended.succeeded),
        ([("outcome", "failed")], ended.failed),
        ([("outcome", "cancelled")], ended.cancelled),
        ([("outcome", "parked")], ended.parked),
    ];
    sheet.counters("jobs_ended", "Jobs that ended, by how", outcomes)?;
    let goals = [
        ([("result", "met")], ended.goals_met),
        ([("result", "missed")], ended.goals_missed),
    ];
    sheet.counters(
        "job_goals",
        "Jobs with a goal that ended, but for cancelled ones",
        goals,
    )
}
