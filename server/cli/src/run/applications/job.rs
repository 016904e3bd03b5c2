//! Any application with its arguments: what a job is noted as, and started from.

use std::path::Path;

use anyhow::Result;
use ebb_server::jobs::Application;
use ebb_server::jobs::history::NotedJob;
use ebb_storage::Db;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;

/// An application with its arguments.
#[derive(Debug, clap::Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "application", content = "arguments")]
pub(in crate::run) enum Job {
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
    /// What all of them have: which it is, what every job takes, and what it reads first.
    fn parts(&self) -> (Application, &Common, Option<&InputArgs>) {
        match self {
            Self::Aggregate(args) => (aggregate::APPLICATION, &args.common, Some(&args.input)),
            Self::Combine(args) => (combine::APPLICATION, &args.common, Some(&args.input)),
            Self::Grep(args) => (grep::APPLICATION, &args.common, Some(&args.input)),
            Self::Index(args) => (index::APPLICATION, &args.common, Some(&args.input)),
            Self::Join(args) => (join::APPLICATION, &args.common, Some(&args.input)),
            Self::Pagerank(args) => (pagerank::APPLICATION, &args.common, Some(&args.input)),
            Self::Pi(args) => (pi::APPLICATION, &args.common, None),
            Self::Select(args) => (select::APPLICATION, &args.common, Some(&args.input)),
            Self::Simulate(args) => (simulate::APPLICATION, &args.common, None),
            Self::Sort(args) => (sort::APPLICATION, &args.common, Some(&args.input)),
            Self::Validate(args) => (validate::APPLICATION, &args.common, Some(&args.input)),
            Self::Wordcount(args) => (wordcount::APPLICATION, &args.common, Some(&args.input)),
        }
    }

    pub(in crate::run) fn common(&self) -> &Common {
        self.parts().1
    }

    /// Its name, as in `ebb run NAME`.
    pub(in crate::run) fn name(&self) -> &'static str {
        self.parts().0.name
    }

    fn input(&self) -> Option<&InputArgs> {
        self.parts().2
    }

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
    pub(in crate::run) fn set_own_snapshot(&mut self, name: &str) {
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
    pub(in crate::run) fn delete_own_snapshot(&self, db: &Db) {
        if let Some(input) = self.input() {
            input.delete_own_snapshot(db);
        }
    }

    /// Whether a command for this job in `directory` is the same as that for the
    /// noted one. What goes to the terminal never is: the other one was another's.
    pub(in crate::run) fn is_noted_as(&self, noted: &NotedJob, directory: &Path) -> bool {
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
    pub(in crate::run) fn work_arguments(&self) -> Value {
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
    pub(in crate::run) fn reads_table(&self) -> bool {
        let with = match self {
            Self::Join(args) => args.with.is_table(),
            _ => false,
        };
        with || self.input().is_some_and(InputArgs::is_table)
    }

    /// What is to be run, with its input and output opened.
    pub(in crate::run) fn work(&self, launch: &mut Launch<'_>) -> Result<Work> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes outlive the version of ebb that wrote them.
    #[test]
    fn a_note_of_every_application_reads_as_it_was_written() {
        let common = json!({
            "cores": 1, "format": "csv", "goal": {"nanos": 0, "secs": 90}, "isolate": "process",
            "json": false, "limit": 10, "memory_bytes": 1048576, "output": "app.out",
            "policy": "forecast-edf", "spill_dir": "spill", "splits": 3,
        });
        let input = json!({
            "multiline": false, "names": ["a", "b"], "no_header": false, "owns_snapshot": true,
            "place": {
                "csv": [], "generate": null, "json_lines": [], "table": "app.lines", "text": [],
            },
            "prefix": null, "range": {"from": "a", "to": "z"}, "seed": 1, "snapshot": "run-1",
            "values": "csv",
        });
        let (reduces, order) = (
            json!({"reduces": 2}),
            json!({"by": ["fare"], "numeric": true, "reverse": false}),
        );
        let own = [
            json!({"by": ["city"], "of": ["fare"], "quantiles": [0.5, 0.99], "reduces": reduces}),
            json!({"by": ["city"], "reduces": reduces}),
            json!({"pattern": "x", "regex": true}),
            json!({"reduces": reduces}),
            json!({
                "left": true, "on": "id", "reduces": reduces, "with": "b.csv", "with_on": null,
            }),
            json!({
                "damping": 0.85, "from": "1", "iterations": 20, "reduces": reduces, "to": "2",
            }),
            json!({"points": 1000, "seed": 1, "variant": "plain"}),
            json!({"columns": ["b"], "conditions": ["a >= 1"], "keep": 0.5}),
            json!({"replicas": 2, "scenario": null}),
            json!({"order": order, "reduces": reduces}),
            json!({"order": order}),
            json!({"reduces": reduces}),
        ];
        let mut names = ebb_server::jobs::names();
        for mut arguments in own {
            let name = names.next().unwrap();
            arguments["common"] = common.clone();
            if !["pi", "simulate"].contains(&name) {
                arguments["input"] = input.clone();
            }
            let noted = json!({"application": name, "arguments": arguments});
            let job: Job = serde_json::from_value(noted.clone()).unwrap();
            assert_eq!((job.name(), &json!(job)), (name, &noted));
            assert_eq!(job.common().output, "app.out");
            assert_eq!(job.reads_table(), job.input().is_some());
        }
        assert_eq!(names.next(), None);
    }

    #[test]
    fn a_note_of_before_processes_and_own_snapshots_still_reads() {
        let noted = json!({"application": "wordcount", "arguments": {
            "common": {
                "cores": null, "format": null, "goal": null, "json": true, "memory_bytes": null,
                "output": "x.tsv", "policy": "fifo", "spill_dir": null, "splits": null,
            },
            "input": {
                "multiline": false, "names": [], "no_header": false,
                "place": {
                    "csv": [], "generate": null, "json_lines": [], "table": null,
                    "text": ["a.txt"],
                },
                "prefix": null, "range": null, "seed": 1, "snapshot": null, "values": "text",
            },
            "reduces": {"reduces": 1},
        }});
        let job: Job = serde_json::from_value(noted).unwrap();
        assert_eq!((job.name(), job.reads_table()), ("wordcount", false));
    }
}
