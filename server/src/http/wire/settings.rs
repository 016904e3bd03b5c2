//! The settings of a server, as JSON.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// The configuration that a server was started with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Configuration {
    /// The version of the server.
    pub version: String,
    /// The settings in force, in the order of `ebb serve --help`.
    pub settings: Vec<SettingView>,
}

/// A setting of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SettingView {
    /// The name of the setting in the configuration file. Its flag is this name behind two dashes.
    pub name: String,
    /// The value in force: a text, a number, a truth value, or a list of texts; `null` for a setting
    /// without a value.
    pub value: Value,
    /// The origin of the value.
    pub source: SettingSource,
}

/// The origin of the value of a setting, in the order of precedence: a value from a flag overrides one from
/// the environment, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SettingSource {
    /// A flag of the command line.
    Flag,
    /// An environment variable.
    Environment,
    /// The file that `--config` names.
    File,
    /// The default. Some defaults depend on the machine, for example on its memory.
    Default,
}

impl SettingSource {
    /// Returns the name of the origin, as in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Environment => "environment",
            Self::File => "file",
            Self::Default => "default",
        }
    }
}
