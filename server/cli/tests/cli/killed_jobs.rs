//! A server that is killed while it works off twenty jobs: started again, it brings all of them to
//! the right end.
//!
//! `EBB_KILLS` is the number of kills.

use ebb_jobs::history::RecordState;
use ebb_jobs::request::JobRequest;
use ebb_server::http::JobsClient;
use ebb_server::jobs::{JobView, Jobs, ReadJobs};
use ebb_test_support::seed::{for_seeds, number};
use ebb_test_support::wait::{HANG, until, until_some};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::place::Place;
use crate::serving::Server;

/// The number of kills if the environment variable `EBB_KILLS` is not set.
const KILLS: u64 = 2;
/// The least number of jobs that are submitted before the first kill, and run at the same time.
const JOBS: usize = 20;

/// Returns the four kinds of jobs: the application in a job request, and the arguments of `ebb run` for the
/// same job.
fn kinds() -> [(Value, &'static str); 4] {
    let order = json!({"by": [], "numeric": false, "reverse": false});
    [
        (
            json!({"wordcount": {"reduces": 3}}),
            "wordcount --reduces 3",
        ),
        (
            json!({"sort": {"order": order, "reduces": 2}}),
            "sort --reduces 2",
        ),
        (
            json!({"grep": {"pattern": "Ebb|flow", "regex": true}}),
            "grep --pattern Ebb|flow --regex",
        ),
        (json!({"index": {"reduces": 2}}), "index --reduces 2"),
    ]
}

/// Returns whether the job of this number writes a table. Jobs 4 to 7, 12 to 15 and so on do,
/// except for those that sort.
fn writes_table(number: usize) -> bool {
    let sorts = kinds()[number % 4].0.get("sort").is_some();
    number / 4 % 2 == 1 && !sorts
}

/// Returns the request of the job with this number.
fn job(place: &Place, number: usize) -> JobRequest {
    let (application, _) = kinds()[number % 4].clone();
    let to = if writes_table(number) {
        json!({"table": format!("app.out{number}")})
    } else {
        json!({"file": format!("{number}.tsv")})
    };
    let input = json!({"table": {"table": "app.lines"}});
    JobRequest::from_json(json!({
        "application": application,
        "inputs": [input],
        "output": {"to": to},
        "directory": place.dir.path(),
    }))
    .unwrap()
}

/// Returns the request of a job that does not end by itself.
fn endless_job(place: &Place) -> JobRequest {
    JobRequest::from_json(json!({
        "application": {"pi": {"points": 1_u64 << 50, "seed": 1, "variant": "plain"}},
        "output": {"to": {"file": "endless.tsv"}},
        "directory": place.dir.path(),
    }))
    .unwrap()
}

fn client(place: &Place) -> JobsClient {
    let client = JobsClient::of(&place.path("ebb-data")).unwrap();
    client.expect("a server holds the database")
}

/// Returns the number of jobs that have ended, and the number of those that run.
fn counted(jobs: &[JobView]) -> (usize, usize) {
    let ended = |view: &&JobView| view.record.state != RecordState::Started;
    let at_work = jobs.iter().filter(|view| view.is_running()).count();
    (jobs.iter().filter(ended).count(), at_work)
}

fn sorted(lines: &str) -> Vec<&str> {
    let mut lines: Vec<_> = lines.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn all_jobs_of_a_killed_server_end_with_the_right_result() {
    for_seeds(
        "all_jobs_of_a_killed_server_end_with_the_right_result",
        1,
        kill_with_jobs_at_work,
    );
}

/// Kills a server again and again while it runs jobs, at moments drawn from `seed`, and compares the results
/// of all jobs with those of `ebb run`.
fn kill_with_jobs_at_work(seed: u64) {
    let kills = number("EBB_KILLS").unwrap_or(KILLS);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let place = Place::with_corpus();
    // The input has some MiB, so that jobs still run when the server is killed.
    for copy in 0..3 {
        let copied = format!("copy{copy}");
        std::fs::rename(place.path("corpus"), place.path(&copied)).unwrap();
        place.write_corpus();
        place
            .ebb(&format!("load --table app.lines {copied} --skip-bad"))
            .ok();
    }
    for (kind, (_, command)) in kinds().iter().enumerate() {
        let output = format!("expected{kind}.tsv");
        place
            .ebb(&format!(
                "run {command} --table app.lines --output {output}"
            ))
            .ok();
    }

    let mut ids: Vec<String> = Vec::new();
    for life in 0..=kills {
        place.until_unlocked();
        let server = Server::start(&place, "");
        let client = client(&place);
        let look = |ids: &[String]| -> Vec<JobView> {
            let mut jobs = client.list().unwrap();
            jobs.retain(|view| ids.contains(&view.record.id));
            jobs
        };
        if life == kills {
            for id in &ids {
                // The server answers after a minute at the latest.
                until("the end of a job", || {
                    !client.show(id, HANG).unwrap().is_running()
                });
            }
            // For a moment after its end, a job may be listed with the record of its start.
            let jobs = until_some("the records of all ends", || {
                let jobs = look(&ids);
                (counted(&jobs).0 == ids.len()).then_some(jobs)
            });
            for view in &jobs {
                assert_eq!(view.record.state, RecordState::Succeeded, "{view:?}");
            }
            let starts: Vec<u32> = jobs.iter().map(|view| view.record.starts).collect();
            println!("starts: {starts:?}");
            assert_eq!(server.stop(), Some(0));
            break;
        }
        // The moment of the kill is a number of jobs that have ended, so that it does not depend on
        // the speed of the machine.
        let wanted = if life == 0 {
            let jobs = JOBS + rng.random_range(0..=JOBS / 4);
            // All slots go to the oldest job: none of the others ends while they are submitted.
            let endless = client.submit(&endless_job(&place)).unwrap().record.id;
            for number in 0..jobs {
                let job = job(&place, number);
                ids.push(client.submit(&job).unwrap().record.id);
            }
            assert_eq!(counted(&look(&ids)), (0, jobs));
            assert!(client.cancel(&endless).unwrap());
            // Without the record of its end, the next server would start it again.
            until("the record that the endless job was cancelled", || {
                let view = client.show(&endless, HANG).unwrap();
                view.record.state == RecordState::Cancelled
            });
            // At most half, here and below, so that other jobs are still at work at the kill.
            rng.random_range(0..=jobs / 2)
        } else {
            let (before, at_work) = counted(&look(&ids));
            before + rng.random_range(0..=at_work / 2)
        };
        let (ended, at_work) = until_some("the jobs before the kill", || {
            let (ended, at_work) = counted(&look(&ids));
            (ended >= wanted).then_some((ended, at_work))
        });
        server.kill();
        println!("killed with {at_work} jobs at work, and {ended} that had ended");
    }

    for number in 0..ids.len() {
        let expected = place.read(&format!("expected{}.tsv", number % 4));
        if writes_table(number) {
            let rows = place.ebb(&format!("scan app.out{number}")).ok();
            assert_eq!(sorted(&rows), sorted(&expected), "{number}");
        } else {
            assert_eq!(place.read(&format!("{number}.tsv")), expected, "{number}");
        }
    }
    let snapshots = place.ebb("snapshot list --json").json();
    let names: Vec<_> = (snapshots.as_array().unwrap().iter())
        .map(|snapshot| &snapshot["name"])
        .collect();
    assert_eq!(names, ["s"], "those of the jobs went with them");
    place.ebb("verify").ok();
}
