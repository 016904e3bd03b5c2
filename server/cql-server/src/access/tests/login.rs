//! Tokens, passwords, and the first superuser.

use ebb_cql::protocol::ErrorKind;

use super::server;
use crate::access::login::TOKEN_BYTES_MAX;
use crate::access::{FIRST_SUPERUSER, Login, first_superuser};

/// Returns the error message with which a login with this token is rejected.
fn rejection(login: &Login, token: &[u8]) -> String {
    let recalled = login.recall(Some(token));
    let error = match recalled {
        Ok(recalled) => {
            assert!(recalled.is_none());
            login.verify(Some(token)).unwrap_err()
        }
        Err(error) => error,
    };
    assert_eq!(error.kind, ErrorKind::BadCredentials);
    error.message
}

#[test]
fn an_identity_logs_in_as_the_role_that_has_it() {
    let mut server = server(&[]);
    server.run("CREATE ROLE ada WITH LOGIN = true");
    server.run("ADD IDENTITY 'spiffe://x/ada' TO ROLE ada");
    let login = Login::new(server.executor.catalog().clone());
    let ada = login.recognize("spiffe://x/ada").unwrap();
    assert_eq!(ada.unwrap().name(), Some("ada"));
    for other in ["", "ada", "spiffe://x/Ada", "spiffe://x/ada/"] {
        assert!(login.recognize(other).unwrap().is_none(), "{other}");
    }
    server.run("ALTER ROLE ada WITH LOGIN = false");
    let error = login.recognize("spiffe://x/ada").unwrap_err();
    assert_eq!(error.kind, ErrorKind::BadCredentials);
    assert_eq!(error.message, "ada is not permitted to log in");
    server.run("DROP ROLE ada");
    assert!(login.recognize("spiffe://x/ada").unwrap().is_none());
}

#[test]
fn a_login_is_cached_until_the_password_changes() {
    let mut server = server(&[]);
    server.run("CREATE ROLE ada WITH PASSWORD = 'geheim' AND LOGIN = true");
    server.run("CREATE ROLE locked WITH PASSWORD = 'geheim'");
    let login = Login::new(server.executor.catalog().clone());
    let token = b"\0ada\0geheim";
    assert!(login.recall(Some(token)).unwrap().is_none());
    let user = login.verify(Some(token)).unwrap();
    assert_eq!(user.name(), Some("ada"));
    assert!(login.recall(Some(token)).unwrap().is_some());
    // The role to act as, in front of the name, is ignored.
    assert!(
        login
            .recall(Some(b"someone\0ada\0geheim"))
            .unwrap()
            .is_some()
    );
    let wrong = |name| format!("Provided username {name} and/or password are incorrect");
    for (token, message) in [
        (&b"\0ada\0Geheim"[..], wrong("ada")),
        (b"\0nobody\0geheim", wrong("nobody")),
        // This role has no password.
        (b"\0u\0geheim", wrong("u")),
        (b"\0locked\0wrong", wrong("locked")),
        (
            b"\0locked\0geheim",
            "locked is not permitted to log in".into(),
        ),
        (b"\0ada\0", "Password must not be null".into()),
        (b"", "Password must not be null".into()),
        (b"geheim", "Password must not be null".into()),
        (b"\0\0geheim", "Authentication ID must not be null".into()),
        (
            b"\0a\0b\0c\0d",
            "Credential format error: username or password is empty or contains NUL(\\0) \
             character"
                .into(),
        ),
        (
            &[b'a'; TOKEN_BYTES_MAX + 1],
            "Credential format error: username and password are longer than 4096 bytes".into(),
        ),
    ] {
        assert_eq!(rejection(&login, token), message, "{token:?}");
    }
    assert!(login.recall(None).is_err());
    server.run("ALTER ROLE ada WITH PASSWORD = 'neu'");
    assert_eq!(rejection(&login, token), wrong("ada"));
    server.run("ALTER ROLE ada WITH PASSWORD = 'geheim' AND LOGIN = false");
    assert!(login.recall(Some(token)).unwrap().is_none());
    assert_eq!(rejection(&login, token), "ada is not permitted to log in");
    server.run("DROP ROLE ada");
    assert_eq!(rejection(&login, token), wrong("ada"));
}

#[test]
fn the_first_superuser_is_created_once_and_only_if_no_superuser_can_log_in() {
    let mut server = server(&[]);
    let catalog = server.executor.catalog().clone();
    let rejection = first_superuser(catalog.roles(), |_| Err::<(), _>("full")).unwrap();
    assert_eq!(rejection, Some(Err("full")));
    assert!(
        catalog
            .roles()
            .state()
            .roles()
            .get(FIRST_SUPERUSER)
            .is_none()
    );
    let keep = |password: &str| Ok::<_, ()>(password.to_owned());
    let password = first_superuser(catalog.roles(), keep)
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(password.len(), 26);
    let login = Login::new(catalog.clone());
    let token = format!("\0{FIRST_SUPERUSER}\0{password}");
    server.user =
        std::sync::Arc::into_inner(login.verify(Some(token.as_bytes())).unwrap()).unwrap();
    server.run("CREATE ROLE root WITH SUPERUSER = true AND LOGIN = true AND PASSWORD = 'r'");
    assert_eq!(first_superuser(catalog.roles(), keep).unwrap(), None);
    server.user = crate::access::User::anyone();
    server.run("ALTER ROLE ebb WITH SUPERUSER = false");
    assert_eq!(first_superuser(catalog.roles(), keep).unwrap(), None);
    server.run("ALTER ROLE root WITH LOGIN = false");
    let error = first_superuser(catalog.roles(), keep).unwrap_err();
    assert!(error.to_string().contains("there is a role ebb already"));
}
