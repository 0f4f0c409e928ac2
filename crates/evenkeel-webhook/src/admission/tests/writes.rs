//! Hooks that write, and hooks for all writes.

use evenkeel_apiserver::ApiServer;

use super::*;

/// Creates a ConfigMap for every one that is created.
fn copying() -> Hook<crate::Validating<ConfigMap>> {
    Hook::validating::<ConfigMap>().on_create(|map, request| async move {
        let mut copy = ConfigMap::clone(&map);
        copy.metadata.name = Some("copy".to_owned());
        request.client()?.api::<ConfigMap>().namespace("default").create(&copy).await?;
        Ok(())
    })
}

#[tokio::test]
async fn arv_014_writes_of_a_hook_are_dry_runs_in_a_dry_run() {
    let api = ApiServer::builder().in_process_only().start().await.unwrap();
    let client = api.client();
    let maps = client.api::<ConfigMap>().namespace("default");
    let object = map(json!({}));
    for _ in 0..2 {
        let answer = HookTester::new(copying()).client(&client).dry_run().create(&object).await.unwrap();
        assert!(answer.allowed, "{answer:?}");
        assert!(maps.get("copy").await.unwrap_err().is_not_found());
    }
    assert!(HookTester::new(copying()).client(&client).create(&object).await.unwrap().allowed);
    maps.get("copy").await.unwrap();
    // An error of the API server refuses with its status, in a dry run as well.
    let again = HookTester::new(copying()).client(&client).dry_run().create(&object).await.unwrap();
    assert_eq!((again.allowed, again.status.code), (false, 409));
}

#[tokio::test]
async fn arv_014_a_server_without_a_client_is_a_fault_of_the_hook() {
    let fault = HookTester::new(copying()).create(&map(json!({}))).await.unwrap_err();
    let HookTestError::Failed { code: 500, message } = &fault else { panic!("{fault}") };
    assert!(message.contains("WebhookServerBuilder::client"), "{message}");
}

#[tokio::test]
async fn arv_018_one_function_checks_all_writes() {
    let hook = || {
        Hook::validating::<ConfigMap>().on_write(|map, request| async move {
            let is_update = request.old_object::<ConfigMap>()?.is_some();
            match &map.data {
                Some(data) if data.contains_key("bad") => Err(format!("bad, updated: {is_update}").into()),
                _ => Ok(()),
            }
        })
    };
    assert_eq!(hook().handler.operations(), ["CREATE", "UPDATE"]);
    let (good, bad) = (map(json!({})), map(json!({"bad": "x"})));
    let tester = HookTester::new(hook());
    assert!(tester.create(&good).await.unwrap().allowed && tester.update(&bad, &good).await.unwrap().allowed);
    assert_eq!(tester.create(&bad).await.unwrap().status.message, "bad, updated: false");
    assert_eq!(tester.update(&good, &bad).await.unwrap().status.message, "bad, updated: true");
    assert!(tester.delete(&bad).await.unwrap().allowed);
}
