//! ResourceQuota: what the objects of a namespace may use in total (ADM-013 to ADM-017).
//!
//! A write is charged to `status.used` of each quota that covers it right before its commit. The lock of the index is held
//! from the check to the commit, so that parallel writes never exceed `hard`; a write that is not committed after all is
//! taken off again. The quota controller (`controllers/quotas.rs`) publishes what the index counts.
//!
//! | file | what |
//! |---|---|
//! | `quota` | a ResourceQuota as the check reads it |
//! | `subject` | what objects of a resource use, and which scopes they are in |
//! | `check` | whether a write fits |
//! | `index` | what all objects of a namespace use, kept by following the store's history |

mod check;
mod index;
mod quota;
mod subject;

use std::sync::{MutexGuard, PoisonError};

use serde_json::Value;

pub(crate) use self::index::QuotaIndex;
pub(crate) use self::quota::status as quota_status;
use self::subject::QuotaSubject;
use super::{AdmissionPlugin, AdmissionWrite};
use crate::engine::ApiEngine;
use crate::engine::request_error::RequestError;

/// The store of the quotas.
pub(crate) const QUOTAS: &str = "resourcequotas";

pub(super) struct ResourceQuota;

impl AdmissionPlugin for ResourceQuota {
    fn name(&self) -> &'static str {
        "ResourceQuota"
    }

    fn handles(&self, write: &AdmissionWrite<'_>) -> bool {
        write.has_object() && write.target.namespace.is_some()
    }

    fn reserve<'e>(
        &self,
        engine: &'e ApiEngine,
        write: &AdmissionWrite<'_>,
        object: &Value,
    ) -> Result<Option<QuotaReservation<'e>>, RequestError> {
        if engine.store.size(QUOTAS).0 == 0 {
            return Ok(None);
        }
        match QuotaSubject::of_store(&write.target.resource.storage).filter(|subject| subject.is_charged(write, object))
        {
            Some(subject) => engine.reserve_quota(write, subject, object),
            None => Ok(None),
        }
    }
}

impl ApiEngine {
    pub(crate) fn lock_quotas(&self) -> MutexGuard<'_, QuotaIndex> {
        self.quotas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Charges a write to the quotas of its namespace, or refuses it.
    fn reserve_quota(
        &self,
        write: &AdmissionWrite<'_>,
        subject: QuotaSubject,
        object: &Value,
    ) -> Result<Option<QuotaReservation<'_>>, RequestError> {
        let namespace = write.namespace();
        let mut index = self.lock_quotas();
        // Deletions and finished pods count from their commit on, also before the controller has published them.
        self.settle_quotas_of(&mut index, namespace);
        let charges = {
            let quotas = index.quotas_of(&self.store, namespace);
            check::charges(write, subject, object, quotas)?
        };
        if charges.is_empty() || write.dry_run {
            return Ok(None);
        }
        let mut reservation =
            QuotaReservation { engine: self, namespace: namespace.to_owned(), index: Some(index), is_committed: false };
        for (name, used) in charges {
            if let Some(index) = &mut reservation.index {
                self.publish_usage(index, namespace, &name, &used)?;
            }
        }
        Ok(Some(reservation))
    }
}

/// A charge whose object is not committed yet. No other write of a counted object is checked meanwhile. Unless it is
/// [kept](QuotaReservation::keep), dropping it takes the charge back.
#[must_use = "a dropped reservation takes its charge back"]
pub(crate) struct QuotaReservation<'e> {
    engine: &'e ApiEngine,
    namespace: String,
    /// Held until the end.
    index: Option<MutexGuard<'e, QuotaIndex>>,
    is_committed: bool,
}

impl QuotaReservation<'_> {
    /// Keeps the charge: the object is committed.
    pub(crate) fn keep(mut self) {
        self.is_committed = true;
    }
}

impl Drop for QuotaReservation<'_> {
    fn drop(&mut self) {
        if let (Some(mut index), false) = (self.index.take(), self.is_committed) {
            self.engine.settle_quotas_of(&mut index, &self.namespace);
        }
    }
}
