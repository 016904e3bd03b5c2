//! The metrics of a node for monitoring systems, gathered anew for each scrape.
//!
//! ```text
//!   Node ─> store, tables, load, jobs ─┐
//!   servers of requests ───────────────┴─> Metrics ─> exposition ─> GET /metrics
//! ```
//!
//! Names follow Prometheus' conventions: the unit comes last, units are seconds and bytes, and counters
//! end in `_total`. Labels have few values: the smaller tables of a database with many share one.
//!
//! | file | contents |
//! | --- | --- |
//! | `sheet` | the writer of single metrics |
//! | `store`, `tables` | the database |
//! | `load` | the load, the governor, the guard and latencies |
//! | `jobs` | analytics |
//! | `certificates` | the times at which the certificates of listeners expire |
//! | `exposition` | the two text formats |

mod certificates;
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

pub use certificates::CertificateCollector;
pub use exposition::Format;
pub use load::{REQUEST_BOUNDS_S, STAGE_BOUNDS_S, latency_buckets};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::Registry;

use self::sheet::Sheet;
use crate::node::Node;

/// The prefix of the names of all metrics but those that `Metrics::collecting_plain` adds.
const PREFIX: &str = "ebb";

/// The metrics of a node, and those of further collectors, such as that of the CQL server.
#[derive(Debug)]
pub struct Metrics {
    prefixed: Registry,
    plain: Registry,
}

impl Metrics {
    /// Returns the metrics of `node` alone. [`collecting`](Self::collecting) and
    /// [`collecting_plain`](Self::collecting_plain) add those of other collectors.
    pub fn of(node: Arc<Node>) -> Self {
        let mut prefixed = Registry::with_prefix(PREFIX);
        prefixed.register_collector(Box::new(NodeCollector(node)));
        let plain = Registry::default();
        Self { prefixed, plain }
    }

    /// Adds the metrics of a collector, with `ebb_` before their names.
    #[must_use]
    pub fn collecting(mut self, collector: Box<dyn Collector>) -> Self {
        self.prefixed.register_collector(collector);
        self
    }

    /// Adds the metrics of a collector under its own names, such as the standard names for the
    /// figures of a process.
    #[must_use]
    pub fn collecting_plain(mut self, collector: Box<dyn Collector>) -> Self {
        self.plain.register_collector(collector);
        self
    }

    /// Gathers all metrics and writes them in `format`.
    ///
    /// # Errors
    /// When a collector fails.
    pub fn text(&self, format: Format) -> Result<String, fmt::Error> {
        let mut open_metrics = String::new();
        encode_registry(&mut open_metrics, &self.prefixed)?;
        encode_registry(&mut open_metrics, &self.plain)?;
        encode_eof(&mut open_metrics)?;
        Ok(format.of_open_metrics(open_metrics))
    }
}

/// The metrics of the node itself: its build, its database, the load and the jobs.
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
            let last_backup_ms = self.0.last_backup_unix_ms().unwrap_or(0);
            sheet.gauge(
                "last_backup_timestamp_seconds",
                "The time as of which the last backup without damage has the data, apart from backups of a \
                 time still to come; 0 without any",
                last_backup_ms as f64 / 1e3,
            )?;
        }
        load::write(&mut sheet, &self.0)?;
        jobs::write(&mut sheet, &self.0)
    }
}
