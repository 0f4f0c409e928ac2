//! Named formats of strings.

use super::opaque::Opaque;
use super::{Evaluated, Library, no_overload};
use crate::time;
use crate::value::Value;

macro_rules! named {
    ($($function:ident $name:literal $format:ident;)*) => {
        pub(super) const LIBRARY: Library = Library {
            since: 31,
            rows: &[
                ("validate", validate, &[("format-validate", "format.(string) -> optional(list(string))")]),
                ("format.named", find, &[("format-named", "(string) -> optional(format)")]),
                $((concat!("format.", $name), $function, &[(concat!("format.", $name), "() -> format")]),)*
            ],
        };

        $(fn $function<'a>(_: &[Value<'a>]) -> Evaluated<'a> {
            Ok(Value::opaque(Opaque::Format(NamedFormat::$format)))
        })*

        fn lookup(name: &str) -> Option<NamedFormat> {
            match name {
                $($name => Some(NamedFormat::$format),)*
                _ => None,
            }
        }

        /// A format of strings.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum NamedFormat {
            $($format,)*
        }
    };
}

named! {
    dns1123_label "dns1123Label" Dns1123Label;
    dns1123_subdomain "dns1123Subdomain" Dns1123Subdomain;
    dns1035_label "dns1035Label" Dns1035Label;
    qualified_name "qualifiedName" QualifiedName;
    dns1123_label_prefix "dns1123LabelPrefix" Dns1123LabelPrefix;
    dns1123_subdomain_prefix "dns1123SubdomainPrefix" Dns1123SubdomainPrefix;
    dns1035_label_prefix "dns1035LabelPrefix" Dns1035LabelPrefix;
    label_value "labelValue" LabelValue;
    uri "uri" Uri;
    uuid "uuid" Uuid;
    byte "byte" Byte;
    date "date" Date;
    datetime "datetime" DateTime;
}

impl NamedFormat {
    /// Returns the length of the regular expression that costs assume.
    pub(crate) fn pattern_length(self) -> u64 {
        match self {
            NamedFormat::Dns1123Label
            | NamedFormat::Dns1035Label
            | NamedFormat::Dns1123LabelPrefix
            | NamedFormat::Dns1035LabelPrefix => 30,
            NamedFormat::Dns1123Subdomain | NamedFormat::Dns1123SubdomainPrefix | NamedFormat::QualifiedName => 60,
            NamedFormat::LabelValue => 40,
            NamedFormat::Uri => 1500,
            NamedFormat::Uuid => 70,
            NamedFormat::Byte => 100,
            NamedFormat::Date | NamedFormat::DateTime => 90,
        }
    }

    fn faults(self, text: &str) -> Vec<String> {
        match self {
            NamedFormat::Dns1123Label => label(text, false),
            NamedFormat::Dns1123LabelPrefix => label(&mask_dash(text), false),
            NamedFormat::Dns1035Label => label(text, true),
            NamedFormat::Dns1035LabelPrefix => label(&mask_dash(text), true),
            NamedFormat::Dns1123Subdomain => subdomain(text),
            NamedFormat::Dns1123SubdomainPrefix => subdomain(&mask_dash(text)),
            NamedFormat::QualifiedName => qualified(text),
            NamedFormat::LabelValue => value(text),
            NamedFormat::Uri => super::url::Url::parse(text).err().into_iter().collect(),
            NamedFormat::Uuid => fault(!is_uuid(text), "does not match the UUID format"),
            NamedFormat::Byte => {
                use base64::Engine as _;
                let valid = !text.is_empty() && base64::engine::general_purpose::STANDARD.decode(text).is_ok();
                fault(!valid, "invalid base64")
            }
            NamedFormat::Date => fault(time::parse_date(text).is_none(), "invalid date"),
            NamedFormat::DateTime => fault(time::parse_timestamp(text).is_none(), "invalid datetime"),
        }
    }
}

fn fault(is_fault: bool, text: &str) -> Vec<String> {
    if is_fault { vec![text.to_owned()] } else { Vec::new() }
}

/// A prefix of a generated name may end in a dash.
fn mask_dash(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if rest.len() > 1 => format!("{rest}a"),
        _ => text.to_owned(),
    }
}

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn label(text: &str, starts_with_letter: bool) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > 63 {
        faults.push(too_long(63));
    }
    if starts_with_letter {
        if !is_label(text) || !text.starts_with(|first: char| first.is_ascii_lowercase()) {
            faults.push(
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                 character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
                 validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                    .to_owned(),
            );
        }
    } else if !is_label(text) {
        faults.push(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
             end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    faults
}

fn subdomain(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > 253 {
        faults.push(too_long(253));
    }
    if !text.split('.').all(is_label) {
        faults.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    faults
}

fn is_name(text: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        && edge(text.bytes().next())
        && edge(text.bytes().next_back())
}

const NAME: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

fn qualified(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let name = match text.split('/').collect::<Vec<_>>().as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty".to_owned());
            } else {
                faults.extend(subdomain(prefix).into_iter().map(|fault| format!("prefix part {fault}")));
            }
            *name
        }
        _ => {
            let examples = "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
            faults.push(format!(
                "a qualified name {NAME} {examples} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
            return faults;
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        faults.push(format!("name part {}", too_long(63)));
    }
    if !is_name(name) {
        faults.push(format!(
            "name part {NAME} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
             '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        ));
    }
    faults
}

fn value(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > 63 {
        faults.push(too_long(63));
    }
    if !text.is_empty() && !is_name(text) {
        faults.push(format!(
            "a valid label must be an empty string or {} (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
             validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
            NAME.trim_start_matches("must ")
        ));
    }
    faults
}

fn is_uuid(text: &str) -> bool {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let dashes = text.len() == 36 && [8, 13, 18, 23].iter().all(|at| text.as_bytes().get(*at) == Some(&b'-'));
    (dashes || text.len() == 32) && digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn validate<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    if let [Value::Opaque(value), Value::String(text)] = args
        && let Opaque::Format(format) = &**value
    {
        let faults = format.faults(text);
        return Ok(if faults.is_empty() {
            Value::Optional(None)
        } else {
            Value::some(Value::list(faults.into_iter().map(Value::text).collect()))
        });
    }
    Err(no_overload("validate", args))
}

fn find<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::String(name)] = args else { return Err(no_overload("format.named", args)) };
    Ok(lookup(name).map_or(Value::Optional(None), |format| Value::some(Value::opaque(Opaque::Format(format)))))
}
