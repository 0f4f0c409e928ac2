//! Owner references, as `controllerutil.SetControllerReference` of controller-runtime.

use evenkeel_client::ToReference;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::{HasOwners, HasOwnersMut};

/// An owner reference cannot be set. The object was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// Another owner controls the object.
    #[error("the object is already controlled by {kind} {name} (uid {uid}): `set_owner_reference` adds another owner")]
    OtherController {
        /// The kind of that owner.
        kind: String,
        /// Its name.
        name: String,
        /// Its uid, which distinguishes it from another object of the same name.
        uid: String,
    },
    /// A namespaced owner can only own objects in its namespace.
    #[error(
        "{owner} is in namespace {owner_namespace:?} and cannot own an object in {}: set the object's metadata.namespace to \
         {owner_namespace:?}",
        scope_name(.namespace)
    )]
    OtherNamespace {
        /// The owner.
        owner: String,
        /// Its namespace.
        owner_namespace: String,
        /// The namespace of the object.
        namespace: Option<String>,
    },
    /// The owner lacks a field that a reference needs: it does not come from a server.
    #[error(
        "{owner} cannot be an owner: its {missing} is unknown; use the object that the server or a lister returned"
    )]
    Incomplete {
        /// The owner.
        owner: String,
        /// The missing field.
        missing: &'static str,
    },
    /// The JSON is not a Kubernetes object.
    #[error("the object cannot have owners: {problem}")]
    Malformed {
        /// The problem.
        problem: String,
    },
}

fn scope_name(namespace: &Option<String>) -> String {
    namespace.as_ref().map_or_else(|| "no namespace".to_owned(), |namespace| format!("namespace {namespace:?}"))
}

/// Makes `owner` the controller of the object: the garbage collector deletes the object with its owner, and events of the object
/// enqueue the owner.
///
/// The owner is an [`Obj`](evenkeel_core::Obj), or the
/// [`typed_reference`](evenkeel_client::reference::typed_reference) of a value. The object is a value of a Rust type, or JSON.
/// Owners are identified by uid: an owner that was deleted and recreated is another one.
///
/// ```
/// # fn example(set: evenkeel_core::Obj<k8s_openapi::api::apps::v1::ReplicaSet>) -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_runtime::helpers::set_controller_reference;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let mut pod = Pod::default();
/// pod.metadata.namespace = set.key().namespace().map(str::to_owned);
/// set_controller_reference(&mut pod, &set)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Returns an error if another owner controls the object, or if the reference is not possible. A namespaced owner requires an object
/// with the same `metadata.namespace`; the server would delete any other as an orphan.
pub fn set_controller_reference<M>(
    object: &mut impl HasOwnersMut<M>,
    owner: &(impl ToReference + ?Sized),
) -> Result<(), OwnerError> {
    let owner = owner.to_reference();
    let reference = controller_reference(&owner)?;
    check_namespace(&*object, &owner)?;
    if let Some(other) = controller_of(&*object)?
        && other.uid != reference.uid
    {
        let OwnerReference { kind, name, uid, .. } = other;
        return Err(OwnerError::OtherController { kind, name, uid });
    }
    upsert(object, reference)
}

/// Returns the reference that makes `owner` the controller of an object: for server-side apply, where the object is a
/// [`Partial`](evenkeel_client::Partial). [`set_controller_reference`] is for all other objects.
///
/// ```
/// # fn example(set: evenkeel_core::Obj<k8s_openapi::api::apps::v1::ReplicaSet>) -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_client::apply;
/// use evenkeel_runtime::helpers::controller_reference;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let pod = apply!(Pod { metadata: { name: "web-0", owner_references: [controller_reference(&set)?] } });
/// # drop(pod);
/// # Ok(())
/// # }
/// ```
///
/// Not checked: a namespaced owner requires an object in its namespace; the server would delete any other as an orphan. If another
/// owner controls the object, the server rejects the write.
///
/// # Errors
/// Returns an error if the owner does not come from a server.
pub fn controller_reference(owner: &(impl ToReference + ?Sized)) -> Result<OwnerReference, OwnerError> {
    let reference = reference_to(&owner.to_reference())?;
    Ok(OwnerReference { controller: Some(true), block_owner_deletion: Some(true), ..reference })
}

/// Makes `owner` an owner of the object: the garbage collector deletes the object when all owners are deleted. An owner that is the
/// controller stays the controller. See [`set_controller_reference`] for the rest.
///
/// # Errors
/// Returns an error if the reference is not possible.
pub fn set_owner_reference<M>(
    object: &mut impl HasOwnersMut<M>,
    owner: &(impl ToReference + ?Sized),
) -> Result<(), OwnerError> {
    let owner = owner.to_reference();
    let mut reference = reference_to(&owner)?;
    check_namespace(&*object, &owner)?;
    if let Some(current) = object.owner_references()?.into_iter().find(|current| current.uid == reference.uid) {
        reference.controller = current.controller;
        reference.block_owner_deletion = current.block_owner_deletion;
    }
    upsert(object, reference)
}

/// Removes `owner` from the owners of the object. Returns whether it was one.
///
/// # Errors
/// Returns an error if the object is JSON that is not a Kubernetes object.
pub fn remove_owner_reference<M>(
    object: &mut impl HasOwnersMut<M>,
    owner: &(impl ToReference + ?Sized),
) -> Result<bool, OwnerError> {
    let uid = owner.to_reference().uid.unwrap_or_default();
    let mut references = object.owner_references()?;
    let before = references.len();
    references.retain(|reference| reference.uid != uid);
    if references.len() == before {
        return Ok(false);
    }
    object.set_owner_references(references)?;
    Ok(true)
}

/// Returns the owner that controls the object, if there is one.
///
/// # Errors
/// Returns an error if the object is JSON that is not a Kubernetes object.
pub fn controller_of<M>(object: &impl HasOwners<M>) -> Result<Option<OwnerReference>, OwnerError> {
    Ok(object.owner_references()?.into_iter().find(|owner| owner.controller == Some(true)))
}

/// Returns whether `owner`, by its uid, controls the object. Returns `false` for JSON that is not a Kubernetes object.
pub fn is_controlled_by<M>(object: &impl HasOwners<M>, owner: &(impl ToReference + ?Sized)) -> bool {
    let owner = owner.to_reference().uid.filter(|uid| !uid.is_empty());
    let controller = controller_of(object).ok().flatten();
    controller.is_some_and(|controller| Some(controller.uid) == owner)
}

/// Returns a reference to the owner, which is not its controller.
fn reference_to(owner: &ObjectReference) -> Result<OwnerReference, OwnerError> {
    let required =
        |text, missing| known(text).ok_or_else(|| OwnerError::Incomplete { owner: display_name(owner), missing });
    Ok(OwnerReference {
        api_version: required(&owner.api_version, "API version")?,
        kind: required(&owner.kind, "kind")?,
        name: required(&owner.name, "name")?,
        uid: required(&owner.uid, "uid")?,
        controller: None,
        block_owner_deletion: None,
    })
}

fn check_namespace<M>(object: &impl HasOwners<M>, owner: &ObjectReference) -> Result<(), OwnerError> {
    match known(&owner.namespace) {
        Some(owner_namespace) if object.namespace() != Some(&*owner_namespace) => Err(OwnerError::OtherNamespace {
            owner: display_name(owner),
            owner_namespace,
            namespace: object.namespace().map(str::to_owned),
        }),
        _ => Ok(()),
    }
}

fn display_name(owner: &ObjectReference) -> String {
    let [kind, name] = [&owner.kind, &owner.name].map(|text| known(text).unwrap_or_else(|| "?".to_owned()));
    format!("{kind} {name}")
}

fn known(text: &Option<String>) -> Option<String> {
    text.clone().filter(|text| !text.is_empty())
}

/// Replaces the reference to the same owner, or appends it.
fn upsert<M>(object: &mut impl HasOwnersMut<M>, reference: OwnerReference) -> Result<(), OwnerError> {
    let mut references = object.owner_references()?;
    match references.iter_mut().find(|current| current.uid == reference.uid) {
        Some(current) => *current = reference,
        None => references.push(reference),
    }
    object.set_owner_references(references)
}
