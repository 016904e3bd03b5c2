//! The lateness of a job that will probably miss its goal, and the number of machines with Spark that would
//! meet the goal over a publication of the tables that it reads.
//!
//! ```text
//!   CPU time of the publication                        CPU time of the job in Spark
//!   ---------------------------  +  start of Spark  +  ----------------------------  <=  goal
//!    cores free for the job here                             machines x cores
//! ```
//!
//! The book has the same formula (`docs/src/guide/more-machines.md`). The publication comes first and runs on
//! this machine, so no number of machines meets a goal that the publication and the start of Spark alone miss.
//! The CPU time in Spark is that in ebb times a measured ratio, or 1 for an application without one: see `spark`.

use serde::{Deserialize, Serialize};

use super::spark;
use crate::application::Application;
use crate::history::ProfileRecord;
use crate::request::PublishRequest;

/// The name of the application that publishes tables. The profiles of its jobs show how fast publications
/// are.
pub const PUBLICATION: &str = PublishRequest::NAME;

/// The lateness of a job whose predicted end is after its goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Lateness {
    /// The time from the goal to the predicted end, in seconds; positive.
    pub late_by_s: f64,
    /// The prediction for the case that the tables that the job reads are published first, and the job then
    /// runs in Spark on other machines. `None` if no publication is recorded whose tables were at most ten times
    /// larger or smaller, or if the job reads anything that cannot be published.
    pub publication: Option<PublicationOutlook>,
}

/// The prediction for a job that runs in Spark on other machines and reads a publication of its tables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PublicationOutlook {
    /// The job id of an earlier publication, whose measured CPU time is the basis of this prediction.
    pub profile_of: String,
    /// The speed of the earlier publication `profile_of`: bytes of its input per second of CPU time.
    pub bytes_per_cpu_s: f64,
    /// The predicted time of a publication of all rows of the tables, in seconds, on the cores that are free for
    /// the job on this machine.
    pub publish_s: f64,
    /// The time that Spark takes to start, in seconds, as it was measured.
    pub spark_start_s: f64,
    /// The CPU time that Spark takes for the application divided by that of ebb, as it was measured; `None` if it
    /// was not. Then `machines` assumes 1.
    pub spark_cpu_ratio: Option<f64>,
    /// The least number of machines that meet the goal, if each has as many free cores as the job may use on this
    /// machine, and the cores are as fast; `None` if no number of machines does.
    pub machines: Option<u32>,
}

/// The facts from which a publication of the tables that a job reads is predicted. Empty if the job has no goal, or
/// if no other engine could run it over published copies of its inputs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PublicationFacts {
    /// The profiles of earlier jobs that published tables as Iceberg tables.
    pub profiles: Vec<ProfileRecord>,
    /// Bytes of all rows of the tables that the job reads, which a publication reads; 0 if they are not known.
    pub tables_bytes: u64,
}

/// A job whose end on this machine is predicted.
#[derive(Debug, Clone, Copy)]
pub(super) struct PredictedJob<'a> {
    /// The name of the application.
    pub(super) application: &'a str,
    /// The goal in seconds from the start.
    pub(super) goal_s: f64,
    /// The predicted end in seconds from the start.
    pub(super) end_s: f64,
    /// The predicted CPU time of all tasks together, in seconds.
    pub(super) cpu_s: f64,
    /// The number of cores that the job may use.
    pub(super) cores: u32,
    /// The number of cores that are free for the job, which may be a fraction; positive.
    pub(super) free_cores: f64,
}

impl PredictedJob<'_> {
    /// Returns the lateness, or `None` if the predicted end is not after the goal.
    pub(super) fn lateness(&self, publications: &PublicationFacts) -> Option<Lateness> {
        let late_by_s = self.end_s - self.goal_s;
        (late_by_s > 0.0).then(|| Lateness {
            late_by_s,
            publication: self.publication(publications),
        })
    }

    /// Returns the prediction from the profile of the latest publication in `facts` that wrote all
    /// rows and whose tables were at most ten times larger or smaller; `None` if there is none. Ignores
    /// publications that wrote only changed rows (their jobs have another name): they do not show how long a
    /// publication of all rows takes.
    fn publication(&self, facts: &PublicationFacts) -> Option<PublicationOutlook> {
        let outlooks = facts.profiles.iter().filter_map(|profile| {
            let measured = profile.measured(PUBLICATION)?;
            let growth = measured.growth(facts.tables_bytes)?;
            let cpu_s = measured.map.cpu_s;
            if cpu_s <= 0.0 || !measured.reaches(facts.tables_bytes) {
                return None;
            }
            let publish_s = cpu_s * growth / self.free_cores;
            Some(PublicationOutlook {
                profile_of: profile.job.clone(),
                bytes_per_cpu_s: measured.split_bytes as f64 / cpu_s,
                publish_s,
                spark_start_s: spark::START_S,
                spark_cpu_ratio: spark::cpu_ratio(self.application),
                machines: self.machines(publish_s),
            })
        });
        outlooks.max_by(|a, b| a.profile_of.cmp(&b.profile_of))
    }

    /// Returns the least number of machines that meet the goal if Spark is started `publish_s` seconds after the
    /// start; `None` if no number does.
    fn machines(&self, publish_s: f64) -> Option<u32> {
        let left_s = self.goal_s - publish_s - spark::START_S;
        let spark_cpu_s = self.cpu_s * spark::cpu_ratio(self.application).unwrap_or(1.0);
        let cores = spark_cpu_s / left_s;
        let machines = (cores / f64::from(self.cores.max(1))).ceil().max(1.0);
        (left_s > 0.0 && machines <= f64::from(u32::MAX)).then_some(machines as u32)
    }
}

#[cfg(test)]
mod tests {
    use ebb_scheduler::runtime::{MeasuredProfile, TaskMeasures};

    use super::*;
    use crate::publish::CHANGES_JOB;

    /// A job with almost 240 s of CPU time on two cores, one of which other processes use. The CPU time of its
    /// application in Spark was not measured. Spark starts when 60 s are left.
    const JOB: PredictedJob<'static> = PredictedJob {
        application: "grep",
        goal_s: 60.0 + spark::START_S,
        end_s: 240.0,
        cpu_s: 239.0,
        cores: 2,
        free_cores: 1.0,
    };

    /// Returns the profile of a publication that took `cpu_s` seconds of CPU time. `job` is its id, and
    /// `split_bytes` the size of its input in bytes.
    fn published(job: &str, cpu_s: f64, split_bytes: u64) -> ProfileRecord {
        let measured = MeasuredProfile {
            map: TaskMeasures {
                tasks: 4,
                cpu_s,
                ..TaskMeasures::default()
            },
            split_bytes,
            ..MeasuredProfile::default()
        };
        ProfileRecord {
            application: PUBLICATION.to_string(),
            input: "app.lines".to_string(),
            job: job.to_string(),
            recorded_unix_ms: 0,
            measured: vec![(PUBLICATION.to_string(), measured)],
            took_over_estimate: Vec::new(),
        }
    }

    #[test]
    fn a_publication_of_changes_gives_no_rate_of_all_rows() {
        let mut changes = published("9", 0.1, 1000);
        changes.measured[0].0 = CHANGES_JOB.to_string();
        assert_eq!(outlook(JOB, std::slice::from_ref(&changes)), None);
        let found = outlook(JOB, &[published("1", 20.0, 1000), changes]).unwrap();
        assert_eq!((&found.profile_of[..], found.publish_s), ("1", 20.0));
    }

    /// Returns the facts about a job that reads tables of 1000 bytes.
    fn facts(profiles: &[ProfileRecord]) -> PublicationFacts {
        PublicationFacts {
            profiles: profiles.to_vec(),
            tables_bytes: 1000,
        }
    }

    fn outlook(job: PredictedJob<'_>, profiles: &[ProfileRecord]) -> Option<PublicationOutlook> {
        job.lateness(&facts(profiles)).unwrap().publication
    }

    #[test]
    fn a_job_that_meets_its_goal_is_not_late() {
        let publications = facts(&[published("1", 1.0, 1000)]);
        for end_s in [1.0, JOB.goal_s] {
            let job = PredictedJob { end_s, ..JOB };
            assert_eq!(job.lateness(&publications), None, "{end_s}");
        }
    }

    #[test]
    fn without_a_profile_of_a_publication_only_the_lateness_is_known() {
        let job = PredictedJob {
            end_s: JOB.goal_s + 180.0,
            ..JOB
        };
        let lateness = job.lateness(&facts(&[])).unwrap();
        assert!((lateness.late_by_s - 180.0).abs() < 1e-9, "{lateness:?}");
        assert_eq!(lateness.publication, None);
    }

    /// The job reads tables of 1000 bytes. Their publication takes 20 s on the one free core, because an earlier
    /// one took 10 s of CPU time for 500 bytes. In the 40 s that are left of the goal when Spark has started,
    /// almost 240 s of CPU time need 6 cores.
    #[test]
    fn the_machines_have_the_time_that_the_publication_and_the_start_of_spark_leave() {
        let found = outlook(JOB, &[published("1", 10.0, 500)]).unwrap();
        let expected = PublicationOutlook {
            profile_of: "1".to_string(),
            bytes_per_cpu_s: 50.0,
            publish_s: 20.0,
            spark_start_s: spark::START_S,
            spark_cpu_ratio: None,
            machines: Some(3),
        };
        assert_eq!(found, expected);
        assert_eq!(machines(PredictedJob { cores: 1, ..JOB }), Some(6));
        let more = PredictedJob {
            cpu_s: 241.0,
            ..JOB
        };
        assert_eq!(machines(more), Some(4), "a part of a machine is a machine");
        let little = PredictedJob { cpu_s: 1.0, ..JOB };
        assert_eq!(machines(little), Some(1), "the job has to run on a machine");
    }

    /// Returns the least number of machines for `job` after a publication that takes 20 s.
    fn machines(job: PredictedJob<'_>) -> Option<u32> {
        outlook(job, &[published("1", 10.0, 500)]).unwrap().machines
    }

    /// Regression: the CPU time of ebb counted, so the machines of Spark were too few or too many.
    #[test]
    fn the_machines_do_the_work_at_the_speed_of_spark() {
        for application in ["wordcount", "aggregate", "pagerank"] {
            let ratio = spark::cpu_ratio(application).unwrap();
            // In 40 s, 399 s of CPU time in Spark need ten cores.
            let job = PredictedJob {
                application,
                end_s: 1e4,
                cpu_s: 399.0 / ratio,
                ..JOB
            };
            assert_eq!(machines(job), Some(5), "{application}");
            let found = outlook(job, &[published("1", 10.0, 500)]).unwrap();
            assert_eq!(found.spark_cpu_ratio, Some(ratio), "{application}");
        }
    }

    #[test]
    fn no_number_of_machines_meets_a_goal_that_the_publication_misses() {
        let publications = [published("1", 10.0, 500)];
        for goal_s in [1.0, 20.0, 20.0 + spark::START_S] {
            let job = PredictedJob { goal_s, ..JOB };
            let found = outlook(job, &publications).unwrap();
            assert_eq!((found.publish_s, found.machines), (20.0, None), "{goal_s}");
        }
        let job = PredictedJob {
            goal_s: 20.000_001 + spark::START_S,
            cpu_s: 1e9,
            ..JOB
        };
        assert_eq!(outlook(job, &publications).unwrap().machines, None);
    }

    #[test]
    fn the_rate_is_that_of_the_latest_publication_of_about_this_size() {
        let far = published("5", 1.0, 99);
        let nothing_left_to_publish = published("6", 0.0, 0);
        let publications = [
            published("2", 30.0, 1000),
            published("3", 10.0, 1000),
            published("1", 20.0, 1000),
            far.clone(),
            nothing_left_to_publish.clone(),
        ];
        assert_eq!(outlook(JOB, &publications).unwrap().profile_of, "3");
        assert_eq!(outlook(JOB, &[far, nothing_left_to_publish]), None);
        let unknown = PublicationFacts {
            tables_bytes: 0,
            ..facts(&publications)
        };
        assert_eq!(JOB.lateness(&unknown).unwrap().publication, None);
    }
}
