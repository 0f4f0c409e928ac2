//! Archives of a container that attacks its client.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};

use tar::EntryType;

use super::archives::{Sandbox, TestArchive, header};
use crate::remote::copy::{CopyError, CopyLimits, SkipReason};

#[test]
fn sec_51_entries_outside_of_the_source_are_refused() {
    let paths = [
        "../evil",
        "src/../../evil",
        "src/../evil",
        "/etc/evil",
        "/src/evil",
        "other/evil",
        "srcx",
        "..",
        "src/a/..",
        ".",
    ];
    for path in paths {
        for kind in [EntryType::Regular, EntryType::Directory, EntryType::Symlink] {
            let sandbox = Sandbox::new();
            let archive = TestArchive::new().directory("src/").entry(kind, path, "x", 0o644, b"").end();
            let refused = sandbox.unpack(&archive.0).unwrap_err();
            assert!(matches!(refused, CopyError::Outside { .. }), "{path} {kind:?}: {refused:?}");
            assert_eq!(sandbox.tree(), Vec::<String>::new(), "{path}");
        }
    }
}

#[test]
fn sec_51_long_names_outside_of_the_source_are_refused() {
    let sandbox = Sandbox::new();
    let gnu = TestArchive::new().entry(EntryType::GNULongName, "././@LongLink", "", 0, b"src/../../evil\0");
    let refused = sandbox.unpack(&gnu.file("src/fine", b"data").end().0).unwrap_err();
    assert!(matches!(refused, CopyError::Outside { .. }), "{refused:?}");
    let pax = TestArchive::new().entry(EntryType::XHeader, "pax", "", 0, b"23 path=src/../../evil\n");
    let refused = sandbox.unpack(&pax.file("src/fine", b"data").end().0).unwrap_err();
    assert!(matches!(&refused, CopyError::Outside { entry } if entry.ends_with("evil")), "{refused:?}");
    assert_eq!(sandbox.tree(), Vec::<String>::new());
}

#[test]
fn sec_51_files_are_not_written_through_links_of_the_archive() {
    let sandbox = Sandbox::new();
    let outside = sandbox.path("outside");
    let outside = outside.to_str().unwrap();
    for kind in [EntryType::Symlink, EntryType::Link] {
        let secret = format!("{outside}/secret");
        let archive = TestArchive::new()
            .link(kind, "src/way", outside)
            .file("src/way/evil", b"evil")
            .link(kind, "src/name", &secret)
            .file("src/name", b"evil")
            .link(kind, "src/up", "../outside/secret")
            .end();
        let report = sandbox.unpack(&archive.0).unwrap();
        assert_eq!((report.files, report.skipped_count), (2, 3));
        assert_eq!(report.skipped[1].path.to_str(), Some("name"));
        match &report.skipped[1].reason {
            SkipReason::Symlink { target } | SkipReason::HardLink { target } => {
                assert_eq!(target.to_str(), Some(&*secret))
            }
            SkipReason::Special => panic!("{report:?}"),
        }
        assert_eq!(sandbox.tree(), ["name", "way", "way/evil"]);
    }
}

#[test]
fn hard_links_are_copies_of_files_of_the_same_archive() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.destination()).unwrap();
    fs::write(sandbox.destination().join("local"), "local").unwrap();
    let archive = TestArchive::new()
        .file("src/file", b"content")
        .entry(EntryType::Link, "src/hard", "src/file", 0o600, b"")
        .link(EntryType::Link, "src/of-local", "src/local")
        .link(EntryType::Link, "src/of-later", "src/later")
        .file("src/later", b"later")
        .link(EntryType::Link, "src/of-source", "src")
        .end();
    let report = sandbox.unpack(&archive.0).unwrap();
    assert_eq!((report.files, report.bytes, report.skipped_count), (3, 19, 3));
    assert_eq!(sandbox.tree(), ["file", "hard", "later", "local"]);
    assert_eq!(sandbox.read("hard"), b"content");
    // Links count with the size of their target.
    let limits = CopyLimits { bytes: 13, ..CopyLimits::default() };
    let refused = sandbox.unpack_within(&archive.0, limits).unwrap_err();
    assert!(matches!(refused, CopyError::TooManyBytes { .. }), "{refused:?}");
}

#[test]
fn sec_51_links_in_the_destination_are_not_followed() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.destination()).unwrap();
    symlink(sandbox.path("outside"), sandbox.destination().join("way")).unwrap();
    symlink(sandbox.path("outside/secret"), sandbox.destination().join("name")).unwrap();
    let file = TestArchive::new().file("src/name", b"new").end();
    sandbox.unpack(&file.0).unwrap();
    assert_eq!(sandbox.read("name"), b"new");
    assert!(!fs::symlink_metadata(sandbox.destination().join("name")).unwrap().is_symlink());
    for archive in [TestArchive::new().file("src/way/evil", b"evil"), TestArchive::new().directory("src/way/")] {
        let refused = sandbox.unpack(&archive.end().0).unwrap_err();
        assert!(matches!(&refused, CopyError::LocalLink { path } if path.ends_with("way")), "{refused:?}");
    }
}

#[test]
fn special_files_are_skipped_and_special_bits_removed() {
    let sandbox = Sandbox::new();
    let archive = TestArchive::new()
        .entry(EntryType::Char, "src/null", "", 0o666, b"")
        .entry(EntryType::Block, "src/disk", "", 0o666, b"")
        .entry(EntryType::Fifo, "src/pipe", "", 0o666, b"")
        .entry(EntryType::new(b'Z'), "src/unknown", "", 0o666, b"content")
        .entry(EntryType::XGlobalHeader, "pax", "", 0, b"13 comment=x\n")
        .entry(EntryType::Directory, "src/d/", "", 0o7777, b"")
        .entry(EntryType::Regular, "src/d/shell", "", 0o6755, b"#!")
        .end();
    let report = sandbox.unpack(&archive.0).unwrap();
    assert_eq!((report.files, report.directories, report.skipped_count, report.bytes), (1, 1, 4, 2));
    assert!(report.skipped.iter().all(|entry| entry.reason == SkipReason::Special));
    assert_eq!(sandbox.tree(), ["d", "d/shell"]);
    for path in ["d", "d/shell"] {
        let metadata = fs::metadata(sandbox.destination().join(path)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o7022, 0, "{path}: the umask of the process applies too");
        assert!(!metadata.file_type().is_fifo());
    }
}

#[test]
fn limits_end_the_copy() {
    let sandbox = Sandbox::new();
    let limits = CopyLimits { bytes: 1000, entries: 3, path_length: 20 };
    let unpack = |archive: &TestArchive| sandbox.unpack_within(&archive.clone().end().0, limits);

    let files = TestArchive::new().file("src/a", &[1; 600]);
    unpack(&files.clone().file("src/b", &[2; 400])).unwrap();
    let bytes = unpack(&files.clone().file("src/c", &[3; 401])).unwrap_err();
    assert!(matches!(bytes, CopyError::TooManyBytes { limit: 1000 }), "{bytes:?}");
    assert_eq!(sandbox.tree(), ["a", "b"]);
    let hidden = unpack(&TestArchive::new().entry(EntryType::Symlink, "src/l", "x", 0, &[0; 1001])).unwrap_err();
    assert!(matches!(hidden, CopyError::TooManyBytes { .. }), "{hidden:?}");

    let many = (0..4).fold(TestArchive::new(), |archive, _| archive.file("src/a", b""));
    let entries = unpack(&many).unwrap_err();
    assert!(matches!(entries, CopyError::TooManyEntries { limit: 3 }), "{entries:?}");

    let long = unpack(&TestArchive::new().file("src/a-name-of-21-bytes", b"")).unwrap_err();
    assert!(matches!(long, CopyError::PathTooLong { limit: 20 }), "{long:?}");
}

#[test]
fn headers_are_bounded_before_they_are_read() {
    let sandbox = Sandbox::new();
    for kind in [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader] {
        // It claims 8 GiB and goes on for as long as it is read.
        let claimed = header(kind, "././@LongLink", "", 0, 8 << 30);
        let endless = std::io::Read::chain(&claimed.as_bytes()[..], std::io::repeat(b'a'));
        let unpack = super::super::unpack::Unpack {
            source: "/data/src".into(),
            prefix: Some("src".to_owned()),
            destination: sandbox.destination(),
            limits: CopyLimits::default(),
        };
        let refused = unpack.run(endless).unwrap_err();
        assert!(matches!(refused, CopyError::PathTooLong { .. }), "{kind:?}: {refused:?}");
    }
}

#[test]
fn sparse_files_count_with_their_holes() {
    let sandbox = Sandbox::new();
    let mut bomb = header(EntryType::GNUSparse, "src/bomb", "", 0o644, 0);
    let gnu = bomb.as_gnu_mut().unwrap();
    gnu.set_real_size(1 << 40);
    gnu.sparse[0].set_offset(1 << 40);
    gnu.sparse[0].set_length(0);
    bomb.set_cksum();
    let refused = sandbox.unpack(&TestArchive::new().raw(&bomb).end().0).unwrap_err();
    assert!(matches!(refused, CopyError::TooManyBytes { .. }), "{refused:?}");
    assert_eq!(sandbox.tree(), Vec::<String>::new());
}

#[test]
fn data_after_the_end_is_bounded() {
    let sandbox = Sandbox::new();
    let archive = TestArchive::new().file("src/a", b"a").end().0;
    let padded = std::io::Read::chain(&archive[..], std::io::repeat(0));
    let unpack = super::super::unpack::Unpack {
        source: "/data/src".into(),
        prefix: Some("src".to_owned()),
        destination: sandbox.destination(),
        limits: CopyLimits::default(),
    };
    assert!(matches!(unpack.run(padded), Err(CopyError::Archive(_))));
}

#[test]
fn no_change_of_an_archive_escapes_or_panics() {
    let archive = TestArchive::new()
        .directory("src/")
        .entry(EntryType::GNULongName, "././@LongLink", "", 0, b"src/long/name\0")
        .file("src/a", b"aaa")
        .entry(EntryType::XHeader, "pax", "", 0, b"14 path=src/pax\n")
        .file("src/b", b"bbb")
        .link(EntryType::Symlink, "src/l", "/outside")
        .file("src/l/c", &[7; 700])
        .end()
        .0;
    let mut random = fastrand::Rng::with_seed(16);
    for _ in 0..150 {
        let mut changed = archive.clone();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..changed.len());
            changed[at] = *random.choice(b"\0/.012AKLgx7\xff").unwrap();
        }
        for block in changed.chunks_mut(512) {
            // Repairs checksums half of the time, so that changes reach the code behind them.
            if random.bool() && block[257..].starts_with(b"ustar") {
                let mut header = tar::Header::new_gnu();
                header.as_mut_bytes().copy_from_slice(block);
                header.set_cksum();
                block.copy_from_slice(header.as_bytes());
            }
        }
        let sandbox = Sandbox::new();
        let limits = CopyLimits { bytes: 100_000, ..CopyLimits::default() };
        let _ = sandbox.unpack_within(&changed, limits);
        assert!(sandbox.tree().iter().all(|path| !path.contains(".evenkeel")));
    }
}
