//! Helpers for reconciles, as controller-runtime's `controllerutil` and `finalizer` packages.
//!
//! - Finalizers: [`add_finalizer`] and [`remove_finalizer`], which never lose the finalizers of others, and [`Finalizers`], which
//!   runs cleanups before an object is deleted.
//! - Owners: [`set_controller_reference`], [`set_owner_reference`], [`remove_owner_reference`], [`is_controlled_by`];
//!   [`controller_reference`] for server-side apply.
//! - Conditions: [`condition`], [`set_condition`], [`remove_condition`], [`find_condition`], [`is_condition_true`].
//! - Writes: [`create_or_update`], [`create_or_patch`], and [`create_or_patch_from`], which starts from a cached object.
//!   [`Patch::merge_from`](evenkeel_client::Patch::merge_from) makes a patch of two states of an object. Server-side apply is
//!   [`Api::apply`](evenkeel_client::Api::apply) with [`force`](evenkeel_client::ApiRequest::force), also of
//!   [`Api::status`](evenkeel_client::Api::status).
//! - Retries: [`retry_on_conflict`]. Waits: [`wait_for`], with [conditions](evenkeel_client::wait::conditions).
//!
//! In a reconcile, pass [`Context::client`](crate::Context::client) or an `Api` of it: the next reconcile of the key then sees what
//! the helpers write.

mod conditions;
mod finalizer_patch;
mod finalizers;
mod has_owners;
mod owners;
#[cfg(test)]
mod tests;

pub use conditions::{condition, find_condition, is_condition_true, remove_condition, set_condition};
pub use finalizer_patch::{add_finalizer, contains_finalizer, remove_finalizer};
pub use finalizers::{CleanupFailure, FinalizeError, Finalized, Finalizers, RegisterError};
pub use has_owners::{HasOwners, HasOwnersMut};
pub use owners::{
    OwnerError, controller_of, controller_reference, is_controlled_by, remove_owner_reference,
    set_controller_reference, set_owner_reference,
};

pub use evenkeel_client::{
    CreateOrPatch, CreateOrUpdate, create_or_patch, create_or_patch_from, create_or_update, retry_on_conflict, wait_for,
};
