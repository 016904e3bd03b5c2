//! The configuration of a server.

use serde_json::json;

use super::*;

#[test]
fn a_token_for_admin_sees_the_settings_and_their_origins() {
    let dir = tempfile::tempdir().unwrap();
    let setting = |name: &str, value, source| SettingView {
        name: name.to_string(),
        value,
        source,
    };
    let configuration = Configuration {
        version: "1.2.3".to_string(),
        settings: vec![
            setting("grace", json!("5s"), SettingSource::Default),
            setting("http-hosts", json!(["a", "b"]), SettingSource::File),
            setting("health", Value::Null, SettingSource::Default),
        ],
    };
    let options = HttpOptions {
        address: Some((Ipv4Addr::LOCALHOST, 0).into()),
        configuration: configuration.clone(),
        ..HttpOptions::default()
    };
    let (_node, server) = serve_with(dir.path(), options);
    let [_, jobs, admin] = Scope::ALL.map(|scope| token(dir.path(), scope));
    let status = |token| ask(&server, "GET /v1/config", "localhost", Some(token), "").0;
    assert_eq!((status(&jobs), status(&admin)), (403, 200));
    let shown = client(dir.path()).configuration().unwrap();
    assert_eq!(shown, configuration);
    let source = json!(shown)["settings"][1]["source"].clone();
    assert_eq!(source, SettingSource::File.name());
}
