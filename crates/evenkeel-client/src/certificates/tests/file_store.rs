//! Certificates on disk.

use std::fs;

use crate::certificates::request::generate_key;
use crate::certificates::{CertificatePair, CertificateStore, FileCertificateStore};
use crate::small_file::tests::Folder;
use crate::tls::tests::pki::Authority;

fn pair(name: &str) -> CertificatePair {
    let pair = Authority::new("ca").client(name);
    CertificatePair::new(pair.certificate, pair.key)
}

fn names(folder: &Folder) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder.path("pki"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_pair_survives_a_restart() {
    let folder = Folder::new();
    let store = || FileCertificateStore::new(folder.path("pki"), "agent").unwrap();
    assert_eq!(store().current().unwrap(), None);
    let (one, two) = (pair("one"), pair("two"));
    store().update(&one).unwrap();
    assert_eq!(store().current().unwrap().as_ref(), Some(&one));
    store().update(&two).unwrap();
    assert_eq!(store().current().unwrap().as_ref(), Some(&two));
    let shown = format!("{:?}", store().current().unwrap());
    assert!(!shown.contains(two.key.expose().lines().nth(1).unwrap()), "{shown}");
}

#[cfg(unix)]
#[test]
fn the_current_pair_is_a_link_and_old_pairs_are_removed() {
    use std::os::unix::fs::PermissionsExt;

    let folder = Folder::new();
    let store = FileCertificateStore::new(folder.path("pki"), "agent").unwrap();
    for number in 0..4 {
        store.update(&pair(&number.to_string())).unwrap();
    }
    let files = names(&folder);
    assert_eq!(files.len(), 3, "the current and the previous pair, and the link: {files:?}");
    let current = store.current_path();
    assert_eq!(current.file_name().unwrap(), "agent-current.pem");
    let target = fs::read_link(&current).unwrap();
    assert!(target.is_relative() && files.contains(&target.to_str().unwrap().to_owned()), "{target:?}");
    for file in &files {
        let mode = fs::metadata(folder.path("pki").join(file)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{file}");
    }
    assert_eq!(fs::metadata(folder.path("pki")).unwrap().permissions().mode() & 0o777, 0o700);

    // A rotation that was interrupted before the rename.
    std::os::unix::fs::symlink("nowhere", folder.path("pki").join("agent-updated.pem")).unwrap();
    let last = pair("last");
    store.update(&last).unwrap();
    assert_eq!(store.current().unwrap(), Some(last));

    // The pair of another program is not replaced.
    fs::remove_file(&current).unwrap();
    fs::write(&current, "mine").unwrap();
    let error = store.update(&pair("other")).unwrap_err();
    assert!(error.to_string().contains("agent-current.pem"), "{error}");
    assert_eq!(fs::read_to_string(&current).unwrap(), "mine");
}

#[test]
fn the_key_of_a_pending_request_survives_a_restart() {
    let folder = Folder::new();
    let store = || FileCertificateStore::new(folder.path("pki"), "agent").unwrap();
    assert_eq!(store().pending_key().unwrap(), None);
    store().set_pending_key(None).unwrap();
    let key = generate_key().unwrap();
    store().set_pending_key(Some(&key)).unwrap();
    assert_eq!(store().pending_key().unwrap().unwrap().expose().trim(), key.expose().trim());
    store().set_pending_key(None).unwrap();
    assert_eq!((store().pending_key().unwrap(), names(&folder).len()), (None, 0));
}

#[test]
fn broken_files_are_errors_that_name_them() {
    let folder = Folder::new();
    let store = FileCertificateStore::new(folder.path(""), "agent").unwrap();
    let key = generate_key().unwrap();
    for content in ["", "garbage", key.expose()] {
        folder.write("agent-current.pem", content);
        let error = store.current().unwrap_err().to_string();
        assert!(error.contains("agent-current.pem") && error.contains("a certificate and a key"), "{error}");
    }
    for name in ["", "../agent", "a/b", ".hidden"] {
        assert!(FileCertificateStore::new(folder.path(""), name).is_err(), "{name}");
    }
}
