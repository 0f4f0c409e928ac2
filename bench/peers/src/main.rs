//! Compares evenkeel's client with kube-rs, on the same server, in the same run:
//! `cargo run --release --manifest-path bench/peers/Cargo.toml`.
//!
//! The server is a process of its own. Each case is measured in rounds, the two clients taking turns, on a runtime with
//! one thread, so that every allocation of a client's, its connections' included, is counted. Requests per second and
//! processor time per request are medians over the rounds; the spread is that of the rounds' ratios.

use std::future::Future;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use evenkeel_apiserver::ApiServer;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tokio::runtime::Runtime;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Compares evenkeel's client with kube-rs.
#[derive(Debug, Parser)]
struct Options {
    /// Rounds per case and client.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Requests per round of the small cases.
    #[arg(long, default_value_t = 3000)]
    requests: usize,
    /// Pods in the list case.
    #[arg(long, default_value_t = 500)]
    pods: usize,
    /// Run only cases whose name contains this.
    #[arg(long, default_value = "")]
    case: String,
    /// Use only this: tls or http.
    #[arg(long)]
    over: Option<String>,
    /// Use HTTP/1.1 over TLS too, as kube-rs does.
    #[arg(long)]
    http1: bool,
    /// Run as the server: started by the benchmark itself.
    #[arg(long, hide = true)]
    serve: Option<String>,
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match &options.serve {
        Some(kind) => runtime.block_on(serve(kind == "tls", options.pods)),
        None => {
            for kind in
                ["tls", "http"].into_iter().filter(|kind| options.over.as_deref().is_none_or(|over| over == *kind))
            {
                compare(&runtime, kind, &options)?;
            }
            Ok(())
        }
    }
}

/// The server: prints the path of its kubeconfig, then waits until its input ends.
async fn serve(tls: bool, pods: usize) -> Result<(), Failure> {
    let builder = ApiServer::builder();
    let server = if tls { builder.tls() } else { builder }.start().await?;
    let client = server.client().api::<Pod>().namespace("default");
    for number in 0..pods {
        client.create(&pod(number)).await?;
    }
    let path = std::env::temp_dir().join(format!("evenkeel-bench-{}.yaml", std::process::id()));
    server.write_kubeconfig(&path)?;
    println!("{}", path.display());
    tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await?;
    std::fs::remove_file(path)?;
    Ok(())
}

fn pod(number: usize) -> Pod {
    let labels = json!({"app": format!("web-{}", number / 10), "pod-template-hash": "5d9c8b7f6", "tier": "frontend"});
    let value = json!({
        "metadata": {"name": name(number), "labels": labels},
        "spec": {
            "nodeName": format!("node-{:03}", number % 500),
            "containers": [{
                "name": "web", "image": format!("registry.example.com/team/web:1.{}", number % 40),
                "ports": [{"name": "http", "containerPort": 8080}],
                "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                "volumeMounts": [{"name": "config", "mountPath": "/etc/web"}]
            }],
            "volumes": [{"name": "config", "configMap": {"name": "web"}}]
        }
    });
    serde_json::from_value(value).expect("a pod")
}

fn name(number: usize) -> String {
    format!("web-{number:06}")
}

/// Figures of a round.
#[derive(Clone, Copy)]
struct Round {
    wall: Duration,
    cpu: Duration,
    allocations: u64,
}

struct Case {
    name: &'static str,
    requests: usize,
    ours: Vec<Round>,
    theirs: Vec<Round>,
}

fn compare(runtime: &Runtime, kind: &str, options: &Options) -> Result<(), Failure> {
    let mut server = Command::new(std::env::current_exe()?)
        .args(["--serve", kind, "--pods", &options.pods.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut path = String::new();
    BufReader::new(server.stdout.take().ok_or("no output")?).read_line(&mut path)?;
    let text = std::fs::read_to_string(path.trim())?;

    let mut config = evenkeel_client::Config::from_kubeconfig_str(&text, &Default::default())?;
    if options.http1 {
        config.connections.http = evenkeel_client::config::HttpVersions::Http1Only;
    }
    let ours = evenkeel_client::Client::new(config)?;
    let ours = ours.api::<Pod>().namespace("default");
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&text)?;
    let theirs: kube::Api<Pod> = runtime.block_on(async {
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
        Ok::<_, Failure>(kube::Api::namespaced(kube::Client::try_from(config)?, "default"))
    })?;

    let (requests, pods) = (options.requests, options.pods);
    let mut cases: Vec<Case> = Vec::new();
    for (case, in_flight, count) in [
        ("get, one after the other", 1, requests / 2),
        ("get, 32 in flight", 32, requests),
        ("get and decode, 32 in flight", 32, requests),
        ("create, 32 in flight", 32, requests),
        ("list", 1, 20),
    ] {
        if !case.contains(&options.case) {
            continue;
        }
        let mut rounds = Case { name: case, requests: count, ours: Vec::new(), theirs: Vec::new() };
        for round in 0..options.rounds + 1 {
            let ours = measure(runtime, in_flight, count, |number| {
                let api = ours.clone();
                async move {
                    match case {
                        "list" => drop(api.list(&Default::default()).await?),
                        "create, 32 in flight" => drop(api.create(&fresh("e", round, number)).dry_run().await?),
                        "get and decode, 32 in flight" => drop(api.get(&name(number % pods)).await?.typed()?),
                        _ => drop(api.get(&name(number % pods)).await?),
                    }
                    Ok(())
                }
            })?;
            let theirs = measure(runtime, in_flight, count, |number| {
                let api = theirs.clone();
                async move {
                    match case {
                        "list" => drop(api.list(&Default::default()).await?),
                        "create, 32 in flight" => {
                            let params = kube::api::PostParams { dry_run: true, ..Default::default() };
                            drop(api.create(&params, &fresh("k", round, number)).await?);
                        }
                        _ => drop(api.get(&name(number % pods)).await?),
                    }
                    Ok(())
                }
            })?;
            // The first round opens connections and warms caches.
            if round > 0 {
                rounds.ours.push(ours);
                rounds.theirs.push(theirs);
            }
        }
        cases.push(rounds);
    }
    report(kind, options.http1, &cases);
    drop(server.stdin.take());
    server.wait()?;
    Ok(())
}

fn fresh(prefix: &str, round: usize, number: usize) -> Pod {
    let mut pod = pod(number);
    pod.metadata.name = Some(format!("{prefix}-{round}-{number}"));
    pod
}

/// Makes `count` requests, `in_flight` at a time.
fn measure<F>(runtime: &Runtime, in_flight: usize, count: usize, request: impl Fn(usize) -> F) -> Result<Round, Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    let (start, cpu) = (Instant::now(), cpu_time());
    let mut outcome: Result<(), Failure> = Ok(());
    let info = allocation_counter::measure(|| {
        outcome = runtime.block_on(async {
            let mut flying = FuturesUnordered::new();
            let mut next = 0;
            while next < count || !flying.is_empty() {
                while next < count && flying.len() < in_flight {
                    flying.push(request(next));
                    next += 1;
                }
                flying.next().await.unwrap_or(Ok(()))?;
            }
            Ok(())
        });
    });
    outcome?;
    let cpu = cpu_time().saturating_sub(cpu);
    Ok(Round { wall: start.elapsed(), cpu, allocations: info.count_total })
}

/// Processor time of this process.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn report(kind: &str, http1: bool, cases: &[Case]) {
    let protocol = match (kind, http1) {
        ("tls", false) => "TLS: HTTP/2 and HTTP/1.1",
        ("tls", true) => "TLS: HTTP/1.1 and HTTP/1.1",
        _ => "plain: HTTP/1.1 and HTTP/1.1",
    };
    println!("\n{protocol} (evenkeel and kube-rs; medians, and the ratio's range over the rounds)");
    println!(
        "{:<30} {:>11} {:>11} {:>18} {:>9} {:>9} {:>6} {:>9} {:>9} {:>6}",
        "case", "req/s", "kube-rs", "ratio", "µs cpu", "kube-rs", "ratio", "allocs", "kube-rs", "ratio"
    );
    for case in cases {
        let of = |rounds: &[Round], value: fn(&Round, f64) -> f64| {
            median(rounds.iter().map(|round| value(round, case.requests as f64)).collect())
        };
        let rate: fn(&Round, f64) -> f64 = |round, requests| requests / round.wall.as_secs_f64();
        let cpu: fn(&Round, f64) -> f64 = |round, requests| round.cpu.as_secs_f64() * 1e6 / requests;
        let allocations: fn(&Round, f64) -> f64 = |round, requests| round.allocations as f64 / requests;
        let ratios: Vec<f64> = case
            .ours
            .iter()
            .zip(&case.theirs)
            .map(|(ours, theirs)| theirs.wall.as_secs_f64() / ours.wall.as_secs_f64())
            .collect();
        let (low, high) = ratios.iter().fold((f64::MAX, 0.0), |(low, high), ratio| (ratio.min(low), ratio.max(high)));
        let (ours, theirs) = (&case.ours[..], &case.theirs[..]);
        println!(
            "{:<30} {:>11.0} {:>11.0} {:>5.2} ({:>4.2}–{:>4.2}) {:>9.1} {:>9.1} {:>6.2} {:>9.1} {:>9.1} {:>6.2}",
            case.name,
            of(ours, rate),
            of(theirs, rate),
            median(ratios.clone()),
            low,
            high,
            of(ours, cpu),
            of(theirs, cpu),
            of(theirs, cpu) / of(ours, cpu),
            of(ours, allocations),
            of(theirs, allocations),
            of(theirs, allocations) / of(ours, allocations),
        );
    }
}
