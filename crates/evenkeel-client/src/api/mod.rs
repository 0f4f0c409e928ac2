//! The verbs of the API on the objects of one kind: [`Api`].

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use evenkeel_core::{Obj, ResourceInfo};
use http::Method;
use kube_core::Resource;

use crate::client::Client;
use crate::error::Error;
use crate::rest::{List, ListStream, Path, Request, RequestError, WatchStream};
use crate::wire::{Part, Terms, Wire};

mod call;
mod create_or_patch;
mod create_or_update;
pub mod groups;
mod object;
mod params;
mod patch;
mod pods;
mod scale;
pub mod scope;
mod special;
mod subresource;
mod unstructured;

pub use call::{Call, Deleted, FieldValidation, Propagation, verb};
use call::{read_collection, read_deleted, read_object};
pub use create_or_patch::create_or_patch;
pub use create_or_update::{CreateOrUpdate, Mutation, create_or_update};
pub use object::Object;
pub use params::{ListParams, VersionMatch, WatchParams};
pub use patch::Patch;
pub use pods::{LogStream, Logs, ProxyTarget};
pub use scale::{ScaleApi, Scales};
use scope::{Addressable, All, Any, Namespaced, Scope, Start};
pub use subresource::Subresource;
pub use unstructured::{PartialObjectMetadata, Unstructured};

/// The objects of one kind, in one [`scope`]: one namespace, all of them, or the cluster.
///
/// Cheap to make and to clone. Reading an object gives an [`Obj`], whose payload is decoded when
/// [`typed`](Obj::typed) asks for it. A verb that changes something, or reads one object, is a [`Call`]: say what else it
/// needs, then await it.
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
/// Naming an object of a namespaced kind takes a namespace, and that is checked when the program is compiled:
///
/// ```compile_fail
/// # async fn example(client: evenkeel_client::Client) {
/// use k8s_openapi::api::core::v1::Pod;
/// client.api::<Pod>().get("web-0").await; // in which namespace?
/// # }
/// ```
/// ```compile_fail
/// # async fn example(client: evenkeel_client::Client) {
/// use k8s_openapi::api::core::v1::Node;
/// client.api::<Node>().namespace("default"); // nodes live in none
/// # }
/// ```
pub struct Api<K, S = Namespaced> {
    client: Client,
    info: Arc<ResourceInfo>,
    scope: S,
    extent: Extent,
    /// If it is another one than the client's.
    wire: Option<Wire>,
    kind: PhantomData<fn() -> K>,
}

/// How much of an object is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// What is known of its kind.
    Known,
    /// All of it, also what nobody here knows anything about.
    Everything,
    Metadata,
}

impl Client {
    /// The objects of kind `K`: those of the cluster if that is where they live, else those of all namespaces, from which
    /// [`Api::namespace`] chooses one.
    pub fn api<K>(&self) -> Api<K, <K::Scope as Start>::Scope>
    where
        K: Resource + 'static,
        K::DynamicType: Default,
        K::Scope: Start,
    {
        Api::new(self, self.resource::<K>(), K::Scope::scope())
    }

    /// The objects of a kind that is only known now: from discovery, from a configuration, from a user.
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
        Api { extent: Extent::Everything, ..Api::of(self, info) }
    }
}

impl<K> Api<K, Any> {
    /// The objects of a kind that is only known now, to be decoded as `K`, such as kube-core's `DynamicObject`.
    pub fn of(client: &Client, info: &Arc<ResourceInfo>) -> Self {
        Api::new(client, Arc::clone(info), Any { namespace: None, namespaced: info.namespaced() })
    }

    /// Only those in this namespace. For a kind that lives in no namespace this changes nothing.
    pub fn namespace(&self, namespace: &str) -> Self {
        let namespaced = self.scope.namespaced;
        self.scoped(Any { namespace: namespaced.then(|| namespace.into()), namespaced })
    }
}

impl<K> Api<K, All> {
    /// Only those in this namespace. An empty name lists and watches all namespaces, and names no object.
    pub fn namespace(&self, namespace: &str) -> Api<K> {
        self.scoped(Namespaced(namespace.into()))
    }

    /// Only those in the namespace that the client's configuration names for those who name none.
    pub fn default_namespace(&self) -> Api<K> {
        self.namespace(&self.client.config().namespace)
    }
}

impl<K, S: Scope> Api<K, S> {
    pub(crate) fn new(client: &Client, info: Arc<ResourceInfo>, scope: S) -> Self {
        Api { client: client.clone(), info, scope, extent: Extent::Known, wire: None, kind: PhantomData }
    }

    /// The same objects in another scope, or as another type.
    fn seen_as<L, T>(&self, scope: T, extent: Extent) -> Api<L, T> {
        let (client, info) = (self.client.clone(), Arc::clone(&self.info));
        Api { client, info, scope, extent, wire: self.wire, kind: PhantomData }
    }

    fn scoped<T>(&self, scope: T) -> Api<K, T> {
        self.seen_as(scope, self.extent)
    }

    /// The same objects, of which only the metadata is sent.
    pub fn metadata(&self) -> Api<PartialObjectMetadata, S> {
        self.seen_as(self.scope.clone(), Extent::Metadata)
    }

    /// Whether only the metadata of the objects is asked for.
    pub fn is_metadata_only(&self) -> bool {
        self.extent == Extent::Metadata
    }

    /// The same objects, which have this form on their way, whatever the client's configuration says.
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

    /// The form that is chosen for the objects' way: here, or by the client's configuration. Kinds that are only known at
    /// run time are JSON unless it is chosen here.
    pub fn chosen_wire(&self) -> Wire {
        match (self.wire, self.extent) {
            (Some(wire), _) => wire,
            (None, Extent::Everything) => Wire::Json,
            (None, Extent::Known | Extent::Metadata) => self.client.config().wire,
        }
    }

    /// What is known of the kind.
    pub fn resource(&self) -> &Arc<ResourceInfo> {
        &self.info
    }

    /// The client that makes the requests.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads the objects that are there: all of them, or a page.
    ///
    /// The list is decoded while it comes in. For more objects than should be in memory at once, or in one answer, go
    /// through it page by page with [`pages`](Self::pages).
    pub async fn list(&self, params: &ListParams) -> Result<List<K>, Error> {
        params.add_to(self.ask(Method::GET, self.collection(), Part::MetadataList)).list(&self.info).await
    }

    /// Reads the objects that are there, all of them or a page, and hands them out one by one as they come in.
    ///
    /// This is for lists that should not be in memory as a whole, and for readers that would rather miss an object which
    /// cannot be read than all the others.
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
    ///         Err(error) if error.is_about_one_item() => eprintln!("passed over: {error}"),
    ///         Err(error) => return Err(error),
    ///     }
    /// }
    /// println!("as of version {:?}", pods.meta().map(|meta| &meta.resource_version));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn list_stream(&self, params: &ListParams) -> Result<ListStream<K>, Error> {
        params.add_to(self.ask(Method::GET, self.collection(), Part::MetadataList)).list_stream(&self.info).await
    }

    /// Watches what happens to the objects.
    pub async fn watch(&self, params: &WatchParams) -> Result<WatchStream<K>, Error> {
        params.add_to(self.ask(Method::GET, self.collection(), Part::Metadata)).watch(&self.info).await
    }

    /// Deletes all objects that match, one after the other. Answers with those that the server shows as deleted, or on
    /// their way. Servers refuse to do this across namespaces.
    pub fn delete_collection(&self, params: &ListParams) -> Call<Vec<Obj<K>>, verb::Delete> {
        let request = params.add_to(self.ask(Method::DELETE, self.collection(), Part::All));
        Call::delete(request, &self.info, read_collection)
    }

    fn collection(&self) -> Path<'_> {
        let path = Path::resource(&self.info);
        match self.scope.namespace() {
            Some(namespace) if !namespace.is_empty() => path.namespace(namespace),
            _ => path,
        }
    }

    /// A request about objects of this kind. If metadata is all that is wanted, it asks for this part.
    fn ask(&self, method: Method, path: Path<'_>, metadata: Part) -> Request {
        let wire = self.chosen_wire();
        let terms = match (self.extent, metadata) {
            // Such as a delete, which custom resources do not take in protobuf.
            (Extent::Metadata, Part::All) => Terms::default(),
            (Extent::Metadata, part) => Terms::new(wire, &self.info, part),
            (Extent::Known | Extent::Everything, _) => Terms::new(wire, &self.info, Part::All),
        };
        self.client.request(method, path).terms(terms)
    }
}

impl<K, S: Addressable> Api<K, S> {
    /// The namespace in which a name is looked up, or why a name is not enough.
    pub(crate) fn address(&self) -> Result<Option<&str>, RequestError> {
        self.scope.address()
    }

    /// Reads an object.
    pub fn get(&self, name: &str) -> Call<Obj<K>, verb::Get> {
        self.one(Method::GET, name, None)
    }

    /// Changes a part of an object.
    pub fn patch(&self, name: &str, patch: &Patch) -> Call<Obj<K>, verb::Patch> {
        self.one(Method::PATCH, name, None).with(|request| add_patch(request, patch))
    }

    /// Deletes an object.
    pub fn delete(&self, name: &str) -> Call<Deleted<K>, verb::Delete> {
        Call::delete(self.request(Method::DELETE, Some(name), None, Part::All), &self.info, read_deleted)
    }

    /// A call about the object of this name, or about a subresource of it.
    fn one<V>(&self, method: Method, name: &str, subresource: Option<&str>) -> Call<Obj<K>, V> {
        let request = self.request(method, Some(name), subresource, Part::Metadata);
        Call::new(request, &self.info, read_object)
    }

    fn request(&self, method: Method, name: Option<&str>, subresource: Option<&str>, metadata: Part) -> Request {
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
            None => self.ask(method, path, metadata),
            Some(fault) => self.ask(method, path, metadata).fault(fault),
        }
    }
}

impl<K: Object, S: Addressable> Api<K, S> {
    /// Creates an object. Without a name it needs a `generateName`, from which the server makes one.
    pub fn create(&self, object: &K) -> Call<Obj<K>, verb::Write> {
        let request = self.request(Method::POST, None, None, Part::All);
        Call::new(self.body(request, object), &self.info, read_object)
    }

    /// Replaces an object, which the object itself names. If it carries a resource version, only that version of it is
    /// replaced; else the last writer wins.
    pub fn update(&self, object: &K) -> Call<Obj<K>, verb::Write> {
        self.update_of(object, None)
    }

    fn update_of(&self, object: &K, subresource: Option<&str>) -> Call<Obj<K>, verb::Write> {
        let name = object.name().unwrap_or_default();
        let request = self.request(Method::PUT, Some(&name), subresource, Part::All);
        Call::new(self.body(request, object), &self.info, read_object)
    }

    /// Puts an object into a request, if it belongs where the request goes.
    fn body(&self, request: Request, object: &K) -> Request {
        self.check_namespace(request, object).value(object)
    }

    fn check_namespace(&self, request: Request, object: &K) -> Request {
        match (object.namespace(), self.scope.namespace()) {
            (Some(own), Some(ours)) if own != ours && !ours.is_empty() => {
                let problem =
                    format!("the object says it is in namespace {own:?}, the request is for namespace {ours:?}");
                request.fault(RequestError::Invalid { problem })
            }
            _ => request,
        }
    }
}

impl<K, S: Addressable> Api<K, S> {
    /// Says what fields of an object shall be, and takes ownership of them (server-side apply). Creates the object if it
    /// is not there. `fields` is an object with just the fields that `field_manager` cares for, and no `managedFields`.
    ///
    /// A field that another manager owns with another value is a conflict, unless [`Call::force`] is said.
    pub fn apply<T: Object + ?Sized>(&self, name: &str, field_manager: &str, fields: &T) -> Call<Obj<K>, verb::Apply> {
        self.apply_to(name, None, field_manager, fields)
    }

    fn apply_to<T: Object + ?Sized>(
        &self,
        name: &str,
        subresource: Option<&str>,
        field_manager: &str,
        fields: &T,
    ) -> Call<Obj<K>, verb::Apply> {
        self.one(Method::PATCH, name, subresource).with(|request| {
            if fields.has_managed_fields() {
                let problem = "an object with managedFields cannot be applied: they say what others did".to_owned();
                return request.fault(RequestError::Invalid { problem });
            }
            add_patch(request, &Patch::apply(fields)).query("fieldManager", field_manager)
        })
    }
}

fn add_patch(request: Request, patch: &Patch) -> Request {
    match &patch.body {
        Ok(body) => request.body(body.clone(), patch.media_type),
        Err(fault) => request.fault(fault.clone()),
    }
}

impl<K, S: Clone> Clone for Api<K, S> {
    fn clone(&self) -> Self {
        let Api { client, info, scope, extent, wire, kind } = self;
        let (client, info, scope) = (client.clone(), Arc::clone(info), scope.clone());
        Api { client, info, scope, extent: *extent, wire: *wire, kind: *kind }
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
