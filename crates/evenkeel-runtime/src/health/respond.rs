//! Responses to requests: everything but the sockets.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, Uri};
use http_body_util::Full;

use super::diagnostics::keep_only;
use super::{CheckResult, Checks, Diagnostics, Health, MetricsSource};
use crate::serve::{self, Connection, FullResponse, has_loopback_host, method_not_allowed, text, with_type};

const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";

/// What a server serves.
pub(super) struct HealthSite {
    pub(super) health: Health,
    pub(super) metrics: Option<Box<dyn MetricsSource>>,
    pub(super) diagnostics: Option<Diagnostics>,
    /// Whether the reasons of failed checks are only logged.
    pub(super) withholds_reasons: bool,
    /// Whether the server listens on a loopback address.
    pub(super) is_local: bool,
}

impl HealthSite {
    pub(super) async fn respond(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> FullResponse {
        let (path, rest) = split(uri.path());
        if !matches!((path, rest), ("healthz" | "livez" | "readyz" | "debug", _) | ("metrics", "")) {
            return text(StatusCode::NOT_FOUND, "there is /healthz, /livez, /readyz, /metrics and /debug\n");
        }
        if method != Method::GET && method != Method::HEAD {
            return method_not_allowed();
        }
        match path {
            "readyz" => self.check(path, self.health.ready(), rest, uri.query()).await,
            "metrics" => self.metrics(),
            "debug" => self.debug(rest, uri.query(), headers),
            _ => self.check(path, self.health.live(), rest, uri.query()).await,
        }
    }

    async fn check(&self, path: &str, checks: &Checks, name: &str, query: Option<&str>) -> FullResponse {
        if name.is_empty() {
            let (passed, report) = self.aggregate(path, checks, query.unwrap_or_default()).await;
            return text(if passed { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR }, report);
        }
        match checks.run_one(name).await {
            None => text(StatusCode::NOT_FOUND, "there is no check of that name\n"),
            Some(CheckResult { failure: None, .. }) => text(StatusCode::OK, "ok"),
            Some(CheckResult { failure: Some(reason), .. }) => {
                self.log(path, name, &reason);
                let reason = if self.withholds_reasons { "reason withheld" } else { &reason };
                text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {reason}\n"))
            }
        }
    }

    async fn aggregate(&self, path: &str, checks: &Checks, query: &str) -> (bool, String) {
        let (mut verbose, mut excluded) = (false, BTreeSet::new());
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "verbose" => verbose = true,
                "exclude" => _ = excluded.insert(value.into_owned()),
                _ => {}
            }
        }
        let verdicts = checks.run_all(&excluded).await;
        let passed = verdicts.iter().all(|verdict| verdict.failure.is_none());
        let mut report = String::new();
        for CheckResult { name, failure } in &verdicts {
            // Writing to a `String` cannot fail.
            let _ = match failure {
                None => writeln!(report, "[+]{name} ok"),
                Some(reason) => {
                    self.log(path, name, reason);
                    let reason = if self.withholds_reasons { "reason withheld" } else { reason };
                    writeln!(report, "[-]{name} failed: {reason}")
                }
            };
        }
        let (known, unknown): (Vec<_>, Vec<_>) = excluded.iter().partition(|name| checks.has(name));
        for name in known {
            let _ = writeln!(report, "[+]{name} excluded: ok");
        }
        if !unknown.is_empty() {
            let _ = writeln!(report, "warn: some health checks cannot be excluded: no matches for {unknown:?}");
            tracing::debug!(path = path, ?unknown, "unknown checks excluded");
        }
        let _ = writeln!(report, "{path} check {}", if passed { "passed" } else { "failed" });
        if passed && !verbose { (true, "ok".to_owned()) } else { (passed, report) }
    }

    fn log(&self, path: &str, check: &str, reason: &str) {
        tracing::info!(path = path, check, reason, "health check failed");
    }

    fn metrics(&self) -> FullResponse {
        match &self.metrics {
            Some(metrics) => match catch_unwind(AssertUnwindSafe(|| metrics.render())) {
                Ok(rendered) => with_type(StatusCode::OK, PROMETHEUS, rendered),
                Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "the metrics source panicked\n"),
            },
            None => text(StatusCode::NOT_FOUND, "metrics are not served here: no metrics source is configured\n"),
        }
    }

    fn debug(&self, section: &str, query: Option<&str>, headers: &HeaderMap) -> FullResponse {
        let Some(diagnostics) = &self.diagnostics else {
            return text(StatusCode::NOT_FOUND, "diagnostics are off: none are configured\n");
        };
        if self.is_local && !has_loopback_host(headers) {
            return text(
                StatusCode::FORBIDDEN,
                "diagnostics are for localhost: the Host header names another machine\n",
            );
        }
        let found = if section.is_empty() { Some(diagnostics.report()) } else { diagnostics.section(section) };
        match found {
            Some(mut report) => {
                let asked = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
                let keys: Vec<_> = asked.filter(|(name, _)| name == "key").map(|(_, key)| key).collect();
                if !keys.is_empty() {
                    keep_only(&mut report, &keys);
                }
                with_type(StatusCode::OK, JSON, format!("{report:#}\n"))
            }
            None => text(StatusCode::NOT_FOUND, "there is no such section\n"),
        }
    }
}

/// Returns the first segment of a path, and the others.
fn split(path: &str) -> (&str, &str) {
    let path = path.trim_start_matches('/');
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    (first, rest.trim_end_matches('/'))
}

impl serve::Site for HealthSite {
    type Body = Full<Bytes>;

    /// A kubelet has no token.
    fn is_open(&self, path: &str) -> bool {
        matches!(split(path).0, "healthz" | "livez" | "readyz")
    }

    async fn respond(&self, request: http::request::Parts, _: Connection) -> Response<Full<Bytes>> {
        HealthSite::respond(self, &request.method, &request.uri, &request.headers).await
    }

    fn has_upkeep(&self) -> bool {
        self.metrics.is_some()
    }

    fn upkeep(&self) {
        if let Some(metrics) = &self.metrics {
            // User code. If it panics, health is still served.
            if catch_unwind(AssertUnwindSafe(|| metrics.upkeep())).is_err() {
                tracing::error!("upkeep of a metrics source panicked");
            }
        }
    }
}
