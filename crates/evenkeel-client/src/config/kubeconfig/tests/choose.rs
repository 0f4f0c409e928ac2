use std::time::Duration;

use super::*;
use crate::auth::{ExecApiVersion, ExecPlugin, InteractiveMode};
use crate::config::kubeconfig::Opaque;
use crate::config::{Auth, Identity, Impersonate, Pem, PrivateKey, Proxy, ProxyUrl};

const TWO: &str = "
clusters:
- {name: a, cluster: {server: https://a}}
- {name: b, cluster: {server: https://b}}
users:
- {name: a, user: {token: a}}
- {name: b, user: {token: b}}
contexts:
- {name: a, context: {cluster: a, user: a, namespace: ns-a}}
- {name: b, context: {cluster: b, user: b}}
- {name: anonymous, context: {cluster: b}}
- {name: lost-user, context: {cluster: b, user: ghost}}
- {name: lost-cluster, context: {cluster: ghost, user: a}}
- {name: nowhere, context: {user: a}}
current-context: a
";

fn two(overrides: &Overrides) -> Result<Config, ConfigError> {
    Config::from_kubeconfig_str(TWO, overrides)
}

fn context(name: &str) -> Overrides {
    Overrides { context: Some(name.into()), ..Overrides::default() }
}

fn token(text: &str) -> Auth {
    Auth::Token(Secret::new(text))
}

#[test]
fn kcf_020_the_override_has_priority_over_the_context() {
    let current = two(&Overrides::default()).unwrap();
    assert_eq!((current.server.host(), &current.auth), ("a", &token("a")));
    let other = two(&context("b")).unwrap();
    assert_eq!((other.server.host(), &other.auth), ("b", &token("b")));
    let mixed = Overrides { cluster: Some("b".into()), ..Overrides::default() };
    let mixed = two(&mixed).unwrap();
    assert_eq!((mixed.server.host(), &mixed.auth), ("b", &token("a")));
    let mixed = two(&Overrides { user: Some("b".into()), ..Overrides::default() }).unwrap();
    assert_eq!((mixed.server.host(), &mixed.auth), ("a", &token("b")));
    assert_eq!(two(&context("anonymous")).unwrap().auth, Auth::None, "a context without a user is anonymous");
    for overrides in [
        context("none"),
        Overrides { cluster: Some("none".into()), ..Overrides::default() },
        Overrides { user: Some("none".into()), ..Overrides::default() },
    ] {
        let error = two(&overrides).unwrap_err();
        assert!(matches!(&error, ConfigError::Missing { name, .. } if name == "none"), "{error}");
    }
}

#[test]
fn an_unknown_name_is_reported_with_the_known_ones() {
    let text = two(&Overrides { user: Some("none".into()), ..Overrides::default() }).unwrap_err().to_string();
    let there = r#"the override names the user "none", which is not in the kubeconfig; there are "a", "b""#;
    assert!(text.starts_with(there), "{text}");
    let alone = "current-context: b\ncontexts: [{name: a, context: {}}]";
    let text = Config::from_kubeconfig_str(alone, &Overrides::default()).unwrap_err().to_string();
    assert!(text.ends_with(r#"; there is "a""#), "{text}");
}

#[test]
fn the_names_of_the_selected_entries_are_kept() {
    let chosen = two(&Overrides::default()).unwrap().chosen;
    assert_eq!((chosen.context.as_deref(), chosen.user.as_deref()), (Some("a"), Some("a")));
    let chosen = two(&context("anonymous")).unwrap().chosen;
    assert_eq!((chosen.context.as_deref(), chosen.user.as_deref()), (Some("anonymous"), None));
}

#[test]
fn kcf_020_an_unknown_user_is_an_error() {
    // client-go treats an unknown user as anonymous.
    let error = two(&context("lost-user")).unwrap_err();
    assert!(matches!(error, ConfigError::Missing { kind: EntryKind::User, .. }), "{error}");
    assert!(error.to_string().contains("lost-user"), "{error}");
}

#[test]
fn kcf_041_dangling_references_are_errors() {
    // client-go treats a context with an unknown cluster as an empty configuration and falls back to in-cluster.
    for name in ["lost-cluster", "nowhere", "none"] {
        let error = two(&context(name)).unwrap_err();
        assert!(!error.is_not_configured(), "{error}");
    }
    let dangling = Config::from_kubeconfig_str("current-context: gone", &Overrides::default()).unwrap_err();
    assert!(matches!(dangling, ConfigError::Missing { kind: EntryKind::Context, .. }), "{dangling}");
}

#[test]
fn kcf_041_a_missing_selection_is_a_distinct_error() {
    let error = Config::from_kubeconfig_str("", &Overrides::default()).unwrap_err();
    assert!(error.is_not_configured());
    let text = TWO.replace("current-context: a", "");
    let error = Config::from_kubeconfig_str(&text, &Overrides::default()).unwrap_err();
    assert!(error.is_not_configured() && error.to_string().contains("lost-user"), "the choices are named: {error}");
}

#[test]
fn kcf_021_any_value_can_be_overridden_true_with_false_as_well() {
    // client-go cannot override `true` with `false`.
    let file = "server: https://h\ninsecure-skip-tls-verify: true\ndisable-compression: true";
    let plain = config(file, "{}", &Overrides::default()).unwrap();
    assert!(plain.tls.insecure_skip_verify && !plain.compression);
    let overrides = Overrides {
        insecure_skip_tls_verify: Some(false),
        compression: Some(true),
        timeout: Some(Duration::from_secs(3)),
        proxy: Some(Proxy::Direct),
        allow_insecure_credentials: true,
        ..Overrides::default()
    };
    let overridden = config(file, "{}", &overrides).unwrap();
    assert!(!overridden.tls.insecure_skip_verify && overridden.compression && overridden.allow_insecure_credentials);
    assert_eq!((overridden.timeout, overridden.proxy), (Some(Duration::from_secs(3)), Proxy::Direct));
    let endless = Overrides { timeout: Some(Duration::ZERO), ..Overrides::default() };
    assert_eq!(config(SERVER, "{}", &endless).unwrap().timeout, None);
}

#[test]
fn kcf_021_an_overridden_credential_replaces_the_others() {
    let token_file = Overrides { token: Some(Secret::new("new")), ..Overrides::default() };
    assert_eq!(config(SERVER, "tokenFile: /none", &token_file).unwrap().auth, token("new"));
    assert_eq!(config(SERVER, "username: u\npassword: p", &token_file).unwrap().auth, token("new"));
    assert_eq!(config(SERVER, "exec: {command: c, apiVersion: v}", &token_file).unwrap().auth, token("new"));
    assert_eq!(config(SERVER, "auth-provider: {name: oidc}", &token_file).unwrap().auth, token("new"));
    let basic = Overrides { basic: Some(("u".into(), Secret::new("p"))), ..Overrides::default() };
    let expected = Auth::Basic { username: "u".into(), password: Secret::new("p") };
    assert_eq!(config(SERVER, "token: t", &basic).unwrap().auth, expected);
    let anonymous = Overrides { anonymous: true, ..Overrides::default() };
    let anonymous = config(SERVER, "token: t\nas: someone\nclient-certificate: /none", &anonymous).unwrap();
    assert_eq!((anonymous.auth, anonymous.impersonate, anonymous.tls.identity), (Auth::None, None, None));
}

const CA: &str = "server: https://h\ncertificate-authority-data: Y2E=\ntls-server-name: name";

#[test]
fn kcf_022_insecure_and_ca_replace_each_other() {
    let insecure = Overrides { insecure_skip_tls_verify: Some(true), ..Overrides::default() };
    let config_ = config(CA, "{}", &insecure).unwrap();
    assert!(config_.tls.insecure_skip_verify && config_.tls.ca.is_none());
    let ca = Overrides { certificate_authority: Some(Pem::Data("new".into())), ..Overrides::default() };
    for file in
        [CA, "server: https://h\ninsecure-skip-tls-verify: true", "server: https://h\ncertificate-authority: /no"]
    {
        let config = config(file, "{}", &ca).unwrap();
        assert_eq!(config.tls.ca, Some(Pem::Data("new".into())), "{file}");
        assert!(!config.tls.insecure_skip_verify, "{file}");
    }
}

#[test]
fn kcf_023_overriding_the_server_discards_its_tls_server_name() {
    let server = Overrides { server: Some("https://other".into()), ..Overrides::default() };
    assert_eq!(config(CA, "{}", &server).unwrap().tls.server_name, None);
    let name = Overrides { tls_server_name: Some("new".into()), ..Overrides::default() };
    assert_eq!(config(CA, "{}", &name).unwrap().tls.server_name.as_deref(), Some("new"));
    let both = Overrides { tls_server_name: Some("new".into()), ..server };
    let both = config(CA, "{}", &both).unwrap();
    assert_eq!((both.server.host(), both.tls.server_name.as_deref()), ("other", Some("new")));
}

#[test]
fn kcf_024_certificate_and_key_are_replaced_file_or_data() {
    let user = "client-certificate: /none\nclient-key: /none";
    let overrides = Overrides {
        client_certificate: Some(Pem::Data("cert".into())),
        client_key: Some(PrivateKey::Data(Secret::new("key"))),
        ..Overrides::default()
    };
    let identity = config(SERVER, user, &overrides).unwrap().tls.identity;
    let expected = Identity { certificate: Pem::Data("cert".into()), key: PrivateKey::Data(Secret::new("key")) };
    assert_eq!(identity, Some(expected));
    let folder = Folder::new();
    let overrides = Overrides {
        client_certificate: Some(Pem::File(folder.put("c", "c"))),
        client_key: Some(PrivateKey::File(folder.put("k", "k"))),
        ..Overrides::default()
    };
    let user = "client-certificate-data: Yw==\nclient-key-data: aw==";
    let identity = config(SERVER, user, &overrides).unwrap().tls.identity.unwrap();
    assert_eq!(identity.certificate, Pem::File(folder.join("c")));
    assert_eq!(identity.key, PrivateKey::File(folder.join("k")));
}

#[test]
fn kcf_026_the_proxy_of_the_file_is_used_and_a_bad_one_is_an_error() {
    let config_ = config("server: https://h\nproxy-url: socks5://p", "{}", &Overrides::default()).unwrap();
    assert_eq!(config_.proxy, Proxy::Url(ProxyUrl::parse("socks5://p").unwrap()));
    assert_eq!(config(SERVER, "{}", &Overrides::default()).unwrap().proxy, Proxy::Environment);
    let error = refused("server: https://h\nproxy-url: ftp://u:canary@p", "{}");
    assert!(error.contains("ftp://[redacted]@p") && !error.contains("canary"), "{error}");
}

#[test]
fn kcf_027_the_path_of_the_server_is_kept_and_query_and_fragment_are_dropped() {
    let config = config("server: 'https://h/prefix/?a=b#c'", "{}", &Overrides::default()).unwrap();
    assert_eq!(config.server.to_string(), "https://h/prefix");
}

#[test]
fn kcf_028_credentials_are_never_dropped_silently() {
    // client-go drops all credentials for http servers and continues anonymously.
    let certificate = "client-certificate-data: Yw==\nclient-key-data: aw==";
    for (user, field) in [("token: t", "token"), ("username: u", "password"), (certificate, "client certificate")] {
        let error = refused("server: http://h", user);
        assert!(error.contains(field) && error.contains("http://h"), "{error}");
    }
    let error = refused("server: http://localhost", certificate);
    assert!(error.contains("not be sent"), "{error}");
    let local = config("server: http://127.0.0.1:8080", "token: t", &Overrides::default()).unwrap();
    assert_eq!(local.auth, token("t"), "loopback traffic cannot be intercepted");
}

#[test]
fn chc_21_overrides_discard_dependent_fields() {
    let config_ = |overrides| config(CA, "token: t", &overrides);
    let server = config_(Overrides { server: Some("https://new".into()), ..Overrides::default() }).unwrap();
    assert_eq!((server.tls.server_name, server.tls.ca), (None, Some(Pem::Data("ca".into()))));
    let insecure = config_(Overrides { insecure_skip_tls_verify: Some(true), ..Overrides::default() }).unwrap();
    assert_eq!(insecure.tls.ca, None);
    // No token is sent in cleartext: the configuration is rejected.
    let error = config_(Overrides { server: Some("http://new".into()), ..Overrides::default() }).unwrap_err();
    assert!(matches!(error, ConfigError::InsecureCredentials { dropped: false, .. }), "{error}");
}

#[test]
fn kcf_029_a_token_beside_a_token_file_is_its_fallback() {
    let both = config(SERVER, "token: t\ntokenFile: /none", &Overrides::default()).unwrap();
    assert_eq!(both.auth, Auth::TokenFile { path: "/none".into(), fallback: Some(Secret::new("t")) });
    let folder = Folder::new();
    let path = folder.put("token", "t");
    let file = Overrides { token_file: Some(path.clone()), ..Overrides::default() };
    assert_eq!(config(SERVER, "{}", &file).unwrap().auth, Auth::TokenFile { path, fallback: None });
    let error = refused(SERVER, "tokenFile: /none");
    assert!(error.contains("the token") && error.contains("/none"), "{error}");
}

#[test]
fn kcf_030_impersonation_requires_a_user_name() {
    let user = "as: me\nas-uid: '1'\nas-groups: [g]\nas-user-extra: {k: [v]}";
    let whom = config(SERVER, user, &Overrides::default()).unwrap().impersonate.unwrap();
    let extra = [("k".to_owned(), vec!["v".to_owned()])].into();
    assert_eq!(whom, Impersonate { user: "me".into(), uid: "1".into(), groups: vec!["g".into()], extra });
    for field in ["as-uid: '1'", "as-groups: [g]", "as-user-extra: {k: [v]}"] {
        assert!(refused(SERVER, field).contains("no as"), "{field}");
    }
    let other = Impersonate { user: "other".into(), ..Impersonate::default() };
    let overrides = Overrides { impersonate: Some(other.clone()), ..Overrides::default() };
    assert_eq!(config(SERVER, user, &overrides).unwrap().impersonate, Some(other));
}

#[test]
fn kcf_033_a_user_without_credentials_is_anonymous_without_a_prompt() {
    // client-go can prompt for a name and a password. A library should not use the terminal; a program that prompts
    // puts the input into the overrides.
    let anonymous = config(SERVER, "{}", &Overrides::default()).unwrap();
    assert_eq!((anonymous.auth, anonymous.tls.identity), (Auth::None, None));
    let answers = Overrides { basic: Some(("joe".into(), Secret::new("p"))), ..Overrides::default() };
    let joe = Auth::Basic { username: "joe".into(), password: Secret::new("p") };
    assert_eq!(config(SERVER, "{}", &answers).unwrap().auth, joe);
}

#[test]
fn kcf_034_the_namespace_of_the_override_then_of_the_context_then_default() {
    let namespace = |overrides| two(&overrides).unwrap().namespace;
    assert_eq!(namespace(Overrides::default()), "ns-a");
    assert_eq!(namespace(context("b")), "default");
    assert_eq!(namespace(Overrides { namespace: Some("mine".into()), ..Overrides::default() }), "mine");
    let bare = Overrides { server: Some("h".into()), namespace: Some("mine".into()), ..Overrides::default() };
    assert_eq!(Config::from_kubeconfig_str("", &bare).unwrap().namespace, "mine");
}

#[test]
fn kcf_035_prefixes_of_the_namespace_are_dropped() {
    let stripped = |text: &str| {
        let overrides = Overrides { namespace: Some(text.into()), ..Overrides::default() };
        overrides.namespace().map(str::to_owned)
    };
    for text in ["mine", "ns/mine", "NS/mine", "namespace/mine", "Namespaces/mine"] {
        assert_eq!(stripped(text).as_deref(), Some("mine"), "{text}");
    }
    assert_eq!(stripped("ns/"), None);
    assert_eq!(stripped("né").as_deref(), Some("né"));
    assert_eq!(stripped("nsmine").as_deref(), Some("nsmine"));
}

#[test]
fn sec_30_exe_002_an_exec_plugin_is_skipped_beside_credentials() {
    let exec = "exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, interactiveMode: Never}";
    let certificate = "client-certificate-data: Yw==\nclient-key-data: aw==";
    for beside in ["token: t", "username: u", certificate] {
        let config = config(SERVER, &format!("{beside}\n{exec}"), &Overrides::default()).unwrap();
        assert!(!matches!(config.auth, Auth::Exec(_)), "{beside}");
    }
    for overrides in [
        Overrides { token: Some("t".into()), ..Overrides::default() },
        Overrides { basic: Some(("u".into(), "p".into())), ..Overrides::default() },
        Overrides { anonymous: true, ..Overrides::default() },
    ] {
        assert!(!matches!(config(SERVER, exec, &overrides).unwrap().auth, Auth::Exec(_)), "{overrides:?}");
    }
    assert!(matches!(config(SERVER, exec, &Overrides::default()).unwrap().auth, Auth::Exec(_)));
}

#[test]
fn exe_001_only_two_versions_of_the_plugin_protocol_are_supported() {
    let exec = |version: &str| format!("exec: {{apiVersion: {version}, command: aws, interactiveMode: Never}}");
    for (version, expected) in [("v1", ExecApiVersion::V1), ("v1beta1", ExecApiVersion::V1Beta1)] {
        let config = config(SERVER, &exec(&format!("client.authentication.k8s.io/{version}")), &Overrides::default());
        assert!(matches!(config.unwrap().auth, Auth::Exec(plugin) if plugin.api_version == expected));
    }
    for version in ["client.authentication.k8s.io/v1alpha1", "client.authentication.k8s.io/v2", "v1"] {
        let error = refused(SERVER, &exec(version));
        assert!(error.contains("\"it\"") && error.contains("\"aws\"") && error.contains(version), "{error}");
        assert!(error.contains("use client.authentication.k8s.io/v1 or v1beta1"), "{error}");
    }
}

#[test]
fn exe_005_a_plugin_has_the_settings_of_the_kubeconfig() {
    let exec = "exec:
  apiVersion: client.authentication.k8s.io/v1beta1
  command: aws
  args: [eks, get-token]
  env: [{name: A, value: one}, {name: B}]
  installHint: get it
  provideClusterInfo: true";
    let cluster = format!("{SERVER}\nextensions: [{{name: client.authentication.k8s.io/exec, extension: {{a: 1}}}}]");
    let config = config(&cluster, exec, &Overrides::default()).unwrap();
    let mut expected = ExecPlugin::new("aws");
    expected.api_version = ExecApiVersion::V1Beta1;
    expected.args = vec!["eks".into(), "get-token".into()];
    expected.env = vec![("A".into(), "one".into()), ("B".into(), "".into())];
    expected.install_hint = Some("get it".into());
    expected.interactive_mode = InteractiveMode::IfAvailable;
    expected.provide_cluster_info = true;
    expected.cluster_config = Some(Opaque(serde_json::json!({"a": 1})));
    assert_eq!(config.auth, Auth::exec(expected), "v1beta1 is interactive if it can be");
    assert!(!format!("{config:?}").contains("get-token"), "arguments may be secrets");
}

#[test]
fn oid_006_sec_33_removed_providers_are_reported_with_their_replacement() {
    for (name, replacement) in [
        ("oidc", "without idp-issuer-url"),
        ("gcp", "gke-gcloud-auth-plugin"),
        ("azure", "kubelogin"),
        ("x", "exec plugin"),
    ] {
        let error = refused(SERVER, &format!("auth-provider: {{name: {name}}}"));
        assert!(error.contains(name) && error.contains(replacement), "{error}");
    }
}

#[test]
fn cfg_001_a_bare_host_in_the_file_is_guessed() {
    let plain = config("server: h:1", "{}", &Overrides::default()).unwrap();
    let tls = config("server: h:1\ncertificate-authority-data: Y2E=", "{}", &Overrides::default()).unwrap();
    assert_eq!((plain.server.to_string(), tls.server.to_string()), ("http://h:1".into(), "https://h:1".into()));
}
