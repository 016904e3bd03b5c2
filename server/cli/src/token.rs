//! `ebb token`: the tokens of HTTP clients.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use ebb_server::audit::{AuditLog, Entry, EntryKind};
use ebb_server::http::{Configuration, JobsClient};
use ebb_server::tokens::{Scope, Token, TokenFile, TokenRecord, TokenRole};
use rustix::process::getuid;
use serde_json::json;

use super::database::Location;
use super::error::CliError;
use super::exit::is_closed_pipe;
use super::print::{Printer, say};
use super::serve::settings::Authentication;
use super::time;

const EXAMPLES: &str = "\
Examples:
  ebb token create --name grafana --scope read
  ebb token create --name nightly --scope jobs --expires 90days
  ebb token create --name reports --scope jobs --role ada
  ebb token list
  ebb token revoke 1f3a90c2

A server accepts tokens on the port of `ebb serve --http`. Changes hold at once. A token is
printed when it is created and never again: only its hash is stored.";

const CREATE_EXAMPLES: &str = "\
Examples:
  ebb token create --name grafana --scope read
  token=$(ebb token create --name script --scope jobs --expires 1h)
  curl -H \"Authorization: Bearer $token\" http://127.0.0.1:9043/v1/jobs

The scope is what the holder of the token may do: with read, see jobs, tables, snapshots and
metrics; with jobs, also submit, cancel, restart, retry and discard jobs over tables, and create,
renew and delete snapshots; with admin, everything: also jobs over ebb_system or files of the
server's machine, backups, verification, rows of tables, queries and the configuration.

With --role the token also needs the permissions of that CQL role: SELECT on tables that a job
reads, MODIFY on the one that it writes, CREATE if that table is missing, SNAPSHOT for snapshots;
scope admin is for superusers, and with SELECT on a table, scope jobs is enough for its rows. The
token is valid as long as the role exists and may log in. The command looks up the role in the
server that has the directory open. A server with logins (ebb serve --auth) refuses tokens without
a role, and the command then makes none.";

const LIST_EXAMPLES: &str = "\
Examples:
  ebb token list
  ebb token list --json | jq -r '.[].id'";

const REVOKE_EXAMPLES: &str = "\
Examples:
  ebb token revoke 1f3a90c2";

/// Create, list and revoke the tokens of HTTP clients.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Create(Create),
    List(List),
    Revoke(Revoke),
}

/// Create a token, and print it.
#[derive(Debug, clap::Args)]
#[command(after_help = CREATE_EXAMPLES)]
struct Create {
    #[command(flatten)]
    location: Location,
    /// Permissions of the token: read, jobs or admin.
    #[arg(long, value_name = "SCOPE")]
    scope: Scope,
    /// CQL role that limits the token further [default: none].
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Description, which `ebb token list` shows.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    name: String,
    /// Let the token expire after this time: 1h, 90days.
    #[arg(long, value_name = "TIME", value_parser = time::to_come)]
    expires: Option<Duration>,
}

/// List the tokens, the oldest first.
#[derive(Debug, clap::Args)]
#[command(after_help = LIST_EXAMPLES)]
struct List {
    #[command(flatten)]
    location: Location,
    /// Print a JSON array of objects with id, name, scope, role (or null), created and expires (or
    /// null).
    #[arg(long)]
    json: bool,
}

/// Revoke tokens: the server rejects them from now on.
#[derive(Debug, clap::Args)]
#[command(after_help = REVOKE_EXAMPLES)]
struct Revoke {
    #[command(flatten)]
    location: Location,
    /// Ids of the tokens, as `ebb token list` shows them, or whole tokens.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

pub(super) fn run(args: Args) -> Result<()> {
    match args.action {
        Action::Create(args) => create(&args),
        Action::List(args) => list(&args),
        Action::Revoke(args) => revoke(&args),
    }
}

fn create(args: &Create) -> Result<()> {
    let file = file_of(&args.location.data)?;
    let token = Token::random();
    let now = SystemTime::now();
    let mut record = TokenRecord::new(&token, &args.name, args.scope, now, args.expires);
    record.role = role(args)?;
    let entry = Entry {
        token: Some(token.id()),
        action: format!("create with scope {}, name {}", args.scope, args.name),
        roles: args.role.iter().cloned().collect(),
        ..Entry::default()
    };
    audited(&args.location.data, entry, false, || {
        // Printed before the token is valid: if the output fails, the token is lost and must not be valid.
        match say(token.reveal()) {
            Err(error) if is_closed_pipe(&error) => {
                bail!("no token was created, because the reader of stdout has closed it")
            }
            printed => printed?,
        }
        file.change(|tokens| tokens.add(record))?;
        Ok(true)
    })?;
    Ok(())
}

/// Changes the tokens by `change`, with an entry in the audit log before and after it. `change`
/// returns false if it changed nothing. With `even_if_full`, the change is also made if the disk is
/// too full for the entries.
fn audited(
    data: &Path,
    entry: Entry,
    even_if_full: bool,
    change: impl FnOnce() -> Result<bool>,
) -> Result<bool> {
    let entry = Entry {
        kind: EntryKind::Token,
        name: Some(format!("uid {}", getuid().as_raw())),
        ..entry
    };
    let begun = Arc::new(AuditLog::of(data)).begin(entry, even_if_full);
    let begun = begun.context("nothing was changed, because the audit log cannot be written")?;
    let changed = change();
    begun.end(match &changed {
        Ok(true) => "done",
        Ok(false) => "invalid",
        Err(_) => "failed",
    });
    changed
}

/// Returns the role of a new token from the server that has the directory open; `None` for a token without a
/// role.
///
/// # Errors
/// When no server has the directory open that could look up the role, there is no such role, or it may not log
/// in. Also when the token has no role and the server requires one, or the server does not answer.
fn role(args: &Create) -> Result<Option<TokenRole>> {
    let data = &args.location.data;
    match (&args.role, JobsClient::of(data)?) {
        (Some(name), Some(server)) => named_role(&server, name).map(Some),
        (Some(_), None) => {
            let text = format!(
                "no server has {} open: start ebb serve, which looks up the role",
                data.display()
            );
            Err(CliError::Usage(text).into())
        }
        (None, Some(server)) => {
            check_without_role(&server.configuration()?)?;
            Ok(None)
        }
        // The next server may have no logins. If it has, it logs that it refuses the token.
        (None, None) => Ok(None),
    }
}

fn named_role(server: &JobsClient, name: &str) -> Result<TokenRole> {
    let mut roles = server.roles()?.into_iter();
    let found = roles.find(|role| role.name == name);
    let found = found.ok_or_else(|| {
        CliError::NotFound(format!(
            "there is no role {name}; LIST ROLES shows those there are"
        ))
    })?;
    if !found.can_login {
        let text = format!(
            "role {name} may not log in, so the server would refuse the token; ALTER ROLE with LOGIN = true \
             permits the login"
        );
        return Err(CliError::Usage(text).into());
    }
    Ok(TokenRole {
        name: found.name,
        id: found.id,
    })
}

/// Checks that a server with this configuration accepts tokens without a role.
///
/// # Errors
/// When its clients have to log in.
fn check_without_role(configuration: &Configuration) -> Result<(), CliError> {
    let mut settings = configuration.settings.iter();
    let setting = settings.find(|setting| setting.name == "authentication");
    let value = setting.and_then(|setting| setting.value.as_str());
    let authentication = value.and_then(|text| text.parse::<Authentication>().ok());
    if authentication == Some(Authentication::Password) {
        let text = "clients of the server log in as roles, so it accepts only tokens of a role: name one \
                    with --role";
        return Err(CliError::Usage(text.to_owned()));
    }
    Ok(())
}

fn list(args: &List) -> Result<()> {
    let tokens = file_of(&args.location.data)?.read()?;
    let mut printer = Printer::new();
    if args.json {
        let object = |token: &TokenRecord| {
            json!({
                "id": token.id,
                "name": token.name,
                "scope": token.scope,
                "role": token.role.as_ref().map(|role| &role.name),
                "created": time::rfc3339(token.created_at_unix_s),
                "expires": token.expires_at_unix_s.map(time::rfc3339),
            })
        };
        printer.json(&tokens.iter().map(object).collect::<Vec<_>>())?;
        return printer.finish();
    }
    let now = SystemTime::now();
    let row = |token: &TokenRecord| {
        let expires = token.expires_at_unix_s.map(time::rfc3339);
        vec![
            token.id.clone(),
            token.scope.to_string(),
            token
                .role
                .as_ref()
                .map_or("", |role| &role.name)
                .to_string(),
            time::rfc3339(token.created_at_unix_s),
            match expires {
                Some(at) if token.is_expired(now) => format!("{at} (over)"),
                Some(at) => at,
                None => "never".to_string(),
            },
            token.name.clone(),
        ]
    };
    let rows: Vec<_> = tokens.iter().map(row).collect();
    if rows.is_empty() {
        printer.line("no tokens yet")?;
        return printer.finish();
    }
    let head = ["id", "scope", "role", "created", "expires", "name"];
    printer.table(&head, &[], &rows)?;
    printer.finish()
}

fn revoke(args: &Revoke) -> Result<()> {
    let file = file_of(&args.location.data)?;
    let mut printer = Printer::new();
    for id in &args.ids {
        // A whole token in place of its id must not come into the audit log.
        let id = &(id.parse::<Token>()).map_or_else(|()| id.clone(), |token| token.id());
        let entry = Entry {
            token: Some(id.clone()),
            action: "revoke".to_owned(),
            ..Entry::default()
        };
        // A token that is not safe any more must be revoked on a full disk, too.
        let is_there = audited(&args.location.data, entry, true, || {
            Ok(file.change(|tokens| tokens.revoke(id))?)
        })?;
        if !is_there {
            let text = format!("there is no token {id}; `ebb token list` shows those there are");
            return Err(CliError::NotFound(text).into());
        }
        printer.line(format!("revoked {id}"))?;
    }
    printer.finish()
}

/// Returns the tokens of a database, whether a server has it open or not.
fn file_of(data: &Path) -> Result<TokenFile> {
    let options = ebb_storage::Options::default();
    if !ebb_storage::Db::exists(data, &options)? {
        // Fails with another error for an unfinished backup than for a directory without a database.
        ebb_storage::Db::open_read_only(data, options)?;
    }
    Ok(TokenFile::of(data))
}

#[cfg(test)]
mod tests {
    use ebb_storage::Error;

    use super::*;

    /// Regression: the error for an unfinished backup was that for a missing database.
    #[test]
    fn the_error_for_an_unfinished_backup_is_not_that_for_a_missing_database() {
        let dir = tempfile::tempdir().unwrap();
        let error = || file_of(dir.path()).err().unwrap().downcast::<Error>();
        assert!(matches!(error(), Ok(Error::NoDatabase { .. })));
        std::fs::write(dir.path().join("CURRENT"), "incomplete\n").unwrap();
        assert!(matches!(error(), Ok(Error::Incomplete { .. })));
    }
}
