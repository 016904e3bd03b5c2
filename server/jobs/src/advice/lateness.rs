//! The lateness of a job that will probably miss its goal, and the number of machines that would meet the
//! goal over a publication of its input.
//!
//! ```text
//!   CPU time of the publication     CPU time of the job
//!   ---------------------------  +  -------------------  <=  goal
//!    cores free for the job here      machines x cores
//! ```
//!
//! The publication comes first and runs on this machine, so no number of machines meets a goal that the
//! publication alone misses.

use serde::{Deserialize, Serialize};

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
    /// The prediction for the case that the input is published first and the job then runs on other machines.
    /// `None` if no publication is recorded whose input was at most ten times larger or smaller, or if the
    /// job reads anything that cannot be published.
    pub publication: Option<PublicationOutlook>,
}

/// The prediction for a job that runs on other machines and reads a publication of its input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PublicationOutlook {
    /// The job id of an earlier publication, whose measured CPU time is the basis of this prediction.
    pub profile_of: String,
    /// The speed of the earlier publication `profile_of`: bytes of its input per second of CPU time.
    pub bytes_per_cpu_s: f64,
    /// The predicted time of a publication of the input, in seconds, on the cores that are free for the job on this
    /// machine.
    pub publish_s: f64,
    /// The least number of machines that meet the goal, if each has as many free cores as the job may use on this
    /// machine; `None` if no number of machines does.
    pub machines: Option<u32>,
}

/// A job whose end on this machine is predicted.
#[derive(Debug, Clone, Copy)]
pub(super) struct PredictedJob {
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
    /// Bytes of the input's splits; 0 if they are not known.
    pub(super) bytes_in: u64,
}

impl PredictedJob {
    /// Returns the lateness, or `None` if the predicted end is not after the goal. `publications` are the profiles
    /// of earlier publications. They show how long a publication of the input takes.
    pub(super) fn lateness(&self, publications: &[ProfileRecord]) -> Option<Lateness> {
        let late_by_s = self.end_s - self.goal_s;
        (late_by_s > 0.0).then(|| Lateness {
            late_by_s,
            publication: self.publication(publications),
        })
    }

    /// Returns the prediction from the profile of the latest publication in `publications` that wrote all
    /// rows and whose input was at most ten times larger or smaller; `None` if there is none. Ignores
    /// publications that wrote only changed rows (their jobs have another name): they do not show how long a
    /// publication of all rows takes.
    fn publication(&self, publications: &[ProfileRecord]) -> Option<PublicationOutlook> {
        let outlooks = publications.iter().filter_map(|profile| {
            let measured = profile.measured(PUBLICATION)?;
            let growth = measured.growth(self.bytes_in)?;
            let cpu_s = measured.map.cpu_s;
            if cpu_s <= 0.0 || !measured.reaches(self.bytes_in) {
                return None;
            }
            let publish_s = cpu_s * growth / self.free_cores;
            Some(PublicationOutlook {
                profile_of: profile.job.clone(),
                bytes_per_cpu_s: measured.split_bytes as f64 / cpu_s,
                publish_s,
                machines: self.machines(publish_s),
            })
        });
        outlooks.max_by(|a, b| a.profile_of.cmp(&b.profile_of))
    }

    /// Returns the least number of machines that meet the goal if they begin `publish_s` seconds after the start;
    /// `None` if no number does.
    fn machines(&self, publish_s: f64) -> Option<u32> {
        let left_s = self.goal_s - publish_s;
        let cores = self.cpu_s / left_s;
        let machines = (cores / f64::from(self.cores.max(1))).ceil().max(1.0);
        (left_s > 0.0 && machines <= f64::from(u32::MAX)).then_some(machines as u32)
    }
}

#[cfg(test)]
mod tests {
    use ebb_scheduler::runtime::{MeasuredProfile, TaskMeasures};

    use super::*;
    use crate::publish::CHANGES_JOB;

    /// A job with 240 s of CPU time and 1000 bytes of input, on two cores, one of which other processes use.
    const JOB: PredictedJob = PredictedJob {
        goal_s: 60.0,
        end_s: 240.0,
        cpu_s: 240.0,
        cores: 2,
        free_cores: 1.0,
        bytes_in: 1000,
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

    fn outlook(job: PredictedJob, publications: &[ProfileRecord]) -> Option<PublicationOutlook> {
        job.lateness(publications).unwrap().publication
    }

    #[test]
    fn a_job_that_meets_its_goal_is_not_late() {
        for end_s in [1.0, 60.0] {
            let job = PredictedJob { end_s, ..JOB };
            assert_eq!(job.lateness(&[published("1", 1.0, 1000)]), None, "{end_s}");
        }
    }

    #[test]
    fn without_a_profile_of_a_publication_only_the_lateness_is_known() {
        let lateness = Lateness {
            late_by_s: 180.0,
            publication: None,
        };
        assert_eq!(JOB.lateness(&[]), Some(lateness));
    }

    /// The job has 1000 bytes of input, 240 s of CPU time and a goal of 60 s. Its publication takes 20 s on
    /// the one free core, because an earlier one took 10 s of CPU time for 500 bytes. In the 40 s that are
    /// left of the goal, 240 s of CPU time need 6 cores.
    #[test]
    fn the_machines_have_the_time_that_the_publication_leaves() {
        let found = outlook(JOB, &[published("1", 10.0, 500)]).unwrap();
        let expected = PublicationOutlook {
            profile_of: "1".to_string(),
            bytes_per_cpu_s: 50.0,
            publish_s: 20.0,
            machines: Some(3),
        };
        assert_eq!(found, expected);
        let machines = |job| outlook(job, &[published("1", 10.0, 500)]).unwrap().machines;
        assert_eq!(machines(PredictedJob { cores: 1, ..JOB }), Some(6));
        let more = PredictedJob {
            cpu_s: 241.0,
            ..JOB
        };
        assert_eq!(machines(more), Some(4), "a part of a machine is a machine");
        let little = PredictedJob { cpu_s: 1.0, ..JOB };
        assert_eq!(machines(little), Some(1), "the job has to run on a machine");
    }

    #[test]
    fn no_number_of_machines_meets_a_goal_that_the_publication_misses() {
        let publications = [published("1", 10.0, 500)];
        for goal_s in [1.0, 19.0, 20.0] {
            let job = PredictedJob { goal_s, ..JOB };
            let found = outlook(job, &publications).unwrap();
            assert_eq!((found.publish_s, found.machines), (20.0, None), "{goal_s}");
        }
        let job = PredictedJob {
            goal_s: 20.000_001,
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
        let unknown = PredictedJob { bytes_in: 0, ..JOB };
        assert_eq!(outlook(unknown, &publications), None);
    }
}
