//! evenkeel's informer, in this process. It connects to the server over HTTP like any client.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_cache::informer::{ReflectorError, ReflectorFailure};
use evenkeel_cache::source::ApiSource;
use evenkeel_cache::{
    Deleted, Event, Filter, Handler, HandlerOptions, Index, InformerOptions, Obj, Registration, RunningInformers,
    SharedInformer,
};
use evenkeel_client::{Client as HttpClient, Config, Unstructured};
use evenkeel_core::{LabelSelector, ResourceInfo};
use serde_json::{Value, json};

use crate::Failure;
use crate::command::{self, Call, Command, Notification, ObjectState, Options, Response};
use crate::journal::Journal;
use crate::player::{Client, Informer};
use crate::scenario_server::VALUE;

/// The annotation in which the transform counts its calls.
const TRANSFORMED: &str = "conformance/transformed";

/// evenkeel, in this process.
#[derive(Clone, Copy)]
pub(crate) struct InProcess;

impl Client for InProcess {
    type Informer = EvenkeelInformer;

    const NAME: &str = "evenkeel";

    fn informer(&self, _scenario: &str) -> EvenkeelInformer {
        EvenkeelInformer::default()
    }
}

/// One informer with its handlers.
#[derive(Default)]
pub(crate) struct EvenkeelInformer {
    journal: Arc<Journal>,
    shared: Option<SharedInformer<Unstructured>>,
    running: RunningInformers,
    handlers: HashMap<String, (Registration, Arc<Gate>)>,
}

impl Informer for EvenkeelInformer {
    async fn execute(&mut self, command: Command) -> Result<Result<Response, String>, Failure> {
        if let Command::New { options } = command {
            self.shared = Some(build(&options, &self.journal)?);
            return Ok(Ok(Response::Nothing(())));
        }
        let shared = self.shared.clone().ok_or("there is no informer yet")?;
        Ok(self.obey(&shared, command).await)
    }

    fn journal(&self) -> &Journal {
        &self.journal
    }
}

impl EvenkeelInformer {
    async fn obey(&mut self, shared: &SharedInformer<Unstructured>, command: Command) -> Result<Response, String> {
        match command {
            Command::New { .. } => return Err("there is an informer already".into()),
            Command::Start => self.running.merge(shared.start()),
            Command::Stop => {
                std::mem::take(&mut self.running).stop().await;
            }
            Command::Close => {
                for (_, gate) in self.handlers.values() {
                    gate.set(false);
                }
                std::mem::take(&mut self.running).stop().await;
            }
            Command::Stopped => return Ok(Response::Yes(shared.is_stopped())),
            Command::Handler(options) => return self.add_handler(shared, options),
            Command::Remove { handler } => self.handler(&handler)?.0.remove(),
            Command::Hold { handler } => self.handler(&handler)?.1.set(true),
            Command::Release { handler } => self.handler(&handler)?.1.set(false),
            Command::Synced { handler } if handler.is_empty() => return Ok(Response::Yes(shared.has_synced())),
            Command::Synced { handler } => return Ok(Response::Yes(self.handler(&handler)?.0.has_synced())),
            Command::Index { index, label } => {
                let values = move |object: &Obj<Unstructured>| object.label(&label).map(str::to_owned);
                shared.add_indexes([Index::by_object(&index, values)]).map_err(|error| error.to_string())?;
            }
            Command::List => return Ok(describe_all(&shared.indexer().list())),
            Command::Get { key } => return Ok(describe_all(shared.indexer().get(key).as_slice())),
            Command::ByIndex { index, value } => {
                let found = shared.indexer().by_index(&index, &value).map_err(|error| error.to_string())?;
                return Ok(describe_all(&found));
            }
            Command::IndexKeys { index, value } => {
                let found = shared.indexer().index_keys(&index, &value).map_err(|error| error.to_string())?;
                return Ok(Response::Texts(found.iter().map(|key| key.as_str().to_owned()).collect()));
            }
            Command::IndexValues { index } => {
                let mut values = shared.indexer().index_values(&index);
                values.sort();
                return Ok(Response::Texts(values));
            }
            Command::StoreVersion => {
                return Ok(Response::Text(shared.indexer().resource_version().as_str().to_owned()));
            }
        }
        Ok(Response::Nothing(()))
    }

    fn handler(&self, name: &str) -> Result<&(Registration, Arc<Gate>), String> {
        self.handlers.get(name).ok_or_else(|| format!("there is no handler {name:?}"))
    }

    fn add_handler(
        &mut self,
        shared: &SharedInformer<Unstructured>,
        options: command::HandlerOptions,
    ) -> Result<Response, String> {
        let gate = Arc::new(Gate::default());
        let recorder = RecordingHandler {
            name: options.handler.clone(),
            panic_on: options.panic_on,
            journal: Arc::clone(&self.journal),
            gate: Arc::clone(&gate),
        };
        // A blocked handler blocks its thread.
        let mut how = HandlerOptions::new().may_block();
        if let Some(milliseconds) = options.resync_ms {
            how = how.resync(Duration::from_millis(milliseconds));
        }
        let added = if options.filter.is_empty() {
            shared.add_handler(recorder.with(how))
        } else {
            let selector = LabelSelector::parse(&options.filter).map_err(|error| error.to_string())?;
            let accepts = move |object: &Obj<Unstructured>| selector.matches(|label| object.label(label));
            shared.add_handler(Filter::new(accepts, recorder).with(how))
        };
        let registration = added.map_err(|error| error.to_string())?;
        self.handlers.insert(options.handler, (registration, gate));
        Ok(Response::Nothing(()))
    }
}

fn build(options: &Options, journal: &Arc<Journal>) -> Result<SharedInformer<Unstructured>, Failure> {
    let plural = if options.kind == "Pod" { "pods" } else { "configmaps" };
    let info = Arc::new(ResourceInfo::new("", "v1", &options.kind, plural, true));
    let client = HttpClient::new(Config::new(options.server.parse()?))?;
    let mut api = client.dynamic(&info);
    if !options.namespace.is_empty() {
        api = api.namespace(&options.namespace);
    }
    let source = ApiSource::new(api).labels(&options.labels).fields(&options.fields);
    let errors = Arc::clone(journal);
    let mut informer = InformerOptions::<Unstructured>::new()
        .resync(Duration::from_millis(options.resync_ms))
        .watch_list(options.watch_list)
        .on_error(move |failure: &ReflectorFailure| {
            errors
                .push(Notification { handler: "errors".into(), call: Call::Error { reason: reason(&failure.error) } });
        });
    informer = match options.transform.as_str() {
        "" => informer,
        "count" => informer.transform(count),
        other => match other.strip_prefix("fail:") {
            Some(name) => {
                let name = name.to_owned();
                informer.transform(move |object: Obj<Unstructured>| {
                    if object.key().name() == name { Err("the transform fails for this object") } else { Ok(object) }
                })
            }
            None => return Err(format!("unknown transform {other:?}").into()),
        },
    };
    Ok(SharedInformer::new(source, &info, informer))
}

/// Counts the calls of the transform in an annotation.
fn count(object: Obj<Unstructured>) -> Result<Obj<Unstructured>, Failure> {
    let mut value: Value = serde_json::from_slice(&object.json()?)?;
    let seen = object.annotation(TRANSFORMED)?.unwrap_or_default();
    value["metadata"]["annotations"][TRANSFORMED] = json!(format!("{seen}x"));
    Ok(Obj::from_json(object.resource(), serde_json::to_vec(&value)?)?)
}

/// Returns the reason of the server's status, if the error has one.
fn reason(error: &ReflectorError) -> String {
    let source = match error {
        ReflectorError::List(source) | ReflectorError::Watch(source) | ReflectorError::Stream(source) => {
            source.status()
        }
        _ => None,
    };
    let reason = source.map(|status| status.reason.to_string()).unwrap_or_default();
    if reason.is_empty() { "other".into() } else { reason }
}

/// A handler that records every notification.
struct RecordingHandler {
    name: String,
    panic_on: String,
    journal: Arc<Journal>,
    gate: Arc<Gate>,
}

impl Handler<Unstructured> for RecordingHandler {
    fn handle(&mut self, event: Event<Unstructured>) {
        let key = event.key().as_str().to_owned();
        let call = match &event {
            Event::Add { object, initial } => Call::Add { initial: *initial, new: describe(object) },
            Event::Update { old, new } => Call::Update { old: describe(old), new: describe(new) },
            Event::Delete(deleted) => Call::Delete {
                key: key.clone(),
                unknown: matches!(deleted, Deleted::Missed { .. }),
                old: deleted.object().map(describe),
            },
        };
        self.journal.push(Notification { handler: self.name.clone(), call });
        self.gate.wait();
        if key == self.panic_on {
            // A panic without a message on the terminal.
            std::panic::resume_unwind(Box::new("requested by the scenario"));
        }
    }
}

/// Blocks callers while it is closed.
#[derive(Debug, Default)]
struct Gate {
    shut: Mutex<bool>,
    moved: Condvar,
}

impl Gate {
    fn set(&self, shut: bool) {
        *self.lock() = shut;
        self.moved.notify_all();
    }

    fn wait(&self) {
        let opened = self.moved.wait_while(self.lock(), |shut| *shut);
        drop(opened.unwrap_or_else(PoisonError::into_inner));
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.shut.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn describe(object: &Obj<Unstructured>) -> ObjectState {
    let annotation = |name: &str| object.annotation(name).ok().flatten().unwrap_or_default().into_owned();
    ObjectState {
        key: object.key().as_str().to_owned(),
        uid: object.uid().to_owned(),
        version: object.resource_version().to_owned(),
        value: annotation(VALUE),
        transformed: annotation(TRANSFORMED),
    }
}

fn describe_all(objects: &[Obj<Unstructured>]) -> Response {
    let mut found: Vec<ObjectState> = objects.iter().map(describe).collect();
    found.sort_by(|one, other| one.key.cmp(&other.key));
    Response::Objects(found)
}
