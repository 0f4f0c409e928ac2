//! Servers that never stop sending, over real connections: the client closes the connection.

use std::time::Duration;

use evenkeel_client::config::ServerUrl;
use evenkeel_client::{Client, Config, Error, ListParams, WatchEnd, WatchParams};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const MIB: usize = 1 << 20;

/// Sends `head`, then `again` repeatedly until the connection is closed. Returns how many bytes were accepted.
async fn endless(head: &'static str, again: String) -> (Client, JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = Config::new(ServerUrl::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap());
    config.retry.max_retries = 0;
    (config.limits.object, config.limits.list, config.limits.frame, config.limits.error) = (MIB, MIB, MIB, MIB);
    let talk = async move |mut stream: TcpStream| {
        let mut request = [0; 4096];
        assert_ne!(stream.read(&mut request).await.unwrap(), 0);
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut taken = 0;
        let mut next = head.as_bytes();
        while stream.write_all(next).await.is_ok() {
            taken += next.len();
            next = again.as_bytes();
        }
        taken
    };
    let task = tokio::spawn(async move { talk(listener.accept().await.unwrap().0).await });
    (Client::new(config).unwrap(), task)
}

/// The server noticed the closed connection, after little more than the limit: there are buffers on the way.
async fn assert_hung_up(server: JoinHandle<usize>) {
    let taken = tokio::time::timeout(Duration::from_secs(60), server).await.expect("the connection is closed").unwrap();
    assert!((MIB..64 * MIB).contains(&taken), "{taken}");
}

fn long_string() -> String {
    "x".repeat(64 << 10)
}

#[tokio::test]
async fn sec_40_an_object_without_end_is_an_error_and_the_connection_is_closed() {
    let (client, server) = endless(r#"{"kind":"ConfigMap","data":{"k":""#, long_string()).await;
    let error = client.core_v1().config_maps("default").get("a").await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit: MIB, .. }), "{error}");
    assert_hung_up(server).await;
}

#[tokio::test]
async fn sec_40_a_list_without_end_is_an_error_and_the_connection_is_closed() {
    let item = format!(r#"{{"metadata":{{"name":"a"}},"data":{{"k":"{}"}}}},"#, "x".repeat(1000));
    let (client, server) = endless(r#"{"kind":"ConfigMapList","apiVersion":"v1","items":["#, item).await;
    let error = client.core_v1().config_maps("default").list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit: MIB, .. }), "{error}");
    assert_hung_up(server).await;
}

#[tokio::test]
async fn sec_41_an_event_without_end_ends_the_watch_and_the_connection_is_closed() {
    let (client, server) = endless(r#"{"type":"ADDED","object":{"data":{"k":""#, long_string()).await;
    let mut watch = client.core_v1().config_maps("default").watch(&WatchParams::default()).await.unwrap();
    assert!(watch.next().await.is_none());
    let Some(WatchEnd::Garbled(problem)) = watch.end() else { panic!("{:?}", watch.end()) };
    assert!(problem.to_string().contains(&MIB.to_string()), "{problem}");
    assert_hung_up(server).await;
}
