use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use tar::EntryType;

use crate::remote::copy::bridge::{self, Part};
use crate::remote::copy::pack::pack;
use crate::remote::copy::{CopyError, CopyReport, SkipReason};

/// Packs on a thread, and returns the archive and whether it has an end.
fn archive(source: &Path, name: &str) -> (Result<CopyReport, CopyError>, Vec<u8>, bool) {
    let (writer, mut parts) = bridge::writer();
    std::thread::scope(|scope| {
        let packing = scope.spawn(|| pack(source, name, writer));
        let (mut bytes, mut ended) = (Vec::new(), false);
        while let Some(part) = parts.blocking_recv() {
            match part {
                Part::Data(data) => bytes.extend_from_slice(&data),
                Part::End => ended = true,
            }
        }
        (packing.join().unwrap(), bytes, ended)
    })
}

/// Returns type, mode, link and content by path.
fn entries(archive: &[u8]) -> BTreeMap<String, (EntryType, u32, u64, String, Vec<u8>)> {
    let mut archive = tar::Archive::new(archive);
    let read = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let mut data = Vec::new();
        entry.read_to_end(&mut data).unwrap();
        let header = entry.header();
        assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
        let link = entry.link_name().unwrap().map(|link| link.to_str().unwrap().to_owned()).unwrap_or_default();
        let path = entry.path().unwrap().to_str().unwrap().to_owned();
        (path, (header.entry_type(), header.mode().unwrap(), header.mtime().unwrap(), link, data))
    });
    read.collect()
}

#[test]
fn a_tree_has_modes_times_links_and_long_names() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path();
    let long = "n".repeat(150);
    fs::create_dir_all(source.join("d/empty")).unwrap();
    fs::write(source.join("d/run"), "run").unwrap();
    fs::set_permissions(source.join("d/run"), fs::Permissions::from_mode(0o4750)).unwrap();
    let time = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::open(source.join("d/run")).unwrap().set_modified(time).unwrap();
    fs::write(source.join(&long), "long").unwrap();
    symlink("/etc/passwd", source.join("link")).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(source.join("socket")).unwrap();
    let (report, archive, ended) = archive(source, "app");
    drop(socket);
    let report = report.unwrap();
    assert!(ended);
    assert_eq!((report.files, report.directories, report.symlinks, report.bytes), (2, 3, 1, 7));
    assert_eq!(report.skipped.len(), 1);
    assert_eq!((report.skipped[0].path.to_str(), &report.skipped[0].reason), (Some("socket"), &SkipReason::Special));

    let entries = entries(&archive);
    // An existing destination keeps its mode: the archive has no entry for it.
    let names: Vec<_> = entries.keys().map(|name| name.trim_end_matches('/').to_owned()).collect();
    assert_eq!(names, ["app/d", "app/d/empty", "app/d/run", "app/link", &*format!("app/{long}")]);
    let run = &entries["app/d/run"];
    assert_eq!((run.0, run.1, run.2, &*run.4), (EntryType::Regular, 0o750, 1_000_000_000, &b"run"[..]));
    assert_eq!((entries["app/link"].0, &*entries["app/link"].3), (EntryType::Symlink, "/etc/passwd"));
}

#[test]
fn a_file_and_an_empty_directory_have_the_new_name() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("old"), "content").unwrap();
    fs::create_dir(directory.path().join("empty")).unwrap();
    let (report, file, _) = archive(&directory.path().join("old"), "-new");
    assert_eq!((report.unwrap().files, &*entries(&file)["-new"].4), (1, &b"content"[..]));
    let (report, empty, _) = archive(&directory.path().join("empty"), "new");
    assert_eq!(report.unwrap().directories, 1);
    assert_eq!(entries(&empty).len(), 1);
}

#[test]
fn a_source_that_cannot_be_read_gives_an_archive_without_an_end() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let (report, bytes, ended) = archive(&missing, "new");
    assert!(matches!(&report, Err(CopyError::Local { path, .. }) if *path == missing), "{report:?}");
    assert!(bytes.is_empty() && !ended);
    assert!(report.unwrap_err().to_string().contains("missing"));
}

#[test]
fn a_receiver_that_is_dropped_ends_the_thread() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("large"), vec![1; 1_000_000]).unwrap();
    let (writer, parts) = bridge::writer();
    drop(parts);
    let interrupted = pack(directory.path(), "new", writer).unwrap_err();
    assert!(matches!(interrupted, CopyError::Interrupted), "{interrupted:?}");
}
