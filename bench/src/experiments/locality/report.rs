//! What a part came to: tables, pictures, rows as JSON.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::console::write_json;
use crate::queueing::QueueingRow;

pub use super::super::table::Table;

/// What one part came to.
#[derive(Debug, Default, Serialize)]
pub struct Part {
    pub name: &'static str,
    pub tables: Vec<Table>,
    /// By setting.
    pub rows: Vec<(String, Vec<QueueingRow>)>,
    /// SVG by the names of files without their ending.
    #[serde(skip)]
    pub pictures: Vec<(&'static str, String)>,
}

impl Part {
    pub fn print(&self) {
        for table in &self.tables {
            table.print();
        }
    }
}

/// Writes what was asked for.
pub fn write(parts: &[Part], folder: Option<&Path>, json: Option<&Path>) -> Result<()> {
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
    json.map_or(Ok(()), |path| write_json(path, &parts))
}
