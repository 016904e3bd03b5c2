//! The list of the applications.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::application::{Application, Materials};
use crate::chain::Work;
use crate::error::{JobError, RequestError};

/// An entry of the list of all applications, for listings and for the command line.
#[derive(Debug, Clone, Copy)]
pub struct ApplicationEntry {
    /// The name of the application, as in `ebb run NAME`.
    pub name: &'static str,
    pub inputs: usize,
    /// True if the application reads the value of a row as a whole, whatever its options are.
    pub takes_whole_values: bool,
    /// True if the application has a command of its own (`ebb NAME`), so that `ebb run NAME`
    /// rejects it.
    pub has_own_command: bool,
    /// Adds the options to a command, and the summary and the examples to its help.
    #[cfg(feature = "args")]
    pub augment_args: fn(clap::Command) -> clap::Command,
    /// Makes the application from the parsed options of a command.
    #[cfg(feature = "args")]
    pub from_arg_matches: fn(&mut clap::ArgMatches) -> Result<ApplicationRequest, clap::Error>,
}

/// Makes [`ApplicationRequest`], [`APPLICATIONS`] and the calls of [`Application`]'s methods from
/// lines of the form `Variant(module::Options)`.
macro_rules! applications {
    ($($variant:ident($module:ident::$options:ident),)*) => {
        $(pub use crate::$module::$options;)*

        /// An application with its options.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        #[serde(rename_all = "kebab-case")]
        pub enum ApplicationRequest {
            $($variant($options),)*
        }

        /// Every built-in application, by name.
        pub const APPLICATIONS: &[ApplicationEntry] = &[$(
            ApplicationEntry {
                name: $options::NAME,
                inputs: $options::INPUTS,
                takes_whole_values: $options::TAKES_WHOLE_VALUES,
                has_own_command: $options::HAS_OWN_COMMAND,
                #[cfg(feature = "args")]
                augment_args: <$options as clap::Args>::augment_args,
                #[cfg(feature = "args")]
                from_arg_matches: |matches| {
                    let options = <$options as clap::FromArgMatches>::from_arg_matches_mut(matches);
                    options.map(ApplicationRequest::$variant)
                },
            },
        )*];

        impl ApplicationRequest {
            /// Returns the name of the application, as in `ebb run NAME`.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => $options::NAME,)* }
            }

            pub fn inputs(&self) -> usize {
                match self { $(Self::$variant(_) => $options::INPUTS,)* }
            }

            /// Returns whether the application takes more inputs than [`inputs`](Self::inputs).
            pub(super) fn takes_more_inputs(&self) -> bool {
                match self { $(Self::$variant(_) => $options::TAKES_MORE_INPUTS,)* }
            }

            /// Returns the columns of the input that the application reads; `None` if it reads
            /// all of them, or rows as a whole.
            pub fn columns(&self) -> Option<Vec<&str>> {
                match self { $(Self::$variant(options) => options.columns(),)* }
            }

            /// Returns whether the application reads the value of a row as a whole, whatever its
            /// options are.
            pub(crate) fn takes_whole_values(&self) -> bool {
                match self { $(Self::$variant(_) => $options::TAKES_WHOLE_VALUES,)* }
            }

            /// Returns the number of reduce tasks; `None` if the application has no option for it.
            pub(super) fn reduces(&self) -> Option<u32> {
                match self { $(Self::$variant(options) => options.reduces(),)* }
            }

            /// Returns the path of the file that the application reads in addition to its inputs,
            /// if it reads one.
            pub(super) fn file(&self) -> Option<&Path> {
                match self { $(Self::$variant(options) => options.file(),)* }
            }

            /// Checks the options, except the number of reduce tasks.
            pub(super) fn check(&self) -> Result<(), RequestError> {
                match self { $(Self::$variant(options) => options.check(),)* }
            }

            /// Makes the job: one job of the runtime or a chain of them, from the options and from
            /// `materials`, which has the opened inputs and the output.
            ///
            /// # Errors
            /// Those of [`Application::make`].
            pub(crate) fn make(&self, materials: &Materials<'_>) -> Result<Work, JobError> {
                match self { $(Self::$variant(options) => options.make(materials),)* }
            }
        }
    };
}

// By name, which is also the order of `ebb apps`.
applications! {
    Aggregate(aggregate::AggregateRequest),
    Combine(combine::CombineRequest),
    Grep(grep::GrepRequest),
    Index(index::IndexRequest),
    Join(join::JoinRequest),
    Pagerank(pagerank::PagerankRequest),
    Pi(pi::PiRequest),
    Publish(publish::PublishRequest),
    Select(select::SelectRequest),
    Simulate(simulate::SimulateRequest),
    Sort(sort::SortRequest),
    Validate(validate::ValidateRequest),
    Wordcount(wordcount::WordcountRequest),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_the_book_have_a_row_for_every_application() {
        for page in [
            include_str!("../../../../docs/src/guide/jobs.md"),
            include_str!("../../../../docs/src/formats/jobs.md"),
        ] {
            for ApplicationEntry { name, .. } in APPLICATIONS {
                assert!(page.contains(&format!("\n| `{name}` |")), "{name}");
            }
        }
    }
}
