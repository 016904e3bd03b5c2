//! REST catalogs of Iceberg, which hold the newest metadata of tables and replace it in one step.
//!
//! A publisher writes data, deletes, manifests and their list itself. The catalog writes the metadata that
//! names them, after it has checked that no other publisher has changed the table.
//!
//! | file | content |
//! | --- | --- |
//! | `rest` | tables of a catalog: reading, preparing, committing |
//! | `client` | requests, and which of their answers are final |
//! | `tokens` | the bearer tokens of requests, and the OAuth2 server that issues them |
//! | `transport` | HTTP and TLS |
//! | `settings` | the URL of a catalog, and the variables of the environment |
//! | `error` | errors, without secrets and without what an answer repeats of them |
//!
//! Requests take HTTP and TLS, which are part of the feature `s3`.

#[cfg(feature = "s3")]
mod client;
mod error;
#[cfg(feature = "s3")]
mod rest;
#[cfg(feature = "s3")]
mod settings;
#[cfg(all(test, feature = "s3"))]
pub(crate) mod testing;
#[cfg(all(test, feature = "s3"))]
mod tests;
#[cfg(feature = "s3")]
mod tokens;
#[cfg(feature = "s3")]
mod transport;

pub use self::error::CatalogError;
#[cfg(feature = "s3")]
pub(crate) use self::rest::RestCatalog;
#[cfg(feature = "s3")]
pub(crate) use self::settings::is_plain;
