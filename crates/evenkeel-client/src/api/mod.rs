//! [`Api`]: the verbs on the objects of one kind.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use evenkeel_core::{Obj, ResourceInfo};
use http::Method;
use kube_core::Resource;
use serde_json::Value;

use crate::client::Client;
use crate::error::Error;
use crate::rest::{List, ListStream, Path, Request, RequestError, WatchStream};
use crate::wire::{Negotiation, ResponseShape, Wire};

mod changes;
mod create_or_patch;
mod create_or_update;
mod difference;
pub mod groups;
mod object;
mod params;
mod partial;
mod patch;
mod pods;
mod repeated_writes;
mod request;
mod scale;
pub mod scope;
mod special;
mod subresource;
mod unstructured;

pub use changes::{Changes, Patched};
pub use create_or_patch::{CreateOrPatch, create_or_patch, create_or_patch_from};
pub use create_or_update::{CreateOrUpdate, Mutation, create_or_update};
pub use object::Object;
pub use params::{ListParams, VersionMatch, WatchParams};
#[doc(hidden)]
pub use partial::expansion;
pub use partial::{Accepts, ListField, MapField, Partial};
pub use patch::Patch;
pub use pods::{LogStream, Logs, ProxyTarget};
pub(crate) use repeated_writes::RepeatedWrites;
pub use request::{ApiRequest, Deleted, FieldValidation, Propagation, verb};
use request::{read_collection, read_deleted, read_object, read_patched};
pub use scale::{ScaleApi, Scales};
use scope::{Addressable, All, Any, Namespaced, Scope, Start};
pub use subresource::Subresource;
pub use unstructured::{PartialObjectMetadata, Unstructured};

/// The API of one kind in one [`scope`]: one namespace, all namespaces, or the cluster.
///
/// Cheap to create and to clone. Reads return an [`Obj`], whose payload is decoded by [`typed`](Obj::typed). A verb
/// that writes, or reads one object, returns an [`ApiRequest`]: set its options, then await it.
///
/// ```
/// # async fn example(client: evenkeel_client::Client) -> Result<(), evenkeel_client::Error> {
/// use evenkeel_client::ListParams;
/// use k8s_openapi::api::core::v1::{Node, Pod};
///
/// let pods = client.api::<Pod>().namespace("default");
/// let web = pods.get("web-0").await?;
/// println!("{} is {:?}", web.key(), web.path("status.phase")?.map(|phase| phase.text().into_owned()));
/// pods.delete("web-0").grace_period(0).await?;
///
/// for node in client.api::<Node>().list(&ListParams::default()).await? {
///     println!("{}: {:?}", node.key(), node.typed()?.spec);
/// }
/// # Ok(())
/// # }
/// ```
///
/// An object of a namespaced kind can only be named within a namespace; the compiler checks that:
///
/// ```compile_fail,E0277
/// # async fn example(client: evenkeel_client::Client) {
/// use k8s_openapi::api::core::v1::Pod;
/// client.api::<Pod>().get("web-0").await; // the error says: add `.namespace(…)`
/// # }
/// ```
/// ```compile_fail
/// # async fn example(client: evenkeel_client::Client) {
/// use k8s_openapi::api::core::v1::Node;
/// client.api::<Node>().namespace("default"); // nodes are not namespaced
/// # }
/// ```
pub struct Api<K, S = Namespaced> {
    client: Client,
    info: Arc<ResourceInfo>,
    scope: S,
    representation: Representation,
    /// Overrides the client's encoding.
    wire: Option<Wire>,
    kind: PhantomData<fn() -> K>,
}

/// How objects are represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Representation {
    /// By the Rust type of the kind.
    Typed,
    /// As JSON, with fields that no Rust type knows.
    Unstructured,
    Metadata,
}

impl Client {
    /// Returns the API of kind `K`: of the cluster for a cluster-scoped kind, else of all namespaces.
    /// [`Api::namespace`] narrows it to one namespace.
    pub fn api<K>(&self) -> Api<K, <K::Scope as Start>::Scope>
    where
        K: Resource + 'static,
        K::DynamicType: Default,
        K::Scope: Start,
    {
        Api::new(self, self.resource::<K>(), K::Scope::scope())
    }

    /// Returns the API of a kind that is only known at run time: from discovery, from a configuration, from a user.
    ///
    /// ```
    /// # async fn example(client: evenkeel_client::Client) -> Result<(), evenkeel_client::Error> {
    /// use std::sync::Arc;
    /// use evenkeel_core::ResourceInfo;
    ///
    /// let foos = Arc::new(ResourceInfo::new("samplecontroller.k8s.io", "v1alpha1", "Foo", "foos", true));
    /// let foo = client.dynamic(&foos).namespace("default").get("a").await?;
    /// println!("{:?}", foo.path("spec.replicas")?.and_then(|value| value.as_i64()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn dynamic(&self, info: &Arc<ResourceInfo>) -> Api<Unstructured, Any> {
        Api { representation: Representation::Unstructured, ..Api::of(self, info) }
    }
}

impl<K> Api<K, Any> {
    /// Returns the API of a kind that is only known at run time and is decoded as `K`, such as kube-core's
    /// `DynamicObject`.
    pub fn of(client: &Client, info: &Arc<ResourceInfo>) -> Self {
        Api::new(client, Arc::clone(info), Any { namespace: None, namespaced: info.namespaced() })
    }

    /// Narrows the API to this namespace. Has no effect on a cluster-scoped kind.
    pub fn namespace(&self, namespace: &str) -> Self {
        let namespaced = self.scope.namespaced;
        self.scoped(Any { namespace: namespaced.then(|| namespace.into()), namespaced })
    }
}

impl<K> Api<K, All> {
    /// Narrows the API to this namespace. With an empty name, all namespaces can be listed and watched, and no object
    /// can be named.
    pub fn namespace(&self, namespace: &str) -> Api<K> {
        self.scoped(Namespaced(namespace.into()))
    }

    /// Narrows the API to the namespace of an object, as for the children of what a controller reconciles.
    ///
    /// ```
    /// # async fn example(client: evenkeel_client::Client) -> Result<(), evenkeel_client::Error> {
    /// use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    ///
    /// let pod = client.core_v1().pods("default").get("web-0").await?;
    /// let settings = client.api::<ConfigMap>().beside(&pod).get("settings").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// An object of a cluster-scoped kind has no namespace: nothing can be named then.
    pub fn beside<T>(&self, object: &Obj<T>) -> Api<K> {
        self.namespace(object.key().namespace().unwrap_or_default())
    }

    /// Narrows the API to the default namespace of the client's configuration.
    pub fn default_namespace(&self) -> Api<K> {
        self.namespace(&self.client.config().namespace)
    }
}

impl<K, S: Scope> Api<K, S> {
    pub(crate) fn new(client: &Client, info: Arc<ResourceInfo>, scope: S) -> Self {
        Api {
            client: client.clone(),
            info,
            scope,
            representation: Representation::Typed,
            wire: None,
            kind: PhantomData,
        }
    }

    /// The same API in another scope, or of another type.
    fn converted<L, T>(&self, scope: T, representation: Representation) -> Api<L, T> {
        let (client, info) = (self.client.clone(), Arc::clone(&self.info));
        Api { client, info, scope, representation, wire: self.wire, kind: PhantomData }
    }

    fn scoped<T>(&self, scope: T) -> Api<K, T> {
        self.converted(scope, self.representation)
    }

    /// Returns an API that reads only the metadata of the objects.
    pub fn metadata(&self) -> Api<PartialObjectMetadata, S> {
        self.converted(self.scope.clone(), Representation::Metadata)
    }

    /// Returns whether only the metadata of the objects is read.
    pub fn is_metadata_only(&self) -> bool {
        self.representation == Representation::Metadata
    }

    /// Returns an API with this encoding, whatever the client's configuration.
    ///
    /// ```
    /// # async fn example(client: evenkeel_client::Client) -> Result<(), evenkeel_client::Error> {
    /// use evenkeel_client::{ListParams, Wire};
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// let pods = client.api::<Pod>().wire(Wire::Protobuf).list(&ListParams::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn wire(&self, wire: Wire) -> Self {
        Api { wire: Some(wire), ..self.clone() }
    }

    /// Returns the encoding of this API, or else of the client's configuration. Kinds that are only known at run time
    /// are JSON unless this API sets another encoding.
    pub fn chosen_wire(&self) -> Wire {
        match (self.wire, self.representation) {
            (Some(wire), _) => wire,
            (None, Representation::Unstructured) => Wire::Json,
            (None, Representation::Typed | Representation::Metadata) => self.client.config().wire,
        }
    }

    /// Returns the description of the kind.
    pub fn resource(&self) -> &Arc<ResourceInfo> {
        &self.info
    }

    /// Returns the client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Lists the objects: all of them, or a page.
    ///
    /// The list is decoded while it arrives. Use [`pages`](Self::pages) for a list that is too large for one response,
    /// or for memory.
    pub async fn list(&self, params: &ListParams) -> Result<List<K>, Error> {
        params
            .add_to(self.build_request(Method::GET, self.collection(), ResponseShape::MetadataList))
            .list(&self.info)
            .await
    }

    /// Lists the objects, all of them or a page, and returns them one by one as they arrive.
    ///
    /// The list is never in memory as a whole, and an object that cannot be decoded does not fail the others.
    ///
    /// ```
    /// # async fn example(client: evenkeel_client::Client) -> Result<(), evenkeel_client::Error> {
    /// use evenkeel_client::ListParams;
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// let mut pods = client.api::<Pod>().list_stream(&ListParams::default()).await?;
    /// while let Some(pod) = pods.next().await {
    ///     match pod {
    ///         Ok(pod) => println!("{}", pod.key()),
    ///         Err(error) if error.is_about_one_item() => eprintln!("skipped: {error}"),
    ///         Err(error) => return Err(error),
    ///     }
    /// }
    /// println!("as of version {:?}", pods.meta().map(|meta| &meta.resource_version));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn list_stream(&self, params: &ListParams) -> Result<ListStream<K>, Error> {
        params
            .add_to(self.build_request(Method::GET, self.collection(), ResponseShape::MetadataList))
            .list_stream(&self.info)
            .await
    }

    /// Watches the objects.
    pub async fn watch(&self, params: &WatchParams) -> Result<WatchStream<K>, Error> {
        params
            .add_to(self.build_request(Method::GET, self.collection(), ResponseShape::Metadata))
            .watch(&self.info)
            .await
    }

    /// Deletes all objects that match, one after the other. Returns the objects that the server returns as deleted or
    /// terminating. Servers reject it across all namespaces.
    ///
    /// A [shard selector](ListParams::shards) and options without a field of their own ([`ListParams::query`]) are an error here: a
    /// server that does not know one ignores it, and would delete more objects than are selected.
    pub fn delete_collection(&self, params: &ListParams) -> ApiRequest<Vec<Obj<K>>, verb::Delete> {
        let mut request = params.add_to(self.build_request(Method::DELETE, self.collection(), ResponseShape::Full));
        if !params.query.is_empty() {
            let problem = format!(
                "the deletion of a collection has the options {:?}, which a server may ignore: it would delete more objects",
                params.query
            );
            request = request.invalid(RequestError::Invalid { problem });
        }
        if let Some(shards) = &params.shard_selector {
            let problem = format!(
                "the deletion of a collection has the shard selector {shards}, which a server may ignore: it would delete more objects"
            );
            request = request.invalid(RequestError::Invalid { problem });
        }
        ApiRequest::delete(request, &self.info, read_collection)
    }

    fn collection(&self) -> Path<'_> {
        let path = Path::resource(&self.info);
        match self.scope.namespace() {
            Some(namespace) if !namespace.is_empty() => path.namespace(namespace),
            _ => path,
        }
    }

    /// Builds a request for objects of this kind. `metadata` is the shape of the response if only metadata is read.
    fn build_request(&self, method: Method, path: Path<'_>, metadata: ResponseShape) -> Request {
        let wire = self.chosen_wire();
        let negotiation = match (self.representation, metadata) {
            // Custom resources do not accept a delete in protobuf.
            (Representation::Metadata, ResponseShape::Full) => Negotiation::default(),
            (Representation::Metadata, part) => Negotiation::new(wire, &self.info, part),
            (Representation::Typed | Representation::Unstructured, _) => {
                Negotiation::new(wire, &self.info, ResponseShape::Full)
            }
        };
        self.client.request(method, path).negotiation(negotiation)
    }
}

/// Verbs on a named object. The bounds are those of the methods, because the compiler shows the remedy only then.
impl<K, S: Scope> Api<K, S> {
    /// Reads an object.
    pub fn get(&self, name: &str) -> ApiRequest<Obj<K>, verb::Get>
    where
        S: Addressable,
    {
        self.named(Method::GET, name, None)
    }

    /// Patches an object.
    pub fn patch(&self, name: &str, patch: &Patch) -> ApiRequest<Obj<K>, verb::Patch>
    where
        S: Addressable,
    {
        self.named(Method::PATCH, name, None).with(|request| add_patch(request, patch))
    }

    /// Patches an object with the difference between a read of it and a changed value; see [`Patch::merge_from`]. Without a
    /// difference nothing is sent, and the result is [`Patched::Unchanged`].
    pub fn patch_changes(&self, changes: &Changes<K>) -> ApiRequest<Patched<K>, verb::Patch>
    where
        S: Addressable,
    {
        self.changes_to(None, changes)
    }

    fn changes_to(&self, subresource: Option<&str>, changes: &Changes<K>) -> ApiRequest<Patched<K>, verb::Patch>
    where
        S: Addressable,
    {
        let name = changes.before().key().name();
        let request = self.request(Method::PATCH, Some(name), subresource, ResponseShape::Metadata);
        let request = ApiRequest::new(request, &self.info, read_patched);
        match changes.patch() {
            None => request.unchanged(Patched::Unchanged(changes.before().clone())),
            Some(patch) => request.with(|request| match (changes.before().key().namespace(), self.scope.namespace()) {
                (Some(own), Some(ours)) if own != ours => request.invalid(other_namespace(own, ours)),
                _ => add_patch(request, &patch),
            }),
        }
    }

    /// Deletes an object.
    pub fn delete(&self, name: &str) -> ApiRequest<Deleted<K>, verb::Delete>
    where
        S: Addressable,
    {
        ApiRequest::delete(
            self.request(Method::DELETE, Some(name), None, ResponseShape::Full),
            &self.info,
            read_deleted,
        )
    }

    /// Applies fields of an object and takes ownership of them (server-side apply). Creates the object if it does not
    /// exist. `fields` is an object with the fields that `field_manager` owns, and without `managedFields`. An empty
    /// `field_manager` is that of the client ([`Client::with_field_manager`]).
    ///
    /// `fields` is borrowed and never changed: it can be applied again. If it has no name, the one of the request is sent.
    ///
    /// A field that another manager owns with another value is a conflict, unless [`ApiRequest::force`] is called.
    pub fn apply<T: Object + ?Sized>(
        &self,
        name: &str,
        field_manager: &str,
        fields: &T,
    ) -> ApiRequest<Obj<K>, verb::Apply>
    where
        S: Addressable,
    {
        self.apply_to(name, None, field_manager, fields)
    }

    /// Makes an object have these fields: an [`apply`](Self::apply) by the client's field manager that takes fields from other
    /// managers. What a controller does with what it owns.
    ///
    /// ```
    /// # async fn example(client: evenkeel_client::Client) -> Result<(), evenkeel_client::Error> {
    /// use evenkeel_client::apply;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// let client = client.with_field_manager("my-operator"); // once, where the client is made
    /// let settings = apply!(ConfigMap { data: { "colour": "blue" } });
    /// client.api::<ConfigMap>().namespace("default").enforce("settings", &settings).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It is an error if the client has no field manager ([`Client::with_field_manager`]).
    pub fn enforce<T: Object + ?Sized>(&self, name: &str, fields: &T) -> ApiRequest<Obj<K>, verb::Apply>
    where
        S: Addressable,
    {
        self.apply_to(name, None, "", fields).force()
    }
}

impl<K, S: Addressable> Api<K, S> {
    /// Returns the namespace of a named object, or an error if there is none where one is needed.
    pub(crate) fn address(&self) -> Result<Option<&str>, RequestError> {
        self.scope.address()
    }

    /// Builds a request for the named object, or for a subresource of it.
    fn named<V>(&self, method: Method, name: &str, subresource: Option<&str>) -> ApiRequest<Obj<K>, V> {
        let request = self.request(method, Some(name), subresource, ResponseShape::Metadata);
        ApiRequest::new(request, &self.info, read_object)
    }

    fn request(
        &self,
        method: Method,
        name: Option<&str>,
        subresource: Option<&str>,
        metadata: ResponseShape,
    ) -> Request {
        let (namespace, fault) = match self.scope.address() {
            Ok(namespace) => (namespace, None),
            Err(fault) => (None, Some(fault)),
        };
        let mut path = Path::resource(&self.info);
        if let Some(namespace) = namespace {
            path = path.namespace(namespace);
        }
        if let Some(name) = name {
            path = path.name(name);
        }
        if let Some(subresource) = subresource {
            path = path.subresource(subresource);
        }
        match fault {
            None => self.build_request(method, path, metadata),
            Some(fault) => self.build_request(method, path, metadata).invalid(fault),
        }
    }
}

impl<K: Object, S: Scope> Api<K, S> {
    /// Creates an object. Without a name it needs a `generateName`, from which the server generates one.
    pub fn create(&self, object: &K) -> ApiRequest<Obj<K>, verb::Write>
    where
        S: Addressable,
    {
        let request = self.request(Method::POST, None, None, ResponseShape::Full);
        ApiRequest::new(self.body(request, object), &self.info, read_object)
    }

    /// Replaces the object that `object` names. With a resource version, the server replaces that version only;
    /// without, the last writer wins.
    pub fn update(&self, object: &K) -> ApiRequest<Obj<K>, verb::Write>
    where
        S: Addressable,
    {
        self.update_of(object, None)
    }
}

impl<K: Object, S: Addressable> Api<K, S> {
    fn update_of(&self, object: &K, subresource: Option<&str>) -> ApiRequest<Obj<K>, verb::Write> {
        let name = object.name().unwrap_or_default();
        let request = self.request(Method::PUT, Some(&name), subresource, ResponseShape::Full);
        ApiRequest::new(self.body(request, object), &self.info, read_object)
    }

    /// Replaces an object by this JSON, which names it.
    fn replace(&self, name: &str, object: &Value) -> ApiRequest<Obj<K>, verb::Write> {
        let request = self.request(Method::PUT, Some(name), None, ResponseShape::Full).value(object);
        ApiRequest::new(request, &self.info, read_object)
    }

    /// Sets the body of a request, if the object's namespace matches.
    fn body(&self, request: Request, object: &K) -> Request {
        self.check_namespace(request, object).value(object)
    }

    fn check_namespace(&self, request: Request, object: &K) -> Request {
        match (object.namespace(), self.scope.namespace()) {
            (Some(own), Some(ours)) if own != ours && !ours.is_empty() => request.invalid(other_namespace(&own, ours)),
            _ => request,
        }
    }
}

impl<K, S: Addressable> Api<K, S> {
    fn apply_to<T: Object + ?Sized>(
        &self,
        name: &str,
        subresource: Option<&str>,
        field_manager: &str,
        fields: &T,
    ) -> ApiRequest<Obj<K>, verb::Apply> {
        self.named(Method::PATCH, name, subresource).with(|request| {
            if fields.has_managed_fields() {
                let problem = "an object with managedFields cannot be applied: remove them first".to_owned();
                return request.invalid(RequestError::Invalid { problem });
            }
            let default = || self.client.write_defaults()?.field_manager.as_deref();
            match Some(field_manager).filter(|name| !name.is_empty()).or_else(default) {
                Some(manager) => {
                    let named = object::with_name(fields, name);
                    let patch = named.map_or_else(|| Patch::apply(fields), |named| Patch::apply(&named));
                    add_patch(request, &patch).query("fieldManager", manager)
                }
                None => {
                    let problem = "an apply needs a field manager: pass one, or use `Client::with_field_manager`";
                    request.invalid(RequestError::Invalid { problem: problem.to_owned() })
                }
            }
        })
    }
}

fn other_namespace(own: &str, ours: &str) -> RequestError {
    let problem = format!(
        "the object is in namespace {own:?}, the request is for namespace {ours:?}: use `.namespace({own:?})`, or change the object's \
         metadata.namespace"
    );
    RequestError::Invalid { problem }
}

fn add_patch(request: Request, patch: &Patch) -> Request {
    match &patch.body {
        Ok(body) => request.body(body.clone(), patch.media_type),
        Err(fault) => request.invalid(fault.clone()),
    }
}

impl<K, S: Clone> Clone for Api<K, S> {
    fn clone(&self) -> Self {
        let Api { client, info, scope, representation, wire, kind } = self;
        let (client, info, scope) = (client.clone(), Arc::clone(info), scope.clone());
        Api { client, info, scope, representation: *representation, wire: *wire, kind: *kind }
    }
}

impl<K, S: Scope> fmt::Debug for Api<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("resource", &self.info)
            .field("namespace", &self.scope.namespace())
            .finish_non_exhaustive()
    }
}
