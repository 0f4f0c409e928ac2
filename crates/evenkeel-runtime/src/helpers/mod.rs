//! What controllers write again and again.
//!
//! - Finalizers: [`add_finalizer`] and [`remove_finalizer`], which never lose anybody else's, and [`Finalizers`], which runs what
//!   has to be done before an object goes.
//! - Owners: [`set_controller_reference`], [`set_owner_reference`], [`remove_owner_reference`], [`is_controlled_by`].
//! - Conditions: [`set_condition`] and its kin.
//! - Writing: [`create_or_update`] and [`create_or_patch`]. Server-side apply needs no helper: it is
//!   [`Api::apply`](evenkeel_client::Api::apply), with [`force`](evenkeel_client::Call::force), and the same of
//!   [`Api::status`](evenkeel_client::Api::status).
//!   In a reconcile, [`TrackedApi`](crate::controller::TrackedApi) has both, and notes what they write.
//! - Trying again: [`retry_on_conflict`]. Waiting: [`wait_for`] with the [conditions](evenkeel_client::wait::conditions) that
//!   there are.

mod conditions;
mod finalizer_patch;
mod finalizers;
mod has_owners;
mod owners;
#[cfg(test)]
mod tests;

pub use conditions::{find_condition, is_condition_true, remove_condition, set_condition};
pub use finalizer_patch::{add_finalizer, contains_finalizer, remove_finalizer};
pub use finalizers::{CleanupFailure, FinalizeError, Finalized, Finalizers, RegisterError};
pub use has_owners::{HasOwners, HasOwnersMut};
pub use owners::{
    OwnerError, controller_of, is_controlled_by, remove_owner_reference, set_controller_reference, set_owner_reference,
};

pub use evenkeel_client::{CreateOrUpdate, create_or_patch, create_or_update, retry_on_conflict, wait_for};
