//! Runs the parts, one after the other.

use anyhow::Result;

use super::args::{Part, ServingArgs};
use super::report::Report;
use super::server::binary;
use super::setting::Setting;
use super::{
    backup, beside, connections, descriptors, endless, hostile, hot_row, indexed, logs, neighbours,
    overload, pinned, publications, schema, secured, snapshots, startup, throughput, watched,
};
use crate::console::{stop_on_interrupt, temporary_directory, write_json};

pub fn run(args: &ServingArgs) -> Result<()> {
    let folder = temporary_directory("serving")?;
    let setting = Setting {
        args,
        binary: binary(args.ebb.as_deref())?,
        folder: folder.path(),
        stop: stop_on_interrupt()?,
    };
    let mut report = Report::new(args);
    for part in args.parts() {
        match part {
            Part::Throughput => report.add("throughput", &throughput::measure(&setting)?),
            Part::Beside => report.add("beside", &beside::measure(&setting)?),
            Part::Connections => report.add("connections", &connections::measure(&setting)?),
            Part::Startup => report.add("startup", &startup::measure(&setting)?),
            Part::Overload => report.add("overload", &overload::measure(&setting)?),
            Part::Secured => report.add("secured", &secured::measure(&setting)?),
            Part::Watched => report.add("watched", &watched::measure(&setting)?),
            Part::Hostile => report.add("hostile", &hostile::measure(&setting)?),
            Part::Endless => report.add("endless", &endless::measure(&setting)?),
            Part::Neighbours => report.add("neighbours", &neighbours::measure(&setting)?),
            Part::Logs => report.add("logs", &logs::measure(&setting)?),
            Part::Backup => report.add("backup", &backup::measure(&setting)?),
            Part::Publications => report.add("publications", &publications::measure(&setting)?),
            Part::Pinned => report.add("pinned", &pinned::measure(&setting)?),
            Part::Descriptors => report.add("descriptors", &descriptors::measure(&setting)?),
            Part::Snapshots => report.add("snapshots", &snapshots::measure(&setting)?),
            Part::Schema => report.add("schema", &schema::measure(&setting)?),
            Part::Indexed => report.add("indexed", &indexed::measure(&setting)?),
            Part::HotRow => report.add("hot_row", &hot_row::measure(&setting)?),
        }?;
        // After each part, so that an interrupted run keeps the parts that are done.
        write_json(args.json.as_deref(), &report)?;
    }
    report.print();
    Ok(())
}
