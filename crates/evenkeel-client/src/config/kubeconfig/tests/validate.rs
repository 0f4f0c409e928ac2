use super::*;

#[test]
fn kcf_040_all_problems_are_reported_at_once() {
    let text = "
clusters:
- {name: empty, cluster: {}}
- {name: both, cluster: {server: https://h, certificate-authority: /none, certificate-authority-data: Y2E=}}
- {name: proxy, cluster: {server: https://h, proxy-url: 'ftp://p'}}
- {name: unreadable, cluster: {server: https://h, certificate-authority: /none/ca}}
- {name: binary, cluster: {server: https://h, certificate-authority-data: /w==}}
- {name: odd, cluster: {server: 'ftp://h'}}
users:
- {name: cert, user: {client-certificate: /none/c, client-certificate-data: Yw==}}
- {name: key, user: {client-key-data: aw==}}
- {name: two, user: {token: canary, username: u}}
- {name: pass, user: {password: canary}}
- {name: file, user: {tokenFile: /none/token}}
- {name: ghost, user: {as-groups: [g]}}
- {name: plugins, user: {exec: {env: [{value: v}], interactiveMode: Sometimes}, auth-provider: {name: oidc}}}
- {name: mode, user: {exec: {command: c, apiVersion: client.authentication.k8s.io/v1}}}
contexts:
- {name: lost, context: {cluster: nowhere, user: noone, namespace: Not_A_Label}}
- {name: none, context: {}}
current-context: gone
";
    let error = Kubeconfig::parse(text).unwrap().validate().unwrap_err();
    let shown = error.to_string();
    for expected in [
        "\"empty\" has no server",
        "\"both\" has both certificate-authority and",
        "ftp://p",
        "/none/ca",
        "\"binary\" has certificate-authority-data that is not PEM",
        "ftp://h",
        "\"cert\" has both client-certificate and",
        "\"cert\" has client-certificate but no client-key",
        "\"key\" has client-key but no client-certificate",
        "\"two\" has both a token and",
        "\"pass\" has a password but no username",
        "/none/token",
        "\"ghost\" has as-uid, as-groups",
        "\"plugins\" has exec without command",
        "\"plugins\" has exec without apiVersion",
        "\"plugins\" has a variable without a name",
        "\"plugins\" has an exec.interactiveMode",
        "\"plugins\" has both exec and auth-provider",
        "\"plugins\" has an oidc auth-provider without idp-issuer-url",
        "\"plugins\" has an oidc auth-provider without client-id",
        "\"mode\" has exec without interactiveMode",
        "the cluster \"nowhere\"",
        "the user \"noone\"",
        "\"Not_A_Label\"",
        "the context \"none\" names no cluster",
        "the context \"gone\"",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    assert_eq!(error.iter().count(), 26, "{shown}");
    assert!(!shown.contains("canary"), "{shown}");
}

#[test]
fn kcf_040_a_valid_kubeconfig_passes() {
    let config = Kubeconfig::parse(&one(SERVER, "token: t")).unwrap();
    config.validate().unwrap();
    Kubeconfig::default().validate().unwrap();
}

#[test]
fn kcf_040_only_selected_entries_can_fail() {
    let text = one(SERVER, "token: t") + "preferences: {}\n";
    let mut config = Kubeconfig::parse(&text).unwrap();
    config.clusters.insert("bad".into(), Default::default());
    config.config(&Overrides::default()).unwrap();
    assert!(config.validate().is_err());
}

#[test]
fn kcf_040_a_directory_or_a_pipe_is_no_file() {
    let folder = Folder::new();
    let error = refused(&format!("{SERVER}\ncertificate-authority: {}", folder.path().display()), "{}");
    assert!(error.contains("cannot read the certificates to trust"), "{error}");
    let error = refused(SERVER, "tokenFile: /dev/zero");
    assert!(error.contains("cannot read the token"), "{error}");
}

#[test]
fn kcf_007_older_plugins_need_no_interactive_mode() {
    let exec = |version: &str| {
        let user = format!("exec: {{command: c, apiVersion: client.authentication.k8s.io/{version}}}");
        Kubeconfig::parse(&one(SERVER, &user)).unwrap().validate()
    };
    assert!(exec("v1beta1").is_ok() && exec("v1alpha1").is_ok());
    assert!(exec("v1").is_err());
}

#[test]
fn cfg_018_an_exec_plugin_and_an_auth_provider_exclude_each_other() {
    let user = "exec: {command: c, apiVersion: client.authentication.k8s.io/v1beta1}\nauth-provider: {name: oidc}";
    let error = refused(SERVER, user);
    assert!(error.contains("\"it\" has both exec and auth-provider"), "{error}");
    assert!(Kubeconfig::parse(&one(SERVER, user)).unwrap().validate().is_err());
    // A token beside them does not resolve the ambiguity.
    assert!(refused(SERVER, &format!("token: t\n{user}")).contains("both exec and auth-provider"));
}

#[test]
fn sec_14_an_incomplete_certificate_pair_is_an_error() {
    for user in ["client-certificate-data: Yw==", "client-key-data: aw=="] {
        assert!(refused(SERVER, user).contains("but no client-"), "{user}");
    }
}

#[test]
fn sec_11_a_ca_beside_insecure_is_an_error() {
    let error = refused("server: https://h\ninsecure-skip-tls-verify: true\ncertificate-authority-data: Y2E=", "{}");
    assert!(error.contains("CA") && error.contains("insecure"), "{error}");
    let overrides = Overrides {
        insecure_skip_tls_verify: Some(true),
        certificate_authority: Some(crate::config::Pem::Data("ca".into())),
        ..Overrides::default()
    };
    assert!(config(SERVER, "{}", &overrides).is_err());
}
