//! What is decided without running anything.

use std::ffi::OsStr;
use std::path::Path;

use tokio::time::Instant;

use super::*;
use crate::auth::exec::hint::HintLimiter;
use crate::auth::exec::plugin::redactor;
use crate::auth::exec::program::{Unresolved, resolve};
use crate::auth::exec::registry::PluginRegistry;
use crate::auth::exec::{metrics, protocol};
use crate::config::{Auth, Identity, Pem, PrivateKey, Proxy};
use crate::secret::Secret;

#[test]
fn exe_003_equal_plugins_share_one_credential() {
    let registry = PluginRegistry::default();
    let of = |config: &Config, plugin: &ExecPlugin| registry.credentials(config, plugin).unwrap();
    let plugin = sh("true");
    let first = of(&config(), &plugin);
    assert!(Arc::ptr_eq(&first, &of(&config(), &plugin)));
    let elsewhere = Config::new(ServerUrl::parse("https://other").unwrap());
    assert!(Arc::ptr_eq(&first, &of(&elsewhere, &plugin)), "it receives no cluster, so it is the same for all");

    type Change = fn(&mut ExecPlugin);
    let changes: [Change; 9] = [
        |plugin| plugin.api_version = ExecApiVersion::V1Beta1,
        |plugin| plugin.command = "sh".into(),
        |plugin| plugin.args.push("more".into()),
        |plugin| plugin.args = vec!["-ctrue".into()],
        |plugin| plugin.env.push(("A".into(), "b".into())),
        |plugin| plugin.install_hint = Some("hint".into()),
        |plugin| plugin.interactive_mode = InteractiveMode::IfAvailable,
        |plugin| plugin.timeout = Duration::from_secs(1),
        |plugin| plugin.provide_cluster_info = true,
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let mut other = plugin.clone();
        change(&mut other);
        assert!(!Arc::ptr_eq(&first, &of(&config(), &other)), "{index}");
        assert!(Arc::ptr_eq(&of(&config(), &other), &of(&config(), &other)), "{index}");
    }
    let mut informed = plugin.clone();
    informed.provide_cluster_info = true;
    assert!(!Arc::ptr_eq(&of(&config(), &informed), &of(&elsewhere, &informed)), "it receives the cluster");
    let mut denied = config();
    denied.exec_policy = ExecPolicy::DenyAll;
    assert!(!Arc::ptr_eq(&first, &of(&denied, &plugin)));
}

#[test]
fn exe_003_the_shared_credentials_are_bounded() {
    let registry = PluginRegistry::default();
    let plugin = |number: usize| sh(&format!("true {number}"));
    let first = registry.credentials(&config(), &plugin(0)).unwrap();
    for number in 1..=64 {
        registry.credentials(&config(), &plugin(number)).unwrap();
    }
    assert_eq!(Arc::strong_count(&first), 1, "the least recently requested one is dropped");
}

#[test]
fn exe_004_the_request_of_a_plugin() {
    for (version, interactive) in [(ExecApiVersion::V1, true), (ExecApiVersion::V1Beta1, false)] {
        let text = protocol::request(version, interactive, None);
        assert!(text.ends_with("}\n"), "as Go's encoder prints it");
        let request: serde_json::Value = serde_json::from_str(&text).unwrap();
        let expected = serde_json::json!({
            "kind": "ExecCredential", "apiVersion": version.as_str(), "spec": {"interactive": interactive},
        });
        assert_eq!(request, expected);
    }
}

#[test]
fn exe_005_the_cluster_of_a_plugin() {
    let mut plugin = sh("true");
    plugin.cluster_config = Some(Opaque(serde_json::json!({"audience": "a"})));
    let mut config = Config::new(ServerUrl::parse("https://example.com/prefix").unwrap());
    config.tls.server_name = Some("kube".into());
    config.proxy = Proxy::Url("http://u:p%40ss@proxy:3128".parse().unwrap());
    config.compression = false;
    let expected = serde_json::json!({
        "server": config.server.to_string(),
        "tls-server-name": "kube",
        "certificate-authority-data": "Y2E=",
        "proxy-url": "http://u:p%40ss@proxy:3128",
        "disable-compression": true,
        "config": {"audience": "a"},
    });
    assert_eq!(protocol::cluster(&config, &plugin, Some(b"ca")), expected);
    let mut bare = Config::new(ServerUrl::parse("https://example.com").unwrap());
    bare.tls.insecure_skip_verify = true;
    let expected = serde_json::json!({"server": bare.server.to_string(), "insecure-skip-tls-verify": true});
    assert_eq!(protocol::cluster(&bare, &sh("true"), None), expected);
}

#[test]
fn exe_005_the_file_of_the_ca_is_inlined() {
    let folder = Folder::new();
    let mut config = config();
    config.tls.ca = Some(Pem::File(folder.path("ca")));
    let mut plugin = sh("true");
    plugin.provide_cluster_info = true;
    let registry = PluginRegistry::default();
    assert!(registry.credentials(&config, &plugin).unwrap_err().is_not_found());
    folder.write("ca", "one");
    let one = registry.credentials(&config, &plugin).unwrap();
    folder.write("ca", "two");
    assert!(!Arc::ptr_eq(&one, &registry.credentials(&config, &plugin).unwrap()), "the content counts, not the path");
}

#[test]
fn exe_007_interactive_modes() {
    use InteractiveMode::{Always, IfAvailable, Never};
    for (mode, reserved, is_terminal, expected) in [
        (Never, None, true, Ok(false)),
        (IfAvailable, None, true, Ok(true)),
        (IfAvailable, None, false, Ok(false)),
        (IfAvailable, Some("used"), true, Ok(false)),
        (Always, None, true, Ok(true)),
        (Always, None, false, Err("standard input is not a terminal")),
        (Always, Some(""), true, Err("standard input is unavailable")),
        (Always, Some("used by -f -"), true, Err("standard input is unavailable: used by -f -")),
    ] {
        match (mode.is_interactive(reserved, is_terminal), expected) {
            (Ok(actual), Ok(expected)) => assert_eq!(actual, expected, "{mode:?} {reserved:?} {is_terminal}"),
            (Err(error), Err(text)) => assert!(error.to_string().ends_with(text), "{error}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(InteractiveMode::parse("Sometimes"), None);
}

#[test]
fn exe_015_the_remaining_time_is_that_of_the_certificate_that_expires_first() {
    let at = |second| jiff::Timestamp::from_second(second).unwrap();
    let mut expiries = metrics::CertificateExpiries::default();
    assert_eq!(expiries.remaining(at(100)), f64::INFINITY, "as in client-go");
    expiries.set(1, Some(at(400)));
    expiries.set(2, Some(at(300)));
    assert_eq!(expiries.remaining(at(100)), 200.0);
    assert_eq!(expiries.remaining(at(350)), -50.0, "it has passed");
    expiries.set(2, Some(at(500)));
    assert_eq!(expiries.remaining(at(100)), 300.0, "a renewed one replaces its predecessor");
    expiries.set(1, None);
    assert_eq!(expiries.remaining(at(100)), 400.0, "a plugin that was dropped, or prints none any more");
    assert_eq!(metrics::age(at(100), at(700)), 600.0);
}

#[tokio::test(start_paused = true)]
async fn exe_008_the_hint_is_shown_ten_times_an_hour() {
    let mut limiter = HintLimiter::default();
    let shown = |limiter: &mut HintLimiter| (0..20).filter(|_| limiter.allow(Instant::now())).count();
    assert_eq!(shown(&mut limiter), 10);
    tokio::time::advance(Duration::from_secs(3599)).await;
    assert_eq!(shown(&mut limiter), 0);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(shown(&mut limiter), 10);
}

#[test]
fn exe_008_sec_26_an_output_that_is_no_credential_is_an_error_that_does_not_repeat_it() {
    let credential = |status: &str| {
        format!(r#"{{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{status}}}"#)
    };
    for (output, expected) in [
        (String::new(), "no ExecCredential in JSON"),
        ("canary".into(), "no ExecCredential in JSON (line 1, column 1)"),
        (r#"{"status":{"token":["canary"]}}"#.into(), "no ExecCredential in JSON"),
        (r#"{"kind":"canary"}"#.into(), "its kind is not ExecCredential"),
        (r#"{"kind":"ExecCredential","apiVersion":"canary"}"#.into(), "its apiVersion is not"),
        (
            r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","status":{"token":"t"}}"#
                .into(),
            "its apiVersion is not client.authentication.k8s.io/v1, as configured",
        ),
        (credential("null"), "it has no status"),
        (credential("{}"), "neither a token nor a client certificate"),
        (credential(r#"{"token":""}"#), "neither a token nor a client certificate"),
        (credential(r#"{"clientCertificateData":"canary"}"#), "clientCertificateData without clientKeyData"),
        (credential(r#"{"token":"canary","clientKeyData":"canary"}"#), "clientKeyData without clientCertificateData"),
        (credential(r#"{"token":"canary","expirationTimestamp":"canary"}"#), "its expirationTimestamp is no time"),
        (format!("{} canary", credential(r#"{"token":"t"}"#)), "no ExecCredential in JSON"),
    ] {
        let error = protocol::response(ExecApiVersion::V1, output.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains("canary"), "{output}: {error}");
    }
    let both = credential(
        r#"{"token":"t","clientCertificateData":"c","clientKeyData":"k","expirationTimestamp":"2030-01-01T00:00:00Z"}"#,
    );
    let printed = protocol::response(ExecApiVersion::V1, both.as_bytes()).unwrap();
    assert_eq!((printed.token.unwrap().expose(), printed.expires), ("t", "2030-01-01T00:00:00Z".parse().ok()));
    assert_eq!(printed.certificate, Some(("c".to_owned(), Secret::new("k"))));
    assert!(
        protocol::response(ExecApiVersion::V1, credential(r#"{"token":"t","expirationTimestamp":null}"#).as_bytes())
            .is_ok()
    );
}

#[test]
fn exe_014_sec_24_invalid_policies_are_refused() {
    let allow = |entries: &[&str]| ExecPolicy::Allowlist(entries.iter().map(PathBuf::from).collect());
    for policy in [ExecPolicy::AllowAll, ExecPolicy::DenyAll, allow(&["aws", "/usr/bin/aws"])] {
        assert_eq!(policy.problem(), None, "{policy:?}");
    }
    for bad in
        ["", ".", "..", "./aws", "bin/aws", "/usr//bin/aws", "/usr/./bin/aws", "/usr/../aws", "/usr/bin/", "aws/"]
    {
        let mut config = config();
        config.exec_policy = allow(&["aws", bad]);
        let error = config.validate().unwrap_err().to_string();
        assert!(error.contains("neither a name nor a clean absolute path"), "{bad}: {error}");
    }
    assert!(allow(&[]).problem().unwrap().contains("empty"));
}

#[test]
fn exe_014_sec_24_the_resolved_path_is_compared() {
    let allow = |entry: &str| ExecPolicy::Allowlist(vec!["other".into(), entry.into()]);
    let lookup = |name: &Path| (name == Path::new("aws")).then(|| PathBuf::from("/usr/bin/aws"));
    let allowed = Path::new("/usr/bin/aws");
    assert!(ExecPolicy::AllowAll.allows(allowed, lookup) && !ExecPolicy::DenyAll.allows(allowed, lookup));
    assert!(allow("aws").allows(allowed, lookup) && allow("/usr/bin/aws").allows(allowed, lookup));
    for (entry, resolved) in
        [("aws", "/tmp/aws"), ("/usr/bin/aws", "/tmp/aws"), ("gke", "/usr/bin/aws"), ("aws", "/usr/bin/gke")]
    {
        assert!(!allow(entry).allows(Path::new(resolved), lookup), "{entry} {resolved}");
    }
}

#[cfg(unix)]
#[test]
fn sec_29_a_name_is_looked_up_and_not_found_in_the_current_directory() {
    let folder = Folder::new();
    let bin = folder.path("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink("/bin/sh", bin.join("plugin")).unwrap();
    std::fs::write(bin.join("text"), "").unwrap();
    let path = std::env::join_paths([folder.path("none"), bin.clone()]).unwrap();
    let find = |name: &str, path: &OsStr| resolve(Path::new(name), Some(path));
    assert_eq!(find("plugin", &path), Ok(bin.join("plugin")));
    assert_eq!(find("text", &path), Err(Unresolved::NotFound), "it is not executable");
    assert_eq!(find("missing", &path), Err(Unresolved::NotFound));
    assert_eq!(resolve(Path::new("plugin"), None), Err(Unresolved::NotFound));
    let direct = format!("{}//./plugin", bin.display());
    assert_eq!(find(&direct, OsStr::new("")), Ok(bin.join("plugin")), "a path is not looked up");
    assert_eq!(find(&bin.display().to_string(), &path), Err(Unresolved::NotFound), "a directory");

    // Tests share the current directory, so a relative path to the root leads to the file.
    let up: PathBuf = std::env::current_dir().unwrap().components().skip(1).map(|_| "..").collect();
    let relative = up.join(bin.strip_prefix("/").unwrap());
    assert!(matches!(find("plugin", relative.as_os_str()), Err(Unresolved::CurrentDirectory(_))));
    let both = std::env::join_paths([relative, bin]).unwrap();
    assert!(matches!(find("plugin", &both), Err(Unresolved::CurrentDirectory(_))), "as in Go");
}

#[test]
fn sec_27_stderr_is_shown_without_secrets() {
    let mut plugin = sh("true");
    plugin.args = ["get-token", "--password=hunter22", "--cluster-name", "demo-cluster"].map(Secret::new).to_vec();
    plugin.env = vec![("PASSWORD".into(), "correct horse".into()), ("SHORT".into(), "no".into())];
    let redactor = redactor(&plugin);
    let shown = |text: &str| redactor.redact(text, false);
    assert_eq!(shown("error: no such user\n  try --cluster-name\n"), "error: no such user try --cluster-name");
    assert_eq!(shown("hunter22, correct horse!"), "[redacted], [redacted]!");
    assert_eq!(shown("\u{1b}[31mred\u{7}"), "[31mred");
    let jwt = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtZSIsImV4cCI6MX0.c2lnbmF0dXJl";
    assert_eq!(shown(&format!("token={jwt} Bearer {jwt}")), "token=[redacted] Bearer [redacted]");
    assert_eq!(
        shown(&format!("https://example.com/very/long/path/to/a/page?token={jwt}")),
        "https://example.com/very/long/path/to/a/page?token=[redacted]"
    );
    assert_eq!(
        shown("/usr/local/google-cloud-sdk-123/bin/gke-gcloud-auth-plugin"),
        "/usr/local/google-cloud-sdk-123/bin/gke-gcloud-auth-plugin"
    );
    assert_eq!(shown("a\n-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\nb"), "a [redacted] b");
    assert_eq!(redactor.redact("ter22 and the rest", true), "and the rest", "what was cut may be a part of a secret");
}

#[test]
fn exe_002_a_certificate_beside_a_plugin_is_an_error() {
    let mut config = config();
    config.auth = Auth::exec(sh("true"));
    config.validate().unwrap();
    config.tls.identity =
        Some(Identity { certificate: Pem::Data("c".into()), key: PrivateKey::Data(Secret::new("k")) });
    assert!(config.validate().unwrap_err().to_string().contains("together with an exec plugin"));
    let mut clear = Config::new(ServerUrl::parse("http://example.com").unwrap());
    clear.auth = Auth::exec(sh("true"));
    assert!(
        clear.validate().unwrap_err().to_string().contains("the token of the exec plugin would be sent in the clear")
    );
    for invalid in [ExecPlugin::new(""), {
        let mut plugin = sh("true");
        plugin.env.push(("A=B".into(), "".into()));
        plugin
    }] {
        clear.allow_insecure_credentials = true;
        clear.auth = Auth::exec(invalid);
        assert!(clear.validate().is_err());
    }
}

#[test]
fn exe_016_a_plugin_reads_the_cluster_from_its_environment() {
    let mut plugin = sh("true");
    plugin.cluster_config = Some(Opaque(serde_json::json!({"audience": "a"})));
    let mut config = config();
    config.tls.ca = Some(Pem::Data("ca".into()));
    config.tls.server_name = Some("kube".into());
    config.proxy = Proxy::Url("http://u:p@proxy:3128".parse().unwrap());
    config.compression = false;
    for version in [ExecApiVersion::V1, ExecApiVersion::V1Beta1] {
        let text = protocol::request(version, false, Some(&protocol::cluster(&config, &plugin, Some(b"ca"))));
        let read = Config::from_exec_info(&text).unwrap();
        assert_eq!((read.server.to_string(), read.compression), (config.server.to_string(), false));
        assert_eq!((&read.tls.ca, &read.tls.server_name), (&config.tls.ca, &config.tls.server_name));
        assert_eq!((&read.proxy, &read.auth), (&config.proxy, &Auth::None));
    }
    let none = protocol::request(ExecApiVersion::V1, false, None);
    for (text, expected) in [
        (none.as_str(), "provideClusterInfo"),
        ("canary", "no ExecCredential in JSON"),
        (r#"{"kind":"canary"}"#, "another kind"),
        (r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1alpha1"}"#, "unknown apiVersion"),
    ] {
        let error = Config::from_exec_info(text).unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains("canary"), "{error}");
    }
}
