//! The paths of a group version and the operations of each.

use std::collections::BTreeMap;

use serde::Serialize;

use super::document::{is_published, schema_name};
use crate::negotiate::PatchType;
use crate::registry::{Resource, Subresource, Version, builtin_schema_id};

/// The operations of one path.
#[derive(Default, Serialize)]
pub(super) struct PathItem<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    get: Option<Operation<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    put: Option<Operation<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    post: Option<Operation<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delete: Option<Operation<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<Operation<'a>>,
    parameters: Vec<&'static Parameter>,
}

impl PathItem<'_> {
    /// Returns the names of the schemas of its request and response bodies.
    pub(super) fn schemas(&self) -> impl Iterator<Item = &str> {
        [&self.get, &self.put, &self.post, &self.delete, &self.patch]
            .into_iter()
            .flatten()
            .flat_map(|operation| {
                let body = operation.request_body.iter();
                let body = body.flat_map(|body| body.content.values());
                body.chain(operation.responses.ok.content.values())
            })
            .filter_map(|content| content.schema.name())
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Operation<'a> {
    tags: [String; 1],
    operation_id: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parameters: Vec<&'static Parameter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_body: Option<RequestBody>,
    responses: Responses,
    #[serde(rename = "x-kubernetes-action")]
    action: &'static str,
    #[serde(rename = "x-kubernetes-group-version-kind")]
    kind: KindReference<'a>,
}

#[derive(Clone, Copy, Serialize)]
struct KindReference<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

#[derive(Serialize)]
struct Parameter {
    name: &'static str,
    r#in: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    required: bool,
    schema: ParameterType,
}

#[derive(Serialize)]
struct ParameterType {
    r#type: &'static str,
    #[serde(rename = "uniqueItems")]
    unique: bool,
}

#[derive(Serialize)]
struct RequestBody {
    content: BTreeMap<&'static str, Content>,
    required: bool,
}

#[derive(Serialize)]
struct Responses {
    #[serde(rename = "200")]
    ok: Response,
}

#[derive(Serialize)]
struct Response {
    description: &'static str,
    content: BTreeMap<&'static str, Content>,
}

#[derive(Serialize)]
struct Content {
    schema: SchemaUse,
}

#[derive(Serialize)]
#[serde(untagged)]
enum SchemaUse {
    Reference {
        #[serde(rename = "$ref")]
        target: String,
    },
    Text {
        r#type: &'static str,
    },
}

impl SchemaUse {
    fn named(name: &str) -> SchemaUse {
        SchemaUse::Reference { target: format!("#/components/schemas/{name}") }
    }

    fn name(&self) -> Option<&str> {
        match self {
            SchemaUse::Reference { target } => target.rsplit('/').next(),
            SchemaUse::Text { .. } => None,
        }
    }
}

const fn query(name: &'static str, r#type: &'static str) -> Parameter {
    Parameter { name, r#in: "query", required: false, schema: ParameterType { r#type, unique: true } }
}

const fn path(name: &'static str) -> Parameter {
    Parameter { name, r#in: "path", required: true, schema: ParameterType { r#type: "string", unique: true } }
}

static NAME: Parameter = path("name");
static NAMESPACE: Parameter = path("namespace");
static PRETTY: Parameter = query("pretty", "string");
static FORCE: Parameter = query("force", "boolean");
static WRITE: [Parameter; 3] =
    [query("dryRun", "string"), query("fieldManager", "string"), query("fieldValidation", "string")];
static DELETE: [Parameter; 4] = [
    query("dryRun", "string"),
    query("gracePeriodSeconds", "integer"),
    query("orphanDependents", "boolean"),
    query("propagationPolicy", "string"),
];
static LIST: [Parameter; 11] = [
    query("allowWatchBookmarks", "boolean"),
    query("continue", "string"),
    query("fieldSelector", "string"),
    query("labelSelector", "string"),
    query("limit", "integer"),
    query("resourceVersion", "string"),
    query("resourceVersionMatch", "string"),
    query("sendInitialEvents", "boolean"),
    query("shardSelector", "string"),
    query("timeoutSeconds", "integer"),
    query("watch", "boolean"),
];

const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const JSON_AND_YAML: [&str; 2] = ["application/json", "application/yaml"];

/// Returns every path of a group version.
pub(super) fn paths(version: &Version) -> BTreeMap<String, PathItem<'_>> {
    let root = format!("/{}", super::path_of(version));
    let mut paths = BTreeMap::new();
    for resource in &version.resources {
        let writer = Writer::of(resource);
        let everywhere = format!("{root}/{}", resource.plural);
        let collection = if resource.namespaced {
            if resource.has_verb("list") {
                paths.insert(everywhere, writer.across_namespaces());
            }
            format!("{root}/namespaces/{{namespace}}/{}", resource.plural)
        } else {
            everywhere
        };
        let item = format!("{collection}/{{name}}");
        for subresource in &resource.subresources {
            paths.insert(format!("{item}/{}", subresource.name), writer.subresource(subresource));
        }
        paths.insert(item, writer.item());
        paths.insert(collection, writer.collection());
    }
    paths.retain(|_, item| !item.is_idle());
    paths
}

impl PathItem<'_> {
    fn is_idle(&self) -> bool {
        [&self.get, &self.put, &self.post, &self.delete, &self.patch].iter().all(|operation| operation.is_none())
    }
}

/// Writes the operations of one resource.
struct Writer<'a> {
    resource: &'a Resource,
    schema: String,
    /// `AppsV1`
    scope: String,
    /// `apps_v1`
    tag: String,
    kind: KindReference<'a>,
}

/// The properties in which operations differ.
struct OperationSpec<'a> {
    id: String,
    action: &'static str,
    kind: KindReference<'a>,
    parameters: Vec<&'static Parameter>,
    body: Option<BTreeMap<&'static str, Content>>,
    answer: BTreeMap<&'static str, Content>,
}

impl<'a> Writer<'a> {
    fn of(resource: &'a Resource) -> Self {
        let short = match resource.group.as_str() {
            "" => "core",
            group if resource.custom.is_some() => group,
            group => group.split('.').next().unwrap_or(group),
        };
        let camel: String = short.split(['.', '-']).map(capitalised).collect();
        Writer {
            resource,
            schema: schema_name(resource),
            scope: format!("{camel}{}", capitalised(&resource.version)),
            tag: format!("{}_{}", short.replace(['.', '-'], "_"), resource.version),
            kind: KindReference { group: &resource.group, version: &resource.version, kind: &resource.kind },
        }
    }

    fn operation(&self, spec: OperationSpec<'a>) -> Operation<'a> {
        Operation {
            tags: [self.tag.clone()],
            operation_id: spec.id,
            parameters: spec.parameters,
            request_body: spec.body.map(|content| RequestBody {
                required: spec.action != "delete" && spec.action != "deletecollection",
                content,
            }),
            responses: Responses { ok: Response { description: "OK", content: spec.answer } },
            action: spec.action,
            kind: spec.kind,
        }
    }

    /// Returns `Namespaced` and the kind, the suffix of operation names.
    fn subject(&self) -> String {
        let namespaced = if self.resource.namespaced { "Namespaced" } else { "" };
        format!("{namespaced}{}", self.resource.kind)
    }

    fn parameters(&self, named: bool) -> Vec<&'static Parameter> {
        let mut parameters = Vec::new();
        if named {
            parameters.push(&NAME);
        }
        if self.resource.namespaced {
            parameters.push(&NAMESPACE);
        }
        parameters.push(&PRETTY);
        parameters
    }

    fn list(&self, id: String) -> Operation<'a> {
        self.operation(OperationSpec {
            id,
            action: "list",
            kind: self.kind,
            parameters: LIST.iter().collect(),
            body: None,
            answer: contents(&JSON_AND_YAML, &format!("{}List", self.schema)),
        })
    }

    fn across_namespaces(&self) -> PathItem<'a> {
        let id = format!("list{}{}ForAllNamespaces", self.scope, self.resource.kind);
        PathItem { get: Some(self.list(id)), parameters: vec![&PRETTY], ..PathItem::default() }
    }

    fn collection(&self) -> PathItem<'a> {
        let (scope, subject) = (&self.scope, self.subject());
        PathItem {
            get: self.resource.has_verb("list").then(|| self.list(format!("list{scope}{subject}"))),
            post: self.resource.has_verb("create").then(|| {
                self.operation(OperationSpec {
                    id: format!("create{scope}{subject}"),
                    action: "post",
                    kind: self.kind,
                    parameters: WRITE.iter().collect(),
                    body: Some(contents(&JSON_AND_YAML, &self.schema)),
                    answer: contents(&JSON_AND_YAML, &self.schema),
                })
            }),
            delete: self.resource.has_verb("deletecollection").then(|| {
                self.operation(OperationSpec {
                    id: format!("delete{scope}Collection{subject}"),
                    action: "deletecollection",
                    kind: self.kind,
                    parameters: DELETE.iter().chain(&LIST).collect(),
                    body: Some(contents(&JSON_AND_YAML, DELETE_OPTIONS)),
                    answer: contents(&JSON_AND_YAML, STATUS),
                })
            }),
            parameters: self.parameters(false),
            ..PathItem::default()
        }
    }

    fn item(&self) -> PathItem<'a> {
        let subject = self.subject();
        let mut item = self.reads_and_writes(&self.resource.verbs, self.kind, &self.schema, &subject, "");
        item.delete = self.resource.has_verb("delete").then(|| {
            let answer = if self.resource.strategy.delete_returns_object { &self.schema } else { STATUS };
            self.operation(OperationSpec {
                id: format!("delete{}{subject}", self.scope),
                action: "delete",
                kind: self.kind,
                parameters: DELETE.iter().collect(),
                body: Some(contents(&JSON_AND_YAML, DELETE_OPTIONS)),
                answer: contents(&JSON_AND_YAML, answer),
            })
        });
        item
    }

    fn subresource(&self, subresource: &'a Subresource) -> PathItem<'a> {
        let kind = KindReference {
            group: &subresource.response_group,
            version: &subresource.response_version,
            kind: &subresource.response_kind,
        };
        let own = (kind.group, kind.version, kind.kind) == (self.kind.group, self.kind.version, self.kind.kind);
        let schema = if own { self.schema.clone() } else { builtin_schema_id(kind.group, kind.version, kind.kind) };
        let (subject, part) = (self.subject(), capitalised(&subresource.name));
        // `log` returns text, and a sub-resource without a schema is a connection.
        if subresource.name == "log" || (!own && !is_published(&schema)) {
            return self.connection(subresource, kind, &part);
        }
        let mut item = self.reads_and_writes(&subresource.verbs, kind, &schema, &subject, &part);
        item.post = has(&subresource.verbs, "create").then(|| {
            self.operation(OperationSpec {
                id: format!("create{}{subject}{part}", self.scope),
                action: "post",
                kind,
                parameters: WRITE.iter().collect(),
                body: Some(contents(&JSON_AND_YAML, &schema)),
                answer: contents(&JSON_AND_YAML, &schema),
            })
        });
        item
    }

    fn connection(&self, subresource: &Subresource, kind: KindReference<'a>, part: &str) -> PathItem<'a> {
        let subject = self.subject();
        let connect = |verb: &str, method: &str| {
            has(&subresource.verbs, verb).then(|| {
                self.operation(OperationSpec {
                    id: format!("connect{}{method}{subject}{part}", self.scope),
                    action: if subresource.name == "log" { "get" } else { "connect" },
                    kind,
                    parameters: Vec::new(),
                    body: None,
                    answer: BTreeMap::from([(
                        if subresource.name == "log" { "text/plain" } else { "*/*" },
                        Content { schema: SchemaUse::Text { r#type: "string" } },
                    )]),
                })
            })
        };
        PathItem {
            get: connect("get", "Get"),
            put: connect("update", "Put"),
            post: connect("create", "Post"),
            delete: connect("delete", "Delete"),
            patch: connect("patch", "Patch"),
            parameters: self.parameters(true),
        }
    }

    fn reads_and_writes(
        &self,
        verbs: &[String],
        kind: KindReference<'a>,
        schema: &str,
        subject: &str,
        part: &str,
    ) -> PathItem<'a> {
        let operation = |verb: &str, word: &str, action, parameters, body| {
            has(verbs, verb).then(|| {
                self.operation(OperationSpec {
                    id: format!("{word}{}{subject}{part}", self.scope),
                    action,
                    kind,
                    parameters,
                    body,
                    answer: contents(&JSON_AND_YAML, schema),
                })
            })
        };
        PathItem {
            get: operation("get", "read", "get", Vec::new(), None),
            put: operation("update", "replace", "put", WRITE.iter().collect(), Some(contents(&JSON_AND_YAML, schema))),
            patch: operation(
                "patch",
                "patch",
                "patch",
                WRITE.iter().chain([&FORCE]).collect(),
                Some(self.patch_body()),
            ),
            parameters: self.parameters(true),
            ..PathItem::default()
        }
    }

    /// Returns the patch types; kubectl sends a strategic merge only where it is listed here.
    fn patch_body(&self) -> BTreeMap<&'static str, Content> {
        let custom = self.resource.custom.is_some();
        PatchType::ALL
            .into_iter()
            .filter(|kind| !(custom && *kind == PatchType::StrategicMerge))
            .map(|kind| (kind.media_type(), content(PATCH)))
            .collect()
    }
}

fn has(verbs: &[String], verb: &str) -> bool {
    verbs.iter().any(|known| known == verb)
}

fn content(schema: &str) -> Content {
    Content { schema: SchemaUse::named(schema) }
}

fn contents(media: &[&'static str], schema: &str) -> BTreeMap<&'static str, Content> {
    media.iter().map(|media| (*media, content(schema))).collect()
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
