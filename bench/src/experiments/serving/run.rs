//! Runs the parts, one after the other.

use anyhow::Result;

use super::args::{Part, ServingArgs};
use super::report::Report;
use super::server::binary;
use super::setting::Setting;
use super::{
    backup, beside, connections, descriptors, endless, hostile, hot_row, indexed, logs, neighbours,
    overload, pinned, publications, secured, snapshots, startup, throughput, watched,
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
            Part::Throughput => report.throughput = Some(throughput::measure(&setting)?),
            Part::Beside => report.beside = Some(beside::measure(&setting)?),
            Part::Connections => report.connections = Some(connections::measure(&setting)?),
            Part::Startup => report.startup = Some(startup::measure(&setting)?),
            Part::Overload => report.overload = Some(overload::measure(&setting)?),
            Part::Secured => report.secured = Some(secured::measure(&setting)?),
            Part::Watched => report.watched = Some(watched::measure(&setting)?),
            Part::Hostile => report.hostile = Some(hostile::measure(&setting)?),
            Part::Endless => report.endless = Some(endless::measure(&setting)?),
            Part::Neighbours => report.neighbours = Some(neighbours::measure(&setting)?),
            Part::Logs => report.logs = Some(logs::measure(&setting)?),
            Part::Backup => report.backup = Some(backup::measure(&setting)?),
            Part::Publications => report.publications = Some(publications::measure(&setting)?),
            Part::Pinned => report.pinned = Some(pinned::measure(&setting)?),
            Part::Descriptors => report.descriptors = Some(descriptors::measure(&setting)?),
            Part::Snapshots => report.snapshots = Some(snapshots::measure(&setting)?),
            Part::Indexed => report.indexed = Some(indexed::measure(&setting)?),
            Part::HotRow => report.hot_row = Some(hot_row::measure(&setting)?),
        }
        // After each part, so that an interrupted run keeps the parts that are done.
        write_json(args.json.as_deref(), &report)?;
    }
    print!("{}", report.text());
    Ok(())
}
