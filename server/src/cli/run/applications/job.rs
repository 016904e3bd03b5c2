//! Any application with its arguments: what a job is noted as, and started from.

use std::path::Path;

use anyhow::Result;
use ebb_storage::Db;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;
use crate::jobs::history::NotedJob;

/// An application with its arguments.
#[derive(Debug, clap::Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "application", content = "arguments")]
pub(in crate::cli::run) enum Job {
    Aggregate(Box<Aggregate>),
    Combine(Box<Combine>),
    Grep(Box<Grep>),
    Index(Box<Index>),
    Join(Box<Join>),
    Pagerank(Box<Pagerank>),
    Pi(Box<Pi>),
    Select(Box<Select>),
    Simulate(Box<Simulate>),
    Sort(Box<Sort>),
    Validate(Box<Validate>),
    Wordcount(Box<Wordcount>),
}

impl Job {
    pub(in crate::cli::run) fn common(&self) -> &Common {
        match self {
            Self::Aggregate(args) => &args.common,
            Self::Combine(args) => &args.common,
            Self::Grep(args) => &args.common,
            Self::Index(args) => &args.common,
            Self::Join(args) => &args.common,
            Self::Pagerank(args) => &args.common,
            Self::Pi(args) => &args.common,
            Self::Select(args) => &args.common,
            Self::Simulate(args) => &args.common,
            Self::Sort(args) => &args.common,
            Self::Validate(args) => &args.common,
            Self::Wordcount(args) => &args.common,
        }
    }

    /// Its name, as in `ebb run NAME`.
    pub(in crate::cli::run) fn name(&self) -> &'static str {
        match self {
            Self::Aggregate(_) => aggregate::APPLICATION.name,
            Self::Combine(_) => combine::APPLICATION.name,
            Self::Grep(_) => grep::APPLICATION.name,
            Self::Index(_) => index::APPLICATION.name,
            Self::Join(_) => join::APPLICATION.name,
            Self::Pagerank(_) => pagerank::APPLICATION.name,
            Self::Pi(_) => pi::APPLICATION.name,
            Self::Select(_) => select::APPLICATION.name,
            Self::Simulate(_) => simulate::APPLICATION.name,
            Self::Sort(_) => sort::APPLICATION.name,
            Self::Validate(_) => validate::APPLICATION.name,
            Self::Wordcount(_) => wordcount::APPLICATION.name,
        }
    }

    fn input(&self) -> Option<&InputArgs> {
        match self {
            Self::Aggregate(args) => Some(&args.input),
            Self::Combine(args) => Some(&args.input),
            Self::Grep(args) => Some(&args.input),
            Self::Index(args) => Some(&args.input),
            Self::Join(args) => Some(&args.input),
            Self::Pagerank(args) => Some(&args.input),
            Self::Select(args) => Some(&args.input),
            Self::Sort(args) => Some(&args.input),
            Self::Validate(args) => Some(&args.input),
            Self::Wordcount(args) => Some(&args.input),
            Self::Pi(_) | Self::Simulate(_) => None,
        }
    }

    /// What it reads first.
    fn input_mut(&mut self) -> Option<&mut InputArgs> {
        match self {
            Self::Aggregate(args) => Some(&mut args.input),
            Self::Combine(args) => Some(&mut args.input),
            Self::Grep(args) => Some(&mut args.input),
            Self::Index(args) => Some(&mut args.input),
            Self::Join(args) => Some(&mut args.input),
            Self::Pagerank(args) => Some(&mut args.input),
            Self::Select(args) => Some(&mut args.input),
            Self::Sort(args) => Some(&mut args.input),
            Self::Validate(args) => Some(&mut args.input),
            Self::Wordcount(args) => Some(&mut args.input),
            Self::Pi(_) | Self::Simulate(_) => None,
        }
    }

    /// What it is to read when it starts again: the snapshot that was made for it,
    /// if it has one input only.
    pub(in crate::cli::run) fn set_own_snapshot(&mut self, name: &str) {
        // The snapshot of one side does not cover the other.
        if matches!(self, Self::Join(_)) {
            return;
        }
        if let Some(input) = self.input_mut() {
            input.set_own_snapshot(name);
        }
    }

    /// Deletes the snapshot that was made for it, if there was one: it is not started
    /// again.
    pub(in crate::cli::run) fn delete_own_snapshot(&self, db: &Db) {
        if let Some(input) = self.input() {
            input.delete_own_snapshot(db);
        }
    }

    /// Whether a command for this job in `directory` is the same as that for the
    /// noted one. What goes to the terminal never is: the other one was another's.
    pub(in crate::cli::run) fn is_noted_as(&self, noted: &NotedJob, directory: &Path) -> bool {
        if self.common().output == "-" {
            return false;
        }
        let told = serde_json::from_value::<Self>(noted.arguments.clone());
        told.is_ok_and(|mut told| {
            if let Some(input) = told.input_mut() {
                input.forget_own_snapshot();
            }
            noted.directory == directory && json!(told) == json!(self)
        })
    }

    /// Its arguments as far as what there is to do depends on them: what is read and
    /// what is computed, but not at which snapshot, in how many tasks, by when and
    /// where to.
    pub(in crate::cli::run) fn work_arguments(&self) -> Value {
        let mut arguments = json!(self)["arguments"].take();
        if let Some(all) = arguments.as_object_mut() {
            all.remove("common");
            all.remove("reduces");
        }
        let input = arguments.get_mut("input");
        if let Some(input) = input.and_then(Value::as_object_mut) {
            input.remove("snapshot");
            input.remove("owns_snapshot");
        }
        arguments
    }

    /// Whether a table is read.
    pub(in crate::cli::run) fn reads_table(&self) -> bool {
        let with = match self {
            Self::Join(args) => args.with.is_table(),
            _ => false,
        };
        with || self.input().is_some_and(InputArgs::is_table)
    }

    /// What is to be run, with its input and output opened.
    pub(in crate::cli::run) fn work(&self, launch: &mut Launch<'_>) -> Result<Work> {
        match self {
            Self::Aggregate(args) => args.work(launch),
            Self::Combine(args) => args.work(launch),
            Self::Grep(args) => args.work(launch),
            Self::Index(args) => args.work(launch),
            Self::Join(args) => args.work(launch),
            Self::Pagerank(args) => args.work(launch),
            Self::Pi(args) => args.work(launch),
            Self::Select(args) => args.work(launch),
            Self::Simulate(args) => args.work(launch),
            Self::Sort(args) => args.work(launch),
            Self::Validate(args) => args.work(launch),
            Self::Wordcount(args) => args.work(launch),
        }
    }
}
