//! [`RingStatus`]: the state of a ring, read from its Leases by a program that is no member.

use std::time::{Duration, SystemTime};

use evenkeel_client::{Client, Error, ListParams};
use evenkeel_core::ObjectKey;
use evenkeel_core::shard::place;

use super::lease_store::{LeaseStore, NAME_LABEL, RingLease, UnorderedVersion};
use super::member_record::MemberLease;
use super::ring_table::RingTable;
use super::settings::ShardBy;
use super::table::{MemberName, SliceTable, TableError};

/// The state of a ring. Reading it takes one list of Leases and no membership.
///
/// Not guaranteed: that it is still so. A member may have been fenced since.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RingStatus {
    /// The name of the ring.
    pub ring: String,
    /// Which member owns what. `None`: there is no table yet.
    pub table: Option<RingTable>,
    /// The field whose hash is the place of an object. `None` without a table.
    pub shard_by: Option<ShardBy>,
    /// The lease duration of the members. `None` without a table.
    pub lease_duration: Option<Duration>,
    /// What the members publish, by name. A member of the table without a Lease is missing here.
    pub members: Vec<MemberStatus>,
}

/// What a member of a ring publishes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MemberStatus {
    /// The name: identity and five random characters.
    pub name: String,
    /// When the member renewed its Lease, by its own clock. No member relies on it.
    pub renewed: Option<SystemTime>,
    /// The share that the member takes, relative to others. 0: none.
    pub capacity: u32,
    /// The version of the program. Empty: not set.
    pub build: String,
    /// The member leaves when its slices have moved.
    pub is_leaving: bool,
    /// Why the member was fenced. It works no more.
    pub fenced: Option<&'static str>,
}

/// Why the state of a ring cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RingStatusError {
    /// There is no Lease of the ring.
    #[error(
        "there is no ring {ring:?} in the namespace {namespace}: check the name, and pass the namespace of its Leases"
    )]
    NotFound {
        /// The name of the ring.
        ring: String,
        /// The namespace that was read.
        namespace: String,
    },
    /// The Leases may not be listed.
    #[error(
        "the Leases of ring {ring:?} cannot be read: grant the verb list on leases.coordination.k8s.io in the namespace {namespace}"
    )]
    Forbidden {
        /// The name of the ring.
        ring: String,
        /// The namespace that was read.
        namespace: String,
        /// The refusal.
        source: Error,
    },
    /// The request failed.
    #[error("the Leases of ring {ring:?} cannot be read")]
    Request {
        /// The name of the ring.
        ring: String,
        /// The cause.
        source: Error,
    },
    /// The table has a format that this program does not know.
    #[error("the table of ring {ring:?} cannot be read: use the version that wrote it")]
    Unreadable {
        /// The name of the ring.
        ring: String,
        /// The cause.
        source: TableError,
    },
    /// The server has resource versions that are no numbers.
    #[error(
        "the Leases of ring {ring:?} have the resource version {version:?}, which is no number: rings need ordered versions"
    )]
    Versions {
        /// The name of the ring.
        ring: String,
        /// The resource version.
        version: String,
    },
}

impl RingStatus {
    /// Reads the state of the ring of this name, whose Leases are in this namespace.
    ///
    /// # Errors
    ///
    /// There is no such ring, its Leases cannot be listed, or they are of another version of the program.
    pub async fn read(client: &Client, namespace: &str, ring: &str) -> Result<Self, RingStatusError> {
        let name = || ring.to_owned();
        let store = LeaseStore::new(client, namespace, ring, &[], 0);
        let params = ListParams::default().labels(format_args!("{NAME_LABEL}={ring}"));
        let leases = store.api.list(&params).await.map_err(|source| {
            if source.is_forbidden() {
                RingStatusError::Forbidden { ring: name(), namespace: namespace.to_owned(), source }
            } else {
                RingStatusError::Request { ring: name(), source }
            }
        })?;
        if leases.iter().next().is_none() {
            return Err(RingStatusError::NotFound { ring: name(), namespace: namespace.to_owned() });
        }
        let mut status =
            RingStatus { ring: name(), table: None, shard_by: None, lease_duration: None, members: Vec::new() };
        for lease in leases.iter() {
            let read = store.read(lease);
            match read.map_err(|UnorderedVersion(version)| RingStatusError::Versions { ring: name(), version })? {
                RingLease::Table((_, table)) => {
                    status.set_table(&*table.map_err(|source| RingStatusError::Unreadable { ring: name(), source })?);
                }
                RingLease::Member(member, _, lease) => status.members.push(MemberStatus::of(&member, &lease)),
                RingLease::Other => {}
            }
        }
        status.members.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(status)
    }

    fn set_table(&mut self, table: &SliceTable) {
        // Terms are the field, the hash and the lease duration.
        let mut terms = table.terms.split('/');
        self.shard_by = match terms.next() {
            Some("namespace") => Some(ShardBy::Namespace),
            Some("uid") => Some(ShardBy::Uid),
            Some("key") => Some(ShardBy::Key),
            _ => None,
        };
        let seconds = terms.nth(1).and_then(|seconds| seconds.strip_suffix('s')?.parse().ok());
        self.lease_duration = seconds.map(Duration::from_secs);
        self.table = Some(RingTable::of(table));
    }

    /// Returns the place of a key in this ring. `None` without a table, and in rings that are divided by uid.
    ///
    /// The place of an object of the kind Namespace in a ring by namespaces is that of its name.
    pub fn place_of(&self, key: &ObjectKey) -> Option<u64> {
        match self.shard_by? {
            ShardBy::Namespace => Some(place(key.namespace().unwrap_or(key.name()))),
            ShardBy::Key => Some(place(key.as_str())),
            ShardBy::Uid => None,
        }
    }
}

impl MemberStatus {
    fn of(name: &MemberName, lease: &MemberLease) -> Self {
        let renewed = u64::try_from(lease.renewed).ok().filter(|micros| *micros > 0);
        MemberStatus {
            name: name.to_string(),
            renewed: renewed.map(|micros| SystemTime::UNIX_EPOCH + Duration::from_micros(micros)),
            capacity: lease.record.capacity,
            build: lease.record.build.clone(),
            is_leaving: lease.record.leaving,
            fenced: lease.fenced.map(|cause| cause.as_str()),
        }
    }
}
