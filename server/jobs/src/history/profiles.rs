//! What jobs took, in table `profiles`: what the next execution of an application starts
//! from. A row per application and work, its key `APPLICATION/HASH`.

use ebb_scheduler::runtime::MeasuredProfile;
use ebb_storage::Table;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::{Result, read_row};

/// Profiles that are kept of an application; of more, those that were recorded last.
const PROFILES_MAX: usize = 100;

/// Executions whose estimation error is kept; of more, those of the latest.
const ESTIMATES_MAX: usize = 20;

/// Jobs of a chain that a profile is kept of: the first so many.
const CHAIN_JOBS_MAX: usize = 100;

/// What the jobs of one execution took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ProfileRecord {
    /// Of which application.
    pub application: String,
    /// What was read, in words; empty where nothing was.
    pub input: String,
    /// The job it was measured in.
    pub job: String,
    /// When, in milliseconds since 1970.
    pub recorded_unix_ms: u64,
    /// By the name of the job: one, or those of a chain.
    pub measured: Vec<(String, MeasuredProfile)>,
    /// Of the latest runs of the same work, how long they took over what was estimated
    /// before they started, where something was.
    pub took_over_estimate: Vec<f64>,
}

impl ProfileRecord {
    /// What the job of this name took.
    pub fn measured(&self, name: &str) -> Option<MeasuredProfile> {
        let found = self.measured.iter().find(|(of, _)| of == name);
        found.map(|(_, measured)| *measured)
    }
}

/// A profile that a job can start from.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownProfile {
    /// What is known.
    pub profile: ProfileRecord,
    /// Whether it is of the same work over the same input; else it is of the same
    /// application only.
    pub is_same_work: bool,
}

#[derive(Debug, Clone)]
pub(super) struct ProfileTable {
    pub(super) table: Table,
}

impl ProfileTable {
    /// Keeps a profile under `work`: what the job does, and over what.
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

    /// That of the same work, or the latest of the application.
    pub(super) fn known(&self, application: &str, work: &Value) -> Result<Option<KnownProfile>> {
        if let Some(profile) = self.same(application, work)? {
            return Ok(Some(KnownProfile {
                profile,
                is_same_work: true,
            }));
        }
        let of_it = self.of(application)?.into_iter();
        let latest = of_it.max_by(|(_, a), (_, b)| a.job.cmp(&b.job));
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

    /// All of them, by application.
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
