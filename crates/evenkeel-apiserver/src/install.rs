//! Installs CustomResourceDefinitions from values, texts and folders (CRD-18).

use std::path::{Path, PathBuf};

use bytes::Bytes;
use evenkeel_core::Status;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;
use tower_service::Service;

use crate::listener::InProcess;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const KIND: &str = "CustomResourceDefinition";

/// CustomResourceDefinitions as a value or as text.
///
/// A typed definition is `Foo::crd()`. A text is YAML or JSON and may contain several documents. Empty documents and objects of
/// other kinds are skipped.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CrdSource {
    /// One definition.
    Value(Value),
    /// Any number of documents.
    Text(String),
}

impl From<Value> for CrdSource {
    fn from(value: Value) -> Self {
        CrdSource::Value(value)
    }
}

impl From<CustomResourceDefinition> for CrdSource {
    fn from(definition: CustomResourceDefinition) -> Self {
        // Its maps have texts as keys, so it always serialises.
        CrdSource::Value(serde_json::to_value(definition).unwrap_or_default())
    }
}

impl From<String> for CrdSource {
    fn from(text: String) -> Self {
        CrdSource::Text(text)
    }
}

impl From<&str> for CrdSource {
    fn from(text: &str) -> Self {
        CrdSource::Text(text.to_owned())
    }
}

/// An error of the installation of a definition.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// A file or folder could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A text is neither YAML nor JSON.
    #[error("{origin} is not YAML: {reason}")]
    Syntax {
        /// The file, or the index of the given text.
        origin: String,
        /// The fault and its position.
        reason: String,
    },
    /// The server refused a definition.
    #[error("{origin}: the definition {name:?} was refused: {status}")]
    Refused {
        /// The file, or the index of the given definition.
        origin: String,
        /// The definition's name; empty if it has none.
        name: String,
        /// The response of the server.
        status: Box<Status>,
    },
    /// The definition is stored, but other definitions hold its names.
    #[error("{origin}: the definition {name:?} is not served: {reason}")]
    NotEstablished {
        /// The file, or the index of the given definition.
        origin: String,
        /// The definition's name.
        name: String,
        /// The reason in the condition of the definition.
        reason: String,
    },
    /// An injected fault dropped the response.
    #[error("{origin}: the server sent no response")]
    NoResponse {
        /// The file, or the index of the given definition.
        origin: String,
    },
}

/// Installs definitions in the order given and replaces existing ones. Returns their names.
pub(crate) async fn install(
    service: &InProcess,
    sources: impl IntoIterator<Item = CrdSource>,
) -> Result<Vec<String>, InstallError> {
    let mut names = Vec::new();
    for (index, source) in sources.into_iter().enumerate() {
        let origin = format!("definition source {}", index + 1);
        match source {
            CrdSource::Value(definition) => names.push(put(service, &origin, definition).await?),
            CrdSource::Text(text) => {
                for definition in documents(&origin, &text)? {
                    names.push(put(service, &origin, definition).await?);
                }
            }
        }
    }
    Ok(names)
}

/// Installs the definitions of a folder's `.yaml`, `.yml` and `.json` files, in the order of their names.
pub(crate) async fn install_folder(service: &InProcess, folder: &Path) -> Result<Vec<String>, InstallError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| InstallError::Read { path, source }
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable(folder))? {
        let path = entry.map_err(unreadable(folder))?.path();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if matches!(extension, "yaml" | "yml" | "json") && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    let mut names = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).map_err(unreadable(&path))?;
        let origin = path.display().to_string();
        for definition in documents(&origin, &text)? {
            names.push(put(service, &origin, definition).await?);
        }
    }
    Ok(names)
}

/// Returns the definitions among the documents of a text.
fn documents(origin: &str, text: &str) -> Result<Vec<Value>, InstallError> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| {
        // The first line names the fault and its position; the others repeat the text.
        let reason = error.to_string().lines().next().unwrap_or_default().to_owned();
        InstallError::Syntax { origin: origin.to_owned(), reason }
    })?;
    Ok(documents.into_iter().filter(|document| document["kind"] == KIND).collect())
}

/// Creates or replaces one definition and checks that it is served.
async fn put(service: &InProcess, origin: &str, mut definition: Value) -> Result<String, InstallError> {
    let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let refused = |status| InstallError::Refused { origin: origin.to_owned(), name: name.clone(), status };
    let one = format!("{DEFINITIONS}/{name}");
    // The server itself refuses an invalid name.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let named = !name.is_empty() && name.bytes().all(plain);
    let present = if named { send(service, origin, Method::GET, &one, None).await?.ok() } else { None };
    if let Some(present) = present {
        definition["metadata"]["resourceVersion"] = present["metadata"]["resourceVersion"].clone();
        send(service, origin, Method::PUT, &one, Some(&definition)).await?.map_err(refused)?;
    } else {
        send(service, origin, Method::POST, DEFINITIONS, Some(&definition)).await?.map_err(refused)?;
    }
    let installed = send(service, origin, Method::GET, &one, None).await?.map_err(refused)?;
    if crate::crd::conditions::is_established(&installed) {
        return Ok(name);
    }
    let conditions = installed["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let names = conditions.iter().find(|condition| condition["type"] == "NamesAccepted");
    let reason = names.and_then(|condition| condition["message"].as_str()).unwrap_or("its names are not accepted");
    Err(InstallError::NotEstablished { origin: origin.to_owned(), name, reason: reason.to_owned() })
}

async fn send(
    service: &InProcess,
    origin: &str,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Result<Value, Box<Status>>, InstallError> {
    let no_response = || InstallError::NoResponse { origin: origin.to_owned() };
    let bytes = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(bytes))
        .map_err(|_| no_response())?;
    let response = service.clone().call(request).await.map_err(|_| no_response())?;
    let ok = response.status().is_success();
    let body = response.into_body().collect().await.map_err(|_| no_response())?.to_bytes();
    if ok {
        return Ok(Ok(serde_json::from_slice(&body).unwrap_or_default()));
    }
    Ok(Err(Box::new(serde_json::from_slice(&body).unwrap_or_default())))
}
