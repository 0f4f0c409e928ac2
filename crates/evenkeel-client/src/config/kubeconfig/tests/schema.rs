use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use proptest::prelude::*;

use super::super::{Data, Opaque};
use super::*;

#[test]
fn kcf_001_yaml_or_json_and_nothing_is_empty() {
    let yaml = Kubeconfig::parse("apiVersion: v1\nkind: Config\ncurrent-context: it\nmine: 1\n").unwrap();
    let json = Kubeconfig::parse("{\n\t\"current-context\": \"it\",\n\t\"users\": null, \"mine\": 1}").unwrap();
    assert_eq!(yaml.current_context.as_deref(), Some("it"));
    assert_eq!(json.current_context.as_deref(), Some("it"));
    for empty in ["", "  \n", "# nothing\n", "---\n", "null", "{}", "\u{feff}{}"] {
        assert_eq!(Kubeconfig::parse(empty).unwrap(), Kubeconfig::default(), "{empty:?}");
    }
    for other in ["apiVersion: v2", "kind: Pod", "kind: [Config]"] {
        assert!(Kubeconfig::parse(other).is_err(), "{other}");
    }
}

#[test]
fn kcf_001_long_json_on_one_line_can_be_read() {
    let data = BASE64_STANDARD.encode([b'x'; 5000]);
    let json = format!(
        r#"{{"clusters":[{{"name":"it","cluster":{{"server":"https:\/\/h","certificate-authority-data":"{data}"}}}}]}}"#
    );
    let config = Kubeconfig::parse(&json).unwrap();
    assert_eq!(config.clusters["it"].server.as_deref(), Some("https://h"));
    assert_eq!(config.clusters["it"].certificate_authority_data.as_ref().unwrap().expose(), [b'x'; 5000]);
}

/// Every known field, and an unknown one at each level.
const ALL: &str = r#"
apiVersion: v1
kind: Config
mine: {a: [1, two, 3.5, true, null]}
preferences: {colors: true}
current-context: ctx
extensions:
- name: top
  extension: {a: b}
clusters:
- name: c
  mine: beside
  cluster:
    server: https://h
    tls-server-name: n
    insecure-skip-tls-verify: true
    certificate-authority: ca.crt
    certificate-authority-data: Y2E=
    proxy-url: http://u:p@proxy
    disable-compression: true
    mine: in
    extensions:
    - name: client.authentication.k8s.io/exec
      extension: {audience: x}
contexts:
- name: ctx
  context: {cluster: c, user: u, namespace: 0123, mine: 1, extensions: [{name: e, extension: 1}]}
users:
- name: u
  user:
    client-certificate: c.crt
    client-certificate-data: Y3J0
    client-key: c.key
    client-key-data: a2V5
    token: 0x1F
    tokenFile: t
    as: other
    as-uid: 17
    as-groups: [g, 0o7]
    as-user-extra: {scopes: [a, b]}
    username: yes
    password: 0123
    mine: 1
    auth-provider: {name: oidc, config: {client-secret: s, n: 012}, mine: 1}
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: ./get
      args: [--a, 1e3]
      env: [{name: A, value: 010, mine: 1}]
      installHint: get it
      interactiveMode: Never
      provideClusterInfo: true
      mine: 1
"#;

#[test]
fn kcf_002_the_top_level() {
    let config = Kubeconfig::parse(ALL).unwrap();
    assert_eq!(config.current_context.as_deref(), Some("ctx"));
    assert_eq!(config.clusters.keys().collect::<Vec<_>>(), ["c"]);
    assert_eq!(config.users.keys().collect::<Vec<_>>(), ["u"]);
    assert_eq!(config.contexts.keys().collect::<Vec<_>>(), ["ctx"]);
    assert_eq!(config.extensions["top"].0, serde_json::json!({"a": "b"}));
}

#[test]
fn kcf_003_the_fields_of_a_cluster() {
    let config = Kubeconfig::parse(ALL).unwrap();
    let cluster = &config.clusters["c"];
    assert_eq!(cluster.server.as_deref(), Some("https://h"));
    assert_eq!(cluster.tls_server_name.as_deref(), Some("n"));
    assert!(cluster.insecure_skip_tls_verify && cluster.disable_compression);
    assert_eq!(cluster.certificate_authority.as_deref(), Some("ca.crt".as_ref()));
    assert_eq!(cluster.certificate_authority_data.as_ref().unwrap().expose(), b"ca");
    assert_eq!(cluster.proxy_url.as_ref().unwrap().expose(), "http://u:p@proxy");
    assert_eq!(cluster.extensions["client.authentication.k8s.io/exec"].0["audience"], "x");
}

#[test]
fn kcf_004_the_fields_of_users_and_contexts_as_the_text_they_are() {
    let config = Kubeconfig::parse(ALL).unwrap();
    let context = &config.contexts["ctx"];
    assert_eq!((context.cluster.as_deref(), context.user.as_deref()), (Some("c"), Some("u")));
    assert_eq!(context.namespace.as_deref(), Some("0123"), "what looks like a number is still text");
    let user = &config.users["u"];
    assert_eq!(user.client_certificate_data.as_ref().unwrap().expose(), b"crt");
    assert_eq!(user.client_key_data.as_ref().unwrap().expose(), b"key");
    assert_eq!(user.token.as_ref().unwrap().expose(), "0x1F");
    assert_eq!(user.password.as_ref().unwrap().expose(), "0123");
    assert_eq!(user.username.as_deref(), Some("yes"));
    assert_eq!((user.impersonate.as_deref(), user.impersonate_uid.as_deref()), (Some("other"), Some("17")));
    assert_eq!(user.impersonate_groups, ["g", "0o7"]);
    assert_eq!(user.impersonate_extra["scopes"], ["a", "b"]);
    let exec = user.exec.as_ref().unwrap();
    assert_eq!(exec.command.as_deref(), Some("./get"));
    assert_eq!(exec.args.iter().map(Secret::expose).collect::<Vec<_>>(), ["--a", "1e3"]);
    assert_eq!(exec.env[0].value.as_ref().unwrap().expose(), "010");
    assert_eq!(user.auth_provider.as_ref().unwrap().config["n"].expose(), "012");
}

#[test]
fn kcf_005_a_duplicate_name_is_reported() {
    for list in ["clusters", "users", "contexts", "extensions"] {
        let error = Kubeconfig::parse(&format!("{list}:\n- name: twin\n- name: other\n- name: twin\n")).unwrap_err();
        assert!(error.to_string().contains("twin"), "{error}");
    }
    let nested = "clusters: [{name: c, cluster: {extensions: [{name: twin}, {name: twin}]}}]";
    assert!(Kubeconfig::parse(nested).unwrap_err().to_string().contains("twin"));
}

#[test]
fn kcf_006_lists_are_written_in_order_and_data_in_base64() {
    let mut config = Kubeconfig::parse("clusters: [{name: b}, {name: a}]\npreferences: {}").unwrap();
    config.clusters.get_mut("a").unwrap().certificate_authority_data = Some(Data::new("ca"));
    let text = config.to_yaml().unwrap();
    let value: serde_json::Value = serde_saphyr::from_str(text.expose()).unwrap();
    assert_eq!(
        value,
        serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "contexts": [], "users": [],
            "clusters": [
                {"name": "a", "cluster": {"certificate-authority-data": "Y2E="}},
                {"name": "b", "cluster": {}}
            ]
        })
    );
}

#[cfg(unix)]
#[test]
fn kcf_006_a_path_that_is_not_utf8_is_not_written() {
    use std::os::unix::ffi::OsStringExt as _;
    let mut config = Kubeconfig::default();
    let path = std::ffi::OsString::from_vec(b"/k\xff".to_vec());
    config.users.entry("u".into()).or_default().client_key = Some(path.into());
    assert!(config.to_yaml().unwrap_err().to_string().contains("client-key of user \"u\""));
}

#[test]
fn sec_33_unknown_fields_survive_a_rewrite() {
    let config = Kubeconfig::parse(ALL).unwrap();
    let text = config.to_yaml().unwrap();
    let mut again: serde_json::Value = serde_saphyr::from_str(text.expose()).unwrap();
    assert_eq!(again.to_string().matches("mine").count(), 8);
    assert_eq!(
        Kubeconfig::parse(text.expose()).unwrap(),
        config,
        "nothing is lost or turned into something else: {}",
        text.expose()
    );
    assert_eq!(again["mine"].take(), serde_json::json!({"a": [1, "two", 3.5, true, null]}));
    assert_eq!(again["preferences"]["colors"].take(), true);
}

#[test]
fn kcf_008_only_fields_of_the_file_format_are_written() {
    // The settings that decide at run time whether a plugin is run are not part of these types, so nothing needs to be
    // left out; the other fields of the section round-trip.
    let config = Kubeconfig::parse(ALL).unwrap();
    let value: serde_json::Value = serde_saphyr::from_str(config.to_yaml().unwrap().expose()).unwrap();
    let exec = value["users"][0]["user"]["exec"].as_object().unwrap();
    let keys: Vec<_> = exec.keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        ["apiVersion", "args", "command", "env", "installHint", "interactiveMode", "mine", "provideClusterInfo"]
    );
}

#[test]
fn sec_1_a_kubeconfig_shows_no_secret() {
    let canary = "canary";
    let data = BASE64_STANDARD.encode(canary);
    let text = format!(
        "mine: {canary}\nextensions: [{{name: e, extension: {canary}}}]\n\
         clusters:\n- name: it\n  mine: {canary}\n  cluster: {{proxy-url: 'http://u:{canary}@p', mine: {canary}, \
           certificate-authority-data: {data}, extensions: [{{name: e, extension: {{k: {canary}}}}}]}}\n\
         users:\n- name: it\n  user: {{token: {canary}, password: {canary}, client-key-data: {data}, mine: {canary},\n\
           client-certificate-data: {data}, auth-provider: {{config: {{k: {canary}}}}},\n\
           exec: {{args: [{canary}], env: [{{name: n, value: {canary}}}]}}}}\n"
    );
    let config = Kubeconfig::parse(&text).unwrap();
    let shown = format!("{config:?} {config:#?}");
    assert!(!shown.contains(canary) && !shown.contains(&data) && !shown.contains("99, 97, 110"), "{shown}");
    assert!(config.to_yaml().unwrap().expose().contains(canary), "the canary was there");
}

#[test]
fn sec_1_errors_about_the_text_do_not_quote_it() {
    for text in [
        "clusters: canary",
        "users: [canary]",
        "users: [{name: u, user: canary}]",
        "users: [{name: u, user: {token: [canary]}}]",
        "users: [{name: u, user: {client-key-data: '&canary'}}]",
        "users: [{name: u, user: {exec: canary}}]",
        "users: [{name: u, user: {exec: {env: [canary]}}}]",
        "clusters: [{name: u, cluster: {insecure-skip-tls-verify: canary}}]",
        "token: 'canary\n",
        "token: &canary x\nother: *canary2",
        "canary: 1\ncanary: 2",
        "%canary",
        "@canary",
        "token: canary: canary",
        "kind: canary",
    ] {
        let error = Kubeconfig::parse(text).unwrap_err();
        let shown = format!("{error} {error:?} {error:#?}");
        assert!(!shown.contains("canary"), "{text}: {shown}");
    }
}

#[test]
fn sec_32_too_large_too_deep_and_growing_texts_are_refused() {
    let problem = |text: &str| Kubeconfig::parse(text).unwrap_err().to_string();
    assert!(problem(&format!("a: {}", "x".repeat(8 << 20))).contains("8 MiB"));
    assert!(problem(&format!("mine: {}{}", "[".repeat(65), "]".repeat(65))).contains("too deep"));
    assert!(problem(&format!("mine: {}", "{a: ".repeat(100))).contains("too deep"));
    assert!(Kubeconfig::parse(&format!("mine: {}{}", "[".repeat(60), "]".repeat(60))).is_ok());

    let mut laughs = String::from("l0: &l0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n");
    for level in 1..10 {
        let alias = format!("*l{}", level - 1);
        laughs += &format!("l{level}: &l{level} [{}]\n", [alias.as_str(); 10].join(", "));
    }
    assert!(problem(&laughs).contains("too large"), "{}", problem(&laughs));
    let many = format!("a: &a 1\nb: [{}]", vec!["*a"; 10_001].join(", "));
    assert!(problem(&many).contains("too large"), "{}", problem(&many));

    // Aliases can build up depth, too.
    let mut tower = String::from("l0: &l0 x\n");
    for level in 1..60 {
        tower += &format!("l{level}: &l{level} {}*l{}{}\n", "[".repeat(50), level - 1, "]".repeat(50));
    }
    assert!(problem(&tower).contains("too"), "{}", problem(&tower));

    assert!(problem("mine: {a: 1, a: 2}").contains("twice"));
    assert!(problem("users: [{name: a, name: b}]").contains("twice"));
    assert!(problem("users: [{name: a, user: {token: a, token: b}}]").contains("twice"));
    assert!(problem("a: 1\n---\nb: 2").contains("document"));
}

#[test]
fn sec_32_ordinary_aliases_and_merge_keys_work() {
    let text = "x: &base {server: https://h, tls-server-name: n}\n\
                clusters:\n- name: a\n  cluster: *base\n- name: b\n  cluster: {<<: *base, tls-server-name: m}\n";
    let config = Kubeconfig::parse(text).unwrap();
    assert_eq!(config.clusters["a"].server.as_deref(), Some("https://h"));
    assert_eq!(config.clusters["b"].server.as_deref(), Some("https://h"));
    assert_eq!(config.clusters["b"].tls_server_name.as_deref(), Some("m"));
}

proptest! {
    #[test]
    fn kcf_006_any_text_round_trips(
        name: String, token: String, group: String, key: String, number: f64, data: Vec<u8>
    ) {
        let mut config = Kubeconfig::default();
        let user = config.users.entry(name.clone()).or_default();
        user.token = Some(Secret::new(token)).filter(|token| !token.is_empty());
        user.impersonate_groups = vec![group.clone()];
        user.impersonate_extra.insert(key.clone(), vec![group.clone()]);
        user.client_key_data = Some(Data::new(data)).filter(|data| !data.expose().is_empty());
        user.extensions.insert(key, Opaque(serde_json::json!({name.as_str(): [group, number]})));
        config.current_context = Some(name).filter(|name| !name.is_empty());
        let text = config.to_yaml().unwrap();
        prop_assert_eq!(Kubeconfig::parse(text.expose()).map_err(|error| error.to_string()), Ok(config), "{}", text.expose());
    }

    #[test]
    fn sec_32_no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = super::super::text::parse_bytes(&bytes, "fuzz".as_ref());
    }

    #[test]
    fn sec_32_no_text_that_looks_like_a_kubeconfig_makes_the_parser_panic(
        words in proptest::collection::vec(
            prop::sample::select(vec![
                "clusters", "users", "contexts", "name", "user", "cluster", "token", "exec", "env", "config", ": ", ":",
                "- ", "\n", "\n  ", "\n    ", "{", "}", "[", "]", ", ", "&a ", "*a", "<<: ", "|", ">", "'", "\"", "#",
                "null", "~", "!!binary ", "!x ", "---", "...", "?", "%", "\t", "1e999", ".inf", "\u{0}", "é",
            ]),
            0..60,
        )
    ) {
        if let Ok(config) = Kubeconfig::parse(&words.concat()) {
            // Every parsed kubeconfig can be written, and round-trips.
            let text = config.to_yaml().unwrap();
            let again = Kubeconfig::parse(text.expose());
            prop_assert!(again.is_ok(), "{:?}", text.expose());
        }
    }
}
