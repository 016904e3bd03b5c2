//! `ebb run --dry-run` of a job that will miss its goal: the time of a publication, and the machines that could meet
//! the goal.

use ebb_jobs::history::History;
use ebb_storage::{Db, Options};

use crate::advice::RUN;
use crate::place::Place;

#[test]
fn a_job_that_will_be_late_has_the_time_that_a_publication_takes() {
    let place = Place::with_corpus();
    place.ebb(&format!("{RUN} --output app.first")).ok();
    let dry = |goal: &str| {
        let run = format!("{RUN} --output app.second --dry-run --goal {goal}");
        place.ebb(&run).ok()
    };
    let told = dry("1us");
    assert!(
        told.contains("after the goal") && told.contains("how long publishing takes is not known"),
        "{told}"
    );
    assert!(!dry("1h").contains("after the goal"));

    place.ebb("publish app@s lake --table lines").ok();
    let jobs = place.ebb("jobs --json").json();
    assert_eq!(jobs[1]["application"], "publish", "{jobs}");
    let told = dry("1us");
    assert!(
        told.contains("more machines would not meet it either"),
        "{told}"
    );
    let run = format!("{RUN} --output app.second --dry-run --goal 1us --json");
    let publication = place.ebb(&run).json()["advice"]["lateness"]["publication"].clone();
    assert_eq!(publication["profile_of"], jobs[1]["id"], "{publication}");
    assert!(
        publication["publish_s"].as_f64().unwrap() > 0.0,
        "{publication}"
    );
    assert!(publication["machines"].is_null(), "{publication}");
}

/// Makes the recorded maps of the only word count in the history slow: together they have taken `cpu_s` seconds of
/// CPU time. What a job takes on this machine then has no part in its estimate.
fn slow_down_maps(place: &Place, cpu_s: f64) {
    {
        let db = Db::open(place.path("ebb-data"), Options::default()).unwrap();
        let history = History::open(&db).unwrap();
        let jobs = history.jobs().unwrap();
        let job = jobs.iter().find(|job| job.application == "wordcount");
        let job = job.unwrap();
        let work = job.request().unwrap();
        let work = work.work_of("wordcount", &job.tables.inputs);
        let mut profile = history.profiles_of("wordcount").unwrap().remove(0);
        let map = &mut profile.measured[0].1.map;
        map.cpu_s = cpu_s;
        map.cpu_s_max = cpu_s / map.tasks as f64;
        (history.record_profile(job, &work, &profile.input, profile.measured, None)).unwrap();
    }
    place.until_unlocked();
}

/// The maps take 12,000 s on one core, so the job misses its goal of 3600 s by far. In Spark they take 1.64 times
/// that. The publication of a MiB takes almost no time, so there are some 3590 s for 19,700 s of CPU time: six
/// machines of a core.
#[test]
fn a_job_that_will_be_late_has_the_machines_of_spark_that_could_meet_its_goal() {
    let place = Place::with_corpus();
    place.ebb(&format!("{RUN} --output app.first")).ok();
    place.ebb("publish app@s lake --table lines").ok();
    slow_down_maps(&place, 12_000.0);
    let dry = format!("{RUN} --output app.second --dry-run --goal 1h --cores 1");
    let advice = place.ebb(&format!("{dry} --json")).json()["advice"].clone();
    assert_eq!(advice["is_same_work"], true, "{advice}");
    let publication = &advice["lateness"]["publication"];
    assert_eq!(publication["machines"], 6, "{advice}");
    assert!(
        publication["spark_cpu_ratio"].as_f64().unwrap() > 1.0,
        "{advice}"
    );
    let told = place.ebb(&dry).ok();
    assert!(
        told.contains("6 machines of 1 core could meet the goal by Spark"),
        "{told}"
    );
}

/// Regression: the time of a publication was predicted from the bytes of the rows that the job reads.
#[test]
fn a_publication_is_predicted_for_whole_tables_also_if_the_job_reads_a_part() {
    let place = Place::with_corpus();
    place.ebb("publish app@s lake --table lines").ok();
    let published_bytes = |rows: &str| {
        let run = format!("run wordcount --table app.lines --snapshot s {rows} --output app.");
        place.ebb(&format!("{run}counts{}", rows.len())).ok();
        let dry = format!("{run}late --goal 1us --dry-run --json");
        let advice = place.ebb(&dry).json()["advice"].clone();
        let publication = &advice["lateness"]["publication"];
        // The predicted time is the bytes over their rate and the free cores.
        [
            &publication["publish_s"],
            &publication["bytes_per_cpu_s"],
            &advice["free_cores"],
        ]
        .map(|factor| factor.as_f64().unwrap_or_else(|| panic!("{advice}")))
        .iter()
        .product::<f64>()
    };
    let all = published_bytes("");
    for part in ["--prefix corpus/d0", "--range corpus/d1..corpus/d2"] {
        let bytes = published_bytes(part);
        assert!((bytes / all - 1.0).abs() < 1e-6, "{part}: {bytes} of {all}");
    }
}
