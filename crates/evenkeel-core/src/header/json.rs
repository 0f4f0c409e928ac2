//! A header read from JSON.

use std::borrow::Cow;

use super::draft::OwnerDraft;
use super::{Draft, Header};
use crate::decode::DecodeError;
use crate::json::{JsonError, JsonFault, Scanner};

impl Header {
    /// Reads the header of an object from its JSON, and checks that all of it is JSON.
    ///
    /// An object that has metadata but no name yields a header with an empty name: on its way to be created it may have
    /// none yet.
    pub fn from_json(json: &[u8]) -> Result<Self, DecodeError> {
        let mut scanner = Scanner::new(json)?;
        let header = Self::scan(&mut scanner)?;
        scanner.end()?;
        Ok(header)
    }

    /// Reads the header of the object that the scanner stands before, and leaves it behind the object.
    pub(crate) fn scan(scanner: &mut Scanner<'_>) -> Result<Self, DecodeError> {
        let mut draft = Draft::default();
        let mut has_metadata = false;
        scanner.object(|scanner, member| match member {
            "apiVersion" if draft.has_api_version() => Err(scanner.fault(JsonFault::DuplicateMember)),
            "apiVersion" => text_or_null(scanner).map(|text| text.iter().for_each(|text| draft.set_api_version(text))),
            "kind" if draft.has_kind() => Err(scanner.fault(JsonFault::DuplicateMember)),
            "kind" => text_or_null(scanner).map(|text| text.iter().for_each(|text| draft.set_kind(text))),
            "metadata" if has_metadata => Err(scanner.fault(JsonFault::DuplicateMember)),
            "metadata" => {
                if scanner.null()? {
                    return Ok(());
                }
                has_metadata = true;
                read_metadata(&mut draft, scanner)
            }
            _ => Ok(()),
        })?;
        let header = draft.finish();
        if has_metadata { Ok(header) } else { Err(DecodeError::NoMetadata { kind: header.kind().map(Into::into) }) }
    }
}

fn read_metadata<'a>(draft: &mut Draft<'a>, scanner: &mut Scanner<'a>) -> Result<(), JsonError> {
    scanner.object(|scanner, member| match member {
        "name" => once(scanner, &mut draft.name),
        "namespace" => once(scanner, &mut draft.namespace),
        "uid" => once(scanner, &mut draft.uid),
        "resourceVersion" => once(scanner, &mut draft.resource_version),
        "creationTimestamp" => once(scanner, &mut draft.creation_timestamp),
        "deletionTimestamp" => once(scanner, &mut draft.deletion_timestamp),
        "generation" => {
            if !scanner.null()? {
                draft.generation = Some(scanner.integer()?);
            }
            Ok(())
        }
        "labels" => read_labels(draft, scanner),
        "finalizers" => read_finalizers(draft, scanner),
        "ownerReferences" => read_owners(draft, scanner),
        _ => Ok(()),
    })
}

fn read_labels<'a>(draft: &mut Draft<'a>, scanner: &mut Scanner<'a>) -> Result<(), JsonError> {
    if scanner.null()? {
        return Ok(());
    }
    scanner.object(|scanner, key| {
        // Go reads null as the empty string here, and servers written in it let it pass.
        let value = if scanner.null()? { Cow::Borrowed("") } else { scanner.string()? };
        draft.add_label(key, &value);
        Ok(())
    })?;
    draft.sort_labels().map_err(|_| scanner.fault(JsonFault::DuplicateMember))
}

fn read_finalizers<'a>(draft: &mut Draft<'a>, scanner: &mut Scanner<'a>) -> Result<(), JsonError> {
    if scanner.null()? {
        return Ok(());
    }
    scanner.array(|scanner| {
        draft.add_finalizer(&scanner.string()?);
        Ok(())
    })
}

fn read_owners<'a>(draft: &mut Draft<'a>, scanner: &mut Scanner<'a>) -> Result<(), JsonError> {
    if scanner.null()? {
        return Ok(());
    }
    scanner.array(|scanner| {
        let mut owner = OwnerDraft::default();
        scanner.object(|scanner, member| {
            let bool_or_null =
                |scanner: &mut Scanner<'a>| if scanner.null()? { Ok(None) } else { scanner.bool().map(Some) };
            match member {
                "apiVersion" => owner.api_version = text_or_null(scanner)?,
                "kind" => owner.kind = text_or_null(scanner)?,
                "name" => owner.name = text_or_null(scanner)?,
                "uid" => owner.uid = text_or_null(scanner)?,
                "controller" => owner.controller = bool_or_null(scanner)?,
                "blockOwnerDeletion" => owner.block_owner_deletion = bool_or_null(scanner)?,
                _ => {}
            }
            Ok(())
        })?;
        draft.add_owner(&owner);
        Ok(())
    })
}

fn text_or_null<'a>(scanner: &mut Scanner<'a>) -> Result<Option<Cow<'a, str>>, JsonError> {
    if scanner.null()? { Ok(None) } else { scanner.string().map(Some) }
}

/// Reads a string, or null for none, into a field that must not have been read before.
fn once<'a>(scanner: &mut Scanner<'a>, field: &mut Option<Cow<'a, str>>) -> Result<(), JsonError> {
    if field.is_some() {
        return Err(scanner.fault(JsonFault::DuplicateMember));
    }
    *field = text_or_null(scanner)?;
    Ok(())
}
