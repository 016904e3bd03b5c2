//! An entry of the audit log.

use serde::Serialize;

/// The greatest length of a text in an entry, in bytes; longer texts are cut. Clients choose some of the
/// texts, and could fill the log with a few long ones.
pub(super) const TEXT_BYTES_MAX: usize = 2048;
/// The greatest length of a text in the entry of a refused login, in bytes. It is small because clients
/// without credentials choose the text.
pub(super) const REFUSED_TEXT_BYTES_MAX: usize = 128;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// A login, which may have been refused.
    Login,
    /// A CQL statement of administration, such as one that changes the schema or a role.
    #[default]
    Statement,
    /// A change by an HTTP request, over the network or over the server's Unix socket.
    Request,
    /// The creation or revocation of tokens by the command `ebb token`.
    Token,
    /// A write of rows by CQL to a table whose writes are audited.
    Write,
}

/// An entry of the audit log. It has no data of rows and no secrets: a statement is without its constants, a
/// token without its secret.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Entry {
    pub kind: EntryKind,
    /// The role of the client; `None` if the client has no role or its role is not known. A client
    /// whose login was refused only claims to be that role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The id of the client's token, or of the token that `ebb token` creates or revokes; `None` if
    /// no token is involved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The name of the client's token. Without a token, a description of the user, if there is one: for
    /// example `uid 0` for a command, and `the server's user` for a request over the Unix socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The address of the client, with its port for CQL; `None` for clients of the server's Unix socket, for
    /// commands, and for changes that the server makes by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The keyspace in which unqualified names in the statement are resolved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keyspace: Option<String>,
    /// The statement without its constants; `INSERT`, `UPDATE`, `DELETE` or `BATCH` for a write of rows; the
    /// method and path of a request; the action of a command; empty for a login.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub action: String,
    /// The table of a write of rows, as `KEYSPACE.TABLE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// For a batch, the number of its statements that write to the table; otherwise `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The id of the query that a `KILL QUERY` statement names. `action` does not show it, because it is a
    /// constant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<u64>,
    /// The roles and certificate identities that the statement names, or the role of a new token. In a
    /// statement, some of them are string constants, which `action` does not show.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// True if the statement makes a role a superuser, false if it makes one an ordinary role; `None` if it
    /// does neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superuser: Option<bool>,
    /// The reason why a login was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The HTTP status of the response to a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The path of the resource that a request created: the `Location` header of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made: Option<String>,
}

impl Entry {
    /// Shortens the texts that clients choose to `bytes_max` each, so that no client can fill the file with a
    /// few entries.
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
