//! Runs alone in its process, so that it can count open files and threads.
#![cfg(target_os = "linux")]

use evenkeel_apiserver::ApiServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Open files and threads.
fn held() -> (usize, usize) {
    let count = |path| std::fs::read_dir(path).map_or(0, Iterator::count);
    (count("/proc/self/fd"), count("/proc/self/task"))
}

async fn serve_once(server: &ApiServer) -> std::io::Result<()> {
    let address = server.url().trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    Ok(())
}

#[tokio::test]
async fn arc_4_no_file_or_thread_survives() {
    let before = held();
    for _ in 0..3 {
        let server = ApiServer::start().await.unwrap();
        serve_once(&server).await.unwrap();
        server.shutdown().await;
        assert_eq!(held(), before, "after a shutdown");
    }
    for _ in 0..3 {
        let server = ApiServer::start().await.unwrap();
        serve_once(&server).await.unwrap();
        let address = server.url().trim_start_matches("http://").to_owned();
        drop(server);
        // Aborted tasks end when the runtime polls them.
        while TcpStream::connect(&address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        assert_eq!(held(), before, "after a drop");
    }
}
