//! Reads a header from JSON.

use std::borrow::Cow;

use super::header_builder::OwnerBuilder;
use super::{Header, HeaderBuilder};
use crate::error::DecodeError;
use crate::json::{JsonError, JsonErrorKind, Scanner};

impl Header {
    /// Reads the header of an object from its JSON, and checks that the whole text is well-formed.
    ///
    /// An object with metadata but no name has a header with an empty name: before its creation it may have none.
    pub(crate) fn from_json(json: &[u8]) -> Result<Self, DecodeError> {
        let mut scanner = Scanner::new(json)?;
        let header = Self::scan(&mut scanner)?;
        scanner.end()?;
        Ok(header)
    }

    /// Reads the header of the object at the scanner and advances past the object.
    pub(crate) fn scan(scanner: &mut Scanner<'_>) -> Result<Self, DecodeError> {
        let mut builder = HeaderBuilder::default();
        let mut has_metadata = false;
        scanner.object(|scanner, member| match member {
            "apiVersion" if builder.has_api_version() => Err(scanner.error(JsonErrorKind::DuplicateMember)),
            "apiVersion" => {
                text_or_null(scanner).map(|text| text.iter().for_each(|text| builder.set_api_version(text)))
            }
            "kind" if builder.has_kind() => Err(scanner.error(JsonErrorKind::DuplicateMember)),
            "kind" => text_or_null(scanner).map(|text| text.iter().for_each(|text| builder.set_kind(text))),
            "metadata" if has_metadata => Err(scanner.error(JsonErrorKind::DuplicateMember)),
            "metadata" => {
                if scanner.null()? {
                    return Ok(());
                }
                has_metadata = true;
                read_metadata(&mut builder, scanner)
            }
            _ => Ok(()),
        })?;
        let header = builder.finish();
        if has_metadata { Ok(header) } else { Err(DecodeError::NoMetadata { kind: header.kind().map(Into::into) }) }
    }
}

fn read_metadata<'a>(builder: &mut HeaderBuilder<'a>, scanner: &mut Scanner<'a>) -> Result<(), JsonError> {
    scanner.object(|scanner, member| match member {
        "name" => once(scanner, &mut builder.name),
        "namespace" => once(scanner, &mut builder.namespace),
        "uid" => once(scanner, &mut builder.uid),
        "resourceVersion" => once(scanner, &mut builder.resource_version),
        "creationTimestamp" => once(scanner, &mut builder.creation_timestamp),
        "deletionTimestamp" => once(scanner, &mut builder.deletion_timestamp),
        "generation" => {
            if !scanner.null()? {
                builder.generation = Some(scanner.integer()?);
            }
            Ok(())
        }
        "labels" => read_labels(builder, scanner),
        "finalizers" => read_finalizers(builder, scanner),
        "ownerReferences" => read_owners(builder, scanner),
        _ => Ok(()),
    })
}

fn read_labels<'a>(builder: &mut HeaderBuilder<'a>, scanner: &mut Scanner<'a>) -> Result<(), JsonError> {
    if scanner.null()? {
        return Ok(());
    }
    scanner.object(|scanner, key| {
        // Go reads null as the empty string here, and its servers accept it.
        let value = if scanner.null()? { Cow::Borrowed("") } else { scanner.string()? };
        builder.add_label(key, &value);
        Ok(())
    })?;
    builder.sort_labels().map_err(|_| scanner.error(JsonErrorKind::DuplicateMember))
}

fn read_finalizers<'a>(builder: &mut HeaderBuilder<'a>, scanner: &mut Scanner<'a>) -> Result<(), JsonError> {
    if scanner.null()? {
        return Ok(());
    }
    scanner.array(|scanner| {
        builder.add_finalizer(&scanner.string()?);
        Ok(())
    })
}

fn read_owners<'a>(builder: &mut HeaderBuilder<'a>, scanner: &mut Scanner<'a>) -> Result<(), JsonError> {
    if scanner.null()? {
        return Ok(());
    }
    scanner.array(|scanner| {
        let mut owner = OwnerBuilder::default();
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
        builder.add_owner(&owner);
        Ok(())
    })
}

fn text_or_null<'a>(scanner: &mut Scanner<'a>) -> Result<Option<Cow<'a, str>>, JsonError> {
    if scanner.null()? { Ok(None) } else { scanner.string().map(Some) }
}

/// Reads a string or null into a field that must be unset.
fn once<'a>(scanner: &mut Scanner<'a>, field: &mut Option<Cow<'a, str>>) -> Result<(), JsonError> {
    if field.is_some() {
        return Err(scanner.error(JsonErrorKind::DuplicateMember));
    }
    *field = text_or_null(scanner)?;
    Ok(())
}
