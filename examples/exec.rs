//! Processes in containers: a command, its input, a terminal, copies of directories, a debug container.
//!
//! ```text
//! cargo run -p evenkeel-examples --example exec
//! ```
//!
//! In client-go: `tools/remotecommand`, `kubectl cp` and `kubectl debug`. In kube-rs: `Api::exec`, `Api::attach`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::path::{Path, PathBuf};
use std::process::Stdio;

use evenkeel::Patch;
use evenkeel::apiserver::{ApiServer, ContainerProcess, ExitStatus, ProcessHandler, ProcessOutcome};
use evenkeel::apiserver::{ScriptedCommands, ScriptedOutput};
use evenkeel::client::{Api, TerminalSize, api::scope::Namespaced, wait_for};
use evenkeel::k8s_openapi::api::core::v1::{EphemeralContainer, Pod};
use evenkeel_examples::Outcome;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

#[tokio::main]
async fn main() -> Outcome {
    let folder = std::env::temp_dir().join(format!("evenkeel-exec-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("container/srv"))?;
    let outcome = run(&folder).await;
    std::fs::remove_dir_all(&folder)?;
    outcome
}

async fn run(folder: &Path) -> Outcome {
    let container = folder.join("container");
    let server = ApiServer::builder()
        .exec(move |process| run_in_container(process, container.clone()))
        .attach(ScriptedCommands::new().on([""; 0], ScriptedOutput::stdout("/ # ")))
        .start()
        .await?;
    let pods = server.client().core_v1().pods("default");
    let pod = json!({"metadata": {"name": "web-0"}, "spec": {"containers": [{"name": "app", "image": "nginx"}]}});
    pods.create(&serde_json::from_value::<Pod>(pod)?).await?;

    // A command, its outputs and its exit code.
    let version = pods.exec("web-0", ["nginx", "-v"]).output().await?;
    println!("nginx -v: {}, {}", version.status, String::from_utf8(version.stderr)?.trim_end());
    let unknown = pods.exec("web-0", ["vim"]).output().await?;
    assert_eq!(unknown.status.code(), 127);

    // Standard input. Its end reaches the process, which then writes what it has sorted.
    let mut sort = pods.exec("web-0", ["sort"]).stdin().await?;
    if let (Some(mut stdin), Some(mut stdout)) = (sort.stdin.take(), sort.stdout.take()) {
        stdin.write_all(b"pear\napple\n").await?;
        stdin.shutdown().await?;
        let mut sorted = String::new();
        stdout.read_to_string(&mut sorted).await?;
        assert_eq!(sorted, "apple\npear\n");
    }
    println!("sort: {}", sort.wait().await?);

    // A terminal, whose size changes.
    let mut top = pods.exec("web-0", ["top"]).terminal_size(TerminalSize { width: 80, height: 24 }).await?;
    if let Some(stdout) = top.stdout.take() {
        let mut lines = BufReader::new(stdout).lines();
        println!("top: {}", lines.next_line().await?.unwrap_or_default());
        top.resize(TerminalSize { width: 132, height: 43 });
        println!("top: {}", lines.next_line().await?.unwrap_or_default());
    }
    drop(top); // Closes the session, which ends the process.

    copy(&pods, folder).await?;
    debug(&pods).await
}

/// Copies a directory into the container and out of it.
async fn copy(pods: &Api<Pod, Namespaced>, folder: &Path) -> Outcome {
    std::fs::create_dir_all(folder.join("site/css"))?;
    std::fs::write(folder.join("site/index.html"), "<h1>hello</h1>")?;
    std::fs::write(folder.join("site/css/style.css"), "h1 { color: teal }")?;
    let report = pods.copy_to("web-0", folder.join("site"), "/srv/www").await?;
    println!("copied into the container: {} files, {} bytes", report.files, report.bytes);

    let report = pods.copy_from("web-0", "/srv/www", folder.join("back")).await?;
    println!("copied out of it: {} files, {} skipped", report.files, report.skipped_count);
    assert_eq!(std::fs::read_to_string(folder.join("back/css/style.css"))?, "h1 { color: teal }");
    Ok(())
}

/// Adds a debug container to the pod, waits until it runs, and attaches to it.
async fn debug(pods: &Api<Pod, Namespaced>) -> Outcome {
    let shell = EphemeralContainer {
        image: Some("busybox".to_owned()),
        target_container_name: Some("app".to_owned()),
        tty: Some(true),
        ..EphemeralContainer::default()
    };
    let (debugger, started) = tokio::join!(pods.debug("web-0", shell).into_future(), start_debug_container(pods));
    started?;
    let debugger = debugger?;
    let prompt = debugger.attach().output().await?;
    println!("{} runs: {}", debugger.name, String::from_utf8(prompt.stdout)?);
    Ok(())
}

/// Takes the place of a kubelet: reports that the debug container runs.
async fn start_debug_container(pods: &Api<Pod, Namespaced>) -> Outcome {
    let name = "spec.ephemeralContainers[0].name";
    let added = wait_for(pods, "web-0", |pod| pod.is_some_and(|pod| matches!(pod.path(name), Ok(Some(_))))).await?;
    let name =
        added.and_then(|pod| pod.typed().ok()?.spec.clone()?.ephemeral_containers?.pop()).map(|added| added.name);
    let status =
        json!({"name": name, "state": {"running": {}}, "ready": true, "restartCount": 0, "image": "", "imageID": ""});
    let patch = Patch::merge(&json!({"status": {"ephemeralContainerStatuses": [status]}}));
    pods.status().patch("web-0", &patch).await?;
    Ok(())
}

/// The container: some commands are scripted, others are code.
async fn run_in_container(mut process: ContainerProcess, root: PathBuf) -> ProcessOutcome {
    let done = match process.command.first().map(String::as_str) {
        Some("sort") => sort(&mut process).await,
        Some("top") => print_sizes(&mut process).await,
        Some("tar") => run_tar(&mut process, &root).await,
        _ => {
            let version = ScriptedOutput::stderr("nginx version: nginx/1.29\n");
            return ScriptedCommands::new().on(["nginx", "-v"], version).run(process).await;
        }
    };
    ExitStatus::exited(done.unwrap_or(1)).into()
}

async fn sort(process: &mut ContainerProcess) -> std::io::Result<u8> {
    let mut text = String::new();
    if let (Some(stdin), Some(stdout)) = (&mut process.stdin, &mut process.stdout) {
        stdin.read_to_string(&mut text).await?;
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        stdout.write_all((lines.join("\n") + "\n").as_bytes()).await?;
    }
    Ok(0)
}

async fn print_sizes(process: &mut ContainerProcess) -> std::io::Result<u8> {
    if let (Some(sizes), Some(stdout)) = (&mut process.sizes, &mut process.stdout) {
        while let Some(TerminalSize { width, height }) = sizes.next().await {
            stdout.write_all(format!("the terminal has {width} columns and {height} rows\r\n").as_bytes()).await?;
        }
    }
    Ok(0)
}

/// Runs the `tar` of this machine, with a folder as the root of the container.
async fn run_tar(process: &mut ContainerProcess, root: &Path) -> std::io::Result<u8> {
    let arguments = process.command.iter().skip(1);
    let arguments = arguments.map(|argument| match argument.strip_prefix('/') {
        Some(path) => root.join(path),
        None => PathBuf::from(argument),
    });
    let mut tar = tokio::process::Command::new("tar");
    let mut tar = tar.args(arguments).kill_on_drop(true).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    if let (Some(reader), Some(mut stdin)) = (&mut process.stdin, tar.stdin.take()) {
        tokio::io::copy(reader, &mut stdin).await?;
    }
    if let (Some(writer), Some(mut stdout)) = (&mut process.stdout, tar.stdout.take()) {
        tokio::io::copy(&mut stdout, writer).await?;
    }
    Ok(tar.wait().await?.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
