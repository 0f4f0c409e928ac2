use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::super::relay::{ATTEMPT_LIMIT, CONNECT_LIMIT, ForwardError, LINGER, Relay, copy};
use super::{Fixture, SILENT, send};
use crate::error::Error;

const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9);

fn relay(fixture: &Fixture) -> Arc<Relay> {
    Arc::new(Relay::new(fixture.forward.clone(), Arc::new(|_: &ForwardError| ())))
}

#[tokio::test(start_paused = true)]
async fn pfw_006_data_flows_both_ways_and_the_end_of_the_pod_ends_the_connection() {
    let mut fixture = Fixture::new([]);
    let stream = fixture.forward.connect(80).await.unwrap();
    let server = fixture.server(80).await;
    let (mut local, forwarded) = duplex(1024);
    let copying = tokio::spawn(copy(forwarded, stream));
    local.write_all(b"request").await.unwrap();
    assert_eq!(server.reader(0).next().await.unwrap().unwrap(), "request");
    send(&server, 0, b"response").await;
    server.close();
    let mut read = String::new();
    local.read_to_string(&mut read).await.unwrap();
    assert_eq!(read, "response");
    copying.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn pfw_006_what_the_pod_sent_before_its_end_is_delivered_while_the_client_writes() {
    let mut fixture = Fixture::new([]);
    let stream = fixture.forward.connect(80).await.unwrap();
    let server = fixture.server(80).await;
    let expected = vec![7; 200_000];
    send(&server, 0, &expected).await;
    server.close();
    server.ended().await.unwrap();
    let (mut local, forwarded) = duplex(1024);
    let copying = tokio::spawn(copy(forwarded, stream));
    // The pod reads nothing of this.
    local.write_all(b"request").await.unwrap();
    let mut read = Vec::new();
    local.read_to_end(&mut read).await.unwrap();
    assert!(read == expected, "{} bytes", read.len());
    copying.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn pfw_006_after_the_local_end_the_pod_may_still_send() {
    let mut fixture = Fixture::new([]);
    let stream = fixture.forward.connect(80).await.unwrap();
    let server = fixture.server(80).await;
    let (mut local, forwarded) = duplex(1024);
    let copying = tokio::spawn(copy(forwarded, stream));
    local.shutdown().await.unwrap();
    let started = Instant::now();
    for _ in 0..3 {
        tokio::time::sleep(LINGER - Duration::from_secs(1)).await;
        send(&server, 0, b".").await;
        assert_eq!(local.read_u8().await.unwrap(), b'.');
    }
    // The pod does not see the end of the client, so a silent connection ends after a while.
    assert_eq!(local.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(started.elapsed(), 3 * (LINGER - Duration::from_secs(1)) + LINGER);
    copying.await.unwrap().unwrap();
    server.ended().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pfw_007_the_error_of_a_connection_is_reported_and_closes_it_only() {
    let mut fixture = Fixture::new([]);
    let reported = Arc::new(Mutex::new(Vec::new()));
    let on_error = {
        let reported = Arc::clone(&reported);
        Arc::new(move |error: &ForwardError| reported.lock().unwrap().push(error.to_string()))
    };
    let relay = Arc::new(Relay::new(fixture.forward.clone(), on_error));
    let connect = |port| {
        let (local, forwarded) = duplex(1024);
        let relay = Arc::clone(&relay);
        (local, tokio::spawn(async move { relay.forward(forwarded, PEER, port).await }))
    };
    let (mut first, _forwarding) = connect(80);
    let first_server = fixture.server(80).await;
    let (mut second, refused) = connect(81);
    let second_server = fixture.server(81).await;
    send(&second_server, 1, b"refused").await;
    second_server.close();
    refused.await.unwrap();
    assert_eq!(second.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(
        *reported.lock().unwrap(),
        ["the connection of 127.0.0.1:9 to port 81 failed: port 81 of pod default/web-0 is not reachable: refused"]
    );
    send(&first_server, 0, b"1").await;
    assert_eq!(first.read_u8().await.unwrap(), b'1');
}

#[tokio::test(start_paused = true)]
async fn pfw_008_attempts_back_off_one_at_a_time_until_the_server_is_reached() {
    const CONNECTIONS: usize = 3;
    let fixture = Fixture::new([503; 7]);
    let relay = relay(&fixture);
    let mut connecting = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let relay = Arc::clone(&relay);
        connecting.spawn(async move { relay.connect(80).await.unwrap() });
    }
    assert_eq!(connecting.join_all().await.len(), CONNECTIONS);
    let times: Vec<Instant> = fixture.requests.lock().unwrap().iter().map(|(time, _)| *time).collect();
    assert_eq!(times.len(), 7 + CONNECTIONS);
    // The first attempts are concurrent; then there is one per pause.
    let pauses: Vec<Duration> = times[CONNECTIONS - 1..=7].windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses.len(), 5);
    assert!(pauses.iter().all(|pause| *pause >= Duration::from_millis(100)), "{pauses:?}");
    assert_eq!(times[7], times[9], "once the server is reached, nothing waits");
}

#[tokio::test(start_paused = true)]
async fn pfw_008_an_unreachable_server_fails_the_connection_after_a_limit() {
    let fixture = Fixture::new([503; 1000]);
    let started = Instant::now();
    let error = relay(&fixture).connect(80).await.unwrap_err();
    assert!(error.is_service_unavailable(), "{error:?}");
    assert_eq!(started.elapsed(), CONNECT_LIMIT);
    let requests = fixture.requests.lock().unwrap().len();
    assert!((5..40).contains(&requests), "{requests}");
}

#[tokio::test(start_paused = true)]
async fn pfw_008_a_server_that_does_not_respond_fails_the_connection_after_a_limit() {
    const CONNECTIONS: usize = 20;
    let fixture = Fixture::new([SILENT; 1000]);
    let relay = relay(&fixture);
    // One attempt fails first, so that all others wait for each other.
    let error = relay.connect(80).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { limit, .. } if limit == ATTEMPT_LIMIT), "{error:?}");
    let started = Instant::now();
    let mut connecting = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let relay = Arc::clone(&relay);
        connecting.spawn(async move { relay.connect(80).await.unwrap_err() });
    }
    assert_eq!(connecting.join_all().await.len(), CONNECTIONS);
    let elapsed = started.elapsed();
    assert!(elapsed <= CONNECT_LIMIT + ATTEMPT_LIMIT, "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn pfw_008_an_error_that_will_not_change_is_returned_at_once() {
    let fixture = Fixture::new([404]);
    assert!(relay(&fixture).connect(80).await.unwrap_err().is_not_found());
    assert_eq!(fixture.requests.lock().unwrap().len(), 1);
}
