//! Processes in containers, against an API server in this process: over sockets, with TLS, and without a socket.

use std::sync::Arc;

use evenkeel_apiserver::{ApiServer, Builder, ContainerProcess, ExitStatus, ScriptedCommands, ScriptedOutput};
use evenkeel_client::config::{Overrides, Proxy, ProxyUrl};
use evenkeel_client::remote::ExitStatusError;
use evenkeel_client::{Api, Client, Config, Error, SessionError, TerminalSize};
use evenkeel_core::{Reason, Status};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Barrier, Notify};

async fn pods(client: &Client, containers: &[&str]) -> Api<Pod, evenkeel_client::api::scope::Namespaced> {
    let pods = client.core_v1().pods("default");
    let containers: Vec<_> = containers.iter().map(|name| json!({"name": name, "image": "i"})).collect();
    let pod: Pod =
        serde_json::from_value(json!({"metadata": {"name": "web-0"}, "spec": {"containers": containers}})).unwrap();
    pods.create(&pod).await.unwrap();
    pods
}

fn network_client(server: &ApiServer) -> Client {
    Client::new(Config::from_kubeconfig_str(&server.kubeconfig(), &Overrides::default()).unwrap()).unwrap()
}

/// The same server three times: over plain HTTP, over TLS, and without a socket.
async fn each(builder: impl Fn() -> Builder, test: impl AsyncFn(&ApiServer, Client)) {
    let server = builder().start().await.unwrap();
    test(&server, network_client(&server)).await;
    server.shutdown().await;
    let server = builder().tls().start().await.unwrap();
    test(&server, network_client(&server)).await;
    server.shutdown().await;
    let server = builder().in_process_only().start().await.unwrap();
    test(&server, server.client()).await;
    server.shutdown().await;
}

/// Copies input to output, and exits with the number of its bytes.
async fn cat(mut process: ContainerProcess) -> ExitStatus {
    let copied = tokio::io::copy_buf(process.stdin.as_mut().unwrap(), process.stdout.as_mut().unwrap()).await;
    process.stderr.as_mut().unwrap().write_all(b"done\n").await.unwrap();
    ExitStatus::exited((copied.unwrap() % 256) as u8)
}

#[tokio::test]
async fn rcm_005_the_end_of_stdin_reaches_the_process() {
    each(
        || ApiServer::builder().exec(cat),
        async |_, client| {
            let pods = pods(&client, &["app"]).await;
            let mut process = pods.exec("web-0", ["cat"]).stdin().await.unwrap();
            let mut stdin = process.stdin.take().unwrap();
            stdin.write_all(b"hello").await.unwrap();
            stdin.shutdown().await.unwrap();
            let (mut out, mut err) = (String::new(), String::new());
            process.stdout.as_mut().unwrap().read_to_string(&mut out).await.unwrap();
            process.stderr.as_mut().unwrap().read_to_string(&mut err).await.unwrap();
            assert_eq!((out.as_str(), err.as_str()), ("hello", "done\n"));
            assert_eq!(process.wait().await.unwrap().code(), 5);
        },
    )
    .await;
}

#[tokio::test]
async fn rcm_004_megabytes_flow_in_both_directions() {
    each(
        || ApiServer::builder().exec(cat),
        async |_, client| {
            let pods = pods(&client, &["app"]).await;
            let mut process = pods.exec("web-0", ["cat"]).stdin().await.unwrap();
            let mut stdin = process.stdin.take().unwrap();
            let sent: Vec<u8> = (0..4_000_000_u32).map(|number| (number / 7) as u8).collect();
            let expected = sent.clone();
            let writing = tokio::spawn(async move {
                stdin.write_all(&sent).await.unwrap();
                stdin.shutdown().await.unwrap();
            });
            let mut read = Vec::new();
            process.stdout.as_mut().unwrap().read_to_end(&mut read).await.unwrap();
            assert!(read == expected, "{} bytes of {}", read.len(), expected.len());
            writing.await.unwrap();
            assert_eq!(u32::from(process.wait().await.unwrap().code()), 4_000_000 % 256);
        },
    )
    .await;
}

#[tokio::test]
async fn rcm_003_scripted_commands_have_output_and_exit_codes() {
    let script = || {
        ScriptedCommands::new()
            .on(["hostname"], ScriptedOutput::stdout("web-0\n"))
            .on(["cat", "/none"], ScriptedOutput::stdout("a").and_stderr("no such file\n").exit_code(1))
    };
    each(
        || ApiServer::builder().exec(script()),
        async |_, client| {
            let pods = pods(&client, &["app"]).await;
            let output = pods.exec("web-0", ["hostname"]).output().await.unwrap();
            assert_eq!(
                (output.status, &*output.stdout, &*output.stderr),
                (ExitStatus::SUCCESS, &b"web-0\n"[..], &b""[..])
            );
            let output = pods.exec("web-0", ["cat", "/none"]).output().await.unwrap();
            assert_eq!(
                (output.status.code(), &*output.stdout, &*output.stderr),
                (1, &b"a"[..], &b"no such file\n"[..])
            );
            let output = pods.exec("web-0", ["none"]).output().await.unwrap();
            assert_eq!((output.status.code(), &*output.stderr), (127, &b"none: not found\n"[..]));
            let output = pods.exec("web-0", ["cat", "/none"]).tty().output().await.unwrap();
            assert_eq!((&*output.stdout, &*output.stderr), (&b"ano such file\n"[..], &b""[..]));
        },
    )
    .await;
}

/// Writes the sizes of the terminal until its width is zero.
async fn print_sizes(mut process: ContainerProcess) -> ExitStatus {
    let (mut sizes, mut stdout) = (process.sizes.take().unwrap(), process.stdout.take().unwrap());
    while let Some(TerminalSize { width, height }) = sizes.next().await {
        if width == 0 {
            return ExitStatus::exited(9);
        }
        stdout.write_all(format!("{width}x{height}\n").as_bytes()).await.unwrap();
    }
    ExitStatus::SUCCESS
}

#[tokio::test]
async fn rcm_006_the_process_receives_the_sizes_of_the_terminal() {
    each(
        || ApiServer::builder().attach(print_sizes),
        async |_, client| {
            let pods = pods(&client, &["app"]).await;
            let mut process = pods.attach("web-0").terminal_size(TerminalSize { width: 80, height: 24 }).await.unwrap();
            let mut stdout = process.stdout.take().unwrap();
            assert_eq!(stdout.next().await.unwrap().unwrap(), "80x24\n");
            process.resize(TerminalSize { width: 100, height: 50 });
            assert_eq!(stdout.next().await.unwrap().unwrap(), "100x50\n");
            process.resize(TerminalSize { width: 0, height: 0 });
            assert_eq!(process.wait().await.unwrap().code(), 9);
        },
    )
    .await;
}

#[tokio::test]
async fn msc_6_a_handler_knows_its_container() {
    let describe = |mut process: ContainerProcess| async move {
        let ContainerProcess { namespace, pod, container, command, tty, .. } = &process;
        let text = format!("{namespace}/{pod}/{container} {command:?} {tty}");
        process.stdout.as_mut().unwrap().write_all(text.as_bytes()).await.unwrap();
        ExitStatus::SUCCESS
    };
    each(
        || ApiServer::builder().exec(describe),
        async |_, client| {
            let pods = pods(&client, &["app", "sidecar"]).await;
            let output = pods.exec("web-0", ["a b", "&c=d"]).container("sidecar").output().await.unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), "default/web-0/sidecar [\"a b\", \"&c=d\"] false");
            let refused = pods.exec("web-0", ["a"]).await.unwrap_err();
            assert!(refused.is_bad_request(), "{refused:?}");
            let message = "a container name must be specified for pod web-0, choose one of: [app sidecar]";
            assert!(refused.to_string().ends_with(message), "{refused}");
            let refused = pods.exec("web-0", ["a"]).container("none").await.unwrap_err();
            assert!(refused.to_string().ends_with("container none is not valid for pod web-0"), "{refused}");
            assert!(pods.exec("none", ["a"]).await.unwrap_err().is_not_found());
            let refused = pods.exec("web-0", ["a"]).container("app").no_stdout().no_stderr().await.unwrap_err();
            assert!(refused.to_string().ends_with("you must specify at least 1 of stdin, stdout, stderr"), "{refused}");
            let unsupported = pods.attach("web-0").await.unwrap_err();
            assert_eq!(unsupported.status().unwrap().code, 501);
        },
    )
    .await;
}

#[tokio::test]
async fn msc_6_requests_without_an_upgrade_are_refused() {
    let server = ApiServer::builder().exec(cat).start().await.unwrap();
    let client = server.client();
    pods(&client, &["app"]).await;
    let path = "/api/v1/namespaces/default/pods/web-0/exec?command=a&stdout=true";
    let refused = client.request(http::Method::POST, evenkeel_client::Path::raw(path)).send().await.unwrap_err();
    assert!(refused.is_bad_request(), "{refused:?}");
    assert!(refused.to_string().ends_with("Upgrade request required"), "{refused}");
}

#[tokio::test]
async fn rcm_007_dropping_the_process_ends_the_handler_and_the_connection() {
    let (started, stopped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    struct Stopped(Arc<Notify>);
    impl Drop for Stopped {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let handler = {
        let (started, stopped) = (Arc::clone(&started), Arc::clone(&stopped));
        move |process: ContainerProcess| {
            let guard = Stopped(Arc::clone(&stopped));
            started.notify_one();
            async move {
                let _guards = (guard, process);
                std::future::pending::<()>().await;
                ExitStatus::SUCCESS
            }
        }
    };
    each(
        || ApiServer::builder().exec(handler.clone()),
        async |server, client| {
            let pods = pods(&client, &["app"]).await;
            let process = pods.exec("web-0", ["sleep"]).await.unwrap();
            started.notified().await;
            drop(process);
            stopped.notified().await;
            // A session that is open when the server stops ends with it.
            let mut process = pods.exec("web-0", ["sleep"]).await.unwrap();
            started.notified().await;
            server.faults().cut_connections();
            if server.connections().accepted == 0 {
                drop(process);
            } else {
                let lost = process.wait().await.unwrap_err();
                assert!(matches!(lost, Error::Session { source: SessionError::Channel(_), .. }), "{lost:?}");
            }
            stopped.notified().await;
        },
    )
    .await;
}

#[tokio::test]
async fn arc_4_a_shutdown_ends_open_sessions() {
    let handler = |process: ContainerProcess| async move {
        let _process = process;
        std::future::pending::<ExitStatus>().await
    };
    for server in [ApiServer::builder().exec(handler), ApiServer::builder().exec(handler).in_process_only()] {
        let server = server.start().await.unwrap();
        let client = if server.connections().accepted == 0 && server.url() == "http://localhost" {
            server.client()
        } else {
            network_client(&server)
        };
        let pods = pods(&client, &["app"]).await;
        let mut process = pods.exec("web-0", ["sleep"]).await.unwrap();
        server.shutdown().await;
        assert!(matches!(process.wait().await, Err(Error::Session { .. })));
    }
}

#[tokio::test]
async fn rcm_003_a_process_that_cannot_be_started_is_the_servers_failure() {
    let handler = |process: ContainerProcess| async move {
        match process.command.first().map(String::as_str) {
            Some("true") => Ok(ExitStatus::SUCCESS),
            _ => Err(Status::failure(500, Reason::INTERNAL_ERROR, "no such file or directory")),
        }
    };
    each(
        || ApiServer::builder().exec(handler),
        async |_, client| {
            let pods = pods(&client, &["app"]).await;
            assert!(pods.exec("web-0", ["true"]).output().await.unwrap().status.success());
            let failed = pods.exec("web-0", ["none"]).output().await.unwrap_err();
            let Error::Session { source: SessionError::Process(ExitStatusError::Failed(status)), .. } = failed else {
                panic!("{failed:?}");
            };
            assert_eq!((&*status.message, status.code), ("no such file or directory", 500));
        },
    )
    .await;
}

/// Tunnels one connection to its target. Returns the first line of the request.
async fn tunnel(proxy: TcpListener) -> String {
    let mut client = BufReader::new(proxy.accept().await.unwrap().0);
    let (mut request, mut line) = (String::new(), String::new());
    client.read_line(&mut request).await.unwrap();
    while client.read_line(&mut line).await.unwrap() > 2 {
        line.clear();
    }
    let target = request.split(' ').nth(1).unwrap();
    let mut server = TcpStream::connect(target).await.unwrap();
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    // An error means that one side closed its connection first.
    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    request
}

#[tokio::test]
async fn rcm_017_sessions_pass_through_the_proxy() {
    let script = ScriptedCommands::new().on(["hostname"], ScriptedOutput::stdout("web-0\n"));
    let server = ApiServer::builder().exec(script).start().await.unwrap();
    pods(&server.client(), &["app"]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    let tunnelled = tokio::spawn(tunnel(listener));
    let mut config = Config::from_kubeconfig_str(&server.kubeconfig(), &Overrides::default()).unwrap();
    config.proxy = Proxy::Url(ProxyUrl::parse(&proxy).unwrap());
    let client = Client::new(config).unwrap();
    let output = client.core_v1().pods("default").exec("web-0", ["hostname"]).output().await.unwrap();
    assert_eq!(output.stdout, b"web-0\n");
    let host = server.url().trim_start_matches("http://");
    assert_eq!(tunnelled.await.unwrap(), format!("CONNECT {host} HTTP/1.1\r\n"));
}

#[tokio::test]
async fn rcm_032_sessions_of_one_client_run_concurrently() {
    const SESSIONS: usize = 8;
    // No process ends before all have started.
    let handler = || {
        let barrier = Arc::new(Barrier::new(SESSIONS));
        move |mut process: ContainerProcess| {
            let barrier = Arc::clone(&barrier);
            async move {
                barrier.wait().await;
                let text = process.command.concat();
                process.stdout.as_mut().unwrap().write_all(text.as_bytes()).await.unwrap();
                ExitStatus::SUCCESS
            }
        }
    };
    each(
        || ApiServer::builder().exec(handler()),
        async |_, client| {
            let pods = pods(&client, &["app"]).await;
            let mut sessions = tokio::task::JoinSet::new();
            for number in 0..SESSIONS {
                let exec = pods.exec("web-0", [number.to_string()]);
                sessions.spawn(async move { (number, exec.output().await.unwrap().stdout) });
            }
            while let Some(session) = sessions.join_next().await {
                let (number, stdout) = session.unwrap();
                assert_eq!(String::from_utf8(stdout).unwrap(), number.to_string());
            }
        },
    )
    .await;
}
