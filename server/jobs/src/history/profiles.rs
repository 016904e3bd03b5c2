//! The profiles of jobs, in table `profiles`: measurements from which the next execution of
//! an application is estimated. There is a row per application and work, with the key
//! `APPLICATION/HASH`.

use ebb_scheduler::runtime::MeasuredProfile;
use ebb_storage::Table;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::{Result, read_row};

/// The largest number of profiles per application. Those of the latest jobs are kept.
const PROFILES_MAX: usize = 100;

/// The largest number of ratios in [`ProfileRecord::took_over_estimate`]. Those of the latest executions are
/// kept.
const ESTIMATES_MAX: usize = 20;

/// The largest number of jobs in a recorded profile of a chain: those after the first 100 are left out.
const CHAIN_JOBS_MAX: usize = 100;

/// The measurements of one execution of an application: of its only job, or of each job of a chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ProfileRecord {
    /// The application that was executed.
    pub application: String,
    /// The description of the input for people; empty if there was none.
    pub input: String,
    /// The id of the job that was measured.
    pub job: String,
    /// The time of the record, in milliseconds since 1970.
    pub recorded_unix_ms: u64,
    /// The name and the profile of each job of the runtime: of the only one, or of the first 100 jobs of a
    /// chain.
    pub measured: Vec<(String, MeasuredProfile)>,
    /// The ratio of the time of a run to its estimate, for the latest runs of the same work that
    /// had an estimate.
    pub took_over_estimate: Vec<f64>,
}

impl ProfileRecord {
    /// Returns the measurements of the runtime's job with the name `name`; `None` if the profile has none.
    pub fn measured(&self, name: &str) -> Option<MeasuredProfile> {
        let found = self.measured.iter().find(|(of, _)| of == name);
        found.map(|(_, measured)| *measured)
    }

    /// Returns the measurements of that one of the runtime's jobs with the names `names` that has the median CPU
    /// time, of two in the middle the longer one; `None` if the profile has none of these jobs.
    pub(crate) fn typical(&self, names: &[String]) -> Option<MeasuredProfile> {
        let of_them = self.measured.iter().filter(|(of, _)| names.contains(of));
        let mut measured: Vec<MeasuredProfile> = of_them.map(|(_, measured)| *measured).collect();
        let cpu_s = |of: &MeasuredProfile| of.map.cpu_s + of.reduce.cpu_s;
        measured.sort_by(|a, b| cpu_s(a).total_cmp(&cpu_s(b)));
        measured.get(measured.len() / 2).copied()
    }
}

/// A profile from which a new job can be estimated.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownProfile {
    pub profile: ProfileRecord,
    /// True if the profile is of the same work over the same input; false if it is only of the same application.
    pub is_same_work: bool,
}

#[derive(Debug, Clone)]
pub(super) struct ProfileTable {
    pub(super) table: Table,
}

impl ProfileTable {
    /// Replaces the profile of `work`, which identifies the computation and its input. Adds the ratios of the
    /// replaced profile to the new one. Deletes the oldest profiles of the application beyond `PROFILES_MAX`.
    pub(super) fn record(&self, work: &Value, mut profile: ProfileRecord) -> Result<()> {
        let application = profile.application.clone();
        profile.measured.truncate(CHAIN_JOBS_MAX);
        if let Some(before) = self.same(&application, work)? {
            (profile.took_over_estimate).splice(0..0, before.took_over_estimate);
        }
        let surplus = profile
            .took_over_estimate
            .len()
            .saturating_sub(ESTIMATES_MAX);
        profile.took_over_estimate.drain(..surplus);
        let bytes = serde_json::to_vec(&profile).expect("a profile has text keys only");
        self.table.put(key(&application, work).as_bytes(), &bytes)?;
        let mut of_it = self.of(&application)?;
        of_it.sort_by(|(_, a), (_, b)| a.job.cmp(&b.job));
        for (key, _) in &of_it[..of_it.len().saturating_sub(PROFILES_MAX)] {
            self.table.delete(key)?;
        }
        Ok(())
    }

    /// Returns the profile of the same work. If there is none, returns one of the application, or
    /// `None` if that has none. Profiles with measurements of the runtime's job `job` are preferred
    /// to those without, and among these the profiles of jobs that read something, because an empty
    /// input shows nothing about other work. Of several such profiles, returns the latest.
    pub(super) fn known(
        &self,
        application: &str,
        job: &str,
        work: &Value,
    ) -> Result<Option<KnownProfile>> {
        if let Some(profile) = self.same(application, work)? {
            return Ok(Some(KnownProfile {
                profile,
                is_same_work: true,
            }));
        }
        let of_it = self.of(application)?.into_iter();
        let rank = |profile: &ProfileRecord| {
            let measured = profile.measured(job);
            let has_read = measured.is_some_and(|measured| measured.split_bytes > 0);
            (measured.is_some(), has_read, profile.job.clone())
        };
        let latest = of_it.max_by(|(_, a), (_, b)| rank(a).cmp(&rank(b)));
        Ok(latest.map(|(_, profile)| KnownProfile {
            profile,
            is_same_work: false,
        }))
    }

    fn same(&self, application: &str, work: &Value) -> Result<Option<ProfileRecord>> {
        let key = key(application, work);
        let found = self.table.get(key.as_bytes())?;
        let found = found.map(|value| read_row("profiles", key.as_bytes(), &value));
        found.transpose()
    }

    /// Returns all profiles, ordered by application.
    pub(super) fn all(&self) -> Result<Vec<ProfileRecord>> {
        let profiles = self.with_prefix("")?.into_iter();
        Ok(profiles.map(|(_, profile)| profile).collect())
    }

    /// Returns the profiles of an application, with their keys.
    pub(super) fn of(&self, application: &str) -> Result<Vec<(Vec<u8>, ProfileRecord)>> {
        self.with_prefix(&format!("{application}/"))
    }

    fn with_prefix(&self, prefix: &str) -> Result<Vec<(Vec<u8>, ProfileRecord)>> {
        let mut profiles = Vec::new();
        for row in self.table.prefix(prefix.as_bytes()) {
            let (key, value) = row?;
            profiles.push((key.to_vec(), read_row("profiles", &key, &value)?));
        }
        Ok(profiles)
    }
}

fn key(application: &str, work: &Value) -> String {
    format!(
        "{application}/{:016x}",
        xxh3_64(work.to_string().as_bytes())
    )
}
