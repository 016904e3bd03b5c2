//! The arguments of any application, and the job request made from them.
//!
//! The arguments of a subcommand are those of every job, those of its inputs, and the options of
//! the application, which `ebb_jobs` declares.

use anyhow::Result;
use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use ebb_jobs::request::{APPLICATIONS, ApplicationEntry, ApplicationRequest, JobRequest};

use super::common::Common;
use super::input::{ColumnsArg, InputArgs};
use super::source_text::SourceText;

/// An application with its arguments.
#[derive(Debug)]
pub(super) struct JobArgs {
    pub(super) common: Common,
    /// The first input, of an application that has any.
    input: Option<InputArgs>,
    /// The second input, of an application that has two.
    pub(super) right: Option<SourceText>,
    application: ApplicationRequest,
}

/// The option for the second input of an application that has two.
#[derive(Debug, clap::Args)]
struct RightArg {
    /// The second input, on the right side of the join.
    #[arg(long, value_name = "FILE|KEYSPACE.TABLE")]
    with: SourceText,
}

impl Subcommand for JobArgs {
    fn augment_subcommands(command: Command) -> Command {
        command.subcommands(runnable().map(subcommand))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        runnable().any(|known| known.name == name)
    }
}

/// Returns the applications that are subcommands of `ebb run`: all but those with a command of
/// their own.
pub(crate) fn runnable() -> impl Iterator<Item = &'static ApplicationEntry> {
    let all = APPLICATIONS.iter();
    all.filter(|application| !application.has_own_command)
}

fn subcommand(application: &ApplicationEntry) -> Command {
    let mut command = Common::augment_args(Command::new(application.name));
    if application.inputs > 0 {
        command = InputArgs::augment_args(command);
    }
    if application.takes_whole_values {
        command = ColumnsArg::augment_args(command);
    }
    if application.inputs > 1 {
        command = RightArg::augment_args(command);
    }
    // Called last: each call replaces the text before and after the list of options.
    (application.augment_args)(command)
}

impl FromArgMatches for JobArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Self::from_arg_matches_mut(&mut matches.clone())
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, clap::Error> {
        // clap has checked that there is a subcommand, and that it is one of the list.
        let missing = || -> clap::Error { clap::Error::new(ErrorKind::MissingSubcommand) };
        let (name, mut matches) = matches.remove_subcommand().ok_or_else(missing)?;
        let application = runnable().find(|known| known.name == name);
        let application = application.ok_or_else(missing)?;
        let common = Common::from_arg_matches_mut(&mut matches)?;
        let mut input = None;
        if application.inputs > 0 {
            let mut args = InputArgs::from_arg_matches_mut(&mut matches)?;
            if application.takes_whole_values {
                args = args.with(ColumnsArg::from_arg_matches_mut(&mut matches)?);
            }
            input = Some(args);
        }
        let mut right = None;
        if application.inputs > 1 {
            right = Some(RightArg::from_arg_matches_mut(&mut matches)?.with);
        }
        let application = (application.from_arg_matches)(&mut matches)?;
        Ok(Self {
            common,
            input,
            right,
            application,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl JobArgs {
    pub(super) fn reads_table(&self) -> bool {
        let data = self.common.data();
        let is_right_table = (self.right.as_ref()).is_some_and(|right| right.is_table(data));
        is_right_table || self.input.as_ref().is_some_and(InputArgs::is_table)
    }

    /// Makes the job request from the arguments. For its output see [`Common::request`].
    pub(super) fn into_request(self) -> Result<JobRequest> {
        let mut inputs = Vec::new();
        if let Some(left) = self.input {
            let place = self.right.map(|right| right.place(self.common.data()));
            let right = place.map(|place| left.at(place).into_request());
            let right = right.transpose()?;
            inputs.push(left.into_request()?);
            inputs.extend(right);
        }
        let mut application = self.application;
        // In a request each side names its own column.
        if let ApplicationRequest::Join(join) = &mut application {
            join.right_on = join.right_on.take().or_else(|| join.left_on.clone());
        }
        self.common.request(application, inputs)
    }
}
