//! The form in which the experiment writes its numbers to the JSON file that the user names: a series
//! for each figure, and for each part without figures.

use serde::Serialize;

/// The numbers computed for one x value with one seed.
#[derive(Debug, Serialize)]
pub struct Numbers {
    /// The x value of the point in its figure; in parts without figures, the number of jobs.
    pub x: f64,
    pub seed: u64,
    /// One number for each name in [`Series::names`], in the same order.
    pub numbers: Vec<f64>,
}

/// The numbers behind one figure of the paper, or behind a part of the experiment that has no
/// figures (`ratios`, `search`).
#[derive(Debug, Serialize)]
pub struct Series {
    pub title: String,
    pub names: Vec<String>,
    pub cases: Vec<Numbers>,
}
