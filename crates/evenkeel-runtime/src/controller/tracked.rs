//! Writes that are noted: [`TrackedClient`], [`TrackedApi`] and [`TrackedCall`].

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;

use evenkeel_client::api::scope::{Addressable, All, Any, Namespaced, Scope, Start};
use evenkeel_client::api::{Deleted, FieldValidation, Mutation, Object, Propagation, Subresource, verb};
use evenkeel_client::{
    Api, Call, Client, CreateOrUpdate, Error, List, ListParams, PartialObjectMetadata, Patch, Request, Unstructured,
};
use evenkeel_core::{Obj, ObjectKey, ResourceInfo};
use k8s_openapi::api::autoscaling::v1::Scale;
use kube_core::Resource;
use serde::de::DeserializeOwned;

use super::observed_writes::ObservedWrites;

/// The client of a reconcile: what is written with it is noted, and the next reconcile of the same key begins when the caches
/// show it.
///
/// It has what reconciles need most; [`untracked`](Self::untracked) has the rest. What was written with that can be noted by
/// hand: [`Context::wrote`](super::Context::wrote).
#[derive(Clone)]
pub struct TrackedClient {
    client: Client,
    notes: ObservedWrites,
}

impl TrackedClient {
    pub(super) fn new(client: &Client, notes: &ObservedWrites) -> Self {
        TrackedClient { client: client.clone(), notes: notes.clone() }
    }

    /// The objects of kind `K`; see [`Client::api`].
    pub fn api<K>(&self) -> TrackedApi<K, <K::Scope as Start>::Scope>
    where
        K: Resource + 'static,
        K::DynamicType: Default,
        K::Scope: Start,
    {
        TrackedApi { api: self.client.api(), namespace: None, notes: self.notes.clone() }
    }

    /// The objects of a kind that is only known now; see [`Client::dynamic`].
    pub fn dynamic(&self, info: &Arc<ResourceInfo>) -> TrackedApi<Unstructured, Any> {
        TrackedApi { api: self.client.dynamic(info), namespace: None, notes: self.notes.clone() }
    }

    /// The client, without a note of what it writes.
    pub fn untracked(&self) -> &Client {
        &self.client
    }
}

/// An [`Api`] whose writes are noted. Its verbs are those of [`Api`]; those that it does not have are at
/// [`untracked`](Self::untracked).
///
/// It is no [`Api`], and cannot be given to what asks for one, because that would write without a note.
pub struct TrackedApi<K, S = Namespaced> {
    api: Api<K, S>,
    namespace: Option<Arc<str>>,
    notes: ObservedWrites,
}

impl<K> TrackedApi<K, All> {
    /// Only those in this namespace.
    pub fn namespace(&self, namespace: &str) -> TrackedApi<K> {
        TrackedApi { api: self.api.namespace(namespace), namespace: Some(namespace.into()), notes: self.notes.clone() }
    }

    /// Only those in the namespace that the client's configuration names for those who name none.
    pub fn default_namespace(&self) -> TrackedApi<K> {
        self.namespace(&self.api.client().config().namespace)
    }
}

impl<K> TrackedApi<K, Any> {
    /// Only those in this namespace. For a kind that lives in no namespace this changes nothing.
    pub fn namespace(&self, namespace: &str) -> Self {
        let namespaced = self.api.resource().namespaced();
        TrackedApi {
            api: self.api.namespace(namespace),
            namespace: namespaced.then(|| namespace.into()),
            notes: self.notes.clone(),
        }
    }
}

impl<K: 'static, S: Scope> TrackedApi<K, S> {
    /// The same without a note of what it writes. What was written can be noted by hand:
    /// [`Context::wrote`](super::Context::wrote).
    pub fn untracked(&self) -> &Api<K, S> {
        &self.api
    }

    /// What is known of the kind.
    pub fn resource(&self) -> &Arc<ResourceInfo> {
        self.api.resource()
    }

    /// Asks the server for the objects that are there; see [`Api::list`].
    ///
    /// # Errors
    /// As [`Api::list`].
    pub async fn list(&self, params: &ListParams) -> Result<List<K>, Error> {
        self.api.list(params).await
    }

    /// The same objects, of which only the metadata is sent.
    pub fn metadata(&self) -> TrackedApi<PartialObjectMetadata, S> {
        TrackedApi { api: self.api.metadata(), namespace: self.namespace.clone(), notes: self.notes.clone() }
    }

    /// How many copies of something the objects ask for, whatever their kind.
    pub fn scale(&self) -> TrackedSubresource<Scale, S> {
        self.subresource("scale")
    }

    /// What controllers report of the objects.
    pub fn status(&self) -> TrackedSubresource<K, S> {
        TrackedSubresource { part: self.api.status(), notes: self.notes.clone() }
    }

    /// Another part of the objects, which is read and written as a `T`.
    pub fn subresource<T>(&self, part: &str) -> TrackedSubresource<T, S> {
        TrackedSubresource { part: self.api.subresource(part), notes: self.notes.clone() }
    }

    /// Deletes all objects that match; see [`Api::delete_collection`].
    pub fn delete_collection(&self, params: &ListParams) -> TrackedCall<Vec<Obj<K>>, verb::Delete> {
        self.call(self.api.delete_collection(params), |notes, objects: &Vec<Obj<K>>| {
            for object in objects {
                match object.deletion_timestamp() {
                    Some(_) => notes.wrote(object),
                    None => notes.deleted(object.resource(), object.key(), object.uid()),
                }
            }
        })
    }

    fn call<T, V>(
        &self,
        call: Call<T, V>,
        note: impl FnOnce(&ObservedWrites, &T) + Send + 'static,
    ) -> TrackedCall<T, V> {
        TrackedCall { call, note: Some((self.notes.clone(), Box::new(note))) }
    }
}

impl<K: 'static, S: Addressable> TrackedApi<K, S> {
    /// Asks the server for an object; see [`Api::get`].
    pub fn get(&self, name: &str) -> Call<Obj<K>, verb::Get> {
        self.api.get(name)
    }

    /// Changes a part of an object; see [`Api::patch`].
    pub fn patch(&self, name: &str, patch: &Patch) -> TrackedCall<Obj<K>, verb::Patch> {
        self.call(self.api.patch(name, patch), wrote)
    }

    /// Says what fields of an object shall be; see [`Api::apply`].
    pub fn apply<T: Object + ?Sized>(
        &self,
        name: &str,
        field_manager: &str,
        fields: &T,
    ) -> TrackedCall<Obj<K>, verb::Apply> {
        self.call(self.api.apply(name, field_manager, fields), wrote)
    }

    /// Deletes an object; see [`Api::delete`].
    pub fn delete(&self, name: &str) -> TrackedCall<Deleted<K>, verb::Delete> {
        let info = Arc::clone(self.api.resource());
        let key = match &self.namespace {
            Some(namespace) => ObjectKey::namespaced(namespace, name),
            None => ObjectKey::cluster(name),
        };
        self.call(self.api.delete(name), move |notes, deleted| match deleted {
            // Of some kinds the answer is the object also if it is gone.
            Deleted::Terminating(object) if object.deletion_timestamp().is_none() => {
                notes.deleted(&info, &key, object.uid());
            }
            Deleted::Terminating(object) => notes.wrote(object),
            Deleted::Gone(status) => {
                let uid = status.details.as_ref().map_or("", |details| &details.uid);
                notes.deleted(&info, &key, uid);
            }
        })
    }
}

impl<K: Object + 'static, S: Addressable> TrackedApi<K, S> {
    /// Creates an object; see [`Api::create`].
    pub fn create(&self, object: &K) -> TrackedCall<Obj<K>, verb::Write> {
        self.call(self.api.create(object), wrote)
    }

    /// Replaces an object; see [`Api::update`].
    pub fn update(&self, object: &K) -> TrackedCall<Obj<K>, verb::Write> {
        self.call(self.api.update(object), wrote)
    }
}

fn wrote<T>(notes: &ObservedWrites, object: &Obj<T>) {
    notes.wrote(object);
}

impl<K, S> TrackedApi<K, S>
where
    K: Object + Clone + DeserializeOwned + Send + Sync + 'static,
    S: Addressable,
{
    /// Has an object as it should be, whether it is there or not; see [`create_or_update`](evenkeel_client::create_or_update).
    ///
    /// # Errors
    /// As [`create_or_update`](evenkeel_client::create_or_update).
    pub async fn create_or_update<M: Mutation>(
        &self,
        initial: &K,
        mutate: impl FnMut(&mut K) -> M,
    ) -> Result<CreateOrUpdate<K>, Error> {
        let done = evenkeel_client::create_or_update(&self.api, initial, mutate).await?;
        // What was found as it should be may be newer than what the caches show, so it is noted too.
        self.notes.wrote(done.object());
        Ok(done)
    }

    /// The same, sending only what differs, and with the status; see [`create_or_patch`](evenkeel_client::create_or_patch).
    ///
    /// # Errors
    /// As [`create_or_patch`](evenkeel_client::create_or_patch).
    pub async fn create_or_patch<M: Mutation>(
        &self,
        initial: &K,
        mutate: impl FnMut(&mut K) -> M,
    ) -> Result<CreateOrUpdate<K>, Error> {
        let done = evenkeel_client::create_or_patch(&self.api, initial, mutate).await?;
        self.notes.wrote(done.object());
        Ok(done)
    }
}

/// A [`Subresource`] whose writes are noted.
pub struct TrackedSubresource<T, S> {
    part: Subresource<T, S>,
    notes: ObservedWrites,
}

impl<T: 'static, S: Addressable> TrackedSubresource<T, S> {
    /// The same without a note of what it writes.
    pub fn untracked(&self) -> &Subresource<T, S> {
        &self.part
    }

    /// Asks the server for the part.
    pub fn get(&self, name: &str) -> Call<Obj<T>, verb::Get> {
        self.part.get(name)
    }

    fn call<V>(&self, call: Call<Obj<T>, V>) -> TrackedCall<Obj<T>, V> {
        TrackedCall { call, note: Some((self.notes.clone(), Box::new(wrote))) }
    }

    /// Changes something of the part.
    pub fn patch(&self, name: &str, patch: &Patch) -> TrackedCall<Obj<T>, verb::Patch> {
        self.call(self.part.patch(name, patch))
    }

    /// Says what fields of the part shall be; see [`Subresource::apply`].
    pub fn apply<F: Object + ?Sized>(
        &self,
        name: &str,
        field_manager: &str,
        fields: &F,
    ) -> TrackedCall<Obj<T>, verb::Apply> {
        self.call(self.part.apply(name, field_manager, fields))
    }
}

impl<T: Object + 'static, S: Addressable> TrackedSubresource<T, S> {
    /// Replaces the part of the object that `object` names.
    pub fn update(&self, object: &T) -> TrackedCall<Obj<T>, verb::Write> {
        self.call(self.part.update(object))
    }
}

type KeyObserver<T> = Box<dyn FnOnce(&ObservedWrites, &T) + Send>;

/// A [`Call`] that is noted when the server has answered it. A dry run changes nothing and is not noted.
#[must_use = "a call does nothing until it is awaited"]
pub struct TrackedCall<T, V> {
    call: Call<T, V>,
    note: Option<(ObservedWrites, KeyObserver<T>)>,
}

impl<T, V> TrackedCall<T, V> {
    /// Changes the request in a way that this type has no method for.
    pub fn with(mut self, change: impl FnOnce(Request) -> Request) -> Self {
        self.call = self.call.with(change);
        self
    }
}

/// The verbs that can be tried out. What they have in common is not known of them elsewhere.
macro_rules! dry_runs {
    ($($verb:ty),*) => {$(
        impl<T> TrackedCall<T, $verb> {
            /// Do everything but store it.
            pub fn dry_run(self) -> Self {
                TrackedCall { call: self.call.dry_run(), note: None }
            }
        }
    )*};
}

dry_runs!(verb::Write, verb::Patch, verb::Apply, verb::Delete);

impl<T, V: verb::Changes> TrackedCall<T, V> {
    /// Who is said to own the fields that are written.
    pub fn field_manager(mut self, name: impl Into<String>) -> Self {
        self.call = self.call.field_manager(name);
        self
    }

    /// What to do with fields that the server does not know.
    pub fn field_validation(mut self, validation: FieldValidation) -> Self {
        self.call = self.call.field_validation(validation);
        self
    }
}

impl<T, V: verb::Forces> TrackedCall<T, V> {
    /// Take fields away from whoever owns them.
    pub fn force(mut self) -> Self {
        self.call = self.call.force();
        self
    }
}

impl<T> TrackedCall<T, verb::Delete> {
    /// How long the object may take to end; 0 ends it at once.
    pub fn grace_period(mut self, seconds: u32) -> Self {
        self.call = self.call.grace_period(seconds);
        self
    }

    /// What happens to the objects that it owns.
    pub fn propagation(mut self, propagation: Propagation) -> Self {
        self.call = self.call.propagation(propagation);
        self
    }

    /// Only if the object has this uid.
    pub fn only_uid(mut self, uid: impl Into<String>) -> Self {
        self.call = self.call.only_uid(uid);
        self
    }

    /// Only if the object has this resource version.
    pub fn only_version(mut self, version: impl Into<String>) -> Self {
        self.call = self.call.only_version(version);
        self
    }
}

impl<T: Send + Sync + 'static, V: 'static> IntoFuture for TrackedCall<T, V> {
    type Output = Result<T, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let TrackedCall { call, note } = self;
        let call = call.into_future();
        Box::pin(async move {
            let answer = call.await?;
            if let Some((notes, note)) = note {
                note(&notes, &answer);
            }
            Ok(answer)
        })
    }
}

impl<K, S: Clone> Clone for TrackedApi<K, S> {
    fn clone(&self) -> Self {
        TrackedApi { api: self.api.clone(), namespace: self.namespace.clone(), notes: self.notes.clone() }
    }
}

impl fmt::Debug for TrackedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrackedClient").field("client", &self.client).field("notes", &self.notes).finish()
    }
}

impl<K, S: Scope> fmt::Debug for TrackedApi<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrackedApi").field("api", &self.api).field("notes", &self.notes).finish()
    }
}

impl<T, S: Scope> fmt::Debug for TrackedSubresource<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrackedSubresource").field("part", &self.part).field("notes", &self.notes).finish()
    }
}

impl<T, V> fmt::Debug for TrackedCall<T, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TrackedCall").field(&self.call).finish()
    }
}
