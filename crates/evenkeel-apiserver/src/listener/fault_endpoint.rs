//! `/evenkeel/faults`: faults over HTTP, for programs that cannot hold a [`Faults`] handle (FLT-1, SEC-62).
//!
//! | request | does |
//! |---|---|
//! | `GET /evenkeel/faults` | lists the rules and counts |
//! | `POST /evenkeel/faults` | adds the rules in the body, one specification per line |
//! | `DELETE /evenkeel/faults` | removes all rules |
//! | `DELETE /evenkeel/faults/{id}` | removes one |

use evenkeel_core::{Reason, Status};
use http::{HeaderMap, Method, StatusCode, header};
use serde_json::json;

use super::auth::{Tokens, bearer};
use crate::faults::{Faults, Rule, RuleId};
use crate::http_types::{Body, User};
use crate::negotiate::status_response;

/// The root path of the fault endpoint.
const ROOT: &str = "/evenkeel/faults";
/// The limit of rules per request.
const MAX_RULES: usize = 1000;

/// The fault endpoint, protected by its own token.
#[derive(Debug)]
pub(crate) struct FaultEndpoint(Tokens);

impl FaultEndpoint {
    pub(crate) fn new(token: &str) -> Self {
        let mut tokens = Tokens::default();
        tokens.add(token, User::default());
        FaultEndpoint(tokens)
    }

    /// Returns whether this path belongs to the fault endpoint.
    pub(crate) fn owns(path: &str) -> bool {
        path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Checks the endpoint's own token: users of the API have no access.
    pub(crate) fn admits(&self, headers: &HeaderMap) -> Result<(), Box<Status>> {
        let token = headers.get(header::AUTHORIZATION).and_then(bearer);
        match token.and_then(|token| self.0.find(token)) {
            Some(_) => Ok(()),
            None => Err(Box::new(Status::unauthorized())),
        }
    }

    pub(crate) fn handle(faults: &Faults, method: &Method, path: &str, body: &[u8]) -> http::Response<Body> {
        let rest = path.strip_prefix(ROOT).unwrap_or_default().trim_matches('/');
        let outcome = match (method, rest) {
            (&Method::GET, "") => Ok((StatusCode::OK, report(faults))),
            (&Method::POST, "") => add(faults, body),
            (&Method::DELETE, "") => {
                faults.clear();
                Ok((StatusCode::OK, report(faults)))
            }
            (&Method::DELETE, id) => remove(faults, id),
            _ => Err(Box::new(Status::failure(
                405,
                Reason::METHOD_NOT_ALLOWED,
                format!("{method} is not supported on {path}"),
            ))),
        };
        match outcome {
            Ok((code, json)) => {
                let mut response = http::Response::new(Body::whole(json.to_string()));
                *response.status_mut() = code;
                let json = http::HeaderValue::from_static("application/json");
                response.headers_mut().insert(header::CONTENT_TYPE, json);
                response
            }
            Err(status) => status_response(&status),
        }
    }
}

fn add(faults: &Faults, body: &[u8]) -> Result<(StatusCode, serde_json::Value), Box<Status>> {
    let text = std::str::from_utf8(body).map_err(|_| bad_request("the body is not UTF-8".into()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let present = faults.report().len();
    let mut rules: Vec<Rule> = Vec::new();
    for (index, line) in lines.enumerate() {
        if present + index >= MAX_RULES {
            return Err(bad_request(format!("more than {MAX_RULES} rules")));
        }
        let rule = Faults::parse(line).map_err(|error| bad_request(format!("rule {}: {error}", index + 1)))?;
        rules.push(rule);
    }
    let ids: Vec<u64> = rules.into_iter().map(|rule| faults.add(rule).number()).collect();
    Ok((StatusCode::CREATED, json!({ "ids": ids })))
}

fn bad_request(message: String) -> Box<Status> {
    Box::new(Status::bad_request(message))
}

fn remove(faults: &Faults, id: &str) -> Result<(StatusCode, serde_json::Value), Box<Status>> {
    let removed = id.parse().is_ok_and(|number| faults.remove(RuleId::from_number(number)));
    if !removed {
        return Err(Box::new(Status::not_found("", "faults", id)));
    }
    Ok((StatusCode::OK, report(faults)))
}

fn report(faults: &Faults) -> serde_json::Value {
    let rules: Vec<_> = faults
        .report()
        .into_iter()
        .map(|rule| {
            json!({
                "id": rule.id.number(), "action": rule.action, "matched": rule.matched, "fired": rule.fired,
            })
        })
        .collect();
    json!({ "rules": rules, "counts": faults.counts() })
}
