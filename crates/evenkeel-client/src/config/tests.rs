//! Tests of [`Config`] and of its inference.

use std::path::PathBuf;

use super::testing::Folder;
use super::*;

fn config(url: &str) -> Config {
    Config::new(ServerUrl::parse(url).unwrap())
}

fn pod(folder: &Folder) -> Environment {
    folder.put("sa/token", "pod-token\n");
    folder.put("sa/ca.crt", "ca");
    folder.put("sa/namespace", " pod-ns\n");
    Environment {
        service_host: Some("10.0.0.1".into()),
        service_port: Some("443".into()),
        service_account: folder.join("sa"),
        ..Environment::empty()
    }
}

#[test]
fn cfg_006_an_invalid_host_builds_no_client() {
    let overrides = Overrides { server: Some("ftp://h".into()), ..Overrides::default() };
    let error = Config::from_kubeconfig_str("", &overrides).unwrap_err();
    assert!(matches!(error, ConfigError::Server { .. }), "{error}");
}

#[test]
fn cfg_015_a_config_shows_no_secret() {
    let canary = || Secret::new("canary");
    let mut one = config("https://h");
    one.tls.ca = Some(Pem::Data("canary".into()));
    one.tls.identity = Some(Identity { certificate: Pem::Data("canary".into()), key: PrivateKey::Data(canary()) });
    one.proxy = Proxy::Url(ProxyUrl::parse("http://canary:canary@p").unwrap());
    let auths = [
        Auth::Token(canary()),
        Auth::TokenFile { path: "/t".into(), fallback: Some(canary()) },
        Auth::Basic { username: "u".into(), password: canary() },
    ];
    for auth in auths {
        one.auth = auth;
        let shown = format!("{one:?} {one:#?}");
        assert!(!shown.contains("canary") && !shown.contains("99, 97, 110"), "{shown}");
        assert!(shown.contains("redacted"), "{shown}");
    }
    let overrides = Overrides {
        certificate_authority: Some(Pem::Data("canary".into())),
        client_certificate: Some(Pem::Data("canary".into())),
        client_key: Some(PrivateKey::Data(canary())),
        token: Some(canary()),
        basic: Some(("u".into(), canary())),
        proxy: Some(one.proxy.clone()),
        ..Overrides::default()
    };
    assert!(!format!("{overrides:?} {overrides:#?}").contains("canary"));
}

/// Fails to compile if the type has the trait: `it` would be ambiguous.
macro_rules! assert_lacks {
    ($type:ty: $($bound:tt)+) => {{
        trait Reading<A> {
            fn it() {}
        }
        struct WithTrait;
        impl<T: ?Sized> Reading<()> for T {}
        impl<T: ?Sized + $($bound)+> Reading<WithTrait> for T {}
        let _ = <$type as Reading<_>>::it;
    }};
}

#[test]
fn sec_2_secrets_cannot_be_shown_by_accident() {
    assert_lacks!(Secret: std::fmt::Display);
    assert_lacks!(Secret: serde::Serialize);
    assert_lacks!(Secret: Copy);
    assert_lacks!(Secret: AsRef<str>);
    assert_lacks!(Secret: std::ops::Deref);
    assert_lacks!(kubeconfig::Data: std::fmt::Display);
    assert_lacks!(kubeconfig::Data: serde::Serialize);
    assert_lacks!(kubeconfig::Data: std::ops::Deref);
    assert_lacks!(Kubeconfig: serde::Serialize);
    assert_lacks!(Config: serde::Serialize);
    assert_lacks!(PrivateKey: serde::Serialize);
    assert_lacks!(Auth: serde::Serialize);
    let secret = Secret::new("canary");
    let data = kubeconfig::Data::new("canary");
    assert_eq!(format!("{secret:?} {data:?} {secret:#?} {data:#?}"), "[redacted] [6 bytes] [redacted] [6 bytes]");
}

#[test]
fn cfg_016_the_anonymous_copy_keeps_everything_except_credentials() {
    let mut one = config("https://h/base");
    one.tls.ca = Some(Pem::Data("ca".into()));
    one.tls.server_name = Some("name".into());
    one.tls.identity = Some(Identity { certificate: Pem::Data("c".into()), key: PrivateKey::File("/k".into()) });
    one.auth = Auth::Token(Secret::new("t"));
    one.impersonate = Some(Impersonate { user: "u".into(), ..Impersonate::default() });
    one.user_agent = Some("me".into());
    one.compression = false;
    one.throttle = Some(Throttle::default());
    one.proxy = Proxy::Direct;
    let anonymous = one.anonymous();
    assert_eq!((&anonymous.auth, &anonymous.impersonate, &anonymous.tls.identity), (&Auth::None, &None, &None));
    assert_eq!(
        (&anonymous.server, &anonymous.tls.ca, &anonymous.tls.server_name),
        (&one.server, &one.tls.ca, &one.tls.server_name)
    );
    assert_eq!(
        (&anonymous.user_agent, anonymous.compression, anonymous.throttle),
        (&one.user_agent, false, one.throttle)
    );
    assert_eq!(anonymous.proxy, Proxy::Direct);
}

#[test]
fn cfg_017_copies_are_independent() {
    // client-go's copies share their exec provider, and one of them modifies it.
    let one = config("https://h");
    let mut other = one.clone();
    other.auth = Auth::Token(Secret::new("t"));
    other.namespace = "other".into();
    assert_eq!((&one.auth, one.namespace.as_str()), (&Auth::None, "default"));
}

#[test]
fn sec_11_a_ca_that_would_not_be_used_is_an_error() {
    let mut one = config("https://h");
    one.tls.insecure_skip_verify = true;
    one.validate().unwrap();
    one.tls.ca = Some(Pem::Data("ca".into()));
    assert!(one.validate().is_err());
}

#[test]
fn sec_14_an_incomplete_pair_in_a_manual_config_is_an_error() {
    // client-go ignores an incomplete pair.
    for (certificate, key) in [("", "key"), ("certificate", "")] {
        let mut one = config("https://h");
        let key = PrivateKey::Data(Secret::new(key));
        one.tls.identity = Some(Identity { certificate: Pem::Data(certificate.into()), key });
        assert!(one.validate().unwrap_err().to_string().contains("but no client"));
    }
}

#[test]
fn sec_15_credentials_are_not_sent_in_cleartext() {
    let auths = [
        Auth::Token(Secret::new("canary")),
        Auth::TokenFile { path: "/t".into(), fallback: None },
        Auth::Basic { username: "u".into(), password: Secret::new("canary") },
    ];
    for auth in auths {
        for (url, fine) in [
            ("http://h", false),
            ("http://10.0.0.1:8080", false),
            ("http://[fd00::1]", false),
            ("https://h", true),
            ("http://localhost:8080", true),
            ("http://127.0.0.1", true),
            ("http://[::1]:1", true),
        ] {
            let mut one = config(url);
            one.auth = auth.clone();
            let checked = one.validate();
            assert_eq!(checked.is_ok(), fine, "{url} {auth:?}");
            if let Err(error) = checked {
                assert!(matches!(error, ConfigError::InsecureCredentials { dropped: false, .. }), "{error}");
                assert!(!format!("{error} {error:?}").contains("canary"));
            }
            one.allow_insecure_credentials = true;
            one.validate().unwrap();
        }
    }
    let mut proxied = config("http://localhost");
    proxied.auth = Auth::Token(Secret::new("t"));
    proxied.proxy = Proxy::Url(ProxyUrl::parse("http://p").unwrap());
    assert!(proxied.validate().is_err(), "a proxy has another localhost");
    config("http://h").validate().unwrap();
}

#[test]
fn sec_15_a_certificate_without_tls_is_an_error_everywhere() {
    let mut one = config("http://localhost");
    one.tls.identity = Some(Identity { certificate: Pem::Data("c".into()), key: PrivateKey::File("/k".into()) });
    one.allow_insecure_credentials = true;
    let error = one.validate().unwrap_err();
    assert!(matches!(error, ConfigError::InsecureCredentials { dropped: true, .. }), "{error}");
}

#[test]
fn cfg_006_invalid_settings_are_rejected_early_and_together() {
    let mut one = config("https://h");
    one.auth = Auth::Token(Secret::new("se\r\ncret"));
    one.impersonate = Some(Impersonate::default());
    one.user_agent = Some("a\nb".into());
    one.throttle = Some(Throttle { qps: f32::NAN, burst: 1 });
    one.tls.server_name = Some("not a name".into());
    let error = one.validate().unwrap_err();
    assert_eq!(error.iter().count(), 5, "{error}");
    assert!(!format!("{error:?}").contains("cret"), "{error:?}");
    for auth in [
        Auth::Token(Secret::new("")),
        Auth::Basic { username: "a:b".into(), password: Secret::new("p") },
        Auth::Basic { username: "a".into(), password: Secret::new("p\n") },
    ] {
        let mut one = config("https://h");
        one.auth = auth;
        assert!(one.validate().is_err());
    }
}

#[test]
fn cfg_013_in_cluster_configuration() {
    let folder = Folder::new();
    let pod = pod(&folder);
    let one = pod.in_cluster(&Overrides::default()).unwrap();
    assert_eq!(one.server.to_string(), "https://10.0.0.1:443");
    assert_eq!(one.tls.ca, Some(Pem::File(folder.join("sa/ca.crt"))));
    assert_eq!(one.auth, Auth::TokenFile { path: folder.join("sa/token"), fallback: Some(Secret::new("pod-token")) });
    assert_eq!(one.namespace, "pod-ns");
    for outside in [
        Environment { service_host: None, ..pod.clone() },
        Environment { service_host: Some(String::new()), ..pod.clone() },
        Environment { service_port: None, ..pod.clone() },
    ] {
        let error = outside.in_cluster(&Overrides::default()).unwrap_err();
        assert!(matches!(error, ConfigError::NotInCluster { .. }), "{error}");
    }
    std::fs::remove_file(folder.join("sa/token")).unwrap();
    assert!(pod.in_cluster(&Overrides::default()).unwrap_err().is_not_found());
    folder.put("sa/token", " \n");
    assert!(pod.in_cluster(&Overrides::default()).is_err(), "an empty token is none");
}

#[test]
fn sec_23_fixed_paths_and_brackets_around_ipv6() {
    assert_eq!(
        Environment::from_process().service_account,
        PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount")
    );
    let folder = Folder::new();
    let pod = Environment { service_host: Some("fd00::1".into()), ..pod(&folder) };
    let one = pod.in_cluster(&Overrides::default()).unwrap();
    assert_eq!((one.server.host(), one.server.to_string().as_str()), ("fd00::1", "https://[fd00::1]:443"));
}

#[test]
fn cfg_014_a_ca_that_cannot_be_read_is_an_error() {
    // client-go logs the error and trusts the system's certificates instead.
    let folder = Folder::new();
    let pod = pod(&folder);
    std::fs::remove_file(folder.join("sa/ca.crt")).unwrap();
    let error = pod.in_cluster(&Overrides::default()).unwrap_err();
    assert!(error.is_not_found() && error.to_string().contains("ca.crt"), "{error}");
}

const FILE: &str = "
clusters: [{name: c, cluster: {server: https://file}}]
contexts: [{name: it, context: {cluster: c}}, {name: typo, context: {cluster: d}}]
";

#[test]
fn kcf_042_the_pod_is_used_only_if_nothing_is_configured() {
    let folder = Folder::new();
    let pod = pod(&folder);
    let with = |text: &str| {
        let file = folder.put("config", text);
        Environment { kubeconfig: Some(file.into()), ..pod.clone() }.infer(&Overrides::default())
    };
    let host = |config: Result<Config, ConfigError>| config.map(|config| config.server.host().to_owned());
    assert_eq!(host(with("")).unwrap(), "10.0.0.1");
    assert_eq!(host(with(FILE)).unwrap(), "10.0.0.1", "no context is chosen");
    assert_eq!(host(with(&format!("{FILE}current-context: it"))).unwrap(), "file");
    assert!(with(&format!("{FILE}current-context: typo")).is_err(), "a typo is no reason to go elsewhere");
    assert!(with("current-context: gone").is_err());
    assert!(with("current-context: [").is_err());
    assert_eq!(host(pod.infer(&Overrides::default())).unwrap(), "10.0.0.1", "no kubeconfig at all");

    std::fs::remove_file(folder.join("sa/token")).unwrap();
    let error = pod.infer(&Overrides::default()).unwrap_err();
    assert!(error.is_not_configured(), "without a token this is no place to be: {error}");
    let outside = Environment { home: Some("/home/missing".into()), ..Environment::empty() };
    let error = outside.infer(&Overrides::default()).unwrap_err();
    assert!(error.is_not_configured() && error.to_string().contains("/home/missing/.kube/config"), "{error}");
}

#[test]
fn kcf_043_overrides_count_inside_a_cluster_too() {
    // client-go honours three of them and ignores the others.
    let folder = Folder::new();
    let ca = folder.put("other.crt", "ca");
    let overrides = Overrides {
        server: Some("https://other:1".into()),
        token: Some(Secret::new("other")),
        certificate_authority: Some(Pem::File(ca.clone())),
        namespace: Some("other-ns".into()),
        ..Overrides::default()
    };
    let one = pod(&folder).in_cluster(&overrides).unwrap();
    assert_eq!(one.server.to_string(), "https://other:1");
    assert_eq!((one.auth, one.tls.ca), (Auth::Token(Secret::new("other")), Some(Pem::File(ca))));
    assert_eq!(one.namespace, "other-ns");
    for overrides in [
        Overrides { context: Some("x".into()), ..Overrides::default() },
        Overrides { cluster: Some("x".into()), ..Overrides::default() },
        Overrides { user: Some("x".into()), ..Overrides::default() },
    ] {
        let pod = pod(&folder);
        for found in [pod.in_cluster(&overrides), pod.infer(&overrides)] {
            assert!(matches!(found, Err(ConfigError::Missing { .. })), "there is nothing to choose from: {found:?}");
        }
    }
}

#[test]
fn kcf_044_the_namespace_of_the_pod() {
    let folder = Folder::new();
    let pod = pod(&folder);
    let namespace = |environment: &Environment| environment.infer(&Overrides::default()).unwrap().namespace;
    assert_eq!(namespace(&pod), "pod-ns");
    assert_eq!(namespace(&Environment { pod_namespace: Some("env-ns".into()), ..pod.clone() }), "env-ns");
    let file = |context: &str| {
        let text = format!(
            "clusters: [{{name: c, cluster: {{server: https://h}}}}]\ncurrent-context: it\ncontexts: [{context}]"
        );
        Environment { kubeconfig: Some(folder.put("config", &text).into()), ..pod.clone() }
    };
    assert_eq!(namespace(&file("{name: it, context: {cluster: c}}")), "pod-ns");
    assert_eq!(namespace(&file("{name: it, context: {cluster: c, namespace: default}}")), "default", "said is said");
    std::fs::remove_file(folder.join("sa/namespace")).unwrap();
    assert_eq!(namespace(&pod), "default");
}

#[test]
fn kcf_045_files_have_priority_over_the_pod() {
    // client-go's `BuildConfigFromFlags` without arguments tries the pod first, and then reads no file.
    let folder = Folder::new();
    folder.put("home/.kube/config", &format!("{FILE}current-context: it"));
    let environment = Environment { home: Some(folder.join("home")), ..pod(&folder) };
    assert_eq!(environment.infer(&Overrides::default()).unwrap().server.host(), "file");
}

#[test]
fn kcf_046_no_server_is_guessed_where_none_is_configured() {
    // client-go's deprecated default is $KUBERNETES_MASTER, or plain HTTP on this machine's port 8080.
    let nowhere = Environment { home: Some("/home/missing".into()), ..Environment::empty() };
    let named_user = Overrides { token: Some(Secret::new("t")), ..Overrides::default() };
    for overrides in [Overrides::default(), named_user] {
        let error = nowhere.infer(&overrides).unwrap_err();
        assert!(error.is_not_configured(), "{error}");
    }
}

#[test]
fn sec_25_an_untrusted_kubeconfig_can_only_select_a_server() {
    let text = |cluster: &str, user: &str| {
        format!(
            "clusters: [{{name: c, cluster: {{server: 'https://h', {cluster}}}}}]\n\
             users: [{{name: u, user: {{{user}}}}}]\n\
             contexts: [{{name: it, context: {{cluster: c, user: u}}}}]\ncurrent-context: it"
        )
    };
    let fine = text("certificate-authority-data: Y2E=", "client-certificate-data: Yw==, client-key-data: aw==");
    assert!(Config::from_untrusted(&fine).unwrap().tls.identity.is_some());
    let untrusted = Config::from_untrusted(&text("", "token: t")).unwrap();
    assert_eq!(untrusted.exec_policy, ExecPolicy::DenyAll, "nor does a plugin run that is added later");
    for (cluster, user, field) in [
        ("", "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, id]}", "exec"),
        ("", "token: t, exec: {command: /bin/sh}", "exec"),
        ("", "tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token", "tokenFile"),
        ("", "token: t, tokenFile: ../../etc/shadow", "tokenFile"),
        ("", "client-certificate: /c, client-key-data: aw==", "client-certificate"),
        ("", "client-certificate-data: Yw==, client-key: ../k", "client-key"),
        ("", "auth-provider: {name: gcp, config: {cmd-path: /bin/sh}}", "auth-provider"),
        ("", "auth-provider: {name: oidc, config: {idp-issuer-url: 'https://i', client-id: c}}", "auth-provider"),
        ("certificate-authority: /etc/passwd", "", "certificate-authority"),
        ("insecure-skip-tls-verify: true", "", "insecure-skip-tls-verify"),
        ("proxy-url: 'http://169.254.169.254'", "", "proxy-url"),
    ] {
        let error = Config::from_untrusted(&text(cluster, user)).unwrap_err();
        assert!(
            matches!(&error, ConfigError::Untrusted { field: refused, .. } if *refused == field),
            "{field}: {error}"
        );
    }
    // Cloud metadata endpoints, and other plain HTTP servers on the local network.
    for server in ["http://169.254.169.254/latest", "http://localhost:8080", "h:8080"] {
        for user in ["", "token: t"] {
            let clear = text("", user).replace("https://h", server);
            let error = Config::from_untrusted(&clear).unwrap_err();
            assert!(matches!(error, ConfigError::Untrusted { field: "a server without TLS", .. }), "{error}");
        }
    }
}

#[test]
fn trn_018_inferred_configurations_use_the_connection_settings_of_the_environment() {
    let folder = Folder::new();
    let connections = Connections { http: HttpVersions::Http1Only, ping_after: None, ..Connections::default() };
    let pod = Environment { connections: connections.clone(), ..pod(&folder) };
    assert_eq!(pod.in_cluster(&Overrides::default()).unwrap().connections, connections);
    assert_eq!(pod.infer(&Overrides::default()).unwrap().connections, connections);
    let file = folder.put("config", &format!("{FILE}current-context: it"));
    let outside =
        Environment { kubeconfig: Some(file.clone().into()), connections: connections.clone(), ..Environment::empty() };
    assert_eq!(outside.infer(&Overrides::default()).unwrap().connections, connections);
    assert_eq!(Environment::empty().connections, Connections::default());
}

/// The environment of a process can only be tested in a process of its own: this test starts itself again.
#[test]
fn trn_018_kubeconfigs_use_the_environment_of_the_process() {
    const MARK: &str = "EVENKEEL_TEST_OF_THE_ENVIRONMENT";
    let name = "config::tests::trn_018_kubeconfigs_use_the_environment_of_the_process";
    if std::env::var_os(MARK).is_none() {
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", name]).env(MARK, "1").env("DISABLE_HTTP2", "1").env("HTTP2_PING_TIMEOUT_SECONDS", "7");
        let output = again.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let folder = Folder::new();
    let text = "{clusters: [{name: c, cluster: {server: https://file}}], contexts: [{name: it, context: {cluster: c}}], \
                current-context: it}";
    let file = folder.put("config", text);
    let overrides = Overrides::default();
    for config in [
        Config::from_kubeconfig_file(file, &overrides).unwrap(),
        Config::from_kubeconfig_str(text, &overrides).unwrap(),
        Config::from_untrusted(text).unwrap(),
    ] {
        assert_eq!((config.connections.http, config.connections.ping_timeout.as_secs()), (HttpVersions::Http1Only, 7));
    }
    assert_eq!(Environment::from_process().connections, Connections::from_env());
    assert_eq!(Config::new(ServerUrl::parse("https://h").unwrap()).connections, Connections::default());
}
