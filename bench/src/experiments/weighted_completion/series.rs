//! The numbers of a figure, as JSON has them.

use serde::Serialize;

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
