mod answers;
mod checks;
mod diagnostics;
#[cfg(feature = "prometheus")]
mod prometheus;
mod wire;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt;

use super::respond::HealthSite;
use super::*;

/// A site that serves only these checks.
fn site(health: &Health) -> HealthSite {
    let (metrics, diagnostics) = (None, None);
    HealthSite { health: health.clone(), metrics, diagnostics, withholds_reasons: false, is_local: true }
}

/// Sends a request as a local program does.
async fn get(site: &HealthSite, path: &str) -> (StatusCode, String) {
    let mut headers = HeaderMap::new();
    headers.insert(header::HOST, HeaderValue::from_static("localhost:8081"));
    let answer = site.respond(&Method::GET, &path.parse().unwrap(), &headers).await;
    let code = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

/// Two liveness checks, of which the second fails.
fn half_well() -> Health {
    let health = Health::new();
    health.live().add(Check::new("good", || Ok(()))).unwrap();
    health.live().add(Check::new("poor", || Err("it broke\nin two".into()))).unwrap();
    health
}
