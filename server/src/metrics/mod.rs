//! What a monitoring system scrapes: a node as numbers, gathered when they are asked for.
//!
//! ```text
//!   Node ─> store, tables, load, jobs ─┐
//!   whoever serves requests ───────────┴─> Metrics ─> exposition ─> GET /metrics
//! ```
//!
//! Names are Prometheus': units last, seconds and bytes, counters end in `_total`. Labels
//! have few values: tables beyond the largest ones are put together.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `sheet` | how a number is written down |
//! | `store`, `tables` | the database |
//! | `load` | the load, the governor, the guard and latencies |
//! | `jobs` | analytics |
//! | `exposition` | the two text formats |

mod exposition;
mod jobs;
mod load;
mod sheet;
mod store;
mod tables;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

pub use exposition::Format;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use self::sheet::Sheet;
use crate::node::Node;

/// What every name begins with.
const PREFIX: &str = "ebb";

/// The numbers of a node, and of what is around it.
#[derive(Debug)]
pub struct Metrics(Registry);

impl Metrics {
    /// Those of a node.
    pub fn of(node: Arc<Node>) -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        registry.register_collector(Box::new(NodeCollector(node)));
        Self(registry)
    }

    /// And those of something else, whose names begin with `ebb_` then.
    #[must_use]
    pub fn collecting(mut self, collector: Box<dyn Collector>) -> Self {
        self.0.register_collector(collector);
        self
    }

    /// All of them now.
    ///
    /// # Errors
    /// When a collector says so.
    pub fn text(&self, format: Format) -> Result<String, fmt::Error> {
        let mut open_metrics = String::new();
        encode(&mut open_metrics, &self.0)?;
        Ok(format.of_open_metrics(open_metrics))
    }
}

/// What a node says of itself.
struct NodeCollector(Arc<Node>);

impl fmt::Debug for NodeCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeCollector")
    }
}

impl Collector for NodeCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut sheet = Sheet(encoder);
        let version = ("version", env!("CARGO_PKG_VERSION"));
        sheet.info("build_info", "The build that runs", version)?;
        if let Some(db) = self.0.db() {
            let stats = db.stats();
            store::write(&mut sheet, &stats)?;
            tables::write(&mut sheet, &stats.tables)?;
        }
        load::write(&mut sheet, &self.0)?;
        jobs::write(&mut sheet, &self.0)
    }
}
