//! The values of `format` in schemas that Kubernetes knows.

/// Formats that strings are checked against.
const STRINGS: &[&str] = &[
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "date-time",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8s-long-name",
    "k8s-short-name",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Formats of numbers.
const NUMBERS: &[&str] = &["double", "float", "int32", "int64"];

/// Returns whether Kubernetes knows a format. Others have no effect, and a warning when a definition with one is written.
pub fn is_known(format: &str) -> bool {
    STRINGS.contains(&format) || NUMBERS.contains(&format)
}

#[cfg(test)]
mod tests {
    #[test]
    fn formats_of_strings_and_numbers_are_known() {
        assert!(["uuid", "k8s-short-name", "int64"].into_iter().all(super::is_known));
        assert!(!["", "uint32", "UUID"].into_iter().any(super::is_known));
    }
}
