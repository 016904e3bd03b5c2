//! The applications: the demand and the length of tasks.

use super::error::FieldError;
use super::numbers::{
    FieldResult, at_most, count, factor, factor_of_at_least_one, log_sd, task_seconds,
};
use super::schema::{self, File};
use crate::model::{PhaseProfile, Profile, Resources};
use crate::sim::bounds::{INPUT_BYTES_MAX, NODE_HUNDREDTHS_MAX};
use crate::sim::{Stragglers, TaskLength};
use std::collections::BTreeMap;

/// The tasks of an application in the scenario file. All numbers were checked.
pub(super) struct Tasks<'a> {
    pub spec: &'a schema::Application,
    pub profile: Profile,
    pub stragglers: Option<Stragglers>,
    /// Replicas of each split; 0: input is equally near to all nodes.
    pub replicas: u32,
}

impl Tasks<'_> {
    /// Returns the distribution of the true lengths of tasks with this mean.
    pub fn length(&self, mean_s: f64) -> TaskLength {
        let log_sd = self.spec.task_log_sd;
        if log_sd > 0.0 {
            TaskLength::LogNormal { mean_s, log_sd }
        } else {
            TaskLength::Fixed(mean_s)
        }
    }
}

/// All applications by name, including those that no job uses.
pub(super) struct Applications<'a>(BTreeMap<&'a str, Tasks<'a>>);

impl<'a> Applications<'a> {
    pub fn new(file: &'a File) -> FieldResult<Self> {
        let named = |(name, spec): (&'a String, &'a schema::Application)| {
            tasks(file, name, spec).map(|tasks| (name.as_str(), tasks))
        };
        let all: FieldResult<BTreeMap<_, _>> = file.applications.iter().map(named).collect();
        all.map(Self)
    }

    /// Returns the application of this name. `user` is the table of the scenario file that
    /// contains the name, for the error.
    pub fn find(&self, user: &str, name: &str) -> FieldResult<&Tasks<'a>> {
        self.0.get(name).ok_or_else(|| {
            let what = format!("there is no [applications.{name}]");
            FieldError::new(format!("{user}.application"), what)
        })
    }

    /// Returns the application of this name, if there is one.
    pub fn get(&self, name: &str) -> Option<&Tasks<'a>> {
        self.0.get(name)
    }
}

fn tasks<'a>(file: &File, name: &str, spec: &'a schema::Application) -> FieldResult<Tasks<'a>> {
    let field = |field: &str| format!("applications.{name}.{field}");
    task_seconds(&field("map_s"), spec.map_s)?;
    let reduce_s = spec.reduce_s.unwrap_or(spec.map_s);
    task_seconds(&field("reduce_s"), reduce_s)?;
    log_sd(&field("task_log_sd"), spec.task_log_sd)?;
    let estimated_s = spec.estimated_map_s.unwrap_or(spec.map_s);
    task_seconds(&field("estimated_map_s"), estimated_s)?;
    factor_of_at_least_one(&field("remote_factor"), spec.remote_factor)?;
    if let Some(speedup) = spec.speedup {
        factor(&field("speedup"), speedup)?;
    }
    if !(0.0..=1.0).contains(&spec.straggler_fraction) {
        let what = format!("must lie between 0 and 1, got {}", spec.straggler_fraction);
        return Err(FieldError::new(field("straggler_fraction"), what));
    }
    factor_of_at_least_one(&field("straggler_factor"), spec.straggler_factor)?;
    at_most(
        &field("map_input_bytes"),
        spec.map_input_bytes,
        INPUT_BYTES_MAX,
    )?;
    for (phase, demand) in [("map", spec.map), ("reduce", spec.reduce)] {
        if let Some(demand) = demand {
            let field = field(&format!("{phase}.cpu_hundredths"));
            count(&field, demand.cpu_hundredths, NODE_HUNDREDTHS_MAX.into())?;
        }
    }
    let phase = |demand: Option<schema::Demand>, cpu_hundredths: u32, task_s: f64| PhaseProfile {
        demand: demand.map_or(Resources::cpu(cpu_hundredths), |demand| Resources {
            cpu_hundredths: demand.cpu_hundredths,
            io_bytes_per_s: demand.io_bytes_per_s,
            memory_bytes: demand.memory_bytes,
        }),
        task_s,
    };
    Ok(Tasks {
        spec,
        replicas: spec.replicas.unwrap_or(file.run.replicas),
        profile: Profile {
            map: phase(spec.map, 100, estimated_s),
            shuffle: phase(spec.shuffle, 0, 0.0),
            reduce: phase(spec.reduce, 100, reduce_s),
        },
        stragglers: (spec.straggler_fraction > 0.0).then_some(Stragglers {
            fraction: spec.straggler_fraction,
            factor: spec.straggler_factor,
        }),
    })
}
