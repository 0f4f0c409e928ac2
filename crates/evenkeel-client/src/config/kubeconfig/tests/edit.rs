use std::path::Path;

use super::super::KubeconfigFiles;
use super::*;
use crate::config::Environment;

fn chain(files: &[&Path]) -> KubeconfigFiles {
    let kubeconfig = Some(std::env::join_paths(files).unwrap());
    KubeconfigFiles::from_environment(&Environment { kubeconfig, ..Environment::empty() })
}

fn parsed(path: &Path) -> Kubeconfig {
    Kubeconfig::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).unwrap().permissions()) & 0o777
}

#[test]
fn kcf_050_each_change_is_written_to_the_file_of_its_entry() {
    let folder = Folder::new();
    let a = folder.put("a", "users: [{name: u, user: {token: a}}]\ncurrent-context: a");
    let b = folder.put("b", "users: [{name: u, user: {token: hidden}}, {name: v}, {name: w}]");
    let c = folder.put("c", "# untouched\nusers: [{name: x}]");
    let answer = chain(&[&a, &b, &c]).edit(|config| {
        config.users.get_mut("v").unwrap().token = Some(Secret::new("changed"));
        config.users.remove("w");
        config.users.insert("new".into(), Default::default());
        config.current_context = Some("new".into());
        17
    });
    assert_eq!(answer.unwrap(), 17);
    let (a, b) = (parsed(&a), parsed(&b));
    assert_eq!(a.users.keys().collect::<Vec<_>>(), ["new", "u"]);
    assert_eq!(a.current_context.as_deref(), Some("new"));
    assert_eq!(b.users.keys().collect::<Vec<_>>(), ["u", "v"]);
    assert_eq!(b.users["v"].token, Some(Secret::new("changed")));
    assert_eq!(b.users["u"].token, Some(Secret::new("hidden")), "what the other file hides stays as it is");
    assert_eq!(folder.text("c"), "# untouched\nusers: [{name: x}]");
}

#[test]
fn kcf_050_clearing_the_context_edits_the_file_that_sets_it() {
    let folder = Folder::new();
    let a = folder.put("a", "mine: 1");
    let b = folder.put("b", "current-context: b");
    chain(&[&a, &b]).edit(|config| config.current_context = None).unwrap();
    assert_eq!(folder.text("a"), "mine: 1");
    assert_eq!(parsed(&b).current_context, None);
}

#[test]
fn kcf_050_an_edit_without_changes_writes_nothing() {
    let folder = Folder::new();
    let a = folder.put("a", "# a comment\ncurrent-context: a");
    chain(&[&a]).edit(|_| ()).unwrap();
    assert_eq!(folder.text("a"), "# a comment\ncurrent-context: a");
    let none = folder.join("none");
    KubeconfigFiles::explicit(&none).edit(|_| ()).unwrap();
    assert!(!none.exists());
}

#[test]
fn kcf_051_new_entries_are_written_to_the_first_existing_file_else_to_the_first() {
    // client-go behaves in two ways here, depending on the caller.
    let folder = Folder::new();
    let (none, nope) = (folder.join("deep/down/none"), folder.join("nope"));
    let there = folder.put("there", "");
    let add = |config: &mut Kubeconfig| drop(config.users.insert("u".into(), Default::default()));
    chain(&[&none, &there]).edit(add).unwrap();
    assert!(!none.exists() && parsed(&there).users.contains_key("u"));
    chain(&[&none, &nope]).edit(add).unwrap();
    assert!(!nope.exists() && parsed(&none).users.contains_key("u"));
}

#[test]
fn kcf_052_a_stale_lock_file_does_not_block_an_edit() {
    // client-go's lock is the existence of a file; a crash leaves it behind. This lock ends with the process.
    let folder = Folder::new();
    let path = folder.put("config", "");
    folder.put(".config.lock", "");
    folder.put("config.lock", "");
    KubeconfigFiles::explicit(&path).edit(|config| config.current_context = Some("it".into())).unwrap();
    assert_eq!(parsed(&path).current_context.as_deref(), Some("it"));
}

#[test]
fn kcf_052_concurrent_edits_lose_nothing() {
    let folder = Folder::new();
    let (a, b) = (folder.put("a", ""), folder.put("b", ""));
    std::thread::scope(|scope| {
        for writer in 0..8 {
            // Half of the writers list the files in reverse order; they must not deadlock.
            let files = if writer % 2 == 0 { chain(&[&a, &b]) } else { chain(&[&b, &a]) };
            scope.spawn(move || {
                for round in 0..5 {
                    let name = format!("{writer}-{round}");
                    files.edit(|config| drop(config.users.insert(name, Default::default()))).unwrap();
                }
            });
        }
    });
    assert_eq!(parsed(&a).users.len() + parsed(&b).users.len(), 40);
}

#[test]
fn kcf_052_the_same_file_twice_is_locked_once() {
    let folder = Folder::new();
    let path = folder.put("config", "");
    let other = folder.path().join(".").join("../").join(folder.path().file_name().unwrap()).join("config");
    chain(&[&path, &other]).edit(|config| config.current_context = Some("it".into())).unwrap();
    assert_eq!(parsed(&path).current_context.as_deref(), Some("it"));
}

#[cfg(unix)]
#[test]
fn kcf_052_a_file_that_does_not_exist_yet_is_locked_once_under_all_its_names() {
    // Locking the file under both names would deadlock the edit.
    let folder = Folder::new();
    std::fs::create_dir(folder.join("real")).unwrap();
    std::os::unix::fs::symlink(folder.join("real"), folder.join("link")).unwrap();
    let (path, other) = (folder.join("real/config"), folder.join("link/config"));
    chain(&[&path, &other]).edit(|config| config.current_context = Some("it".into())).unwrap();
    assert_eq!(parsed(&path).current_context.as_deref(), Some("it"));
}

#[test]
fn kcf_052_changes_by_programs_without_the_lock_are_detected() {
    let folder = Folder::new();
    let path = folder.put("config", "current-context: old");
    let error = KubeconfigFiles::explicit(&path).edit(|config| {
        folder.put("config", "current-context: theirs");
        config.current_context = Some("ours".into());
    });
    assert!(matches!(error, Err(ConfigError::Changed { .. })), "{error:?}");
    assert_eq!(folder.text("config"), "current-context: theirs");
}

#[cfg(unix)]
#[test]
fn sec_8_files_are_written_for_their_owner_only_and_whole() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let folder = Folder::new();
    let path = folder.join("new/er/config");
    Kubeconfig::default().write_to(&path).unwrap();
    assert_eq!((mode(&path), mode(&folder.join("new")), mode(&folder.join("new/er"))), (0o600, 0o700, 0o700));

    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let before = std::fs::metadata(&path).unwrap().ino();
    let log = logged(|| Kubeconfig::default().write_to(&path).unwrap());
    assert!(log.contains("WARN") && log.contains("0644"), "{log}");
    assert_eq!(mode(&path), 0o600);
    assert_ne!(std::fs::metadata(&path).unwrap().ino(), before, "replaced, not written over");
    let left: Vec<_> = std::fs::read_dir(folder.join("new/er")).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing is left behind: {left:?}");
    let log = logged(|| Kubeconfig::default().write_to(&path).unwrap());
    assert!(!log.contains("WARN"), "{log}");
}

#[cfg(unix)]
#[test]
fn kcf_053_a_write_that_fails_leaves_the_old_file() {
    // client-go overwrites the file in place; a partial write loses the content.
    let folder = Folder::new();
    let error = Kubeconfig::default().write_to(folder.path()).unwrap_err();
    assert!(matches!(error, ConfigError::Write { .. }), "{error}");
    let left: Vec<_> = std::fs::read_dir(folder.path().parent().unwrap()).unwrap().flatten().collect();
    let name = folder.path().file_name().unwrap().to_str().unwrap();
    assert!(!left.iter().any(|entry| entry.file_name().to_string_lossy().starts_with(&format!(".{name}."))));
}

#[cfg(unix)]
#[test]
fn kcf_053_a_link_stays_a_link() {
    let folder = Folder::new();
    let target = folder.put("target/config", "");
    let link = folder.join("link");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    KubeconfigFiles::explicit(&link).edit(|config| config.current_context = Some("it".into())).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(parsed(&target).current_context.as_deref(), Some("it"));
}

#[test]
fn kcf_053_unknown_fields_survive_an_edit() {
    // client-go loses them.
    let folder = Folder::new();
    let path = folder.put("config", "mine: {a: 1}\nusers: [{name: u, user: {mine: 2}, mine: 3}, {name: v}]");
    KubeconfigFiles::explicit(&path)
        .edit(|config| {
            config.users.get_mut("u").unwrap().token = Some(Secret::new("t"));
            config.users.remove("v");
        })
        .unwrap();
    let value: serde_json::Value = serde_saphyr::from_str(&folder.text("config")).unwrap();
    assert_eq!(value["mine"]["a"], 1);
    assert_eq!(value["users"], serde_json::json!([{"name": "u", "mine": 3, "user": {"mine": 2, "token": "t"}}]));
}

#[test]
fn kcf_016_edits_see_unresolved_paths() {
    let folder = Folder::new();
    let path = folder.put("config", "clusters: [{name: c, cluster: {certificate-authority: ca.crt}}]");
    KubeconfigFiles::explicit(&path)
        .edit(|config| {
            assert_eq!(config.clusters["c"].certificate_authority, Some("ca.crt".into()));
            config.current_context = Some("it".into());
        })
        .unwrap();
    assert_eq!(parsed(&path).clusters["c"].certificate_authority, Some("ca.crt".into()));
}

#[test]
fn kcf_054_paths_become_relative_if_they_can() {
    let relative = |path: &str| {
        let mut config = Kubeconfig::default();
        config.users.insert("u".into(), Default::default());
        config.users.get_mut("u").unwrap().client_key = Some(path.into());
        config.relativize_paths(Path::new("/home/me/.kube"))?;
        Ok::<_, ConfigError>(config.users["u"].client_key.clone().unwrap())
    };
    assert_eq!(relative("/home/me/.kube/keys/k").unwrap(), Path::new("keys/k"));
    assert_eq!(relative("/home/me/k").unwrap(), Path::new("/home/me/k"));
    assert_eq!(relative("/home/me/.kube/../k").unwrap(), Path::new("/home/me/.kube/../k"));
    assert_eq!(relative("keys/../k").unwrap(), Path::new("keys/../k"));
    assert!(relative("../k").unwrap_err().to_string().contains("client-key of user \"u\""));
}

#[test]
fn kcf_055_provider_settings_are_persisted_and_a_missing_user_is_ignored() {
    let folder = Folder::new();
    let path = folder.put("config", "users: [{name: u, user: {auth-provider: {name: oidc, config: {id: old}}}}]");
    let files = KubeconfigFiles::explicit(&path);
    let keep = |name: &str| {
        files.edit(|config| {
            if let Some(provider) = config.users.get_mut(name).and_then(|user| user.auth_provider.as_mut()) {
                provider.config.insert("id".into(), Secret::new("new"));
            }
        })
    };
    keep("gone").unwrap();
    assert!(folder.text("config").contains("old"));
    keep("u").unwrap();
    assert_eq!(parsed(&path).users["u"].auth_provider.as_ref().unwrap().config["id"], Secret::new("new"));
}
