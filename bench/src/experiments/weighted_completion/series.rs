//! The numbers of a figure in the JSON file.

use serde::Serialize;

/// The numbers of one case.
#[derive(Debug, Serialize)]
pub struct Numbers {
    /// The place on the axis of the figure; in parts without figures, the seed.
    pub x: f64,
    pub seed: u64,
    /// One number for each name in [`Series::names`], in the same order.
    pub numbers: Vec<f64>,
}

/// The numbers of a figure, or of a part without figures.
#[derive(Debug, Serialize)]
pub struct Series {
    pub title: String,
    pub names: Vec<String>,
    pub cases: Vec<Numbers>,
}
