//! Who owns an object.

use evenkeel_client::ToReference;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::{HasOwners, HasOwnersMut};

/// An object cannot be owned like that. It was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// Another controller has it.
    #[error("the object is controlled by {kind} {name} already (uid {uid})")]
    OtherController {
        /// That controller's kind.
        kind: String,
        /// Its name.
        name: String,
        /// Its uid, by which it differs from another of the same name.
        uid: String,
    },
    /// Owners of a namespace can only own what is in it.
    #[error("{owner} is in namespace {owner_namespace:?} and cannot own an object in {}", place(.namespace))]
    OtherNamespace {
        /// The owner.
        owner: String,
        /// Its namespace.
        owner_namespace: String,
        /// What the object says where it is.
        namespace: Option<String>,
    },
    /// The owner is not known well enough to be named: it has not come from a server.
    #[error("{owner} cannot own anything: its {missing} is not known")]
    Incomplete {
        /// The owner.
        owner: String,
        /// What is missing.
        missing: &'static str,
    },
    /// The JSON is no object of Kubernetes.
    #[error("the object cannot be owned: {problem}")]
    Malformed {
        /// What is wrong with it.
        problem: String,
    },
}

fn place(namespace: &Option<String>) -> String {
    namespace.as_ref().map_or_else(|| "no namespace".to_owned(), |namespace| format!("namespace {namespace:?}"))
}

/// Makes `owner` the controller of the object: it goes when its owner goes, and the owner is told of what happens to it.
///
/// The owner is an [`Obj`](evenkeel_core::Obj), or the
/// [`typed_reference`](evenkeel_client::reference::typed_reference) of a value. The object is a value of a Rust type, or JSON.
/// Owners are told apart by their uids: one that was deleted and made anew is another one.
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
/// If another controller has the object, or if the two cannot belong together. A namespaced owner wants an object that says it
/// is in the same namespace; the server would delete any other as an orphan.
pub fn set_controller_reference<M>(
    object: &mut impl HasOwnersMut<M>,
    owner: &(impl ToReference + ?Sized),
) -> Result<(), OwnerError> {
    let reference = OwnerReference {
        controller: Some(true),
        block_owner_deletion: Some(true),
        ..checked(&*object, &owner.to_reference())?
    };
    if let Some(other) = controller_of(&*object)?
        && other.uid != reference.uid
    {
        let OwnerReference { kind, name, uid, .. } = other;
        return Err(OwnerError::OtherController { kind, name, uid });
    }
    put(object, reference)
}

/// Makes `owner` an owner of the object, one of perhaps several: it goes when all of them have gone. If it is the controller
/// already, it stays that. See [`set_controller_reference`] for the rest.
///
/// # Errors
/// If the two cannot belong together.
pub fn set_owner_reference<M>(
    object: &mut impl HasOwnersMut<M>,
    owner: &(impl ToReference + ?Sized),
) -> Result<(), OwnerError> {
    let mut reference = checked(&*object, &owner.to_reference())?;
    if let Some(current) = object.owner_references()?.into_iter().find(|current| current.uid == reference.uid) {
        reference.controller = current.controller;
        reference.block_owner_deletion = current.block_owner_deletion;
    }
    put(object, reference)
}

/// Takes `owner` away from the owners of the object. Answers whether it was one.
///
/// # Errors
/// If the object is JSON that is no object of Kubernetes.
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

/// The owner that controls the object, if there is one.
///
/// # Errors
/// If the object is JSON that is no object of Kubernetes.
pub fn controller_of<M>(object: &impl HasOwners<M>) -> Result<Option<OwnerReference>, OwnerError> {
    Ok(object.owner_references()?.into_iter().find(|owner| owner.controller == Some(true)))
}

/// Whether `owner`, by its uid, is what controls the object. JSON that is no object of Kubernetes is controlled by nobody.
pub fn is_controlled_by<M>(object: &impl HasOwners<M>, owner: &(impl ToReference + ?Sized)) -> bool {
    let owner = owner.to_reference().uid.filter(|uid| !uid.is_empty());
    let controller = controller_of(object).ok().flatten();
    controller.is_some_and(|controller| Some(controller.uid) == owner)
}

/// The reference to an owner that may own the object.
fn checked<M>(object: &impl HasOwners<M>, owner: &ObjectReference) -> Result<OwnerReference, OwnerError> {
    let known = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let shown = || {
        let [kind, name] = [&owner.kind, &owner.name].map(|text| known(text).unwrap_or_else(|| "?".to_owned()));
        format!("{kind} {name}")
    };
    let want = |text, missing| known(text).ok_or_else(|| OwnerError::Incomplete { owner: shown(), missing });
    let reference = OwnerReference {
        api_version: want(&owner.api_version, "API version")?,
        kind: want(&owner.kind, "kind")?,
        name: want(&owner.name, "name")?,
        uid: want(&owner.uid, "uid")?,
        controller: None,
        block_owner_deletion: None,
    };
    match known(&owner.namespace) {
        Some(owner_namespace) if object.namespace() != Some(&*owner_namespace) => Err(OwnerError::OtherNamespace {
            owner: shown(),
            owner_namespace,
            namespace: object.namespace().map(str::to_owned),
        }),
        _ => Ok(reference),
    }
}

/// Puts a reference in the place of the one to the same owner, or at the end.
fn put<M>(object: &mut impl HasOwnersMut<M>, reference: OwnerReference) -> Result<(), OwnerError> {
    let mut references = object.owner_references()?;
    match references.iter_mut().find(|current| current.uid == reference.uid) {
        Some(current) => *current = reference,
        None => references.push(reference),
    }
    object.set_owner_references(references)
}
