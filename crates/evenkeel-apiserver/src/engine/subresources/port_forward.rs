//! `pods/X/portforward`: checks the request and upgrades the connection (MSC-7).

use std::sync::Arc;

use evenkeel_base::channels::ServerHandshake;
use evenkeel_core::Status;
use serde_json::{Value, json};

use super::unsupported;
use crate::engine::ApiEngine;
use crate::engine::admission::Operation;
use crate::engine::options::refuse_dry_run;
use crate::engine::request::ResourceRequest;
use crate::engine::request_error::RequestError;
use crate::engine::target::WriteScope;
use crate::exec::port_forward::{self, ForwardedPod, MAX_PORTS};
use crate::exec::port_tunnel::{TUNNEL, run_tunnel};
use crate::http_types::{HandlerOutcome, Upgrade};
use crate::query::Query;

impl ApiEngine {
    /// Serves `pods/X/portforward`.
    pub(super) fn port_forward(
        self: &Arc<Self>,
        request: &ResourceRequest<'_>,
    ) -> Result<HandlerOutcome, RequestError> {
        let target = request.target(WriteScope::Main);
        self.check_opens_session(request)?;
        refuse_dry_run(request.query)?;
        let Some(handler) = self.settings.processes.ports.clone() else { return Err(unsupported(request).into()) };
        let Some(record) = self.store.get(&target.resource.storage, &target.key()) else {
            return Err(target.not_found().into());
        };
        check_running(&record.value(), target.name)?;
        let named: Vec<i64> = request.query.all("ports").filter_map(|port| port.parse().ok()).collect();
        let mut options = json!({"kind": "PodPortForwardOptions", "apiVersion": "v1", "ports": named});
        self.admit_subresource(Operation::Connect, target, "portforward", &mut options, request.http, false)?;
        let handshake = ServerHandshake::accept(&request.http.headers, port_forward::PROTOCOLS)
            .map_err(|refusal| Status::bad_request(refusal.to_string()))?;
        // A tunnel names the port of each stream.
        let ports = (handshake.protocol != TUNNEL).then(|| ports(request.query)).transpose()?;
        let pod = ForwardedPod {
            namespace: target.namespace.unwrap_or_default().to_owned(),
            pod: target.name.to_owned(),
            uid: record.facts.uid.to_string(),
        };
        Ok(HandlerOutcome::Upgrade(Upgrade {
            headers: handshake.headers,
            run: Box::new(move |io| match ports {
                Some(ports) => Box::pin(port_forward::run_channels(pod, ports, handler, io)),
                None => Box::pin(run_tunnel(pod, handler, io)),
            }),
        }))
    }
}

/// Refuses a pod that has ended, as the kubelet does. A pod that has not started is accepted: without a kubelet no pod ever
/// starts.
fn check_running(pod: &Value, name: &str) -> Result<(), Status> {
    match pod.pointer("/status/phase").and_then(Value::as_str) {
        Some(phase @ ("Succeeded" | "Failed")) => {
            Err(Status::bad_request(format!("pod {name} is not running: its phase is {phase}")))
        }
        _ => Ok(()),
    }
}

/// Reads the ports of a request with the channel protocol.
fn ports(query: &Query) -> Result<Vec<u16>, Status> {
    let mut ports = Vec::new();
    for text in query.all("ports").flat_map(|ports| ports.split(',')) {
        let port = text.parse::<u16>().ok().filter(|port| *port > 0);
        ports.push(port.ok_or_else(|| Status::bad_request(format!("unable to parse {text:?} as a port")))?);
    }
    match ports.len() {
        1..=MAX_PORTS => Ok(ports),
        0 => Err(Status::bad_request("query parameter \"ports\" is required")),
        _ => Err(Status::bad_request(format!("query parameter \"ports\" has more than {MAX_PORTS} ports"))),
    }
}
