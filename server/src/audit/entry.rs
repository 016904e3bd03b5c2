//! An entry of the audit log.

use serde::Serialize;

/// The greatest length of a text in an entry, in bytes. Clients choose some of the texts, and could fill the
/// log with a few long ones.
pub(super) const TEXT_BYTES_MAX: usize = 2048;
/// The greatest length of a text in the entry of a refused login, in bytes. It is small because clients
/// without credentials choose the text.
pub(super) const REFUSED_TEXT_BYTES_MAX: usize = 128;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// A login, which may have been refused.
    Login,
    /// A statement of CQL.
    #[default]
    Statement,
    /// A change by an HTTP request, over the network or over the server's Unix socket.
    Request,
    /// The creation or revocation of tokens by the command `ebb token`.
    Token,
    /// A write of rows by CQL.
    Write,
}

/// An entry of the audit log. It has no values: a statement is without its constants, a token without its
/// secret.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Entry {
    pub kind: EntryKind,
    /// The role of the client. A client whose login was refused only claims to be that role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The id of the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The name of the token, or a description of a principal that has neither token nor role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The address of the client; `None` for clients of the server's Unix socket, and for commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The default keyspace of the statement: that of the names in it that have no keyspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keyspace: Option<String>,
    /// The statement without its constants, `INSERT`, `UPDATE`, `DELETE` or `BATCH` for a write of rows, the
    /// method and path of a request, or what a command did.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub action: String,
    /// The table that a write is for, as `KEYSPACE.TABLE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// For a batch, the number of its statements that write to the table; otherwise `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The id of the query that the statement kills. It is a constant of the statement, so `action` lacks
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<u64>,
    /// The roles and the identities of certificates that the statement names. Some are constants
    /// (strings) in it, and `action` has the statement without its constants.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// Whether the statement makes a role a superuser; `None` if it leaves that as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superuser: Option<bool>,
    /// The reason for a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The status of the response over HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The path of the resource that a request created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made: Option<String>,
}

impl Entry {
    /// Shortens each text to `bytes_max`, so that no client can fill the file with a few entries.
    pub(super) fn shortened(mut self, bytes_max: usize) -> Self {
        let optional = [
            &mut self.role,
            &mut self.token,
            &mut self.name,
            &mut self.keyspace,
            &mut self.object,
            &mut self.cause,
        ];
        let texts = optional.into_iter().flatten();
        for text in texts.chain(&mut self.roles).chain([&mut self.action]) {
            let end = text.floor_char_boundary(bytes_max);
            text.truncate(end);
        }
        self
    }
}
