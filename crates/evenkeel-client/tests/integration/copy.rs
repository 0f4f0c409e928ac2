//! Copies into and out of containers, against an API server in this process whose container is a directory with the `tar`
//! of this machine.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use evenkeel_apiserver::{ApiServer, ContainerProcess, ExitStatus, ProcessHandler};
use evenkeel_client::api::scope::Namespaced;
use evenkeel_client::remote::{CopyError, CopyLimits, SkipReason};
use evenkeel_client::{Api, Error, SessionError};
use evenkeel_core::Status;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::Notify;

/// A server whose container is a directory.
struct Fixture {
    server: ApiServer,
    pods: Api<Pod, Namespaced>,
    directory: TempDir,
}

impl Fixture {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("container")).unwrap();
        let root = directory.path().join("container");
        Self::with(directory, move |process| run_tar(process, root.clone())).await
    }

    /// A container in which every command has this result.
    async fn scripted(stdout: Vec<u8>, stderr: &'static str, code: u8) -> Self {
        let stdout = Arc::new(stdout);
        let handler = move |mut process: ContainerProcess| {
            let stdout = Arc::clone(&stdout);
            async move {
                if let Some(writer) = &mut process.stdout {
                    let _ = writer.write_all(&stdout).await;
                }
                let _ = process.stderr.take().unwrap().write_all(stderr.as_bytes()).await;
                ExitStatus::exited(code)
            }
        };
        Self::with(tempfile::tempdir().unwrap(), handler).await
    }

    async fn with(directory: TempDir, handler: impl ProcessHandler) -> Self {
        let server = ApiServer::builder().exec(handler).start().await.unwrap();
        let pods = server.client().core_v1().pods("default");
        let pod = json!({"metadata": {"name": "web-0"}, "spec": {"containers": [{"name": "app", "image": "i"}]}});
        pods.create(&serde_json::from_value::<Pod>(pod).unwrap()).await.unwrap();
        Fixture { server, pods, directory }
    }

    /// A path in the container.
    fn remote(&self, path: &str) -> PathBuf {
        self.directory.path().join("container").join(path)
    }

    fn local(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }
}

/// Runs `tar` as if this directory was the root of the container.
async fn run_tar(mut process: ContainerProcess, root: PathBuf) -> ExitStatus {
    let mut arguments = process.command.clone();
    assert_eq!(arguments.remove(0), "tar");
    let at = arguments.iter().position(|argument| argument == "-C").unwrap() + 1;
    arguments[at] = root.join(arguments[at].trim_start_matches('/')).to_str().unwrap().to_owned();
    let mut command = Command::new("tar");
    command.args(arguments).kill_on_drop(true);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut stdin, mut stdout, mut stderr) =
        (child.stdin.take().unwrap(), child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let input = async {
        if let Some(reader) = &mut process.stdin {
            let _ = tokio::io::copy_buf(reader, &mut stdin).await;
        }
        drop(stdin);
    };
    let output = async {
        if let Some(writer) = &mut process.stdout {
            let _ = tokio::io::copy(&mut stdout, writer).await;
        }
    };
    let errors = tokio::io::copy(&mut stderr, process.stderr.as_mut().unwrap());
    let (_, _, _, status) = tokio::join!(input, output, errors, child.wait());
    ExitStatus::exited(status.unwrap().code().unwrap() as u8)
}

fn copy_error(error: Error) -> CopyError {
    match error {
        Error::Session { source: SessionError::Copy(error), .. } => error,
        other => panic!("{other:?}"),
    }
}

/// Returns modes and contents by relative path; the content of a link is its target.
fn tree(root: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let content = if metadata.is_dir() {
                pending.push(path.clone());
                Vec::new()
            } else if metadata.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else {
                fs::read(&path).unwrap()
            };
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            found.insert(name, (metadata.permissions().mode() & 0o777, content));
        }
    }
    found
}

fn make_tree(root: &Path) {
    fs::create_dir_all(root.join("deep/er")).unwrap();
    fs::create_dir_all(root.join("empty")).unwrap();
    fs::write(root.join("deep/er/file"), "file").unwrap();
    fs::write(root.join("run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(root.join("run.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::write(root.join("l".repeat(200)), vec![7; 100_000]).unwrap();
    fs::write(root.join("-option"), "").unwrap();
    let time = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::open(root.join("run.sh")).unwrap().set_modified(time).unwrap();
}

#[tokio::test]
async fn a_tree_goes_into_a_container_and_out_again() {
    let fixture = Fixture::new().await;
    make_tree(&fixture.local("site"));
    fs::create_dir(fixture.remote("srv")).unwrap();
    let report = fixture.pods.copy_to("web-0", fixture.local("site"), "/srv/www").container("app").await.unwrap();
    assert_eq!((report.files, report.directories, report.bytes, report.skipped_count), (4, 4, 100_014, 0));
    assert_eq!(tree(&fixture.remote("srv/www")), tree(&fixture.local("site")));
    let modified = |path: PathBuf| fs::metadata(path).unwrap().modified().unwrap();
    assert_eq!(modified(fixture.remote("srv/www/run.sh")), modified(fixture.local("site/run.sh")));

    let report = fixture.pods.copy_from("web-0", "/srv/www", fixture.local("new/parent/copy")).await.unwrap();
    assert_eq!((report.files, report.directories, report.bytes, report.skipped_count), (4, 4, 100_014, 0));
    assert_eq!(tree(&fixture.local("new/parent/copy")), tree(&fixture.local("site")));
    assert_eq!(modified(fixture.local("new/parent/copy/run.sh")), modified(fixture.local("site/run.sh")));
    // A directory itself, and a relative one.
    fixture.pods.copy_from("web-0", "srv/www/", fixture.local("again")).await.unwrap();
    assert_eq!(tree(&fixture.local("again")), tree(&fixture.local("site")));
}

#[tokio::test]
async fn a_file_is_renamed() {
    let fixture = Fixture::new().await;
    fs::write(fixture.local("old"), "content").unwrap();
    fixture.pods.copy_to("web-0", fixture.local("old"), "/-new").await.unwrap();
    assert_eq!(fs::read(fixture.remote("-new")).unwrap(), b"content");
    let report = fixture.pods.copy_from("web-0", "/-new", fixture.local("newer")).await.unwrap();
    assert_eq!((report.files, fs::read(fixture.local("newer")).unwrap()), (1, b"content".to_vec()));
}

#[tokio::test]
async fn links_are_copied_into_a_container_and_skipped_or_followed_out_of_it() {
    let fixture = Fixture::new().await;
    fs::create_dir(fixture.local("source")).unwrap();
    fs::write(fixture.local("source/file"), "content").unwrap();
    fs::hard_link(fixture.local("source/file"), fixture.local("source/hard")).unwrap();
    symlink("file", fixture.local("source/soft")).unwrap();
    let report = fixture.pods.copy_to("web-0", fixture.local("source"), "/copied").await.unwrap();
    assert_eq!((report.files, report.symlinks), (2, 1));
    assert_eq!(fs::read_link(fixture.remote("copied/soft")).unwrap(), Path::new("file"));

    fs::remove_file(fixture.remote("copied/hard")).unwrap();
    fs::hard_link(fixture.remote("copied/file"), fixture.remote("copied/hard")).unwrap();
    let report = fixture.pods.copy_from("web-0", "/copied", fixture.local("out")).await.unwrap();
    assert_eq!((report.files, report.bytes, report.skipped_count), (2, 14, 1));
    assert_eq!(report.skipped[0].path, Path::new("soft"));
    assert_eq!(report.skipped[0].reason, SkipReason::Symlink { target: "file".into() });
    assert_eq!(fs::read(fixture.local("out/hard")).unwrap(), b"content");
    // GNU tar sends a link that it follows as a hard link to its target.
    fixture.pods.copy_from("web-0", "/copied", fixture.local("followed")).follow_symlinks().await.unwrap();
    assert_eq!(fs::read(fixture.local("followed/soft")).unwrap(), b"content");

    symlink("copied", fixture.remote("way")).unwrap();
    let link = fixture.pods.copy_from("web-0", "/way", fixture.local("way")).await.unwrap_err();
    assert!(matches!(copy_error(link), CopyError::NotCopyable { .. }));
    fixture.pods.copy_from("web-0", "/way/", fixture.local("way")).await.unwrap();
    assert!(fixture.local("way/file").exists());
}

#[tokio::test]
async fn a_file_of_64_megabytes_is_streamed() {
    let fixture = Fixture::new().await;
    let content: Vec<u8> = (0..64_u32 << 20).map(|number| (number / 251) as u8).collect();
    fs::write(fixture.local("large"), &content).unwrap();
    fixture.pods.copy_to("web-0", fixture.local("large"), "/large").await.unwrap();
    assert!(fs::read(fixture.remote("large")).unwrap() == content);
    let report = fixture.pods.copy_from("web-0", "/large", fixture.local("back")).await.unwrap();
    assert_eq!(report.bytes, 64 << 20);
    assert!(fs::read(fixture.local("back")).unwrap() == content);
}

#[tokio::test]
async fn a_failure_of_tar_has_its_text() {
    let fixture = Fixture::new().await;
    let missing = copy_error(fixture.pods.copy_from("web-0", "/none/file", fixture.local("x")).await.unwrap_err());
    assert!(
        matches!(&missing, CopyError::Exit { code: 2, stderr } if stderr.contains("No such file or directory")),
        "{missing:?}"
    );
    fs::write(fixture.local("file"), vec![1; 1_000_000]).unwrap();
    let missing = copy_error(fixture.pods.copy_to("web-0", fixture.local("file"), "/none/file").await.unwrap_err());
    assert!(matches!(&missing, CopyError::Exit { code: 2, .. }), "{missing:?}");
    let error = fixture.pods.copy_to("web-0", fixture.local("file"), "/none/file").await.unwrap_err().to_string();
    assert!(
        error.starts_with("GET /api/v1/namespaces/default/pods/web-0/exec: tar in the container exited"),
        "{error}"
    );
    let local = copy_error(fixture.pods.copy_to("web-0", fixture.local("none"), "/new").await.unwrap_err());
    assert!(matches!(&local, CopyError::Local { path, .. } if *path == fixture.local("none")), "{local:?}");
    assert!(!fixture.remote("new").exists());
    let unnamed = copy_error(fixture.pods.copy_to("web-0", fixture.local("file"), "/").await.unwrap_err());
    assert!(matches!(unnamed, CopyError::RemotePath { .. }), "{unnamed:?}");
}

#[tokio::test]
async fn a_container_without_tar_is_named_in_the_error() {
    for code in [126, 127] {
        let fixture = Fixture::scripted(Vec::new(), "sh: tar: not found\n", code).await;
        fs::write(fixture.local("file"), "content").unwrap();
        let to = copy_error(fixture.pods.copy_to("web-0", fixture.local("file"), "/file").await.unwrap_err());
        let from = copy_error(fixture.pods.copy_from("web-0", "/file", fixture.local("new")).await.unwrap_err());
        for error in [to, from] {
            assert!(matches!(&error, CopyError::NoTar { message } if message.contains("not found")), "{error:?}");
            assert!(error.to_string().contains("use an image that contains tar"), "{error}");
        }
    }
    // Others fail without an exit code.
    let message = "error executing command in container: exec: \"tar\": executable file not found in $PATH";
    let failing = move |_| async move { Status::failure(500, "InternalError".into(), message) };
    let fixture = Fixture::with(tempfile::tempdir().unwrap(), failing).await;
    let error = copy_error(fixture.pods.copy_from("web-0", "/file", fixture.local("new")).await.unwrap_err());
    assert!(matches!(&error, CopyError::NoTar { message } if message.contains("executable file")), "{error:?}");
    // Some runtimes write their error to standard output.
    let output = b"OCI runtime exec failed: \"tar\": executable file not found\r\n".repeat(20);
    let fixture = Fixture::scripted(output, "", 126).await;
    let error = copy_error(fixture.pods.copy_from("web-0", "/file", fixture.local("new")).await.unwrap_err());
    assert!(matches!(error, CopyError::NoTar { .. }), "{error:?}");
}

#[tokio::test]
async fn what_a_container_writes_cannot_control_a_terminal() {
    let fixture = Fixture::scripted(Vec::new(), "\u{1b}]0;title\u{7}\u{1b}[31mred\r\n", 2).await;
    let error = fixture.pods.copy_from("web-0", "/file", fixture.local("new")).await.unwrap_err().to_string();
    assert!(error.contains("red") && !error.contains(char::is_control), "{error:?}");
}

#[tokio::test]
async fn an_archive_that_ends_early_is_an_error_also_if_tar_succeeded() {
    let mut archive = tar::Builder::new(Vec::new());
    for name in ["src/first", "src/second"] {
        let mut header = tar::Header::new_gnu();
        header.set_size(1000);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, &[7_u8; 1000][..]).unwrap();
    }
    let archive = archive.into_inner().unwrap();
    let fixture = Fixture::scripted(archive[..2400].to_vec(), "", 0).await;
    let error = copy_error(fixture.pods.copy_from("web-0", "/src", fixture.local("new")).await.unwrap_err());
    assert!(matches!(error, CopyError::Truncated), "{error:?}");
    assert_eq!(tree(&fixture.local("new")).keys().collect::<Vec<_>>(), ["first"]);
}

#[tokio::test]
async fn limits_end_the_session() {
    let fixture = Fixture::new().await;
    make_tree(&fixture.remote("src"));
    let limits = CopyLimits { bytes: 50_000, ..CopyLimits::default() };
    let error = fixture.pods.copy_from("web-0", "/src", fixture.local("new")).limits(limits).await.unwrap_err();
    assert!(matches!(copy_error(error), CopyError::TooManyBytes { limit: 50_000 }));
}

/// Sends the start of an archive, and then nothing.
async fn stall(mut process: ContainerProcess, stalled: Arc<Notify>, dropped: DropNotice) -> ExitStatus {
    let mut header = tar::Header::new_gnu();
    header.set_path("src").unwrap();
    header.set_size(1_000_000);
    header.set_mode(0o644);
    header.set_cksum();
    if let Some(stdout) = &mut process.stdout {
        stdout.write_all(header.as_bytes()).await.unwrap();
        stdout.write_all(&[7; 5000]).await.unwrap();
    }
    stalled.notify_one();
    std::future::pending::<()>().await;
    drop(dropped);
    ExitStatus::SUCCESS
}

struct DropNotice(Arc<Notify>);

impl Drop for DropNotice {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn a_cut_connection_is_an_error_and_a_dropped_copy_ends_the_process() {
    let (stalled, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = {
        let (stalled, dropped) = (Arc::clone(&stalled), Arc::clone(&dropped));
        move |process| stall(process, Arc::clone(&stalled), DropNotice(Arc::clone(&dropped)))
    };
    let fixture = Fixture::with(tempfile::tempdir().unwrap(), handler).await;
    let config =
        evenkeel_client::Config::from_kubeconfig_str(&fixture.server.kubeconfig(), &Default::default()).unwrap();
    let pods = evenkeel_client::Client::new(config).unwrap().core_v1().pods("default");

    let cut = async {
        stalled.notified().await;
        fixture.server.faults().cut_connections();
    };
    let (lost, ()) = tokio::join!(pods.copy_from("web-0", "/src", fixture.local("new")).into_future(), cut);
    let lost = lost.unwrap_err();
    assert!(matches!(lost, Error::Session { source: SessionError::Channel(_), .. }), "{lost:?}");
    assert!(fs::read_dir(fixture.directory.path()).unwrap().next().is_none(), "no part of the file is left");
    dropped.notified().await;

    tokio::select! {
        _ = pods.copy_from("web-0", "/src", fixture.local("new")) => panic!("the archive has no end"),
        () = stalled.notified() => {}
    }
    dropped.notified().await;
}
