//! The rules for the names of a definition.

const LABEL_TEXT: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                          alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
                          regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
                              '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex \
                              used for validation is \
                              '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Returns why the text is not a DNS-1035 label, if so.
pub(super) fn label_fault(text: &str) -> Option<String> {
    faults(text.len() > 63, 63, !(is_segment(text) && text.starts_with(|c: char| c.is_ascii_lowercase())), LABEL_TEXT)
}

/// Returns why the text is not a DNS-1123 subdomain, if so.
pub(super) fn subdomain_fault(text: &str) -> Option<String> {
    faults(text.len() > 253, 253, !text.split('.').all(is_segment), SUBDOMAIN_TEXT)
}

fn faults(too_long: bool, limit: usize, malformed: bool, text: &str) -> Option<String> {
    match (too_long, malformed) {
        (false, false) => None,
        (true, false) => Some(format!("must be no more than {limit} characters")),
        (false, true) => Some(text.to_owned()),
        (true, true) => Some(format!("must be no more than {limit} characters,{text}")),
    }
}

fn is_segment(text: &str) -> bool {
    let is_inner = |byte: u8| byte == b'-' || byte.is_ascii_digit() || byte.is_ascii_lowercase();
    !text.is_empty() && !text.starts_with('-') && !text.ends_with('-') && text.bytes().all(is_inner)
}
