//! `pods/X/exec` and `pods/X/attach`: checks the request and upgrades the connection (MSC-6).

use std::sync::Arc;

use evenkeel_base::channels::{ChannelProtocol, ServerHandshake};
use evenkeel_core::Status;
use serde_json::{Value, json};

use super::log::container;
use super::unsupported;
use crate::engine::ApiEngine;
use crate::engine::admission::Operation;
use crate::engine::options::refuse_dry_run;
use crate::engine::request::ResourceRequest;
use crate::engine::request_error::RequestError;
use crate::engine::target::WriteScope;
use crate::exec::ProcessHandler;
use crate::exec::session::{self, ProcessRequest};
use crate::http_types::{HandlerOutcome, Upgrade};

impl ApiEngine {
    /// Serves `pods/X/exec`.
    pub(super) fn exec(self: &Arc<Self>, request: &ResourceRequest<'_>) -> Result<HandlerOutcome, RequestError> {
        let command: Vec<String> = request.query.all("command").map(str::to_owned).collect();
        self.open_process(request, "exec", self.settings.processes.exec.as_ref(), command)
    }

    /// Serves `pods/X/attach`.
    pub(super) fn attach(self: &Arc<Self>, request: &ResourceRequest<'_>) -> Result<HandlerOutcome, RequestError> {
        self.open_process(request, "attach", self.settings.processes.attach.as_ref(), Vec::new())
    }

    fn open_process(
        &self,
        request: &ResourceRequest<'_>,
        subresource: &str,
        handler: Option<&Arc<dyn ProcessHandler>>,
        command: Vec<String>,
    ) -> Result<HandlerOutcome, RequestError> {
        let (target, query) = (request.target(WriteScope::Main), request.query);
        self.check_opens_session(request)?;
        refuse_dry_run(query)?;
        let Some(handler) = handler.cloned() else { return Err(unsupported(request).into()) };
        let Some(record) = self.store.get(&target.resource.storage, &target.key()) else {
            return Err(target.not_found().into());
        };
        let container = container(&record.value(), target.name, query.non_empty("container"))?;
        let flag = |name| Ok::<_, Status>(query.bool(name)?.unwrap_or_default());
        let (stdin, stdout, stderr, tty) = (flag("stdin")?, flag("stdout")?, flag("stderr")?, flag("tty")?);
        if !stdin && !stdout && !stderr {
            return Err(Status::bad_request("you must specify at least 1 of stdin, stdout, stderr").into());
        }
        let kind = if subresource == "exec" { "PodExecOptions" } else { "PodAttachOptions" };
        let mut options = json!({"kind": kind, "apiVersion": "v1", "container": container});
        for (key, set) in [("stdin", stdin), ("stdout", stdout), ("stderr", stderr), ("tty", tty)] {
            if set {
                options[key] = true.into();
            }
        }
        if !command.is_empty() {
            options["command"] = json!(command);
        }
        self.admit_subresource(Operation::Connect, target, subresource, &mut options, request.http, false)?;
        // A policy may have changed the options.
        let set = |name: &str| options.get(name).and_then(Value::as_bool).unwrap_or_default();
        let (stdin, stdout, stderr, tty) = (set("stdin"), set("stdout"), set("stderr"), set("tty"));
        let container = options.get("container").and_then(Value::as_str).unwrap_or_default().to_owned();
        let command = options.get("command").and_then(Value::as_array).into_iter().flatten();
        let command = command.filter_map(Value::as_str).map(str::to_owned).collect();
        let handshake = ServerHandshake::accept(&request.http.headers, &ChannelProtocol::NAMES)
            .map_err(|refusal| Status::bad_request(refusal.to_string()))?;
        let process = ProcessRequest {
            namespace: target.namespace.unwrap_or_default().to_owned(),
            pod: target.name.to_owned(),
            container,
            command,
            stdin,
            stdout,
            stderr,
            tty,
            protocol: ChannelProtocol::from_name(handshake.protocol).unwrap_or(ChannelProtocol::V4),
        };
        Ok(HandlerOutcome::Upgrade(Upgrade {
            headers: handshake.headers,
            run: Box::new(move |io| Box::pin(session::run(process, handler, io))),
        }))
    }
}
