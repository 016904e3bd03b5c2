//! The settings of a server. Flags override the environment, which overrides a file, which overrides the
//! defaults.

mod amounts;
mod args;
mod authentication;
mod check;
mod derived;
mod durability;
mod fields;
mod file;
mod forecast;
mod names;
mod slo;

pub(super) use self::args::SettingSources;
pub(crate) use self::args::SettingsArgs;
pub(crate) use self::authentication::Authentication;
pub(super) use self::durability::{Durability, OnFailedWrite};
pub(crate) use self::fields::Settings;
pub(super) use self::forecast::ForecastSource;
pub(super) use self::names::misspelt;
