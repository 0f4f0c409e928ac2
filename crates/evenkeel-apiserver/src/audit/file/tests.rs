use super::*;

/// A directory of one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("evenkeel-audit-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> = entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn the_file_is_rotated_by_size_and_old_files_are_removed() {
    let folder = Folder::new("rotation");
    let path = folder.0.join("audit.log");
    let metrics = Arc::new(Metrics::default());
    let log = AuditFile::open(&path, Rotation { max_bytes: 20, backups: 2 }, Arc::clone(&metrics)).unwrap();
    for number in 0..10 {
        log.write(Bytes::from(format!("line {number}\n")));
    }
    log.flush().await;
    assert_eq!(folder.names(), ["audit.log", "audit.log.1", "audit.log.2"]);
    let read = |name: &str| fs::read_to_string(folder.0.join(name)).unwrap();
    assert_eq!(read("audit.log"), "line 8\nline 9\n");
    assert_eq!(read("audit.log.1"), "line 6\nline 7\n");
    assert_eq!(read("audit.log.2"), "line 4\nline 5\n");
    assert_eq!(metrics.audit_errors.load(Ordering::Relaxed), 0);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn events_that_a_full_disk_refuses_are_counted() {
    let metrics = Arc::new(Metrics::default());
    let log = AuditFile::open(Path::new("/dev/full"), Rotation::default(), Arc::clone(&metrics)).unwrap();
    log.write(Bytes::from_static(b"one\n"));
    log.write(Bytes::from_static(b"two\n"));
    log.flush().await;
    assert_eq!(metrics.audit_errors.load(Ordering::Relaxed), 2);
    assert_eq!(log.state.queued_bytes.load(Ordering::Relaxed), 0);
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error_with_its_path() {
    let error = AuditFile::open(Path::new("/no/such/folder/a.log"), Rotation::default(), Arc::default()).unwrap_err();
    assert_eq!(error.to_string(), "cannot open the audit log /no/such/folder/a.log");
}
