//! How a demo is set up.

use std::path::PathBuf;

/// Who decides what the jobs get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Policy {
    /// Goals and forecast (Polo 2014, 5.3.4).
    ReverseAdaptive,
    /// What the load leaves, to the oldest job first.
    Fifo,
    /// Nobody: unmanaged threads at normal priority.
    None,
}

impl Policy {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReverseAdaptive => "reverse-adaptive",
            Self::Fifo => "fifo",
            Self::None => "none",
        }
    }
}

/// How to run the demo.
#[derive(Debug, Clone)]
pub struct DemoOptions {
    /// A folder that the demo makes, or made before.
    pub data: PathBuf,
    /// Text to load instead of what is on the machine.
    pub text: Option<PathBuf>,
    /// Length of the compressed day, in seconds; positive.
    pub seconds: f64,
    /// Who decides.
    pub policy: Policy,
}
