//! The parts, one after the other.

use anyhow::{Context, Result};

use super::args::{Part, ServingArgs};
use super::report::Report;
use super::server::binary;
use super::{
    beside, connections, endless, hostile, hot_row, indexed, overload, secured, startup,
    throughput, watched,
};
use crate::console::{stop_on_interrupt, write_json};

/// Runs the experiment, prints its table, writes its JSON.
///
/// # Errors
/// What a server, the store or the disk says; an interrupt.
pub fn run(args: &ServingArgs) -> Result<()> {
    let stop = stop_on_interrupt()?;
    let binary = binary(args.ebb.as_deref())?;
    let folder = tempfile::Builder::new().prefix("ebb-serving-").tempdir();
    let folder = folder.context("cannot create a temporary directory")?;
    let folder = folder.path();
    let mut report = Report::new(args);
    for part in args.parts() {
        match part {
            Part::Throughput => {
                report.throughput = Some(throughput::measure(args, &binary, folder, &stop)?);
            }
            Part::Beside => report.beside = Some(beside::measure(args, folder, &stop)?),
            Part::Connections => {
                report.connections = Some(connections::measure(args, &binary, folder, &stop)?);
            }
            Part::Startup => {
                report.startup = Some(startup::measure(args, &binary, folder, &stop)?);
            }
            Part::Overload => {
                report.overload = Some(overload::measure(args, &binary, folder, &stop)?);
            }
            Part::Secured => {
                report.secured = Some(secured::measure(args, &binary, folder, &stop)?);
            }
            Part::Watched => {
                report.watched = Some(watched::measure(args, &binary, folder, &stop)?);
            }
            Part::Hostile => {
                report.hostile = Some(hostile::measure(args, &binary, folder, &stop)?);
            }
            Part::Endless => {
                report.endless = Some(endless::measure(args, &binary, folder, &stop)?);
            }
            Part::Indexed => report.indexed = Some(indexed::measure(args, &binary, folder, &stop)?),
            Part::HotRow => report.hot_row = Some(hot_row::measure(args, &binary, folder, &stop)?),
        }
        // A long run that is interrupted leaves the parts that are done.
        if let Some(path) = &args.json {
            write_json(path, &report)?;
        }
    }
    print!("{}", report.text());
    Ok(())
}
