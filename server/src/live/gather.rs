//! The thread that samples the node each second.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ebb_colocate::{
    Action, GuardSample, Limit, LoadSample, Objective, RequestRates, RequestSource,
};
use ebb_jobs::history::{JobRecord, now_unix_ms};
use ebb_jobs::pins::{self, ReleasedPin};
use ebb_scheduler::model::JobId;
use ebb_scheduler::runtime::JobState;
use serde_json::json;
use tracing::{debug, info, warn};

use super::ahead::Ahead;
use super::day::{GuardChange, JobName, LoadPoint, Moment};
use super::episodes::{Episodes, Turn, stops_jobs};
use super::{Shared, sum};
use crate::node::{Node, RunningJob, RunningMaintenance, StoreRequests};

/// The time between two samples.
const EVERY: Duration = Duration::from_secs(1);
/// The greatest fraction (0 to 1) of one core's time for predictions of when jobs end. With many jobs, a
/// prediction takes longer, so they are made less often.
const LOOK_AHEAD_PART: f64 = 0.01;

/// The seconds between two checks whether publications pin too many bytes of old versions. A check
/// goes through all tables that have pins.
const LOOK_AT_PINS_EVERY_S: f64 = 60.0;

/// The sampling thread. Dropping this ends it.
pub(super) struct Gathering {
    /// Dropping this stops the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Gathering {
    pub(super) fn start(shared: Arc<Shared>) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let gather = move || {
            let mut gatherer = Gatherer::new(shared);
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                gatherer.sample();
            }
        };
        let thread = thread::Builder::new().name("ebb-live".to_owned());
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread.spawn(gather)?),
        })
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed.
            let _ = thread.join();
        }
    }
}

/// The source of the rates and latencies of requests: the server's recorder, or the store as long as the
/// server has recorded no request.
struct Requests {
    recorded: Option<Box<dyn RequestSource>>,
    has_recorded: bool,
    store: Option<StoreRequests>,
}

impl Requests {
    fn of(node: &Node) -> Self {
        let latencies = node.latencies();
        Self {
            recorded: latencies.map(|latencies| Box::new(latencies.requests()) as _),
            has_recorded: false,
            store: node.db().map(StoreRequests::new),
        }
    }

    fn take(&mut self) -> RequestRates {
        let recorded = self.recorded.as_mut().map(|source| source.take());
        let recorded = recorded.unwrap_or_default();
        self.has_recorded |= recorded.requests_per_s > 0.0;
        match &mut self.store {
            Some(store) if !self.has_recorded => store.take(),
            _ => recorded,
        }
    }
}

struct Gatherer {
    shared: Arc<Shared>,
    requests: Requests,
    /// The source of the latency quantiles of the coarse samples, each over ten seconds of
    /// requests.
    coarse_requests: Requests,
    /// The time of the latest control cycle that was read, in seconds of the runtime's time.
    cycle_s: f64,
    /// The time of the latest load sample that was read, in seconds of the runtime's time.
    load_s: f64,
    /// The time of the latest decision of the latency guard that was read, in seconds of the
    /// guard's own clock.
    window_s: f64,
    /// The times in which the guard, which limits jobs to keep the latency objective, leaves them
    /// no CPU time. Their begins and ends are logged.
    stops: Episodes,
    /// The times in which jobs and long scans are outside of the idle class, because other
    /// processes hold the CPU. Their begins and ends are logged.
    floors: Episodes,
    /// The time of the last sample, in seconds of the runtime's time.
    sampled_s: f64,
    /// The earliest time, in seconds of the runtime's time, of the next look ahead, which predicts when jobs
    /// end.
    look_ahead_at_s: f64,
    /// The earliest time, in seconds of the runtime's time, of the next check whether publications pin too
    /// many bytes of old versions.
    look_at_pins_s: f64,
    /// The names of the jobs, backups, restores and verifications in the last sample, by the runtime's ids of
    /// the jobs and leases.
    names: BTreeMap<JobId, Arc<JobName>>,
    /// The states of the jobs, backups, restores and verifications of the last sample, by their ids.
    states: BTreeMap<String, JobState>,
    /// The snapshots of the last sample, as keyspaces and names; `None` before the first sample.
    snapshots: Option<BTreeSet<(String, String)>>,
}

impl Gatherer {
    fn new(shared: Arc<Shared>) -> Self {
        let node = &shared.node;
        let now_s = node.runtime().now_s();
        Self {
            requests: Requests::of(node),
            coarse_requests: Requests::of(node),
            cycle_s: now_s,
            load_s: now_s,
            window_s: 0.0,
            stops: Episodes::default(),
            floors: Episodes::default(),
            sampled_s: now_s,
            look_ahead_at_s: 0.0,
            look_at_pins_s: 0.0,
            names: BTreeMap::new(),
            states: BTreeMap::new(),
            snapshots: None,
            shared,
        }
    }

    /// Samples the node. The event `sample` is sent last: a client that has received it has
    /// received an event for every change that this sample found.
    fn sample(&mut self) {
        let shared = Arc::clone(&self.shared);
        let now_unix_ms = now_unix_ms();
        let now_s = shared.node.runtime().now_s();
        let jobs = shared.node.running_jobs();
        let maintenance = shared.node.all_running_maintenance();
        let moment = self.moment(now_unix_ms, &jobs, &maintenance);
        let length_s = now_s - std::mem::replace(&mut self.sampled_s, now_s);
        let planned = shared.node.runtime().forecast();
        let sample = moment.sample();
        let mut state = shared.lock();
        if let Some(planned) = planned {
            let left = moment.point.capacity_cores;
            (state.forecast_errors).take(now_s, length_s, left, &planned);
        }
        let was_set_back = state.day.reaches(now_unix_ms);
        let mut coarse = None;
        if state.day.push(moment) {
            let requests = self.coarse_requests.take();
            coarse = state.day.push_coarse(quantiles_us(&requests));
        }
        // The steps below lock it themselves.
        drop(state);
        if was_set_back {
            // Clients have samples that are gone here, and would take the next ones for old.
            shared.events.send("reset", &json!({}));
        }
        self.guard(now_unix_ms);
        self.jobs(&jobs, &maintenance);
        // A lease ends with its last handle.
        drop(maintenance);
        self.snapshots();
        self.pins(now_s);
        self.look_ahead(now_s, &jobs);
        if let Some(coarse) = coarse {
            shared.events.send("coarse", &coarse);
        }
        shared.events.send("sample", &sample);
    }

    /// Returns the load since the last sample, and the cores that each job, backup, restore and verification
    /// used. Logs when the scheduling class of jobs and long scans changes.
    fn moment(
        &mut self,
        now_unix_ms: u64,
        jobs: &[RunningJob],
        maintenance: &[RunningMaintenance],
    ) -> Moment {
        let shared = Arc::clone(&self.shared);
        let node = &shared.node;
        let mut names: BTreeMap<JobId, Arc<JobName>> = BTreeMap::new();
        for (id, name) in names_of(jobs, maintenance) {
            // All samples of a job share one name, because a day of samples is kept.
            let known = self.names.get(&id).cloned();
            names.insert(id, known.unwrap_or_else(|| Arc::new(name)));
        }
        let cycles = node.runtime().cycles_after(self.cycle_s);
        self.cycle_s = cycles.last().map_or(self.cycle_s, |last| last.t_s);
        // The time of these cycles, and not that since the last sample: cycles and samples do not begin
        // together.
        let length_s: f64 = cycles.iter().map(|cycle| cycle.length_s).sum();
        // Sums of cores times seconds, because cycles differ in length.
        let mut used: BTreeMap<JobId, f64> = BTreeMap::new();
        let mut capacity = 0.0;
        for cycle in &cycles {
            capacity += f64::from(cycle.capacity_hundredths) / 100.0 * cycle.length_s;
            for sample in &cycle.jobs {
                *used.entry(sample.job).or_default() += sample.used_cpu_s;
            }
        }
        let per_s = |sum: f64| if length_s > 0.0 { sum / length_s } else { 0.0 };
        let requests = self.requests.take();
        let [p50_us, p99_us, p999_us] = quantiles_us(&requests);
        let loads = node.governor().map(|governor| {
            let loads = governor.history_after(self.load_s);
            self.load_s = loads.last().map_or(self.load_s, |last| last.t_s);
            if loads.is_empty() {
                // The governor has taken no sample since: the last one still stands.
                Vec::from_iter(governor.latest())
            } else {
                loads
            }
        });
        let loads = loads.unwrap_or_default();
        self.log_class(&loads, !jobs.is_empty());
        let mean =
            |of: fn(&LoadSample) -> f64| sum(loads.iter().map(of)) / loads.len().max(1) as f64;
        let governor = node.governor();
        let objective = governor.and_then(|governor| governor.objective());
        let decided = governor.and_then(|governor| governor.latest_guarded());
        let point = LoadPoint {
            at_unix_ms: now_unix_ms,
            load_cores: mean(|load| load.transactional_cores),
            others_cores: mean(|load| load.others_cores),
            analytics_cores: per_s(sum(used.values().copied())),
            capacity_cores: per_s(capacity),
            requests_per_s: requests.requests_per_s,
            p50_us,
            p99_us,
            p999_us,
            bound_us: objective.and_then(|objective| bound_us(objective, decided)),
        };
        // A job that ended since the last sample has CPU time in its cycles, and is in the old names. CPU
        // time without a name counts in `analytics_cores` alone: that of leases which no list of jobs has,
        // such as the check of the files, and of jobs between two samples.
        let job_of = |id: &JobId| names.get(id).or_else(|| self.names.get(id)).cloned();
        let shares = used.iter();
        let shares = shares.filter_map(|(id, cpu_s)| Some((job_of(id)?, per_s(*cpu_s))));
        let moment = Moment {
            point,
            jobs: shares.collect(),
        };
        self.names = names;
        moment
    }

    /// Logs when jobs and long scans leave the idle class for the floor, a minimum of CPU beside busy
    /// processes, and when they are in the idle class again. `loads` are the load samples since the
    /// last call, or the latest one if there are none. Without jobs (`has_jobs` is false), logs
    /// nothing, so that busy processes do not fill the log.
    fn log_class(&mut self, loads: &[LoadSample], has_jobs: bool) {
        if !has_jobs {
            self.floors = Episodes::default();
            return;
        }
        let on_floor = loads.iter().rfind(|load| load.is_on_floor);
        let Some(load) = on_floor.or_else(|| loads.last()) else {
            return;
        };
        let turn = self.floors.note(on_floor.is_some());
        let load_cores = hundredths(load.transactional_cores);
        let others_cores = hundredths(load.others_cores);
        match turn {
            Some(Turn::Begins) => info!(
                target: "jobs",
                load_cores,
                others_cores,
                capacity_cores = f64::from(load.capacity_hundredths) / 100.0,
                "jobs and long scans leave the idle class: other processes hold the CPU"
            ),
            Some(Turn::Ends) => info!(
                target: "jobs",
                load_cores,
                others_cores,
                "jobs and long scans are in the idle class again: other processes leave enough CPU, \
                 or the load needs it"
            ),
            None => {}
        }
    }

    /// Reads the decisions that the latency guard, which limits jobs to keep the latency objective, has
    /// made since the last call. Keeps and logs each change of the guard's action and of what it allows, and
    /// sends an event for it. Logs when jobs stop getting CPU time and when they get some again.
    fn guard(&mut self, now_unix_ms: u64) {
        let Some(governor) = self.shared.node.governor() else {
            return;
        };
        let decided = governor.guarded_after(self.window_s);
        let Some(last) = decided.last() else {
            return;
        };
        let last_s = last.window.t_s;
        for sample in &decided {
            // The guard has a clock of its own. The last window ended about now.
            let ago_ms = ((last_s - sample.window.t_s) * 1e3) as u64;
            let change = change(sample, now_unix_ms.saturating_sub(ago_ms));
            let added = self.shared.lock().day.push_guard(change);
            if let Some(change) = added {
                debug!(
                    target: "jobs",
                    action = change.action,
                    allowed_ratio = hundredths(change.allowed_ratio),
                    slack_ratio = change.slack_ratio.map(hundredths),
                    latency_us = sample.window.latency_us,
                    "the guard changes what jobs may use"
                );
                self.shared.events.send("guard", &change);
            }
        }
        self.window_s = last_s;
        let latency_us = last.window.latency_us;
        match self.stops.note(stops_jobs(&decided)) {
            Some(Turn::Begins) => info!(
                target: "jobs",
                latency_us,
                "jobs get no CPU: the latency objective of the load is in danger"
            ),
            Some(Turn::Ends) => info!(target: "jobs", latency_us, "jobs get CPU again"),
            None => {}
        }
    }

    /// Sends events for changed states of jobs, and for the starts and ends of backups, restores and
    /// verifications. Notes the ends of jobs in the [`Ledger`](super::prediction::Ledger), which keeps the
    /// errors of the predictions.
    fn jobs(&mut self, jobs: &[RunningJob], maintenance: &[RunningMaintenance]) {
        let events = &self.shared.events;
        let mut states = BTreeMap::new();
        for job in jobs {
            let before = self.states.get(job.id()).copied();
            let state = unended(job.progress().status.state, before);
            if before != Some(state) {
                events.send("job", &json!({"id": job.id(), "state": state}));
            }
            states.insert(job.id().to_string(), state);
        }
        for work in maintenance {
            // Its thread waits for its share again and again, which is no change for clients.
            let (id, state) = (work.id(), JobState::Running);
            if !self.states.contains_key(id) {
                events.send("job", &json!({"id": id, "state": state}));
            }
            states.insert(id.to_string(), state);
        }
        for ended in self.shared.node.take_ended() {
            states.remove(&ended.id);
            events.send("job", &json!({"id": ended.id, "state": ended.state}));
            if let Some(finished_s) = ended.finished_s {
                let mut state = self.shared.lock();
                let succeeded = ended.state == "succeeded";
                (state.ledger).end(&ended.id, finished_s, succeeded);
            }
        }
        self.states = states;
    }

    /// Sends events for snapshots that were created or deleted since the last call. The first call sends
    /// none.
    fn snapshots(&mut self) {
        let Some(db) = self.shared.node.db() else {
            return;
        };
        let mut now = BTreeSet::new();
        for name in db.keyspaces() {
            let keyspace = db.existing_keyspace(&name);
            let snapshots = keyspace.map(|keyspace| keyspace.snapshot_names());
            for snapshot in snapshots.unwrap_or_default() {
                now.insert((name.clone(), snapshot));
            }
        }
        if let Some(before) = &self.snapshots {
            for (these, those, change) in [(&now, before, "created"), (before, &now, "deleted")] {
                for (keyspace, name) in these.difference(those) {
                    let data = json!({"name": name, "keyspace": keyspace, "change": change});
                    self.shared.events.send("snapshot", &data);
                }
            }
        }
        self.snapshots = Some(now);
    }

    /// Releases the pins that take more of the disk than their publications allow. A pin keeps the old
    /// versions of a published table, so that its next publication can write only the changes. Does nothing
    /// before the next check is due.
    fn pins(&mut self, now_s: f64) {
        if now_s < self.look_at_pins_s {
            return;
        }
        let Some(db) = self.shared.node.db() else {
            return;
        };
        self.look_at_pins_s = now_s + LOOK_AT_PINS_EVERY_S;
        match pins::release_large(db) {
            Ok(released) => {
                for ReleasedPin {
                    table,
                    target,
                    pinned_bytes,
                } in released
                {
                    info!(
                        target: "jobs",
                        table,
                        published_to = target,
                        pinned_bytes,
                        "a pin took too much of the disk: the next publication writes all rows"
                    );
                }
            }
            Err(error) => warn!(target: "jobs", "cannot look at the pins of publications: {error}"),
        }
    }

    /// Predicts the ends of the running `jobs` by a simulation of the scheduler, if there are jobs and the next
    /// look ahead is due. Stores each prediction in its job, for clients, and in the
    /// [`Ledger`](super::prediction::Ledger), which will compare it with the actual end.
    fn look_ahead(&mut self, now_s: f64, jobs: &[RunningJob]) {
        if jobs.is_empty() || now_s < self.look_ahead_at_s {
            return;
        }
        let began = Instant::now();
        let Some(ahead) = Ahead::of(&self.shared.node, jobs) else {
            return;
        };
        let finishes = ahead.situation.finishes(&ahead.expected);
        let took_s = began.elapsed().as_secs_f64();
        self.look_ahead_at_s = now_s + took_s / LOOK_AHEAD_PART;
        let mut state = self.shared.lock();
        for (running, job) in jobs.iter().zip(&ahead.jobs) {
            if let Some(finish_s) = job.finish_s(&finishes) {
                let (begun_s, at_s) = (running.begun_s(), ahead.situation.now_s);
                (state.ledger).note(&job.job_id, begun_s, at_s, finish_s);
            }
            running.set_end_forecast(ahead.end_forecast(job, &finishes, &state.ledger));
        }
    }
}

/// Returns the names of jobs, and of backups, restores and verifications, with the runtime's ids of the jobs
/// and leases. Control cycles have the CPU time by these ids.
fn names_of(
    jobs: &[RunningJob],
    maintenance: &[RunningMaintenance],
) -> impl Iterator<Item = (JobId, JobName)> {
    let name_of = |record: &JobRecord| JobName {
        id: record.id.clone(),
        name: record.application.clone(),
    };
    let of_jobs = jobs.iter();
    let of_jobs = of_jobs.map(move |job| (job.handle().id(), name_of(job.record())));
    let of_maintenance = maintenance.iter();
    let of_maintenance = of_maintenance.map(move |work| (work.lease_id(), name_of(work.record())));
    of_jobs.chain(of_maintenance)
}

/// Returns the state that an event has for a job that the node still runs. `now` is the state of the job's
/// present step, and `before` the one of the event before. Another step may follow one that has ended, and the
/// end of the last step is no end of the job as long as the history does not have it: until then the state
/// stays.
fn unended(now: JobState, before: Option<JobState>) -> JobState {
    match now {
        JobState::Succeeded | JobState::Failed | JobState::Cancelled => {
            before.unwrap_or(JobState::Running)
        }
        JobState::Waiting | JobState::Running | JobState::Committing | JobState::Stopping => now,
    }
}

/// Returns a number rounded to two decimal places.
fn hundredths(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// Returns the p50, p99 and p99.9 of the latencies, in microseconds; `None` without requests.
fn quantiles_us(requests: &RequestRates) -> [Option<f64>; 3] {
    let all_us = [requests.p50_us, requests.p99_us, requests.p999_us];
    all_us.map(|us| (us > 0.0).then_some(us))
}

/// Returns the greatest latency that an objective allows, in microseconds, after the latest
/// decision of its guard. `None` if the objective is a multiple of the latency without jobs, and
/// that latency is unknown.
fn bound_us(objective: Objective, decided: Option<GuardSample>) -> Option<f64> {
    match objective.limit {
        Limit::LatencyUs(us) => Some(us),
        Limit::OverAlone(ratio) => Some(ratio * decided?.alone_us?),
    }
}

fn change(sample: &GuardSample, at_unix_ms: u64) -> GuardChange {
    let action = match sample.action {
        Action::Grow => "grow",
        Action::Hold => "hold",
        Action::Shrink => "shrink",
        Action::Stop => "stop",
        Action::Pause => "pause",
    };
    GuardChange {
        at_unix_ms,
        action: action.to_string(),
        allowed_ratio: sample.allowed,
        // The guard has a slack of 1 if it is unknown. Any measured latency makes it less.
        slack_ratio: (sample.slack < 1.0).then_some(sample.slack),
    }
}

#[cfg(test)]
mod tests {
    use ebb_colocate::LatencyWindow;

    use super::*;

    fn decision(slack: f64, alone_us: Option<f64>) -> GuardSample {
        GuardSample {
            window: LatencyWindow {
                t_s: 1.0,
                length_s: 0.1,
                requests: 300,
                latency_us: 900.0,
            },
            slack,
            alone_us,
            action: Action::Hold,
            allowed: 1.0,
        }
    }

    /// Regression: between two steps of a chain, and before the end of a job was in the history, clients were
    /// sent the end of a step as that of the job.
    #[test]
    fn the_end_of_a_step_is_not_sent_as_the_end_of_the_job() {
        use JobState::{Cancelled, Committing, Failed, Running, Stopping, Succeeded, Waiting};
        for ended in [Succeeded, Failed, Cancelled] {
            assert_eq!(unended(ended, None), Running);
            for before in [Waiting, Running, Committing, Stopping] {
                assert_eq!(unended(ended, Some(before)), before);
                assert_eq!(unended(before, Some(Running)), before);
            }
        }
    }

    /// Regression: a second without requests had latencies of 0, and a decision without requests a slack of 1.
    #[test]
    fn latencies_and_slack_are_unknown_without_requests() {
        assert_eq!(quantiles_us(&RequestRates::default()), [None; 3]);
        let requests = RequestRates {
            p50_us: 80.0,
            p99_us: 90.0,
            p999_us: 95.0,
            ..RequestRates::default()
        };
        assert_eq!(
            quantiles_us(&requests),
            [Some(80.0), Some(90.0), Some(95.0)]
        );
        for (slack, expected) in [(1.0, None), (0.75, Some(0.75)), (-2.0, Some(-2.0))] {
            assert_eq!(change(&decision(slack, None), 7).slack_ratio, expected);
        }
    }

    #[test]
    fn the_bound_of_a_ratio_follows_the_latency_without_jobs() {
        let decided = |alone_us| decision(0.5, alone_us);
        let bound = |objective: &str, decided| bound_us(objective.parse().unwrap(), decided);
        assert_eq!(bound("p99=2ms", None), Some(2000.0));
        assert_eq!(bound("p99=2ms", Some(decided(None))), Some(2000.0));
        assert_eq!(bound("p99=2x", None), None);
        assert_eq!(bound("p99=2x", Some(decided(None))), None);
        assert_eq!(bound("p99=2x", Some(decided(Some(400.0)))), Some(800.0));
    }
}
