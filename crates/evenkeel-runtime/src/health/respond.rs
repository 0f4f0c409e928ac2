//! What is answered to a request: everything but the sockets.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, Uri};
use http_body_util::Full;

use super::diagnostics::keep_only;
use super::{Checks, Diagnostics, Health, MetricsSource, Verdict};
use crate::serve::{self, Answer, Line, asks_for_this_machine, only_readable, text, with_type};

const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";

/// What a server has to tell.
pub(super) struct Site {
    pub(super) health: Health,
    pub(super) metrics: Option<Box<dyn MetricsSource>>,
    pub(super) diagnostics: Option<Diagnostics>,
    /// Whether the reasons of checks stay in the log.
    pub(super) withholds_reasons: bool,
    /// Whether only programs on this machine can ask.
    pub(super) is_local: bool,
}

impl Site {
    pub(super) async fn respond(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Answer {
        let mut parts = uri.path().trim_start_matches('/').splitn(2, '/');
        let place = parts.next().unwrap_or_default();
        let rest = parts.next().unwrap_or_default().trim_end_matches('/');
        if !matches!((place, rest), ("healthz" | "livez" | "readyz" | "debug", _) | ("metrics", "")) {
            return text(StatusCode::NOT_FOUND, "there is /healthz, /livez, /readyz, /metrics and /debug\n");
        }
        if method != Method::GET && method != Method::HEAD {
            return only_readable();
        }
        match place {
            "readyz" => self.check(place, self.health.ready(), rest, uri.query()).await,
            "metrics" => self.metrics(),
            "debug" => self.debug(rest, uri.query(), headers),
            _ => self.check(place, self.health.live(), rest, uri.query()).await,
        }
    }

    async fn check(&self, place: &str, checks: &Checks, name: &str, query: Option<&str>) -> Answer {
        if name.is_empty() {
            let (passed, told) = self.aggregate(place, checks, query.unwrap_or_default()).await;
            return text(if passed { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR }, told);
        }
        match checks.ask(name).await {
            None => text(StatusCode::NOT_FOUND, "there is no check of that name\n"),
            Some(Verdict { failure: None, .. }) => text(StatusCode::OK, "ok"),
            Some(Verdict { failure: Some(reason), .. }) => {
                self.log(place, name, &reason);
                let reason = if self.withholds_reasons { "reason withheld" } else { &reason };
                text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {reason}\n"))
            }
        }
    }

    async fn aggregate(&self, place: &str, checks: &Checks, query: &str) -> (bool, String) {
        let (mut verbose, mut excluded) = (false, BTreeSet::new());
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "verbose" => verbose = true,
                "exclude" => _ = excluded.insert(value.into_owned()),
                _ => {}
            }
        }
        let verdicts = checks.ask_all(&excluded).await;
        let passed = verdicts.iter().all(|verdict| verdict.failure.is_none());
        let mut told = String::new();
        for Verdict { name, failure } in &verdicts {
            // Writing to a text cannot fail.
            let _ = match failure {
                None => writeln!(told, "[+]{name} ok"),
                Some(reason) => {
                    self.log(place, name, reason);
                    let reason = if self.withholds_reasons { "reason withheld" } else { reason };
                    writeln!(told, "[-]{name} failed: {reason}")
                }
            };
        }
        let (known, unknown): (Vec<_>, Vec<_>) = excluded.iter().partition(|name| checks.has(name));
        for name in known {
            let _ = writeln!(told, "[+]{name} excluded: ok");
        }
        if !unknown.is_empty() {
            let _ = writeln!(told, "warn: some health checks cannot be excluded: no matches for {unknown:?}");
            tracing::debug!(path = place, ?unknown, "unknown checks excluded");
        }
        let _ = writeln!(told, "{place} check {}", if passed { "passed" } else { "failed" });
        if passed && !verbose { (true, "ok".to_owned()) } else { (passed, told) }
    }

    fn log(&self, place: &str, check: &str, reason: &str) {
        tracing::info!(path = place, check, reason, "health check failed");
    }

    fn metrics(&self) -> Answer {
        match &self.metrics {
            Some(metrics) => match catch_unwind(AssertUnwindSafe(|| metrics.render())) {
                Ok(rendered) => with_type(StatusCode::OK, PROMETHEUS, rendered),
                Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "the source of metrics has panicked\n"),
            },
            None => {
                text(StatusCode::NOT_FOUND, "metrics are not served here: the server was given no source of metrics\n")
            }
        }
    }

    fn debug(&self, section: &str, query: Option<&str>, headers: &HeaderMap) -> Answer {
        let Some(diagnostics) = &self.diagnostics else {
            return text(StatusCode::NOT_FOUND, "diagnostics are off: the server was given none\n");
        };
        if self.is_local && !asks_for_this_machine(headers) {
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

impl serve::Site for Site {
    type Body = Full<Bytes>;

    async fn respond(&self, request: http::request::Parts, _: Line) -> Response<Full<Bytes>> {
        Site::respond(self, &request.method, &request.uri, &request.headers).await
    }

    fn has_upkeep(&self) -> bool {
        self.metrics.is_some()
    }

    fn upkeep(&self) {
        if let Some(metrics) = &self.metrics {
            // It is not ours. If it fails, those who ask about health are still answered.
            if catch_unwind(AssertUnwindSafe(|| metrics.upkeep())).is_err() {
                tracing::error!("upkeep of a metrics source panicked");
            }
        }
    }
}
