//! A store with versions and compare-and-swap, and the history of its tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ring::assigner::{AssignerOperation, AssignerResponse, VersionedTable};
use crate::ring::member::{MemberOperation, MemberResponse};
use crate::ring::member_record::{MemberLease, MemberRecord};
use crate::ring::table::{MemberName, SliceTable};

/// A change of the store, as watchers receive it.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Member(MemberName, u64, MemberLease),
    MemberDeleted(MemberName),
    Table(u64, Arc<SliceTable>),
    TableDeleted(u64),
}

/// What the store holds at a moment.
#[derive(Clone, Default)]
pub(super) struct StoredLeases {
    pub(super) members: BTreeMap<MemberName, (u64, MemberLease)>,
    pub(super) table: Option<(u64, Arc<SliceTable>)>,
}

#[derive(Default)]
pub(super) struct Store {
    pub(super) now: StoredLeases,
    pub(super) version: u64,
    /// The highest revision of a confirmed table.
    pub(super) highest: u64,
    pub(super) table_writes: u64,
    /// Broken invariants of tables.
    pub(super) wrong: Option<String>,
    /// Preconditions of the table writes, and of fences, are ignored: what SHR-017 and SHR-023 forbid.
    pub(super) ignores_table_versions: bool,
    pub(super) ignores_fence_versions: bool,
}

impl Store {
    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    pub(super) fn table(&self) -> Option<VersionedTable> {
        self.now.table.clone().map(|(version, table)| (version, Ok(table)))
    }

    pub(super) fn member(&mut self, name: &MemberName, operation: MemberOperation) -> (MemberResponse, Option<Change>) {
        let stored = self.now.members.get(name).cloned();
        match (operation, stored) {
            (MemberOperation::ReadTable, _) => match &self.now.table {
                Some((_, table)) => (MemberResponse::Table(Ok(SliceTable::clone(table))), None),
                None => (MemberResponse::Missing, None),
            },
            (MemberOperation::Read, Some((version, lease))) => (MemberResponse::Lease { version, lease }, None),
            (MemberOperation::Create(_), Some(_)) => (MemberResponse::Conflict, None),
            (MemberOperation::Create(lease), None) => self.put(name, lease),
            (_, None) => (MemberResponse::Missing, None),
            (MemberOperation::Update(_, version) | MemberOperation::Delete(version), Some((stored, _)))
                if version != stored =>
            {
                (MemberResponse::Conflict, None)
            }
            (MemberOperation::Update(lease, _), Some(_)) => self.put(name, lease),
            (MemberOperation::Delete(_), Some(_)) => {
                let change = self.delete_member(name);
                (MemberResponse::Written { version: self.version }, change)
            }
        }
    }

    fn put(&mut self, name: &MemberName, mut lease: MemberLease) -> (MemberResponse, Option<Change>) {
        let version = self.next_version();
        if version.is_multiple_of(64) {
            // What the API server would store: the text of the annotation.
            let read = MemberRecord::decode(&lease.record.encode()).unwrap();
            assert_eq!(read, *lease.record);
            lease.record = Arc::new(read);
        }
        self.now.members.insert(name.clone(), (version, lease.clone()));
        (MemberResponse::Written { version }, Some(Change::Member(name.clone(), version, lease)))
    }

    pub(super) fn delete_member(&mut self, name: &MemberName) -> Option<Change> {
        self.now.members.remove(name)?;
        self.next_version();
        Some(Change::MemberDeleted(name.clone()))
    }

    pub(super) fn delete_table(&mut self) -> Option<Change> {
        self.now.table.take()?;
        Some(Change::TableDeleted(self.next_version()))
    }

    pub(super) fn assigner(&mut self, operation: AssignerOperation) -> (AssignerResponse, Option<Change>) {
        match operation {
            AssignerOperation::List => {
                let members =
                    self.now.members.iter().map(|(name, (version, lease))| (name.clone(), *version, lease.clone()));
                let (members, table) = (members.collect(), self.table());
                (AssignerResponse::Listed { version: self.version, members, table }, None)
            }
            AssignerOperation::ReadTable => {
                (self.table().map_or(AssignerResponse::Missing, AssignerResponse::Table), None)
            }
            AssignerOperation::ReadMember(name) => match self.now.members.get(&name) {
                Some((version, lease)) => (AssignerResponse::Member(*version, lease.clone()), None),
                None => (AssignerResponse::Missing, None),
            },
            AssignerOperation::CreateTable(_) if self.now.table.is_some() => (AssignerResponse::Conflict, None),
            AssignerOperation::CreateTable(table) => self.put_table(table),
            AssignerOperation::UpdateTable(table, version) => match &self.now.table {
                None => (AssignerResponse::Missing, None),
                Some((stored, _)) if *stored != version && !self.ignores_table_versions => {
                    (AssignerResponse::Conflict, None)
                }
                Some(_) => self.put_table(table),
            },
            AssignerOperation::Fence(name, version, cause) => {
                let ignores = self.ignores_fence_versions;
                self.touch(name, version, ignores, |lease| lease.fenced = Some(cause))
            }
            AssignerOperation::Nudge(name, version) => self.touch(name, version, false, |_| {}),
            AssignerOperation::Remove(name, version) => match self.now.members.get(&name) {
                None => (AssignerResponse::Missing, None),
                Some((stored, _)) if *stored != version => (AssignerResponse::Conflict, None),
                Some(_) => {
                    let change = self.delete_member(&name);
                    (AssignerResponse::Written { version: self.version }, change)
                }
            },
        }
    }

    fn touch(
        &mut self,
        name: MemberName,
        version: u64,
        ignores: bool,
        change: impl FnOnce(&mut MemberLease),
    ) -> (AssignerResponse, Option<Change>) {
        let next = self.version + 1;
        match self.now.members.get_mut(&name) {
            None => (AssignerResponse::Missing, None),
            Some((stored, _)) if *stored != version && !ignores => (AssignerResponse::Conflict, None),
            Some((stored, lease)) => {
                change(lease);
                *stored = next;
                let lease = lease.clone();
                self.version = next;
                (AssignerResponse::Written { version: next }, Some(Change::Member(name, next, lease)))
            }
        }
    }

    fn put_table(&mut self, table: SliceTable) -> (AssignerResponse, Option<Change>) {
        let text = table.encode().unwrap();
        // Decoding checks that it is a partition.
        if SliceTable::decode(&text).as_ref() != Ok(&table) {
            self.wrong = Some(format!("I3 {text}"));
        }
        if table.confirmed.is_some() && table.revision <= self.highest && !self.ignores_table_versions {
            self.wrong = Some(format!("I7 revision {} after {}", table.revision, self.highest));
        }
        if table.confirmed.is_some() {
            self.highest = self.highest.max(table.revision);
        }
        self.table_writes += 1;
        let (version, table) = (self.next_version(), Arc::new(table));
        self.now.table = Some((version, Arc::clone(&table)));
        (AssignerResponse::Written { version }, Some(Change::Table(version, table)))
    }
}
