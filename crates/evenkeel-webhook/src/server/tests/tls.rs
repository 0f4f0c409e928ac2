//! The server on a socket.

use evenkeel_runtime::tls::TlsError;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::*;

async fn ask(address: SocketAddr, root: &CertificateDer<'static>) -> (u16, String) {
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("hooks.system.svc").unwrap();
    let stream = TlsConnector::from(client_config(root)).connect(name, stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), None, "the client offers none");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    let driver = tokio::spawn(connection);
    let answer = text_of(sender.send_request(post(PATH, review())).await.unwrap()).await;
    drop(sender);
    driver.await.unwrap().unwrap();
    answer
}

#[tokio::test]
async fn a_server_answers_on_its_socket_until_it_is_shut_down() {
    let (slot, root) = pair();
    let server = WebhookServer::builder()
        .hook(hook())
        .certificate(&slot)
        .address("127.0.0.1:0")
        .service("system", "hooks")
        .build()
        .unwrap();
    let health = evenkeel_runtime::health::Health::new();
    health.ready().add(server.readiness()).unwrap();
    assert!(health.ready().run_one("webhook").await.unwrap().failure.is_some());
    let running = server.start().await.unwrap();
    assert_eq!(health.ready().run_one("webhook").await.unwrap().failure, None);
    let (code, text) = ask(running.address().unwrap(), &root).await;
    assert!(code == 200 && is_allowed(&text), "{code} {text}");
    assert!(matches!(server.start().await.unwrap_err(), ServeError::Running));
    let address = running.address().unwrap();
    running.shutdown().await;
    assert!(TcpStream::connect(address).await.is_err());
    assert!(health.ready().run_one("webhook").await.unwrap().failure.is_some());
    // It can be started again.
    server.start().await.unwrap().shutdown().await;
}

#[tokio::test]
async fn whs_001_files_are_in_the_default_directory_and_a_server_that_is_off_starts() {
    let defaults = WebhookServer::builder().build().unwrap();
    assert_eq!(defaults.settings.address, ":9443");
    let Certificates::Files { certificate, key, client_ca: None } = &defaults.settings.certificates else { panic!() };
    let directory = std::env::temp_dir().join("k8s-webhook-server").join("serving-certs");
    assert_eq!((certificate, key), (&directory.join("tls.crt"), &directory.join("tls.key")));

    let empty = tempfile::tempdir().unwrap();
    let missing = WebhookServer::builder().certificate_directory(empty.path()).address("127.0.0.1:0").build().unwrap();
    assert!(matches!(missing.start().await.unwrap_err(), ServeError::Tls(TlsError::Read { .. })));

    let (slot, _) = pair();
    let both = WebhookServer::builder().certificate(&slot).client_ca("ca.crt").address("127.0.0.1:0").build().unwrap();
    assert!(matches!(both.start().await.unwrap_err(), ServeError::ClientCaWithSlot));

    let off = WebhookServer::builder().address("0").hook(hook()).build().unwrap();
    let running = off.start().await.unwrap();
    assert_eq!(running.address(), None);
    off.register(hook().path("/late")).unwrap();
    running.shutdown().await;
}

#[tokio::test]
async fn whs_008_a_manager_runs_the_server() {
    let api = evenkeel_apiserver::ApiServer::builder().in_process_only().start().await.unwrap();
    let (slot, _) = pair();
    let server = WebhookServer::builder().hook(hook()).certificate(&slot).address("127.0.0.1:0").build().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let webhooks = server.clone();
    let manager = evenkeel_runtime::Manager::new(&api.client())
        .server("webhooks", move |stop| webhooks.run(stop.requested()))
        .always("probe", move |_| async move {
            // Servers run before everything else.
            assert!(matches!(server.shared.listening(), Listening::Yes(_)));
            let _ = stop.send(());
            Ok::<_, ServeError>(())
        });
    manager.run(stopped).await.unwrap();
}
