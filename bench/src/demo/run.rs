//! The run of a demo, from an empty folder to the outcomes of its days.

use std::sync::Arc;

use anyhow::Result;
use ebb_colocate::LoadSample;
use ebb_scheduler::availability::Availability;
use ebb_scheduler::runtime::{JobReport, JobSpec};
use ebb_server::node::Node;
use ebb_storage::{PinnedTable, SnapshotTable};

use super::check;
use super::day::{Day, HOURS, LoadCost};
use super::day_run::{
    CYCLES_PER_DAY, DayJob, DayRecord, DayRun, LoadAlone, failure, grace_s, load_alone,
};
use super::forecast::{ForecastFrom, Trust};
use super::half_way::{EndedJob, HalfWay};
use super::jobs::{self, Application, RepeatedText};
use super::load::LoadReport;
use super::measure;
use super::options::{DemoDay, DemoOptions, Goals};
use super::outcome::{
    JobOutcome, Latency, LatencySample, OTHERS_MUCH, Outcome, Series, Transactional,
};
use super::plan::Plan;
use super::policy::Policy;
use super::setup::{self, Setup};
use super::simulated::Replay;

/// The speed at which the load alone runs through the day, relative to the day itself.
const ALONE_FASTER: f64 = 3.0;
/// The fraction of the machine that analytics never get: for timers, the kernel, and load that the
/// forecast does not cover.
const RESERVE: f64 = 0.05;
/// The snapshot that the jobs read.
const SNAPSHOT: &str = "midnight";

/// The jobs with a goal, in the order of submission: name and application.
const JOBS: [(&str, Application); 3] = [
    ("J1", Application::WordCount),
    ("J2", Application::Grep),
    ("J3", Application::WordCount),
];
/// The job without a goal.
const EXTRA_JOB: (&str, Application) = ("J4", Application::Grep);

/// Runs the demo, and returns the outcomes in the order of the days. Calls `notify` with lines
/// about the progress.
///
/// # Errors
/// If the folder cannot be used, no text is found, or the store fails.
pub fn run(options: &DemoOptions, notify: &dyn Fn(&str)) -> Result<Vec<Outcome>> {
    let setup = setup::set_up(&options.data, options.text.as_deref(), notify)?;
    run_days(setup, None, options, notify)
}

/// Runs the simulated days of `options` one after the other, on the store and with the load of
/// `setup`, and returns the outcome of each day. `served` is the node of the demo's server, which
/// runs the jobs: it has the store open, and was started with the options that
/// [`node_options`](super::day_run::node_options) returns for the day's policy. In a demo without a
/// server, `served` is `None`, and each day starts a node of its own.
pub(super) fn run_days(
    setup: Setup,
    served: Option<Arc<Node>>,
    options: &DemoOptions,
    notify: &dyn Fn(&str),
) -> Result<Vec<Outcome>> {
    let prepared = Preparation::new(setup, served, options, notify)?;
    let is_oracle = |day: &DemoDay| day.forecast == ForecastFrom::Oracle;
    let rehearsed = match options.days.iter().find(|day| is_oracle(day)) {
        Some(day) => prepared.rehearse(day, options, notify)?,
        None => Vec::new(),
    };
    let forecast_of =
        |day: &DemoDay, trust: Trust| prepared.forecast(&day.forecast, &rehearsed, trust);
    let Some(first) = options.days.first() else {
        return Ok(Vec::new());
    };
    let forecast = forecast_of(first, Trust::CAUTIOUS)?;
    let sized = SizedJobs::new(&prepared, &forecast, options.goals, notify)?;
    let run_day = |(number, day): (usize, &DemoDay)| {
        notify(&format!("the day, policy {} ...", day.policy));
        let name = day_name(&options.days[..number], day);
        let forecast = forecast_of(day, Trust::of(&day.policy))?;
        prepared.run_day(&name, day, &sized, forecast, options)
    };
    options.days.iter().enumerate().map(run_day).collect()
}

/// Returns the name of a day's output: the policy, with a number if earlier days have the same
/// policy.
fn day_name(before: &[DemoDay], day: &DemoDay) -> String {
    let alike = before.iter().filter(|other| other.policy == day.policy);
    match alike.count() {
        0 => day.policy.to_string(),
        others => format!("{}-{}", day.policy, others + 1),
    }
}

/// The preparations that all days share.
struct Preparation {
    setup: Setup,
    cores: u32,
    day: Day,
    reserve_cores: f64,
    load: LoadCost,
    /// The measurements of the load without jobs.
    alone: LoadAlone,
    /// The snapshot of the table of text that the jobs read. It is created before the measurements,
    /// so that the measured jobs read the same text as the jobs of the days.
    text: SnapshotTable,
    /// The CPU time of a pass over the text, in seconds, for each variant of [`Application`], in
    /// their order.
    pass_cpu_s: Vec<f64>,
    /// The pinned table from which child processes read, if tasks run in child processes.
    pin: Option<PinnedTable>,
    /// The node of the demo's server, which has the store open; `None` in a demo without a server.
    served: Option<Arc<Node>>,
}

/// The inputs of the jobs, with sizes chosen such that the jobs need the planned fraction of a
/// forecast's capacity.
struct SizedJobs {
    inputs: Vec<RepeatedText>,
    extra_input: RepeatedText,
}

impl SizedJobs {
    fn new(
        prepared: &Preparation,
        forecast: &Availability,
        goals: Goals,
        notify: &dyn Fn(&str),
    ) -> Result<Self> {
        let Preparation {
            day,
            load,
            alone,
            text,
            pass_cpu_s,
            ..
        } = prepared;
        let plan = Plan::new(*day, forecast, goals.filled());
        notify(&format!(
            "plan: a day in {:.0} s, at its peak {:.0} ops/s on {:.2} cores, others on {:.2}; three jobs of {:.1} s of CPU, one of {:.1} s",
            day.seconds,
            load.peak_ops_per_s,
            load.peak_cores,
            alone.others_cores,
            plan.job_cpu_s,
            plan.extra_cpu_s
        ));
        let sized = |(_, application): (&str, Application), cpu_s: f64| {
            let pass_cpu_s = pass_cpu_s[application as usize];
            RepeatedText::sized(text, pass_cpu_s, cpu_s, plan.task_cpu_s)
        };
        let inputs = JOBS.iter().map(|job| sized(*job, plan.job_cpu_s));
        Ok(Self {
            inputs: inputs.collect::<Result<_>>()?,
            extra_input: sized(EXTRA_JOB, plan.extra_cpu_s)?,
        })
    }
}

impl Preparation {
    fn new(
        setup: Setup,
        served: Option<Arc<Node>>,
        options: &DemoOptions,
        notify: &dyn Fn(&str),
    ) -> Result<Self> {
        let cores = measure::cores();
        let day = Day {
            seconds: options.seconds,
        };
        // First of all: the measured jobs read the same text as those of the days.
        setup.keyspace.create_snapshot(SNAPSHOT)?;
        let text = setup
            .keyspace
            .snapshot(SNAPSHOT)?
            .table(setup.text.name())?;

        notify("measuring this machine ...");
        let (load, others_cores) = measure::load_cost(&setup, cores)?;
        let costs = measure::pass_cpu_s(
            &setup,
            &text,
            &load,
            (cores, others_cores),
            // In the order of the variants: `SizedJobs` takes an application as the index of its cost.
            &[Application::WordCount, Application::Grep],
        )?;
        notify(&format!(
            "load: {:.0} ops/s use {:.2} of {cores} cores; a pass over the text: word count {:.2} s of CPU, grep {:.2} s",
            load.peak_ops_per_s, load.peak_cores, costs[0], costs[1]
        ));
        // Each hour has the same rate as in the day and is only shorter, so that the user waits less.
        let fast_day = Day {
            seconds: options.seconds / ALONE_FASTER,
        };
        // As many days as the most demanding forecast needs: all forecasts use one measurement.
        let days = options.days.iter().map(|day| day.forecast.days_alone());
        let days = days.max().unwrap_or(1);
        notify(&format!(
            "the load alone, for {:.0} s ...",
            fast_day.seconds * f64::from(days)
        ));
        let alone = load_alone(&setup, fast_day, days, &load, cores)?;
        // The few seconds of the first measurement contain merges only by chance; a whole day has its share.
        let load = load.corrected(alone.mean_cores);

        let reserve_cores = reserve_cores(cores);
        if alone.others_cores > OTHERS_MUCH * f64::from(cores) {
            notify(&format!(
                "others use {:.2} of {cores} cores: jobs will be small, and figures imprecise",
                alone.others_cores
            ));
        }
        Ok(Self {
            pin: options.in_processes.then(|| text.pin()).transpose()?,
            served,
            setup,
            cores,
            day,
            reserve_cores,
            load,
            alone,
            text,
            pass_cpu_s: costs,
        })
    }

    fn forecast(
        &self,
        from: &ForecastFrom,
        rehearsed: &[LoadSample],
        trust: Trust,
    ) -> Result<Arc<Availability>> {
        // The governor leaves the cores of other processes alone, so the forecast excludes them.
        let known = (self.cores, self.reserve_cores + self.alone.others_cores);
        let alone = (&self.alone, ALONE_FASTER);
        let forecast = from.availability(self.day, known, &self.load, alone, rehearsed, trust);
        forecast.map(Arc::new)
    }

    /// Runs the day once, and returns the capacity that the load left: the oracle's forecast for
    /// the measured runs. The jobs of this rehearsal are planned by [the load generator's
    /// curve](ForecastFrom::Known).
    fn rehearse(
        &self,
        day: &DemoDay,
        options: &DemoOptions,
        notify: &dyn Fn(&str),
    ) -> Result<Vec<LoadSample>> {
        notify("a rehearsal of the day ...");
        let forecast = self.forecast(&ForecastFrom::Known, &[], Trust::CAUTIOUS)?;
        let sized = SizedJobs::new(self, &forecast, options.goals, &|_| ())?;
        let record = self.run_day("rehearsal", day, &sized, forecast, options)?;
        Ok(record.series.load)
    }

    fn spec(
        &self,
        named: (&str, &str),
        application: Application,
        input: &RepeatedText,
    ) -> Result<JobSpec> {
        let spec = jobs::spec(&self.setup, named, application, input)?;
        Ok(match &self.pin {
            Some(pin) => spec.in_processes(Arc::new(application.description(pin).processes())),
            None => spec,
        })
    }

    /// Returns the completion times of the jobs in the simulator, in seconds; `None` for a job that
    /// does not complete there, and for all jobs if the day cannot be simulated.
    fn simulated(
        &self,
        policy: &Policy,
        forecast: &Arc<Availability>,
        record: &DayRecord,
    ) -> Vec<Option<f64>> {
        let replay = |name| Replay {
            policy: name,
            cores: self.cores,
            cycle_s: self.day.seconds / CYCLES_PER_DAY,
            horizon_s: self.day.seconds + grace_s(self.day),
            forecast: forecast.clone(),
            left: &record.load_history,
            jobs: &record.jobs,
        };
        let simulated = match policy {
            Policy::Managed(name) => replay(name).run().ok(),
            Policy::None => None,
        };
        simulated.unwrap_or_else(|| vec![None; record.jobs.len()])
    }

    /// Runs a day. `run` is the name of the folder for its output: see [`day_name`].
    fn run_day(
        &self,
        run: &str,
        day: &DemoDay,
        sized: &SizedJobs,
        forecast: Arc<Availability>,
        options: &DemoOptions,
    ) -> Result<Outcome> {
        // The flushes and merges of the day before do not count for this one.
        self.setup.settle()?;
        let job = |(name, application): (&str, Application), input| {
            let output = jobs::output_file(&self.setup, run, name);
            anyhow::Ok(DayJob {
                spec: self.spec((run, name), application, input)?,
                request: application.request(SNAPSHOT, &output)?,
            })
        };
        // A goal counts from the submission of its job, and these jobs are submitted at midnight.
        let mut with_goals = Vec::new();
        for ((named, input), hour) in JOBS.iter().zip(&sized.inputs).zip(options.goals.hours()) {
            let DayJob { spec, request } = job(*named, input)?;
            let spec = spec.goal_s(self.day.seconds_of(hour));
            with_goals.push(DayJob { spec, request });
        }
        let record = DayRun {
            setup: &self.setup,
            day: self.day,
            cores: self.cores,
            reserve_cores: self.reserve_cores,
            load: self.load,
            forecast: forecast.clone(),
            policy: day.policy.clone(),
            objective: options.objective,
            jobs: with_goals,
            extra: job(EXTRA_JOB, &sized.extra_input)?,
            served: self.served.clone(),
        }
        .run()?;

        // After the day, so that counting takes no CPU time from it. The last report, that of the job
        // without a goal, has no partner in `JOBS` and is left out: this job counts no words.
        let counted = JOBS.iter().zip(&sized.inputs).zip(&record.jobs);
        let counted = counted
            .map(|(((name, application), input), report)| (*name, *application, input, report));
        let word_count_check = check::word_counts(&self.setup, run, counted)?;
        // The middle of each quarter of an hour.
        let steps = (0..HOURS as u32 * 4).map(|i| self.day.seconds_of((f64::from(i) + 0.5) / 4.0));
        Ok(Outcome {
            policy: day.policy.name().to_string(),
            seconds: options.seconds,
            cores: self.cores,
            others_cores: record.others_cores,
            scheduling_class: record.scheduling_class.clone(),
            corpus: self.setup.corpus.clone(),
            load_cost: self.load,
            objective: options.objective,
            forecast_from: day.forecast.clone(),
            goals_are: options.goals,
            snapshot_create_us: record.snapshot_create_us.clone(),
            jobs: job_outcomes(&record, self.simulated(&day.policy, &forecast, &record)),
            transactional: Transactional {
                alone: latency(&self.alone.load),
                with_analytics: latency(&record.load),
                refused: record.load.refused,
            },
            word_count_check,
            series: Series {
                load: record.load_history,
                guard: record.guarded,
                cycles: record.cycles,
                forecast: steps.map(|t_s| (t_s, forecast.at(t_s))).collect(),
                latency: latency_series(&record.load),
            },
        })
    }
}

/// Returns the cores that analytics never get.
pub(super) fn reserve_cores(cores: u32) -> f64 {
    RESERVE * f64::from(cores)
}

fn job_outcomes(record: &DayRecord, simulated: Vec<Option<f64>>) -> Vec<JobOutcome> {
    let applications = JOBS
        .iter()
        .chain([&EXTRA_JOB])
        .map(|(_, application)| *application);
    let ended = |report: &JobReport| EndedJob {
        id: report.id,
        submitted_s: report.submitted_s,
        finished_s: report.finished_s,
        has_succeeded: failure(report).is_none(),
    };
    let all: Vec<EndedJob> = record.jobs.iter().map(ended).collect();
    record
        .jobs
        .iter()
        .zip(applications)
        .zip(simulated)
        .map(|((report, application), simulated_finish_s)| {
            let failure = failure(report);
            JobOutcome {
                id: report.id,
                name: report.name.clone(),
                application: application.name().to_string(),
                submitted_s: report.submitted_s,
                goal_s: report.goal_s,
                finished_s: failure.is_none().then_some(report.finished_s),
                simulated_finish_s,
                half_way: failure
                    .is_none()
                    .then(|| HalfWay::of(ended(report), &all, &record.predictions))
                    .flatten(),
                met: report.met,
                tasks: report.tasks,
                bytes: report.bytes_in,
                cpu_s: report.cpu_s,
                failure,
            }
        })
        .collect()
}

fn latency(report: &LoadReport) -> Latency {
    Latency {
        p50_us: report.p50_us,
        p99_us: report.p99_us,
        p999_us: report.p999_us,
        ops_per_s: report.ops_per_s,
    }
}

fn latency_series(report: &LoadReport) -> Vec<LatencySample> {
    let samples = report.timeline.iter().filter(|interval| interval.ops > 0);
    samples
        .map(|i| LatencySample {
            t_s: i.t_s - i.length_s,
            p50_us: i.p50_us,
            p99_us: i.p99_us,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_same_policy_have_different_names() {
        let day = |policy: &str, forecast| DemoDay {
            policy: policy.parse().unwrap(),
            forecast,
        };
        let days = [
            day("fifo", ForecastFrom::Known),
            day("none", ForecastFrom::Known),
            day("fifo", ForecastFrom::Oracle),
        ];
        let names = (0..3).map(|i| day_name(&days[..i], &days[i]));
        assert_eq!(names.collect::<Vec<_>>(), ["fifo", "none", "fifo-2"]);
    }
}
