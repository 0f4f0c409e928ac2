//! `evenkeel new` from the outside. `tests/new-project.sh` builds and tests what it writes.

use std::path::Path;

use crate::process::{Folder, evenkeel};

fn new(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = evenkeel(&["new"]).args(arguments).current_dir(folder).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
}

#[test]
fn scf_001_a_project_is_written_and_nothing_is_overwritten() {
    let folder = Folder::new("new-written");
    let (code, output, errors) = new(&folder.0, &["shop-operator", "--evenkeel-git", "https://example.com/evenkeel"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(output.starts_with("created shop-operator with 10 files: the kind Shop of example.com\n"), "{output}");
    assert!(output.contains("evenkeel is https://example.com/evenkeel\n"), "{output}");
    assert_eq!(files(&folder.0.join("shop-operator")), 10);

    let kept = folder.0.join("shop-operator/src/main.rs");
    std::fs::write(&kept, "mine").unwrap();
    let (code, output, errors) = new(&folder.0, &["shop-operator", "--evenkeel-git", "https://example.com/evenkeel"]);
    assert_eq!((code, output.as_str()), (Some(1), ""));
    let expected = "evenkeel: shop-operator exists and is not overwritten; choose another name, or pass --path DIR\n";
    assert_eq!(errors, expected);
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "mine");

    let (code, ..) = new(&folder.0, &["shop-operator", "--path", "deep/er", "--evenkeel-git", "u"]);
    assert_eq!((code, files(&folder.0.join("deep/er"))), (Some(0), 10));
}

#[test]
fn scf_001_a_checkout_is_found_or_asked_for() {
    let folder = Folder::new("new-checkout");
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let path = checkout.to_str().unwrap();
    let (code, output, errors) = new(&folder.0, &["shop", "--evenkeel-path", path, "--kind", "Order"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(output.contains(&format!("evenkeel is the checkout {path};")), "{output}");
    let manifest = std::fs::read_to_string(folder.0.join("shop/Cargo.toml")).unwrap();
    assert!(manifest.contains(&format!("path = \"{path}/crates/evenkeel\"")), "{manifest}");

    // Within a checkout it is found.
    let inside = Folder::new("new-inside");
    std::fs::create_dir_all(inside.0.join("crates/evenkeel")).unwrap();
    std::fs::write(inside.0.join("crates/evenkeel/Cargo.toml"), "").unwrap();
    let (code, output, errors) = new(&inside.0.join("crates"), &["shop"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(output.contains("evenkeel is the checkout /"), "{output}");

    let (code, output, errors) = new(&folder.0, &["other", "--evenkeel-path", "nowhere"]);
    assert_eq!((code, output.as_str()), (Some(1), ""));
    assert!(errors.starts_with("evenkeel: nowhere is no checkout of evenkeel: "), "{errors}");
    assert!(!folder.0.join("other").exists());
}

#[test]
fn scf_001_a_bad_name_leaves_nothing_behind() {
    let folder = Folder::new("new-bad");
    for arguments in [&["Shop"][..], &["shop", "--kind", "shop"], &["shop", "--group", "nodots"], &["../shop"]] {
        let (code, output, errors) = new(&folder.0, arguments);
        assert_eq!((code, output.as_str()), (Some(1), ""), "{arguments:?}");
        assert!(errors.contains(" cannot be "), "{errors}");
    }
    assert_eq!(files(&folder.0), 0);
}
