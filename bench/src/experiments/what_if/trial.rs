//! Trials, one after the other, against a server in this process.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow, ensure};
use ebb_jobs::history::now_unix_ms;
use ebb_jobs::pi::Variant;
use ebb_jobs::request::{ApplicationRequest, JobRequest, OutputPlace, PiRequest};
use ebb_scheduler::runtime::Finish;
use ebb_server::http::{ClientTls, HttpOptions, HttpServer, JobsClient};
use ebb_server::jobs::JobEnd;
use ebb_server::live::look_ahead;
use ebb_server::metrics::Metrics;
use ebb_server::node::{Node, NodeOptions, RunningJob, Stop};
use ebb_server::tokens::{Scope, Token, TokenFile, TokenRecord};
use ebb_storage::Options;
use serde::Serialize;
use serde_json::{Value, json};

use super::drawn::{DrawnJob, TrialPlan};
use super::outcome::{JobRun, OtherJob, RunPair, Trial, TrialRun};
use crate::threads::{pause, value_of};

/// CPU time of a task, in seconds.
const TASK_CPU_S: f64 = 0.05;
/// The time for which [`MANY_JOBS`] jobs run before the first prediction is timed.
const BEFORE_ANSWERS: Duration = Duration::from_millis(500);
/// The number of jobs that run while predictions are timed.
pub(super) const MANY_JOBS: u32 = 100;
/// The number of predictions that are timed.
const QUESTIONS: usize = 50;
/// The time that an experiment usually takes besides its trials, for warming up and for timing
/// predictions, in seconds.
pub(super) const AROUND_S: f64 = 15.0;
/// The seconds by which warming up and timing predictions may exceed [`AROUND_S`]. The maximal
/// duration that the experiment announces includes these seconds.
pub(super) const AROUND_LIMIT_S: f64 = 90.0;
/// CPU time of a job that warms up, in seconds.
const WARM_UP_CPU_S: f64 = 2.0;
/// The time after which a job that warms up is given up.
const WARM_UP_MAX: Duration = Duration::from_secs(30);
/// The longest time that a cancelled job may take to stop.
const STOP_MAX: Duration = Duration::from_secs(30);

/// A server like `ebb serve --http`, with a client of it.
pub(super) struct Host {
    node: Arc<Node>,
    server: HttpServer,
    client: JobsClient,
    folder: PathBuf,
    points_per_cpu_s: f64,
    started: u32,
    /// The number of pairs of runs, with the additional job and without, that began. In every other
    /// pair the run with the additional job comes first.
    pairs: u32,
}

/// The durations of one request for a prediction, as measured by the client and by the server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Answer {
    /// The duration of a request, from the opening of its connection to the complete response, in
    /// milliseconds.
    pub over_http_ms: f64,
    /// The time that the server needed for the prediction, as it reports in the response, in
    /// milliseconds.
    pub in_server_ms: f64,
}

impl Host {
    /// Starts a server in an empty folder.
    pub fn start(folder: &Path) -> Result<Self> {
        let data = folder.join("data");
        let db = Options {
            create_if_missing: true,
            ..Options::default()
        };
        let node = Arc::new(Node::open(&data, db, NodeOptions::default())?);
        let token = Token::random();
        let name = "experiments what-if";
        let record = TokenRecord::new(&token, name, Scope::Jobs, SystemTime::now(), None);
        TokenFile::of(&data).change(|tokens| tokens.add(record))?;
        let options = HttpOptions {
            address: Some((Ipv4Addr::LOCALHOST, 0).into()),
            ..HttpOptions::default()
        };
        let metrics = Metrics::of(Arc::clone(&node));
        let server = HttpServer::start(&data, Arc::clone(&node), metrics, options)?;
        let address = server.address().context("it listens at a port")?;
        let (url, tls) = (format!("http://{address}"), ClientTls::default());
        Ok(Self {
            client: JobsClient::at(&url, Some(token.reveal()), &tls)?,
            server,
            node,
            folder: folder.to_path_buf(),
            points_per_cpu_s: 1e8,
            started: 0,
            pairs: 0,
        })
    }

    pub fn cores(&self) -> u32 {
        self.node.runtime().cores()
    }

    /// Returns the cores that other processes used in the governor's latest measurement.
    pub fn others_cores(&self) -> f64 {
        let latest = self.node.governor().and_then(|governor| governor.latest());
        latest.map_or(0.0, |latest| latest.others_cores)
    }

    /// Runs jobs that evaluate random points to compute pi, as all jobs of the experiment do.
    /// Measures the number of points that a job evaluates per second of CPU time. The server, too,
    /// bases its predictions on measurements of these jobs.
    pub fn warm_up(&mut self) -> Result<()> {
        for _ in 0..2 {
            let job = DrawnJob {
                cpu_s: WARM_UP_CPU_S,
                goal_s: WARM_UP_MAX.as_secs_f64(),
            };
            let running = self.start_all(&[job])?;
            let Some(ends) = wait(&running, WARM_UP_MAX)? else {
                return Err(anyhow!(
                    "{WARM_UP_CPU_S} s of CPU took more than {WARM_UP_MAX:?}: others use {:.2} of \
                     {} cores",
                    self.others_cores(),
                    self.cores()
                ));
            };
            let cpu_s: f64 = ends.iter().map(|end| end.report.cpu_s).sum();
            ensure!(cpu_s > 0.0, "a job used no CPU");
            self.points_per_cpu_s *= WARM_UP_CPU_S / cpu_s;
        }
        Ok(())
    }

    /// Runs a trial of `pairs` pairs of runs: one run of a pair with the additional job, whose
    /// effect is predicted, and one run without that job. Returns `None` if a run took too long and
    /// was given up.
    pub fn trial(&mut self, drawn: &TrialPlan, pairs: u32) -> Result<Option<Trial>> {
        let mut trial = Trial { pairs: Vec::new() };
        for _ in 0..pairs {
            // Both orders take turns, so that a drift of the machine favours neither way.
            let is_with_first = self.pairs.is_multiple_of(2);
            self.pairs += 1;
            let Some(first) = self.run(drawn, is_with_first)? else {
                return Ok(None);
            };
            let Some(second) = self.run(drawn, !is_with_first)? else {
                return Ok(None);
            };
            let (with, without) = if is_with_first {
                (first, second)
            } else {
                (second, first)
            };
            trial.pairs.push(RunPair { with, without });
        }
        Ok(Some(trial))
    }

    /// Runs the jobs of a trial once, with the additional job or without that job. In both cases
    /// requests a prediction of the additional job's effect. Returns `None` if the run took too
    /// long and was given up.
    fn run(&mut self, drawn: &TrialPlan, is_with_other: bool) -> Result<Option<TrialRun>> {
        let began = Instant::now();
        let limit = Duration::from_secs_f64(drawn.limit_s);
        let mut running = self.start_all(&drawn.jobs)?;
        pause(Duration::from_secs_f64(drawn.before_s));
        let alone = look_ahead(&self.node);
        let asked_s = self.node.runtime().now_s();
        // Also in a run without the other job, so that both ways use the same CPU for predictions.
        let answer = self.client.what_if(&question(drawn.other))?;
        let asked_unix_ms = now_unix_ms();
        let other = is_with_other.then_some(drawn.other);
        running.extend(self.start_all(other.as_slice())?);
        let later = look_ahead(&self.node);
        let Some(ends) = wait(&running, limit.saturating_sub(began.elapsed()))? else {
            return Ok(None);
        };
        let from_asked = |time_s: f64| time_s - asked_s;
        let predicted = |finishes: &[Finish], job: &RunningJob| {
            of_job(finishes, job).and_then(|finish| finish.finish_s.map(from_asked))
        };
        let all = running.iter().zip(&ends);
        let jobs = all.take(drawn.jobs.len()).map(|(job, end)| JobRun {
            goal_s: end.report.goal_s.map(from_asked),
            predicted_alone_s: predicted(&alone, job),
            predicted_later_s: predicted(&later, job),
            is_predicted_victim: answer
                .victims
                .iter()
                .any(|victim| victim.job_id == job.id()),
            finish_s: from_asked(end.report.finished_s),
            met: end.report.met == Some(true),
        });
        let predicted_finish_ms = answer
            .finish_unix_ms
            .context("the job has no predicted end")?;
        let other = ends.get(drawn.jobs.len()).map(|end| OtherJob {
            predicted_finish_s: predicted_finish_ms.saturating_sub(asked_unix_ms) as f64 / 1e3,
            finish_s: from_asked(end.report.finished_s),
        });
        Ok(Some(TrialRun {
            jobs: jobs.collect(),
            other,
            left_cores: self.left_cores_after(asked_s),
        }))
    }

    /// Returns the mean capacity for jobs, in cores, that the governor determined in the control
    /// cycles since `time_s`; 0 if there were none.
    fn left_cores_after(&self, time_s: f64) -> f64 {
        let cycles = self
            .node
            .governor()
            .map(|governor| governor.history_after(time_s));
        let left: Vec<f64> = cycles
            .into_iter()
            .flatten()
            .map(|cycle| f64::from(cycle.capacity_hundredths) / 100.0)
            .collect();
        left.iter().sum::<f64>() / left.len().max(1) as f64
    }

    /// Measures how long predictions take while many jobs run.
    pub fn answers(&mut self) -> Result<Vec<Answer>> {
        let job = |nth: u32| DrawnJob {
            cpu_s: 1.0,
            goal_s: f64::from(nth),
        };
        let running = self.start_all(&(1..=MANY_JOBS).map(job).collect::<Vec<_>>())?;
        pause(BEFORE_ANSWERS);
        let asked = question(DrawnJob {
            cpu_s: 5.0,
            goal_s: 10.0,
        });
        let answers = (0..QUESTIONS).map(|_| {
            let began = Instant::now();
            let answer = self.client.what_if(&asked)?;
            Ok(Answer {
                over_http_ms: began.elapsed().as_secs_f64() * 1e3,
                in_server_ms: answer.answered_in_ms,
            })
        });
        let answers = answers.collect();
        stop(&running)?;
        answers
    }

    pub fn stop(self) {
        self.node.shutdown(Stop::Cancel);
        self.server.drain(STOP_MAX);
    }

    /// Submits jobs at about the same time, and returns them in their order.
    fn start_all(&mut self, jobs: &[DrawnJob]) -> Result<Vec<RunningJob>> {
        let requests: Vec<JobRequest> = jobs.iter().map(|job| self.request(*job)).collect();
        let node = &self.node;
        thread::scope(|scope| {
            let start = |request| scope.spawn(|| Ok(node.submit(request)?));
            let started: Vec<_> = requests.into_iter().map(start).collect();
            let started = started.into_iter();
            started.map(|job| value_of(job.join())).collect()
        })
    }

    fn request(&mut self, job: DrawnJob) -> JobRequest {
        self.started += 1;
        let application = ApplicationRequest::Pi(PiRequest {
            points: (job.cpu_s * self.points_per_cpu_s) as u64,
            seed: u64::from(self.started),
            variant: Variant::Plain,
        });
        let output = OutputPlace::File(self.folder.join(format!("{}.tsv", self.started)));
        JobRequest {
            goal_s: Some(job.goal_s),
            splits: Some(tasks(job.cpu_s)),
            ..JobRequest::new(application, Vec::new(), output.into(), &self.folder)
        }
    }
}

fn of_job<'a>(finishes: &'a [Finish], job: &RunningJob) -> Option<&'a Finish> {
    let id = job.progress().status.id;
    finishes.iter().find(|finish| finish.job.id == id)
}

fn tasks(cpu_s: f64) -> u32 {
    (cpu_s / TASK_CPU_S).ceil().max(1.0) as u32
}

/// Returns the body of a request to predict the effect of `job`.
fn question(job: DrawnJob) -> Value {
    let maps = tasks(job.cpu_s);
    json!({
        "maps": maps,
        "map_s": job.cpu_s / f64::from(maps),
        "reduces": 1,
        "reduce_s": 1e-3,
        "goal_s": job.goal_s,
    })
}

type Ends = Vec<Arc<JobEnd>>;

/// Waits for the ends of jobs, and returns them in the order of the jobs. If not all jobs end in
/// time, stops the jobs and returns `None`.
fn wait(jobs: &[RunningJob], time: Duration) -> Result<Option<Ends>> {
    let until = Instant::now() + time;
    let left = || until.saturating_duration_since(Instant::now());
    let ends: Option<Ends> = jobs.iter().map(|job| job.wait_timeout(left())).collect();
    if ends.is_none() {
        stop(jobs)?;
    }
    Ok(ends)
}

fn stop(jobs: &[RunningJob]) -> Result<()> {
    for job in jobs {
        job.cancel();
    }
    for job in jobs {
        let end = job.wait_timeout(STOP_MAX);
        ensure!(
            end.is_some(),
            "job {} does not stop within {STOP_MAX:?}",
            job.id()
        );
    }
    Ok(())
}
