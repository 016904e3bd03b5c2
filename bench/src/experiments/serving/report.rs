//! The results of all parts: the text for the terminal, and the JSON.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;

use super::args::ServingArgs;
use crate::ycsb::Distribution;

/// The result of a part.
pub trait PartResult: Serialize {
    /// Returns the lines for the terminal.
    fn lines(&self) -> Vec<String>;
}

/// All measurements: the content of `--json-file`.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Processors of the machine, shared by client and server.
    cpus: usize,
    records: u64,
    value_bytes: u64,
    connections_of_client: u64,
    /// The distribution of the records that operations choose. Some parts have a fixed one
    /// and ignore this.
    distribution: Distribution,
    /// The results of the parts that have been measured, by name. Other parts have no field.
    #[serde(flatten)]
    parts: BTreeMap<&'static str, Value>,
    /// The lines of all results.
    #[serde(skip)]
    lines: Vec<String>,
}

impl Report {
    pub fn new(args: &ServingArgs) -> Self {
        Self {
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            records: args.records,
            value_bytes: args.value_bytes,
            connections_of_client: args.connections,
            distribution: args.distribution,
            parts: BTreeMap::new(),
            lines: Vec::new(),
        }
    }

    /// Adds the result of the part `name`.
    pub fn add(&mut self, name: &'static str, result: &impl PartResult) -> Result<()> {
        self.parts.insert(name, serde_json::to_value(result)?);
        self.lines.extend(result.lines());
        Ok(())
    }

    pub fn print(&self) {
        println!(
            "{} records of {} bytes, {} connections, client and server on {} cpus\n",
            self.records, self.value_bytes, self.connections_of_client, self.cpus
        );
        for line in &self.lines {
            println!("{line}");
        }
    }
}
