//! Usage of quotas under random and concurrent writes, compared with a recount.

use serde_json::{Value, json};

use super::{builder, config_map, container, pod, set_status};
use crate::PODS;
use crate::api::{Api, Handle};

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Random numbers of a seed (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn quota() -> Value {
    let hard = json!({"pods": "6", "count/pods": "10", "requests.cpu": "2", "count/configmaps": "12"});
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}})
}

fn using(name: &str, milli: u64) -> Value {
    let requests = json!({"requests": {"cpu": format!("{milli}m")}});
    pod(name, json!({"containers": [container("a", requests)]}))
}

fn milli(quantity: &Value) -> u64 {
    let text = quantity.as_str().unwrap();
    match text.strip_suffix('m') {
        Some(milli) => milli.parse().unwrap(),
        None => text.parse::<u64>().unwrap() * 1000,
    }
}

/// Counts all objects anew.
async fn recount(api: &Api) -> [u64; 4] {
    let pods = api.get(PODS).await.expect(200);
    let pods = pods["items"].as_array().unwrap();
    let running: Vec<&Value> = pods.iter().filter(|pod| pod["status"]["phase"] != "Succeeded").collect();
    let cpu = running.iter().map(|pod| milli(&pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])).sum();
    let maps = api.get(CONFIG_MAPS).await.expect(200)["items"].as_array().unwrap().len();
    [running.len() as u64, pods.len() as u64, cpu, maps as u64]
}

fn of_status(quota: &Value) -> [u64; 4] {
    let used = &quota["status"]["used"];
    let count = |name: &str| milli(&used[name]) / 1000;
    [count("pods"), count("count/pods"), milli(&used["requests.cpu"]), count("count/configmaps")]
}

#[tokio::test]
async fn adm_017_usage_equals_a_recount_after_every_random_write() {
    for seed in 1..=8_u64 {
        let mut numbers = Numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let api = Api::with(builder()).await;
        api.post(QUOTAS, &quota()).await.expect(201);
        for step in 0..60 {
            let name = format!("o{}", numbers.below(8));
            let one = format!("{PODS}/{name}");
            match numbers.below(6) {
                0 | 1 => api.post(PODS, &using(&name, 100 * numbers.below(8))).await.status,
                2 => api.delete(&one).await.status,
                3 if api.get(&one).await.status == 200 => {
                    set_status(&api, &one, json!({"phase": "Succeeded"})).await;
                    200
                }
                4 => api.delete(&format!("{CONFIG_MAPS}/{name}")).await.status,
                _ => api.post(CONFIG_MAPS, &config_map(&name)).await.status,
            };
            let status = api.get(&format!("{QUOTAS}/q")).await.expect(200);
            assert_eq!(of_status(&status), recount(&api).await, "seed {seed}, step {step}");
        }
    }
}

/// Creates and deletes pods of its own.
async fn churn(handle: Handle, task: u64) {
    let mut numbers = Numbers((task + 1).wrapping_mul(0x2545_F491_4F6C_DD1D));
    for _ in 0..40 {
        let name = format!("t{task}-{}", numbers.below(4));
        if numbers.below(3) > 0 {
            let body = using(&name, 100 * numbers.below(6)).to_string();
            let status = handle.send("POST", PODS, &[], body).await.status;
            assert!([201, 403, 409].contains(&status), "{status}");
        } else {
            handle.send("DELETE", &format!("{PODS}/{name}"), &[], "").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn adm_017_concurrent_writes_never_exceed_a_quota() {
    let api = Api::with(builder()).await;
    api.post(QUOTAS, &quota()).await.expect(201);
    let hard = of_status(&json!({"status": {"used": quota()["spec"]["hard"]}}));
    let mut watch = api.watch(QUOTAS).await;
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..6 {
        tasks.spawn(churn(api.handle(), task));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    for event in watch.events() {
        let used = of_status(&event["object"]);
        assert!(used.iter().zip(hard).all(|(used, hard)| *used <= hard), "{used:?}");
    }
    let status = api.get(&format!("{QUOTAS}/q")).await.expect(200);
    assert_eq!(of_status(&status), recount(&api).await);
}
