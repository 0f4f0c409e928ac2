//! A program with credentials, which it shows nowhere (INV-20).

use std::error::Error as StdError;
use std::time::Duration;

use evenkeel::client::auth::{ExecPlugin, OidcProvider};
use evenkeel::client::config::{Auth, Identity, Kubeconfig, Pem, PrivateKey, Proxy, ProxyUrl, ServerUrl};
use evenkeel::client::transport::Body;
use evenkeel::client::{Config, Secret};
use evenkeel_sim::{Process, Scenario};
use http::Request;
use http::header::AUTHORIZATION;
use serde_json::json;

use super::Outcome;
use super::request_observer::{RequestObserver, observed};

/// The text that is in every credential.
const CANARY: &str = "canary-d2f6a7";
const USER: &str = "program";
/// User and canary, as they are sent.
const ENCODED: &str = "cHJvZ3JhbTpjYW5hcnktZDJmNmE3";

/// Checks that the credentials are those that requests are sent with: otherwise there would be nothing to leak.
struct Authorized {
    process: Process,
    header: String,
}

impl RequestObserver for Authorized {
    fn sent(&self, request: &Request<Body>) -> String {
        if request.headers().get(AUTHORIZATION).is_none_or(|header| header.as_bytes() != self.header.as_bytes()) {
            self.process.fail("requests are authorized", "a request is sent without the credentials");
        }
        String::new()
    }
}

/// Notes what a program would log: a value as `Debug` shows it.
fn log(process: &Process, value: &impl std::fmt::Debug) {
    process.note(format!("logs {value:?}"));
    process.note(format!("logs {value:#?}"));
}

/// Notes an error in every form that it has.
fn log_error(process: &Process, error: &(dyn StdError + 'static)) {
    log(process, &error);
    let mut cause = Some(error);
    while let Some(error) = cause {
        process.note(format!("fails: {error}"));
        cause = error.source();
    }
}

fn secret() -> Secret {
    Secret::new(CANARY)
}

/// Returns configurations whose credentials are not sent here.
fn configurations(server: &ServerUrl) -> Result<Vec<Config>, Box<dyn StdError + Send + Sync>> {
    let mut plugin = ExecPlugin::new("login");
    plugin.args = vec![secret()];
    plugin.env = vec![("TOKEN".to_owned(), secret())];
    let mut provider = OidcProvider::new(server.clone(), USER);
    (provider.client_secret, provider.id_token, provider.refresh_token) =
        (Some(secret()), Some(secret()), Some(secret()));
    let file = Auth::TokenFile { path: "/no/such/token".into(), fallback: Some(secret()) };
    let mut configurations: Vec<Config> = Vec::new();
    for auth in [Auth::exec(plugin), Auth::oidc(provider), file] {
        let mut config = Config::new(server.clone());
        config.auth = auth;
        configurations.push(config);
    }
    let mut config = Config::new(server.clone());
    config.tls.identity = Some(Identity { certificate: Pem::Data(CANARY.to_owned()), key: PrivateKey::Data(secret()) });
    config.proxy = Proxy::Url(ProxyUrl::parse(&format!("http://{USER}:{CANARY}@proxy:3128"))?);
    configurations.push(config);
    Ok(configurations)
}

fn kubeconfig() -> serde_json::Value {
    let user = json!({"token": CANARY, "username": USER, "password": CANARY});
    json!({"apiVersion": "v1", "kind": "Config", "users": [{"name": USER, "user": user}]})
}

/// Logs its configurations, and the errors of its requests.
async fn run(process: Process) -> Outcome {
    let server = process.client().config().server.clone();
    configurations(&server)?.iter().for_each(|config| log(&process, config));
    log(&process, &Kubeconfig::parse(&kubeconfig().to_string())?);
    let broken = Auth::Token(Secret::new(format!("{CANARY}\n")));
    let basic = Auth::Basic { username: USER.to_owned(), password: secret() };
    for (auth, header) in [
        (Auth::Token(secret()), format!("Bearer {CANARY}")),
        (basic, format!("Basic {ENCODED}")),
        (broken, String::new()),
    ] {
        let mut config = Config::new(server.clone());
        config.auth = auth;
        log(&process, &config);
        let authorized = Authorized { process: process.clone(), header };
        let client = match observed(&process, config, authorized) {
            Ok(client) => client,
            Err(error) => {
                log_error(&process, &error);
                continue;
            }
        };
        log(&process, &client);
        let maps = client.core_v1().config_maps("default");
        for number in 0..10 {
            let map = json!({"metadata": {"name": format!("map-{number}")}});
            for result in [maps.create(&serde_json::from_value(map)?).await, maps.get("missing").await] {
                match result {
                    Ok(map) => log(&process, &map),
                    Err(error) => log_error(&process, &error),
                }
            }
        }
    }
    process.shutdown().await;
    Ok(())
}

/// A program that logs whatever it has.
pub fn credentials() -> Scenario {
    Scenario::new("credentials")
        .secret(CANARY)
        .secret(ENCODED)
        .process("program", run)
        .rough_for(Duration::from_secs(30))
        .settle_within(Duration::from_secs(5 * 60))
        .compare_final_state(false)
}
