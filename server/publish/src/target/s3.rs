//! Buckets of S3, and of servers that speak its protocol.
//!
//! Endpoint, region and credentials come from the variables `AWS_...` of the environment, by the names
//! that other tools of S3 read, and by `object_store`'s names for the rest. They stay in the client:
//! no location, error or debug output contains them.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as Key, S3ConditionalPut};
use object_store::prefix::PrefixStore;
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, RetryConfig};
use reqwest::Url;

use super::error::{TargetError, reason};
use super::{Result, Target};
use crate::catalog::is_plain;

#[cfg(test)]
mod tests;

/// The time-out of a request. In this time even a line of 9 Mbit/s sends 64 MiB: the parts of uploads that
/// four tasks send at once. `AWS_TIMEOUT` replaces it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The time after which a failed request is not retried, counted from the first attempt. As the last attempt
/// takes at most [`TIMEOUT`], no call takes much longer than three minutes.
const RETRY_TIMEOUT: Duration = Duration::from_secs(120);

/// The variable that limits the attempts at a request.
const MAX_ATTEMPTS: &str = "AWS_MAX_ATTEMPTS";

/// The greatest number of attempts at a request, if [`MAX_ATTEMPTS`] is not set. The pauses between
/// attempts grow from a tenth of a second to fifteen seconds at most.
const ATTEMPTS: usize = 8;

/// Returns the target for the objects below `prefix` in a bucket; for all its objects if `prefix` is
/// empty. The settings are those of `variables`, the variables of the environment, whose names begin
/// with `AWS_`.
///
/// # Errors
/// If a setting is invalid, or the endpoint is not encrypted and `AWS_ALLOW_HTTP` is not true.
pub(super) fn open(
    bucket: &str,
    prefix: &str,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Target> {
    // The provider of TLS, which the process may have already: then this changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let store = builder(variables)?
        .with_bucket_name(bucket)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        // Objects are removed one by one, and some servers lack requests for many.
        .with_disable_bulk_delete(true)
        .build()
        .map_err(|error| TargetError::Refused(format!("the settings of S3: {}", reason(&error))))?;
    let url = match prefix {
        "" => format!("s3://{bucket}"),
        prefix => format!("s3://{bucket}/{prefix}"),
    };
    Target::over(Arc::new(PrefixStore::new(store, prefix)), url)
}

/// Returns the client's settings from the variables of the environment whose names begin with `AWS_`. An
/// empty variable counts as unset.
///
/// The client panics where it writes invalid values into a request, so they are checked here.
///
/// # Errors
/// If a setting is invalid, or if the endpoint is not encrypted and `AWS_ALLOW_HTTP` is not true.
fn builder(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Result<AmazonS3Builder> {
    let options = ClientOptions::new().with_timeout(TIMEOUT);
    let mut builder = AmazonS3Builder::new().with_client_options(options);
    let mut attempts = ATTEMPTS;
    let mut unencrypted = None;
    for (name, value) in variables {
        let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else {
            continue;
        };
        if value.is_empty() || !name.starts_with("AWS_") {
            continue;
        }
        if name == MAX_ATTEMPTS {
            attempts = parse_attempts(value)?;
        }
        let Ok(key) = name.to_ascii_lowercase().parse::<Key>() else {
            continue;
        };
        match key {
            Key::AccessKeyId | Key::SecretAccessKey | Key::Token => {
                let is_valid = value.bytes().all(|byte| byte.is_ascii_graphic());
                let valid = "printable ASCII, without a line break at its end";
                check(is_valid, name, valid)?;
            }
            Key::Region | Key::DefaultRegion => {
                let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
                check(value.bytes().all(is_valid), name, "a region's name")?;
            }
            Key::Endpoint | Key::S3Endpoint | Key::StsEndpoint | Key::MetadataEndpoint => {
                let valid = "a URL such as https://s3.example.org, without credentials or a query";
                check(is_endpoint(value), name, valid)?;
            }
            _ => {}
        }
        if matches!(key, Key::Endpoint | Key::S3Endpoint) && value.starts_with("http:") {
            unencrypted = Some(name.to_owned());
        }
        builder = builder.with_config(key, value);
    }
    let allow_http = builder.get_config_value(&Key::Client(ClientConfigKey::AllowHttp));
    if let (Some(name), Some("false")) = (unencrypted, allow_http.as_deref()) {
        return Err(TargetError::Refused(format!(
            "{name} is not encrypted (http); set AWS_ALLOW_HTTP=true to allow that"
        )));
    }
    Ok(builder.with_retry(RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: attempts - 1,
        retry_timeout: RETRY_TIMEOUT,
    }))
}

fn parse_attempts(value: &str) -> Result<usize> {
    let attempts = value.parse().unwrap_or(0);
    let is_valid = (1..=20).contains(&attempts);
    check(is_valid, MAX_ATTEMPTS, "a number from 1 to 20")?;
    Ok(attempts)
}

/// Returns whether a value is an HTTP URL without credentials and without a query. Errors of requests show
/// the endpoint, so it must not contain secrets.
fn is_endpoint(value: &str) -> bool {
    Url::parse(value).is_ok_and(|url| is_plain(&url) && url.query().is_none())
}

/// Returns an error if `is_valid` is false: the variable `name` has an invalid value. `valid` describes the
/// valid ones. The error does not show the value, which may be a secret.
fn check(is_valid: bool, name: &str, valid: &str) -> Result<()> {
    if is_valid {
        Ok(())
    } else {
        Err(TargetError::Refused(format!("{name} must be {valid}")))
    }
}
