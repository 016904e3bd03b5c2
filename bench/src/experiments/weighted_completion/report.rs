//! What a part came to: tables, pictures, numbers as JSON.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::super::table::Table;
use crate::console::write_json;

/// Numbers of one case.
#[derive(Debug, Serialize)]
pub struct Numbers {
    /// Where it stands on the axis of its figure; of parts without one, the seed.
    pub x: f64,
    pub seed: u64,
    /// In the order of the part's or the figure's names.
    pub numbers: Vec<f64>,
}

/// All numbers of a figure, or of a part without figures.
#[derive(Debug, Serialize)]
pub struct Series {
    pub title: String,
    pub names: Vec<String>,
    pub cases: Vec<Numbers>,
}

/// What one part came to.
#[derive(Debug, Default, Serialize)]
pub struct Part {
    pub name: &'static str,
    pub tables: Vec<Table>,
    pub series: Vec<Series>,
    /// SVG by the names of files without their ending.
    #[serde(skip)]
    pub pictures: Vec<(String, String)>,
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
