//! The results of a part of an experiment: tables, pictures, JSON.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::table::Table;
use crate::console::write_json;

/// The results of one part of an experiment.
#[derive(Debug, Serialize)]
pub struct Part<T> {
    pub name: &'static str,
    pub tables: Vec<Table>,
    /// The measurements from which the tables and pictures are made.
    pub measured: Vec<T>,
    /// Pictures in SVG, with the names of their files without the extension.
    #[serde(skip)]
    pub pictures: Vec<(String, String)>,
}

impl<T> Part<T> {
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            tables: Vec::new(),
            measured: Vec::new(),
            pictures: Vec::new(),
        }
    }

    pub fn print(&self) {
        for table in &self.tables {
            table.print();
        }
    }
}

/// Writes the pictures of all parts into `folder`, and their tables and measurements to the file
/// `json`, as far as these paths are given.
pub fn write<T: Serialize>(
    parts: &[Part<T>],
    folder: Option<&Path>,
    json: Option<&Path>,
) -> Result<()> {
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        for (name, svg) in parts.iter().flat_map(|part| &part.pictures) {
            let path = folder.join(name).with_extension("svg");
            std::fs::write(&path, svg)
                .with_context(|| format!("cannot write {}", path.display()))?;
            println!("wrote {}", path.display());
        }
    }
    write_json(json, &parts)
}
