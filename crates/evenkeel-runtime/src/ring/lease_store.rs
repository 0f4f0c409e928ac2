//! [`LeaseStore`]: the Leases of a ring, and what they mean to the machines.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_client::{Api, Client, Error, ListParams, Patch};
use evenkeel_core::Obj;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use serde_json::json;

use super::assigner::{AssignerOperation, AssignerResponse, VersionedTable};
use super::clock::wall_micros;
use super::member::{MemberOperation, MemberResponse};
use super::member_record::{FENCED, FenceCause, LOOK, MEMBER, MemberLease, MemberRecord};
use super::table::{MemberName, SliceTable, TableError};

/// The label of all Leases of a ring, and the label that tells them apart.
pub(super) const NAME_LABEL: &str = "ring.evenkeel.dev/name";
pub(super) const PART_LABEL: &str = "ring.evenkeel.dev/part";
/// The annotation of the table.
const TABLE: &str = "ring.evenkeel.dev/table";

/// Reads and writes the Leases of a ring.
#[derive(Clone)]
pub(super) struct LeaseStore {
    pub(super) api: Api<Lease>,
    pub(super) ring: Arc<str>,
    namespace: Arc<str>,
    labels: BTreeMap<String, String>,
    lease_seconds: i32,
}

/// A Lease with what it is to the ring.
pub(super) enum RingLease {
    Table(VersionedTable),
    Member(MemberName, u64, MemberLease),
    /// The Lease of the election, or one that is no part of the protocol.
    Other,
}

/// A resource version that is no decimal number.
#[derive(Debug)]
pub(super) struct UnorderedVersion(pub(super) String);

type Answer<T> = Result<T, UnorderedVersion>;

impl LeaseStore {
    pub(super) fn new(
        client: &Client,
        namespace: &str,
        ring: &str,
        labels: &[(String, String)],
        lease_seconds: i32,
    ) -> Self {
        let labels = labels.iter().cloned().collect();
        LeaseStore {
            api: client.api::<Lease>().namespace(namespace),
            ring: ring.into(),
            namespace: namespace.into(),
            labels,
            lease_seconds,
        }
    }

    pub(super) fn table_name(&self) -> String {
        format!("{}-table", self.ring)
    }

    fn member_name(&self, name: &str) -> String {
        format!("{}-{name}", self.ring)
    }

    fn metadata(&self, name: String, part: &str, annotation: (&str, String), version: Option<u64>) -> ObjectMeta {
        let mut labels = self.labels.clone();
        labels.insert(NAME_LABEL.to_owned(), self.ring.to_string());
        labels.insert(PART_LABEL.to_owned(), part.to_owned());
        ObjectMeta {
            name: Some(name),
            namespace: Some(self.namespace.to_string()),
            labels: Some(labels),
            annotations: Some([(annotation.0.to_owned(), annotation.1)].into()),
            resource_version: version.map(|version| version.to_string()),
            ..ObjectMeta::default()
        }
    }

    /// Reads what a Lease of the ring says.
    pub(super) fn read(&self, lease: &Obj<Lease>) -> Answer<RingLease> {
        let version = version_of(lease)?;
        let Ok(lease) = lease.typed() else { return Ok(RingLease::Other) };
        let annotations = lease.metadata.annotations.as_ref();
        let annotation = |name: &str| annotations.and_then(|all| all.get(name));
        let part = lease.metadata.labels.as_ref().and_then(|labels| labels.get(PART_LABEL)).map(String::as_str);
        match part {
            Some("table") => {
                let text = annotation(TABLE).ok_or(TableError::Missing);
                Ok(RingLease::Table((version, text.and_then(|text| SliceTable::decode(text).map(Arc::new)))))
            }
            Some("member") => {
                let name =
                    lease.metadata.name.as_deref().and_then(|name| name.strip_prefix(&*self.ring)?.strip_prefix('-'));
                let record = annotation(MEMBER).and_then(|text| MemberRecord::decode(text).ok()).unwrap_or_default();
                let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
                let member = MemberLease {
                    record: Arc::new(record),
                    renewed: renewed.map_or(0, |time| time.0.as_microsecond()),
                    fenced: annotation(FENCED).map(|text| FenceCause::of(text)),
                };
                Ok(name.map_or(RingLease::Other, |name| RingLease::Member(name.into(), version, member)))
            }
            _ => Ok(RingLease::Other),
        }
    }

    pub(super) async fn member(&self, name: &str, operation: MemberOperation) -> Answer<MemberResponse> {
        let lease_name = self.member_name(name);
        let answer = match operation {
            MemberOperation::ReadTable => match self.api.get(&self.table_name()).await {
                Ok(lease) => match self.read(&lease)? {
                    RingLease::Table((_, table)) => return Ok(MemberResponse::Table(table.map(Arc::unwrap_or_clone))),
                    _ => return Ok(MemberResponse::Table(Err(TableError::Missing))),
                },
                Err(error) => Err(error),
            },
            MemberOperation::Read => match self.api.get(&lease_name).await {
                Ok(lease) => match self.read(&lease)? {
                    RingLease::Member(_, version, lease) => return Ok(MemberResponse::Lease { version, lease }),
                    _ => return Ok(MemberResponse::Missing),
                },
                Err(error) => Err(error),
            },
            MemberOperation::Create(lease) => self.api.create(&self.member_lease(name, &lease, None)).await,
            MemberOperation::Update(lease, version) => {
                self.api.update(&self.member_lease(name, &lease, Some(version))).await
            }
            MemberOperation::Delete(version) => match self.delete(&lease_name, version).await {
                Ok(()) => return Ok(MemberResponse::Written { version }),
                Err(error) => Err(error),
            },
        };
        match answer {
            Ok(lease) => Ok(MemberResponse::Written { version: version_of(&lease)? }),
            Err(error) => Ok(match outcome(&error) {
                WriteOutcome::Missing => MemberResponse::Missing,
                WriteOutcome::Conflict => MemberResponse::Conflict,
                WriteOutcome::Failed => MemberResponse::Failed,
            }),
        }
    }

    fn member_lease(&self, name: &str, lease: &MemberLease, version: Option<u64>) -> Lease {
        let metadata = self.metadata(self.member_name(name), "member", (MEMBER, lease.record.encode()), version);
        let renew_time = Timestamp::from_microsecond(lease.renewed).ok().map(MicroTime);
        let spec = LeaseSpec {
            holder_identity: Some(name.to_owned()),
            lease_duration_seconds: Some(self.lease_seconds),
            renew_time,
            ..LeaseSpec::default()
        };
        Lease { metadata, spec: Some(spec) }
    }

    async fn delete(&self, name: &str, version: u64) -> Result<(), Error> {
        self.api.delete(name).only_version(version.to_string()).await.map(|_| ())
    }

    pub(super) async fn assigner(&self, operation: AssignerOperation) -> Answer<AssignerResponse> {
        let answer = match operation {
            AssignerOperation::List => return self.list().await,
            AssignerOperation::ReadTable => self.api.get(&self.table_name()).await,
            AssignerOperation::ReadMember(name) => self.api.get(&self.member_name(&name)).await,
            AssignerOperation::CreateTable(table) => match self.table_lease(&table, None) {
                Ok(lease) => return written(self.api.create(&lease).await),
                Err(response) => return Ok(response),
            },
            AssignerOperation::UpdateTable(table, version) => match self.table_lease(&table, Some(version)) {
                Ok(lease) => return written(self.api.update(&lease).await),
                Err(response) => return Ok(response),
            },
            AssignerOperation::Fence(name, version, cause) => {
                let patch = json!({
                    "metadata": {
                        "resourceVersion": version.to_string(),
                        "annotations": { FENCED: format!("{cause}, by the assigner of ring {}", self.ring) }
                    },
                    "spec": { "holderIdentity": null }
                });
                return written(self.api.patch(&self.member_name(&name), &Patch::merge(&patch)).await);
            }
            AssignerOperation::Nudge(name, version) => {
                let look = wall_micros().to_string();
                let patch =
                    json!({"metadata": {"resourceVersion": version.to_string(), "annotations": { LOOK: look }}});
                return written(self.api.patch(&self.member_name(&name), &Patch::merge(&patch)).await);
            }
            AssignerOperation::Remove(name, version) => {
                return Ok(match self.delete(&self.member_name(&name), version).await {
                    Ok(()) => AssignerResponse::Written { version },
                    Err(error) => failed(&error),
                });
            }
        };
        match answer {
            Ok(lease) => Ok(match self.read(&lease)? {
                RingLease::Table(table) => AssignerResponse::Table(table),
                RingLease::Member(_, version, lease) => AssignerResponse::Member(version, lease),
                RingLease::Other => AssignerResponse::Failed,
            }),
            Err(error) => Ok(failed(&error)),
        }
    }

    fn table_lease(&self, table: &SliceTable, version: Option<u64>) -> Result<Lease, AssignerResponse> {
        match table.encode() {
            Ok(text) => {
                Ok(Lease { metadata: self.metadata(self.table_name(), "table", (TABLE, text), version), spec: None })
            }
            Err(error) => {
                tracing::error!(ring = %self.ring, %error, "the table cannot be written");
                Err(AssignerResponse::Failed)
            }
        }
    }

    /// Reads the version of the election's Lease; `None` if there is none.
    pub(super) async fn election_version(&self) -> Result<Answer<Option<u64>>, Error> {
        match self.api.get(&self.ring).await {
            Ok(lease) => Ok(version_of(&lease).map(Some)),
            Err(error) if error.is_not_found() => Ok(Ok(None)),
            Err(error) => Err(error),
        }
    }

    async fn list(&self) -> Answer<AssignerResponse> {
        let params = ListParams::default().labels(format_args!("{NAME_LABEL}={}", self.ring));
        let list = match self.api.list(&params).await {
            Ok(list) => list,
            Err(error) => return Ok(failed(&error)),
        };
        let version = decimal(list.meta.resource_version.as_str())?;
        let (mut members, mut table) = (Vec::new(), None);
        for lease in list.iter() {
            match self.read(lease)? {
                RingLease::Table(found) => table = Some(found),
                RingLease::Member(name, version, lease) => members.push((name, version, lease)),
                RingLease::Other => {}
            }
        }
        Ok(AssignerResponse::Listed { version, members, table })
    }
}

enum WriteOutcome {
    Missing,
    Conflict,
    Failed,
}

fn outcome(error: &Error) -> WriteOutcome {
    if error.is_not_found() {
        WriteOutcome::Missing
    } else if error.is_conflict() || error.is_already_exists() {
        WriteOutcome::Conflict
    } else {
        tracing::debug!(%error, "request for a lease of the ring failed; retrying");
        WriteOutcome::Failed
    }
}

fn failed(error: &Error) -> AssignerResponse {
    match outcome(error) {
        WriteOutcome::Missing => AssignerResponse::Missing,
        WriteOutcome::Conflict => AssignerResponse::Conflict,
        WriteOutcome::Failed => AssignerResponse::Failed,
    }
}

fn written(answer: Result<Obj<Lease>, Error>) -> Answer<AssignerResponse> {
    match answer {
        Ok(lease) => Ok(AssignerResponse::Written { version: version_of(&lease)? }),
        Err(error) => Ok(failed(&error)),
    }
}

pub(super) fn version_of(lease: &Obj<Lease>) -> Answer<u64> {
    decimal(lease.resource_version())
}

fn decimal(version: &str) -> Answer<u64> {
    version.parse().map_err(|_| UnorderedVersion(version.to_owned()))
}
