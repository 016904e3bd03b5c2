use super::*;

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000)
}

fn scope_of(tokens: &Tokens, token: &Token, now: SystemTime) -> Option<Scope> {
    tokens.record_of(token, now).map(|record| record.scope)
}

#[test]
fn a_token_is_good_for_its_scope_until_it_expires_or_is_revoked() {
    let token = Token::random();
    let shown: Token = token.reveal().parse().unwrap();
    assert_eq!(shown, token);
    let mut tokens = Tokens::default();
    assert_eq!(scope_of(&tokens, &token, now()), None);
    let minute = Duration::from_secs(60);
    tokens.add(TokenRecord::new(
        &token,
        "a",
        Scope::Jobs,
        now(),
        Some(minute),
    ));
    assert_eq!(scope_of(&tokens, &shown, now()), Some(Scope::Jobs));
    assert_eq!(scope_of(&tokens, &shown, now() + minute), None);
    let mut other = token.clone();
    other.secret[31] ^= 1;
    assert_eq!(scope_of(&tokens, &other, now()), None);
    assert!(tokens.revoke(&token.id()) && !tokens.revoke(&token.id()));
    assert_eq!(scope_of(&tokens, &token, now()), None);
}

#[test]
fn tokens_without_a_role_are_found_until_they_expire() {
    let minute = Duration::from_secs(60);
    let record = |lifetime| TokenRecord::new(&Token::random(), "a", Scope::Read, now(), lifetime);
    let (lasting, short) = (record(None), record(Some(minute)));
    let mut of_role = record(None);
    of_role.role = Some(TokenRole {
        name: "ada".to_owned(),
        id: "0000000000000ada".to_owned(),
    });
    let tokens = Tokens(vec![lasting.clone(), of_role, short.clone()]);
    let found = |at| -> Vec<&TokenRecord> { tokens.without_role(at).collect() };
    assert_eq!(found(now()), [&lasting, &short]);
    assert_eq!(found(now() + minute), [&lasting]);
}

#[test]
fn what_is_kept_or_printed_holds_no_secret() {
    let token = Token::random();
    let record = TokenRecord::new(&token, "a", Scope::Read, now(), None);
    let secret = hex(&token.secret);
    assert!(token.reveal().contains(&secret));
    assert!(!serde_json::to_string(&record).unwrap().contains(&secret));
    assert!(!format!("{token:?} {record:?}").contains(&secret));
}

#[test]
fn scopes_include_those_below() {
    assert!(Scope::Read < Scope::Jobs && Scope::Jobs < Scope::Admin);
    for scope in Scope::ALL {
        assert_eq!(scope.to_string().parse(), Ok(scope));
    }
    assert!("root".parse::<Scope>().is_err());
}

#[test]
fn no_text_is_half_a_token() {
    let shown = Token::random().reveal();
    for end in 0..shown.len() {
        assert!(shown[..end].parse::<Token>().is_err(), "{end}");
    }
    for text in [
        "ebb__",
        "ebb_\u{e9}",
        "ebb_0000000\u{e9}_",
        &format!("{shown}0"),
    ] {
        assert!(text.parse::<Token>().is_err(), "{text}");
    }
}
