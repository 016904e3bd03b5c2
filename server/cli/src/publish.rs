//! `ebb publish`: tables of a snapshot as Iceberg tables in a folder or a bucket.

use std::fs;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_jobs::launch::check_files;
use ebb_jobs::request::{
    ApplicationRequest, InputRequest, JobRequest, OutputPlace, PublishRequest, PublishTarget,
    TableInput,
};
use ebb_server::http::JobsClient;
use ebb_server::node::NodeOptions;

use crate::database::{self, Location, or_known, unknown_snapshot};
use crate::error::CliError;
use crate::names::TableName;
use crate::print::write_stderr;
use crate::run::{execute, goal};
use crate::runner::Runner;
use crate::unpaced;

const EXAMPLES: &str = "\
Examples:
  ebb snapshot create --keyspace app monday
  ebb publish app@monday ./lake
  ebb publish app@monday ./lake --table users --table orders --goal 10m
  ebb publish app@monday ./lake --decimal 18,2 --empty-as-null
  ebb publish app@tuesday ./lake --pin-max 20%
  ebb publish app@tuesday ./lake --full
  ebb publish app@tuesday ./lake --take-over
  ebb publish app@tuesday ./lake --keep 3,7d
  ebb publish app@monday s3://lake/ebb
  ebb publish app@monday s3://lake/ebb --catalog 'https://catalog.example.org/api?warehouse=lake'
  duckdb -c \"SELECT count(*) FROM iceberg_scan('./lake/app/users')\"

Each table becomes an Iceberg table in TARGET/KEYSPACE/TABLE, with a tag of the snapshot's name.
Static columns are a table of their own, TABLE_static. Publishing another snapshot to the same
folder adds a tag. Readers that name no tag see the newest snapshot of which all tables are published.

After a publication ebb keeps its snapshot readable for a week, or as --pin-max sets it. The next
publication to the same folder then writes only what changed. The report has for each table the
number of these rows, or the reason why all rows were written.

Publications stay until a later one with --keep removes them: --keep 3,7d keeps the newest three of
each table and all that are younger than a week. Their files go with the publication after that one.

A database that was restored from a backup or repaired has another id, and a copy of a directory the
same one. The tables of the other database, or what the other copy has published since, are refused.
--take-over makes them tables of this database: all rows are written, and older tags stay.

A publication is a job like those of ebb run: Ctrl-C cancels it, ebb jobs shows it, and if ebb
serve holds the directory of --data, the server runs it. Finished tasks are kept in the folder: the
same command continues where a cancelled or killed one stopped.

Buckets of S3 need a build with the feature s3. The process that runs the job takes credentials
and server from the environment variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION,
AWS_ENDPOINT_URL and so on.

Catalogs need the same build. The process that runs the job reads the bearer token from
EBB_CATALOG_TOKEN or ICEBERG_TOKEN, or CLIENT_ID:CLIENT_SECRET of an OAuth2 client from
EBB_CATALOG_CREDENTIAL or the file EBB_CATALOG_CREDENTIAL_FILE; EBB_CATALOG_OAUTH2_SERVER_URI and
EBB_CATALOG_SCOPE go with these. EBB_CATALOG_ALLOW_HTTP=true allows servers without TLS.";

/// The file that names the rows for which a publication failed. It lies beside the publication's
/// plan in the target.
const REFUSED: &str = "refused.txt";

/// Publish a snapshot as Iceberg tables, which Spark, Trino, DuckDB and other engines read.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    location: Location,
    /// The keyspace and the snapshot.
    #[arg(value_name = "KEYSPACE@SNAPSHOT")]
    snapshot: SnapshotName,
    /// Folder for the Iceberg tables, new or with earlier publications, or s3://BUCKET/PREFIX.
    #[arg(value_name = "TARGET")]
    target: PublishTarget,
    /// Publish this table; may be given several times [default: all tables of the snapshot].
    #[arg(long = "table", value_name = "TABLE")]
    tables: Vec<String>,
    #[command(flatten)]
    options: PublishRequest,
    /// Completion time goal: 30s, 5m. If the job ends later, the exit code is 7.
    #[arg(long, value_name = "TIME", value_parser = goal, allow_hyphen_values = true)]
    goal: Option<Duration>,
    /// Maximum number of cores [default: all of the machine].
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    cores: Option<u32>,
    /// Print the job's report as a JSON object.
    #[arg(long)]
    json: bool,
}

/// A snapshot as people write it: `KEYSPACE@SNAPSHOT`.
#[derive(Debug, Clone)]
struct SnapshotName {
    keyspace: String,
    snapshot: String,
}

impl FromStr for SnapshotName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('@') {
            Some((keyspace, snapshot)) if !keyspace.is_empty() && !snapshot.is_empty() => {
                Ok(Self {
                    keyspace: keyspace.to_string(),
                    snapshot: snapshot.to_string(),
                })
            }
            _ => Err("expected KEYSPACE@SNAPSHOT, as in app@monday".to_string()),
        }
    }
}

pub(super) fn run(args: Args) -> Result<()> {
    let SnapshotName { keyspace, snapshot } = &args.snapshot;
    let data = &args.location.data;
    let runner = match JobsClient::of(data)? {
        Some(server) => Runner::Server(server),
        None => {
            let options = unpaced::for_tests(NodeOptions::command());
            Runner::open(&args.location, options)?
        }
    };
    let tables = if args.tables.is_empty() {
        tables_of(&runner, keyspace, snapshot)?
    } else {
        args.tables
    };
    if tables.is_empty() {
        let text = format!("snapshot {snapshot} of keyspace {keyspace} has no tables to publish");
        return Err(CliError::NotFound(text).into());
    }
    let input = |table: String| {
        let name = TableName {
            keyspace: keyspace.clone(),
            table,
        };
        InputRequest::Table(TableInput {
            snapshot: Some(snapshot.clone()),
            ..TableInput::new(name)
        })
    };
    let request = JobRequest {
        goal_s: args.goal.map(|goal| goal.as_secs_f64()),
        cores: args.cores,
        // A server has another working directory, so the request contains that of this command.
        ..JobRequest::new(
            ApplicationRequest::Publish(args.options),
            tables.into_iter().map(input).collect(),
            OutputPlace::Iceberg(args.target.clone()).into(),
            std::env::current_dir().context("cannot find the current directory")?,
        )
    };
    // The server checks a request, too. Here the error comes before the job is submitted or started.
    request.check()?;
    // Opening the job does not check the output, because an estimate leaves the output alone.
    check_files(&request, Some(data))?;
    let done = execute(request, &runner, args.json);
    // The cause of a failed job is only a text. Only a folder is read here: the credentials of a bucket
    // are those of the process that ran the job.
    if let (Err(error), PublishTarget::Folder(folder)) = (&done, &args.target) {
        print_refused_row(
            &folder.join(format!("_ebb/{keyspace}/{snapshot}")),
            &error.to_string(),
        );
    }
    done
}

/// Returns the names of the tables in a snapshot.
fn tables_of(runner: &Runner, keyspace: &str, snapshot: &str) -> Result<Vec<String>> {
    match runner {
        Runner::Server(server) => {
            let found = server.snapshots(Some(keyspace), false)?.snapshots;
            let found = found.into_iter().find(|found| found.name == snapshot);
            let found = found.ok_or_else(|| {
                let text = format!("there is no snapshot {snapshot} of keyspace {keyspace}");
                CliError::NotFound(text)
            });
            Ok(found?.tables)
        }
        Runner::Own(node) => {
            let db = node.db().context("the node has no database")?;
            let keyspace = database::keyspace(db, keyspace)?;
            let missing = || unknown_snapshot(&keyspace, snapshot);
            let opened = or_known(keyspace.snapshot(snapshot), missing)?;
            Ok(opened.tables().map(str::to_string).collect())
        }
    }
}

/// Prints the rows for which the publication failed. They are in the file [`REFUSED`] of the
/// publication's plan, which `cause`, the cause of the failure, names. The cause itself does not
/// contain the rows, because clients without permission to read the table may see the cause.
/// `records` is the folder with the plans of publications of the snapshot.
fn print_refused_row(records: &Path, cause: &str) {
    for plan in fs::read_dir(records).into_iter().flatten().flatten() {
        let file = plan.path().join(REFUSED);
        let is_named = cause.contains(&format!("/{}/{REFUSED}", plan.file_name().display()));
        if is_named && let Ok(text) = fs::read_to_string(file) {
            write_stderr(format_args!("ebb: {text}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_has_its_keyspace_before_the_sign() {
        let name: SnapshotName = "app@monday".parse().unwrap();
        assert_eq!((&*name.keyspace, &*name.snapshot), ("app", "monday"));
        for bad in ["", "app", "@monday", "app@"] {
            assert!(bad.parse::<SnapshotName>().is_err(), "{bad}");
        }
    }
}
