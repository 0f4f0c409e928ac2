use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, UNIX_EPOCH};

use tar::EntryType;

use super::archives::{Sandbox, TestArchive, names};
use crate::remote::copy::unpack::Unpack;
use crate::remote::copy::{CopyError, CopyLimits, bridge};

#[test]
fn a_directory_is_merged_and_its_files_keep_mode_and_time() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.destination()).unwrap();
    fs::write(sandbox.destination().join("kept"), "kept").unwrap();
    fs::write(sandbox.destination().join("run"), "old").unwrap();
    let archive = TestArchive::new()
        .directory("./src/")
        .entry(EntryType::Regular, "./src/run", "", 0o540, b"new")
        .directory("src/empty/")
        .file("src/deep/er/file", b"f")
        .file("src/old-format-directory/", b"")
        .end();
    let report = sandbox.unpack(&archive.0).unwrap();
    assert_eq!((report.files, report.directories, report.bytes, report.skipped_count), (2, 3, 4, 0));
    assert_eq!(sandbox.tree(), ["deep", "deep/er", "deep/er/file", "empty", "kept", "old-format-directory", "run"]);
    let metadata = fs::metadata(sandbox.destination().join("run")).unwrap();
    assert_eq!((metadata.permissions().mode() & 0o777, &*sandbox.read("run")), (0o540, &b"new"[..]));
    assert_eq!(metadata.modified().unwrap(), UNIX_EPOCH + Duration::from_secs(1_000_000_000));
}

#[test]
fn a_file_gets_the_name_of_the_destination() {
    let sandbox = Sandbox::new();
    let report = sandbox.unpack(&TestArchive::new().file("./src", b"content").end().0).unwrap();
    assert_eq!((report.files, fs::read(sandbox.destination()).unwrap()), (1, b"content".to_vec()));
    // A file does not replace a directory.
    fs::remove_file(sandbox.destination()).unwrap();
    fs::create_dir(sandbox.destination()).unwrap();
    fs::write(sandbox.destination().join("kept"), "kept").unwrap();
    let refused = sandbox.unpack(&TestArchive::new().file("src", b"content").end().0).unwrap_err();
    assert!(matches!(&refused, CopyError::Local { path, .. } if *path == sandbox.destination()), "{refused:?}");
    assert_eq!(sandbox.tree(), ["kept"]);
}

#[test]
fn a_source_that_is_a_link_is_an_error() {
    let sandbox = Sandbox::new();
    let refused = sandbox.unpack(&TestArchive::new().link(EntryType::Symlink, "src", "real").end().0).unwrap_err();
    assert!(matches!(&refused, CopyError::NotCopyable { path } if path.ends_with("src")), "{refused:?}");
    assert!(refused.to_string().contains("follow_symlinks"), "{refused}");
}

#[test]
fn an_archive_that_is_cut_anywhere_is_an_error_and_leaves_whole_files() {
    let archive = TestArchive::new()
        .directory("src/")
        .file("src/a", &[1; 700])
        .entry(EntryType::GNULongName, "././@LongLink", "", 0, b"src/long\0")
        .file("src/b", &[2; 513])
        // The data ends with zeros, which are no end of the archive.
        .file("src/zeros", &[0; 1024])
        .end()
        .0;
    let end = archive.len() - 512;
    for length in (0..archive.len()).step_by(64).chain([end - 1, end]) {
        let sandbox = Sandbox::new();
        let result = sandbox.unpack(&archive[..length]);
        if length < end {
            let error = result.unwrap_err();
            assert!(matches!(error, CopyError::Truncated), "{length}: {error:?}");
        } else {
            assert_eq!(result.unwrap().files, 3, "{length}");
        }
        for name in names(&sandbox.destination()) {
            let expected = match &*name {
                "a" => vec![1; 700],
                "long" => vec![2; 513],
                "zeros" => vec![0; 1024],
                other => panic!("{other}"),
            };
            assert_eq!(sandbox.read(&name), expected, "{length}");
        }
    }
}

#[test]
fn a_copy_that_is_cancelled_leaves_no_part_of_a_file() {
    let sandbox = Sandbox::new();
    let archive = TestArchive::new().file("src/a", b"a").file("src/b", &[7; 100_000]).end().0;
    let (sender, reader) = bridge::reader();
    sender.try_send(bridge::Part::Data(archive[..50_000].to_vec().into())).unwrap();
    drop(sender);
    let unpack = Unpack {
        source: "/data/src".into(),
        prefix: Some("src".to_owned()),
        destination: sandbox.destination(),
        limits: CopyLimits::default(),
    };
    assert!(unpack.run(reader).is_err());
    assert_eq!(sandbox.tree(), ["a"]);
}

#[test]
fn something_else_than_an_archive_is_an_error() {
    let sandbox = Sandbox::new();
    let text = b"OCI runtime exec failed: exec failed\r\n".repeat(40);
    assert!(matches!(sandbox.unpack(&text), Err(CopyError::Archive(_))));
    assert!(matches!(sandbox.unpack(b""), Err(CopyError::Truncated)));
    assert!(matches!(sandbox.unpack(&text[..40]), Err(CopyError::Truncated)));
}
