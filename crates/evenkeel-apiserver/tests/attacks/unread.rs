//! Bodies that are not finished, responses that are not read, and a store that is full.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, Body, User};
use http::Request;
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Map, Value, json};
use tokio::net::TcpStream;
use tower_service::Service;

use crate::api::{Api, TestEnv};
use crate::{CONFIG_MAPS, DEFINITIONS, WIDGETS, config_map, widget, widgets};

const MIB: usize = 1 << 20;

fn open() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Returns the frames of a response.
async fn frames(api: &Api, path: &str, accept: &str) -> Vec<Bytes> {
    let request = Request::builder().uri(path).header("accept", accept).body(Full::new(Bytes::new())).unwrap();
    let response = api.server.service().call(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    let mut frames = Vec::new();
    while let Poll::Ready(Some(frame)) = Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop())) {
        frames.push(frame.unwrap().into_data().unwrap());
    }
    frames
}

fn text(frames: &[Bytes]) -> String {
    String::from_utf8(frames.concat()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn bud_9_every_form_of_a_long_list_is_encoded_in_chunks() {
    let api = Api::start().await;
    for index in 0..60 {
        let mut object = config_map(&format!("m{index:02}"));
        object["data"] = json!({"text": "x\ny: \"z\"".repeat(1_000), "list": "[\"a\",\"b\"]".repeat(100)});
        api.post(CONFIG_MAPS, &object).await.expect(201);
    }
    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let list = frames(&api, CONFIG_MAPS, "application/json").await;
    let table = frames(&api, CONFIG_MAPS, TABLE).await;
    let (list, table): (Value, Value) =
        (serde_json::from_str(&text(&list)).unwrap(), serde_json::from_str(&text(&table)).unwrap());
    assert_eq!(table["rows"].as_array().unwrap().len(), 60);
    assert_eq!(table["rows"][59]["cells"][0], "m59");
    for (path, accept, whole) in [
        (format!("{CONFIG_MAPS}?pretty=true"), "application/json", &list),
        (format!("{CONFIG_MAPS}?pretty=true&includeObject=Object"), TABLE, &Value::Null),
        (CONFIG_MAPS.to_owned(), "application/yaml", &list),
        (CONFIG_MAPS.to_owned(), "application/yaml;as=Table;v=v1;g=meta.k8s.io", &table),
    ] {
        let frames = frames(&api, &path, accept).await;
        assert!(frames.len() > 1 || whole == &table, "{path} {accept}: {}", frames.len());
        assert!(frames.iter().all(|frame| frame.len() < 200_000), "{path} {accept}");
        let text = text(&frames);
        if accept.contains("yaml") {
            assert!(text == serde_saphyr::to_string(whole).unwrap(), "{path} {accept}: other bytes than at once");
        } else {
            let read: Value = serde_json::from_str(&text).unwrap();
            assert!(text.starts_with("{\n  \""), "indented");
            assert!(whole.is_null() || read == *whole, "{path} {accept}");
        }
    }
}

#[tokio::test]
async fn bud_9_a_deep_object_is_indented_in_chunks() {
    let api = Api::start().await;
    api.post(DEFINITIONS, &widgets(open())).await.expect(201);
    // Each number of the innermost list is a line with 200 spaces.
    let mut deep: Value = vec![1; 50_000].into();
    for _ in 0..45 {
        deep = json!([[deep]]);
    }
    api.post(WIDGETS, &widget("deep", json!({"deep": deep}))).await.expect(201);
    for path in [format!("{WIDGETS}/deep?pretty=true"), format!("{WIDGETS}?pretty=true")] {
        let frames = frames(&api, &path, "application/json").await;
        assert!(frames.len() > 50 && frames.iter().all(|frame| frame.len() < 140_000), "{}", frames.len());
        let object: Value = serde_json::from_str(&text(&frames)).unwrap();
        let object = if object["items"].is_null() { &object } else { &object["items"][0] };
        assert_eq!(object["spec"]["deep"], deep);
    }
    // YAML of this object would be large, too, and falls back to JSON, which is YAML.
    let yaml = frames(&api, &format!("{WIDGETS}/deep"), "application/yaml").await.concat();
    assert!(yaml.len() <= 16 * MIB, "{}", yaml.len());
    assert!(serde_json::from_slice::<Value>(&yaml).is_ok() || yaml.starts_with(b"apiVersion"));
}

#[tokio::test]
async fn bud_9_metadata_lists_in_protobuf_hold_a_part_of_their_items() {
    let api = Api::start().await;
    for index in 0..40 {
        let mut object = config_map(&format!("m{index:02}"));
        object["metadata"]["annotations"] = json!({"text": "x".repeat(100_000)});
        api.post(CONFIG_MAPS, &object).await.expect(201);
    }
    let accept = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let frames = frames(&api, CONFIG_MAPS, accept).await;
    assert!(frames.len() > 10, "{}", frames.len());
    let whole = frames.concat();
    // The envelope begins with the length of what follows, so items that were encoded again have their length.
    let names = (0..40).filter(|index| {
        let name = format!("m{index:02}");
        whole.windows(name.len()).any(|window| window == name.as_bytes())
    });
    assert_eq!(names.count(), 40);
    assert_eq!(api.server.memory().encodings, 0, "only whole objects are cached");
}

#[tokio::test]
async fn bud_8_a_full_store_refuses_writes_and_serves_reads_and_deletes() {
    let api = Api::with(ApiServer::builder().env(TestEnv::new()).memory_budget(64 * MIB)).await;
    api.post(DEFINITIONS, &widgets(open())).await.expect(201);
    let large = |name: &str| widget(name, json!({"text": "x".repeat(1_400_000)}));
    let mut stored = 0;
    let refused = loop {
        let response = api.post(WIDGETS, &large(&format!("w{stored}"))).await;
        if response.status != 201 {
            break response;
        }
        stored += 1;
        assert!(stored < 48, "the store has a limit");
    };
    assert_eq!(refused.refusal(500, ""), "etcdserver: mvcc: database space exceeded");
    assert!(stored > 20, "{stored}");
    let stats = api.server.memory();
    assert!(stats.used() <= 48 * MIB && stats.objects > 20 * MIB, "{stats:?}");
    assert_eq!((stats.budget, stats.refused_writes), (64 * MIB, 1));

    // Reads, writes that shrink, and deletes succeed.
    assert_eq!(api.get(WIDGETS).await.expect(200)["items"].as_array().unwrap().len(), stored);
    api.patch(&format!("{WIDGETS}/w0"), &json!({"spec": {"text": "small"}})).await.expect(200);
    // The bytes of deleted objects are part of the history, which makes room for itself.
    for index in 1..stored {
        api.delete(&format!("{WIDGETS}/w{index}")).await.expect(200);
    }
    api.post(WIDGETS, &large("again")).await.expect(201);
}

#[tokio::test]
async fn bud_8_compiled_schemas_count() {
    let api = Api::with(ApiServer::builder().env(TestEnv::new()).memory_budget(64 * MIB)).await;
    let properties: Map<String, Value> =
        (0..4_000).map(|index| (format!("f{index}"), json!({"type": "string"}))).collect();
    let definition = |index: usize| {
        let mut definition = widgets(json!({"type": "object", "properties": properties}));
        let plural = format!("widgets{index}");
        definition["metadata"]["name"] = format!("{plural}.example.com").into();
        definition["spec"]["names"] = json!({"plural": plural, "singular": plural, "kind": format!("W{index}"), "listKind": format!("W{index}List")});
        definition
    };
    let mut served = 0;
    let refused = loop {
        let response = api.post(DEFINITIONS, &definition(served)).await;
        if response.status != 201 {
            break response;
        }
        served += 1;
        assert!(served < 6, "a definition of 100 KB takes 10 MB");
    };
    assert_eq!(refused.refusal(500, ""), "etcdserver: mvcc: database space exceeded");
    let stats = api.server.memory();
    assert!(served > 1 && stats.definitions > 20 * MIB && stats.used() <= 48 * MIB, "{served} {stats:?}");
    for index in 0..served {
        api.delete(&format!("{DEFINITIONS}/widgets{index}.example.com")).await.expect(200);
    }
    assert_eq!(api.server.memory().definitions, 0);
    api.post(DEFINITIONS, &definition(0)).await.expect(201);
}

/// A body that has sent its first frame and never ends.
struct Unfinished(Option<Bytes>);

impl http_body::Body for Unfinished {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.take().map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(Frame::data(bytes)))))
    }
}

#[tokio::test]
async fn bud_10_unfinished_bodies_are_limited_and_leave_room_for_others() {
    // The share of bodies is 8 MiB, of which greedy connections get 6 MiB.
    let joe = User { name: "joe".into(), ..User::default() };
    let builder = ApiServer::builder().tokens([("joes".to_owned(), joe)]).memory_budget(64 * MIB);
    let server = builder.start().await.unwrap();
    let address = server.url().strip_prefix("http://").unwrap().to_owned();
    let stream = TcpStream::connect(&address).await.unwrap();
    let (mut attacker, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = |body: Unfinished| {
        let uri = format!("{}{CONFIG_MAPS}", server.url());
        let request = Request::post(uri).header("authorization", "Bearer joes");
        request.header("content-type", "application/json").body(body).unwrap()
    };
    let mut unfinished: Vec<_> =
        (0..20).map(|_| Box::pin(attacker.send_request(request(Unfinished(Some(vec![b' '; MIB].into())))))).collect();
    // The server refuses some of them while the others are unfinished.
    let refused = std::future::poll_fn(|cx| {
        let ready = unfinished.iter_mut().find_map(|response| match response.as_mut().poll(cx) {
            Poll::Ready(response) => Some(response),
            Poll::Pending => None,
        });
        ready.map_or(Poll::Pending, Poll::Ready)
    });
    let refused = refused.await.unwrap();
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    let stats = server.memory();
    assert!(stats.request_bodies <= 8 * MIB && stats.refused_bodies > 0, "{stats:?}");

    let stream = TcpStream::connect(&address).await.unwrap();
    let (mut polite, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let create = Request::post(CONFIG_MAPS).header("host", &address).header("authorization", "Bearer joes");
    let create = create.header("content-type", "application/json");
    let create = create.body(Full::new(Bytes::from(config_map("polite").to_string()))).unwrap();
    let created = polite.send_request(create).await.unwrap();
    assert_eq!(created.status(), 201);
    created.into_body().collect().await.unwrap();

    // What is in flight ends with its connection.
    drop((unfinished, attacker));
    while server.memory().request_bodies > 0 {
        tokio::task::yield_now().await;
    }
}

/// Anything that a client leaves unread stays readable: the frames of the two lists are independent.
#[tokio::test]
async fn bud_9_an_unread_list_shows_the_objects_of_its_request() {
    let api = Api::start().await;
    for index in 0..30 {
        let mut object = config_map(&format!("m{index:02}"));
        object["data"] = json!({"text": "x".repeat(10_000)});
        api.post(CONFIG_MAPS, &object).await.expect(201);
    }
    let request = Request::builder().uri(format!("{CONFIG_MAPS}?pretty=true")).body(Full::new(Bytes::new())).unwrap();
    let unread: Body = api.server.service().call(request).await.unwrap().into_body();
    api.delete(CONFIG_MAPS).await.expect(200);
    let bytes = unread.collect().await.unwrap().to_bytes();
    let list: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 30);
}
