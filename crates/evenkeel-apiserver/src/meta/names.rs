//! The rules of names, label keys and label values, with the messages of kube-apiserver.
//!
//! Each rule returns all faults in the order of kube-apiserver; an empty list means that the text is valid. The grammars
//! are matched by hand rather than by regular expressions, because every write checks a name.

use crate::registry::NameRule;

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;

const SUBDOMAIN_FAULT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
    or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const WILDCARD_FAULT: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which \
    must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. \
    '*.example.com', regex used for validation is \
    '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_FAULT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
    must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035_FAULT: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with \
    an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED_FAULT: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE_FAULT: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' \
    or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY_FAULT: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
    'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// Returns the faults of a name under `rule` (OBJ-10). A `prefix` gets a suffix, so it may end with a dash.
pub(crate) fn validate_name(rule: NameRule, name: &str, prefix: bool) -> Vec<String> {
    if rule == NameRule::PathSegment {
        return path_segment(name);
    }
    let masked;
    let name = match name.strip_suffix('-') {
        // One valid character replaces the dash and the character before it, so the length counts one less.
        Some(stem) if prefix && !stem.is_empty() => {
            let mut kept = stem.to_owned();
            kept.pop();
            kept.push('a');
            masked = kept;
            masked.as_str()
        }
        _ => name,
    };
    match rule {
        NameRule::DnsSubdomain => dns_subdomain(name),
        NameRule::DnsLabel => dns_label(name),
        NameRule::Dns1035Label => dns_1035_label(name),
        NameRule::PathSegment => path_segment(name),
    }
}

/// RFC 1123 subdomain: labels joined by dots.
pub(crate) fn dns_subdomain(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name.len() > SUBDOMAIN_MAX {
        faults.push(too_long(SUBDOMAIN_MAX));
    }
    if !is_subdomain(name) {
        faults.push(SUBDOMAIN_FAULT.to_owned());
    }
    faults
}

/// RFC 1123 subdomain after `*.`.
pub(crate) fn wildcard_subdomain(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name.len() > SUBDOMAIN_MAX {
        faults.push(too_long(SUBDOMAIN_MAX));
    }
    if !name.strip_prefix("*.").is_some_and(is_subdomain) {
        faults.push(WILDCARD_FAULT.to_owned());
    }
    faults
}

/// RFC 1123 label.
pub(crate) fn dns_label(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name.len() > LABEL_MAX {
        faults.push(too_long(LABEL_MAX));
    }
    if !is_label(name) {
        faults.push(if is_subdomain(name) { "must not contain dots".to_owned() } else { LABEL_FAULT.to_owned() });
    }
    faults
}

/// RFC 1035 label: it starts with a letter.
pub(crate) fn dns_1035_label(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name.len() > LABEL_MAX {
        faults.push(too_long(LABEL_MAX));
    }
    if !(is_label(name) && name.starts_with(|first: char| first.is_ascii_lowercase())) {
        faults.push(LABEL_1035_FAULT.to_owned());
    }
    faults
}

/// One segment of a URL path.
pub(crate) fn path_segment(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"].into_iter().filter(|part| name.contains(part)).map(|part| format!("may not contain '{part}'")).collect()
}

/// A label key, an annotation key or a finalizer: a name with an optional subdomain and slash before it.
pub(crate) fn qualified_name(value: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, rest)) if rest.contains('/') => {
            return vec![format!(
                "a valid label key {QUALIFIED_FAULT} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
        Some(("", name)) => {
            faults.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            if prefix.len() > SUBDOMAIN_MAX {
                faults.push(format!("prefix part must be no more than {SUBDOMAIN_MAX} bytes"));
            }
            if !is_subdomain(prefix) {
                faults.push(format!("prefix part {SUBDOMAIN_FAULT}"));
            }
            name
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        faults.push(format!("name part must be no more than {LABEL_MAX} bytes"));
    }
    if !is_word(name) {
        faults.push(format!("name part {QUALIFIED_FAULT}"));
    }
    faults
}

/// The value of a label: empty, or letters, digits, dashes, underscores and dots.
pub(crate) fn label_value(value: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if value.len() > LABEL_MAX {
        faults.push(format!("must be no more than {LABEL_MAX} bytes"));
    }
    if !value.is_empty() && !is_word(value) {
        faults.push(LABEL_VALUE_FAULT.to_owned());
    }
    faults
}

/// A key of a ConfigMap or a Secret: a valid file name.
pub(crate) fn config_key(key: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if key.len() > SUBDOMAIN_MAX {
        faults.push(too_long(SUBDOMAIN_MAX));
    }
    if key.is_empty() || !key.bytes().all(is_word_byte) {
        faults.push(CONFIG_KEY_FAULT.to_owned());
    }
    if matches!(key, "." | "..") {
        faults.push(format!("must not be '{key}'"));
    } else if key.starts_with("..") {
        faults.push("must not start with '..'".to_owned());
    }
    faults
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} characters")
}

fn is_subdomain(name: &str) -> bool {
    name.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = label.as_bytes();
    bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
}

fn is_word(word: &str) -> bool {
    let bytes = word.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().copied().all(is_word_byte)
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}
