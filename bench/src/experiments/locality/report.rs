//! What a part came to: tables, pictures, rows as JSON.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::console::write_json;
use crate::queueing::QueueingRow;

/// A table with a title.
#[derive(Debug, Serialize)]
pub struct Table {
    pub title: String,
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

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
            println!("{}\n", table.title);
            let all = || std::iter::once(&table.head).chain(&table.rows);
            let width = |column: usize| all().map(|row| row[column].len()).max().unwrap_or(0);
            let widths: Vec<usize> = (0..table.head.len()).map(width).collect();
            for row in all() {
                let mut line = format!("{:<1$}", row[0], widths[0]);
                for (cell, width) in row[1..].iter().zip(&widths[1..]) {
                    line += &format!("  {cell:>width$}");
                }
                println!("{line}");
            }
            println!();
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
