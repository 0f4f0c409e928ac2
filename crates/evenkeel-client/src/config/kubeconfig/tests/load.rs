use std::path::{Path, PathBuf};

use super::super::KubeconfigFiles;
use super::*;
use crate::config::Environment;

fn environment(files: &[&Path]) -> Environment {
    Environment { kubeconfig: Some(std::env::join_paths(files).unwrap()), ..Environment::empty() }
}

fn chain(files: &[&Path]) -> KubeconfigFiles {
    KubeconfigFiles::from_environment(&environment(files))
}

#[test]
fn kcf_010_each_listed_file_counts_once_and_home_is_the_default() {
    let (a, b) = (Path::new("/a"), Path::new("/b"));
    let home = Environment { home: Some("/home/me".into()), ..Environment::empty() };
    assert_eq!(chain(&[a, b, Path::new(""), a]).paths(), [a, b]);
    assert_eq!(KubeconfigFiles::from_environment(&home).paths(), [PathBuf::from("/home/me/.kube/config")]);
    let both = Environment { home: home.home, ..environment(&[a]) };
    assert_eq!(KubeconfigFiles::from_environment(&both).paths(), [a]);
    assert!(KubeconfigFiles::from_environment(&Environment::empty()).paths().is_empty());
}

#[test]
fn kcf_011_an_explicit_file_is_alone_and_must_exist() {
    let folder = Folder::new();
    let path = folder.put("config", "current-context: it");
    let loaded = KubeconfigFiles::explicit(&path).load();
    assert_eq!(loaded.into_config().unwrap().current_context.as_deref(), Some("it"));
    let error = KubeconfigFiles::explicit(folder.join("none")).load().into_config().unwrap_err();
    assert!(error.is_not_found(), "{error}");
}

#[test]
fn kcf_012_missing_files_are_skipped_and_all_missing_is_a_warning() {
    let folder = Folder::new();
    let there = folder.put("there", "current-context: it");
    let (none, nope) = (folder.join("none"), folder.join("nope"));
    let log = logged(|| {
        let loaded = chain(&[&none, &there]).load();
        assert_eq!(loaded.missing, std::slice::from_ref(&none));
        assert_eq!(loaded.into_config().unwrap().current_context.as_deref(), Some("it"));
    });
    assert!(!log.contains("WARN"), "{log}");
    let log = logged(|| assert_eq!(chain(&[&none, &nope]).load().into_config().unwrap(), Kubeconfig::default()));
    assert_eq!(log.matches("WARN").count(), 1, "{log}");
    assert!(log.contains("none") && log.contains("nope"), "{log}");
    let home = Environment { home: Some(folder.join("missing")), ..Environment::empty() };
    let log = logged(|| drop(KubeconfigFiles::from_environment(&home).load()));
    assert!(!log.contains("WARN"), "a home without a kubeconfig is nothing special: {log}");
}

#[test]
fn kcf_013_an_invalid_file_is_reported_and_the_others_are_loaded() {
    let folder = Folder::new();
    let good = folder.put("good", "current-context: it");
    let bad = folder.put("bad", "current-context: [");
    let directory = folder.path().to_owned();
    let loaded = chain(&[&bad, &good, &directory]).load();
    assert_eq!(loaded.config.current_context.as_deref(), Some("it"));
    assert_eq!(loaded.errors.len(), 2);
    let error = loaded.into_config().unwrap_err();
    assert_eq!(error.iter().count(), 2);
    assert!(error.to_string().contains("bad") && error.to_string().contains("line 1"), "{error}");
}

#[test]
fn kcf_014_the_first_file_wins_with_the_whole_entry() {
    let folder = Folder::new();
    let a = folder.put("a", "users: [{name: u, user: {token: a}}]\npreferences: {}");
    let b = folder.put(
        "b",
        "users: [{name: u, user: {username: b}}, {name: v}]\ncurrent-context: b\npreferences: {colors: true}\n\
         extensions: [{name: e, extension: 1}]",
    );
    let c = folder.put("c", "current-context: c\nextensions: [{name: e, extension: 2}]");
    let loaded = chain(&[&a, &b, &c]).load();
    assert_eq!(loaded.origin(EntryKind::User, "u"), Some(a.as_path()));
    assert_eq!(loaded.origin(EntryKind::User, "v"), Some(b.as_path()));
    assert_eq!(loaded.origin(EntryKind::User, "w"), None);
    let config = loaded.into_config().unwrap();
    assert_eq!(config.users["u"].token, Some(Secret::new("a")));
    assert_eq!(config.users["u"].username, None, "entries are never mixed");
    assert_eq!(config.current_context.as_deref(), Some("b"));
    assert_eq!(config.extensions["e"].0, 1);
    assert_eq!(config.rest["preferences"].0["colors"], true);
}

#[test]
fn sec_34_the_log_names_the_file_that_won() {
    let folder = Folder::new();
    let a = folder.put("a", "users: [{name: twin, user: {token: canary}}]");
    let b = folder.put("b", "users: [{name: twin, user: {token: canary}}]");
    let log = logged(|| drop(chain(&[&a, &b]).load()));
    let note = log.lines().find(|line| line.contains("twin")).unwrap();
    assert!(note.starts_with("DEBUG"), "{note}");
    assert!(note.contains(&format!("kept={}", a.display())), "{note}");
    assert!(note.contains(&format!("ignored={}", b.display())), "{note}");
    assert!(!log.contains("canary"), "{log}");
}

#[test]
fn kcf_016_sec_29_paths_are_relative_to_the_file_that_names_them() {
    let folder = Folder::new();
    let text = "clusters: [{name: c, cluster: {certificate-authority: ca.crt}}]\n\
                users:\n- name: u\n  user: {client-certificate: x/c.crt, client-key: /abs/c.key, tokenFile: ../t, \
                exec: {command: ./bin/get}}\n- name: v\n  user: {exec: {command: get}}\n";
    let path = folder.put("sub/config", text);
    let config = KubeconfigFiles::explicit(&path).load().into_config().unwrap();
    let sub = folder.join("sub");
    let user = &config.users["u"];
    assert_eq!(config.clusters["c"].certificate_authority, Some(sub.join("ca.crt")));
    assert_eq!(user.client_certificate, Some(sub.join("x/c.crt")));
    assert_eq!(user.client_key, Some("/abs/c.key".into()));
    assert_eq!(user.token_file, Some(sub.join("../t")));
    assert_eq!(user.exec.as_ref().unwrap().command.as_deref(), sub.join("./bin/get").to_str());
    assert_eq!(config.users["v"].exec.as_ref().unwrap().command.as_deref(), Some("get"), "a name is looked up");
}

#[test]
fn kcf_017_a_loaded_kubeconfig_does_not_change_with_its_file() {
    let folder = Folder::new();
    let path = folder.put("config", "current-context: old");
    let loaded = KubeconfigFiles::explicit(&path).load();
    folder.put("config", "current-context: new");
    assert_eq!(loaded.config.current_context.as_deref(), Some("old"));
}

#[test]
fn sec_32_a_file_that_is_too_large_or_no_text_is_refused() {
    let folder = Folder::new();
    let large = folder.put("large", &" ".repeat((8 << 20) + 1));
    let error = KubeconfigFiles::explicit(large).load().into_config().unwrap_err();
    assert!(error.to_string().contains("8 MiB"), "{error}");
    let path = folder.join("latin");
    std::fs::write(&path, b"current-context: \xe9").unwrap();
    let error = KubeconfigFiles::explicit(path).load().into_config().unwrap_err();
    assert!(error.to_string().contains("UTF-8"), "{error}");
}

#[cfg(unix)]
#[test]
fn sec_31_confined_files_stay_in_their_directory() {
    let folder = Folder::new();
    folder.put("secret", "mine");
    folder.put("box/ca.crt", "ca");
    std::os::unix::fs::symlink(folder.join("secret"), folder.join("box/link")).unwrap();
    std::os::unix::fs::symlink("ca.crt", folder.join("box/inner")).unwrap();
    let load = |field: &str, path: &str| {
        let config = folder.put("box/config", &format!("users: [{{name: u, user: {{{field}: {path}}}}}]"));
        KubeconfigFiles::explicit(config).confined().load().into_config()
    };
    let config = load("tokenFile", "inner").unwrap();
    assert_eq!(config.users["u"].token_file, Some(folder.join("box/ca.crt")));
    for field in ["tokenFile", "client-key", "client-certificate"] {
        for path in ["../secret", "link", "/etc/passwd", "x/../../secret"] {
            std::fs::create_dir_all(folder.join("box/x")).unwrap();
            let error = load(field, path).unwrap_err();
            assert!(
                matches!(&error, ConfigError::Outside { field: named, .. } if named.contains(field)),
                "{path}: {error}"
            );
        }
    }
    assert!(load("tokenFile", "none").unwrap_err().is_not_found());
    let error = load("exec", "{command: ../secret}").unwrap_err();
    assert!(matches!(error, ConfigError::Outside { .. }), "{error}");
}

#[test]
fn chc_20_a_chain_of_two_files() {
    let folder = Folder::new();
    folder.put("b/ca.crt", "ca");
    let a = folder.put("a/config", "users: [{name: u, user: {token: a}}]\ncurrent-context: it");
    let b = folder.put(
        "b/config",
        "users: [{name: u, user: {client-certificate: none, client-key: none}}]\n\
         clusters: [{name: c, cluster: {server: 'https://h', certificate-authority: ca.crt}}]\n\
         contexts: [{name: it, context: {cluster: c, user: u}}]\ncurrent-context: other",
    );
    let config = chain(&[&a, &b]).load().into_config().unwrap().config(&Overrides::default()).unwrap();
    assert_eq!(config.auth, crate::config::Auth::Token(Secret::new("a")));
    assert_eq!(config.tls.identity, None);
    assert_eq!(config.tls.ca, Some(crate::config::Pem::File(folder.join("b/ca.crt"))));
    folder.put("b/config", "users: [");
    assert!(environment(&[&a, &b]).infer(&Overrides::default()).is_err());
}

#[cfg(unix)]
#[test]
fn sec_80_a_kubeconfig_that_is_a_pipe_or_a_device_is_an_error() {
    let folder = Folder::new();
    let pipe = folder.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for path in [pipe.as_path(), Path::new("/dev/zero"), Path::new("/dev/tty")] {
        let error = KubeconfigFiles::explicit(path).load().into_config().unwrap_err();
        assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        assert!(format!("{error} {cause}").contains("not a regular file"), "{error}: {cause}");
    }
    let nothing = KubeconfigFiles::explicit("/dev/null").load().into_config().unwrap();
    assert_eq!(nothing, Kubeconfig::default());
}

#[cfg(unix)]
#[test]
fn sec_81_a_kubeconfig_with_credentials_that_all_can_read_draws_a_warning() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    let log_of = |content: &str, mode: u32| {
        let path = folder.put("config", content);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        logged(|| drop(KubeconfigFiles::explicit(&path).load().into_config().unwrap()))
    };
    for user in [
        "{token: canary}",
        "{username: u, password: canary}",
        "{client-key-data: Y2FuYXJ5}",
        "{auth-provider: {name: oidc, config: {refresh-token: canary}}}",
    ] {
        let content = format!("users: [{{name: u, user: {user}}}]");
        let log = log_of(&content, 0o644);
        assert_eq!(log.matches("WARN").count(), 1, "{user}: {log}");
        assert!(log.contains("chmod 600") && !log.contains("canary") && !log.contains("Y2FuYXJ5"), "{log}");
        assert!(!log_of(&content, 0o640).contains("WARN"), "the group is a choice of the administrator");
        assert!(!log_of(&content, 0o600).contains("WARN"));
    }
    for user in ["{tokenFile: /t, client-key: /k}", "{exec: {command: c, apiVersion: v1}}", "{token: ''}"] {
        assert!(!log_of(&format!("users: [{{name: u, user: {user}}}]"), 0o644).contains("WARN"), "{user}");
    }
}
