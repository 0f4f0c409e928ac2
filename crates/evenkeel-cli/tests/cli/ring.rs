//! `evenkeel ring` from the outside: the binary, a server on the network, and a ring with one member.

use std::time::Duration;

use evenkeel::ring::Ring;
use evenkeel_apiserver::ApiServer;
use serde_json::Value;

use crate::process::evenkeel;

/// Runs `ring` to its end, on another thread than the server's runtime.
async fn ring(server: &ApiServer, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = evenkeel(&["ring"]);
    command.args(arguments).args(["--server", server.url()]);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn shr_067_status_and_where_read_the_leases_of_a_ring() {
    let server = ApiServer::start().await.unwrap();
    let seconds = Duration::from_secs;
    let member = Ring::new(&server.client(), "divided")
        .namespace("default")
        .identity("pod")
        .build("v7")
        .lease_duration(seconds(2))
        .renew_deadline(Duration::from_millis(1500))
        .heartbeat(Duration::from_millis(300))
        .grace(Duration::from_millis(300));
    let handle = member.handle();
    let mut wanted = handle.wanted();
    let (quit, stop) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(async move { member.run(async { drop(stop.await) }).await });
    wanted.wait_for(|wanted| wanted.is_full()).await.unwrap();
    let name = handle.member().unwrap();

    let (code, output, errors) = ring(&server, &["status", "divided", "-n", "default"]).await;
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(output.starts_with("ring divided: by namespace, lease duration 2s, table "), "{output}");
    let row = output.lines().find(|line| line.starts_with(&name)).unwrap();
    assert!(row.contains(" active ") && row.contains(" v7 ") && row.ends_with(" 100.0 %"), "{row}");
    assert!(output.contains(" moving, 0.0 % unowned"), "{output}");

    let (code, output, _) = ring(&server, &["status", "divided", "-n", "default", "-o", "json"]).await;
    let status: Value = serde_json::from_str(&output).unwrap();
    assert_eq!((code, &status["members"][0]["name"]), (Some(0), &Value::from(&*name)));
    assert_eq!(status["slices"][0]["owner"], *name);

    let (code, output, _) = ring(&server, &["where", "divided", "default/a", "-n", "default"]).await;
    assert_eq!(code, Some(0));
    // The hash of `default`, from the vectors of the server.
    assert!(output.contains("place  0xebada5168620c5fe\n"), "{output}");
    assert!(output.contains(&format!("owner  {name}\n")) && output.contains("epoch  "), "{output}");

    let (code, _, errors) = ring(&server, &["status", "other", "-n", "default"]).await;
    assert_eq!(code, Some(1));
    assert!(errors.contains("there is no ring \"other\" in the namespace default: check the name"), "{errors}");
    let (code, _, errors) = ring(&server, &["where", "divided", "a/b/c"]).await;
    assert_eq!(code, Some(2));
    assert!(errors.contains("not a key such as namespace/name"), "{errors}");
    quit.send(()).unwrap();
    running.await.unwrap().unwrap();
}
