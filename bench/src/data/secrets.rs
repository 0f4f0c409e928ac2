//! Secrets of random bytes, which do not compress.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fastrand::Rng;

use super::{EPOCH, FIRST_VERSION, NOUNS, Objects, STAGES, TEAMS, fill, letters, one, time, uid};

/// Types and value sizes of the secrets, by number.
const SHAPES: &[(&str, &[(&str, usize)])] = &[
    ("Opaque", &[("password", 24), ("token", 48)]),
    ("Opaque", &[("config.enc", 2_048), ("key", 32)]),
    ("kubernetes.io/tls", &[("tls.crt", 1_850), ("tls.key", 1_704), ("ca.crt", 1_100)]),
    ("kubernetes.io/dockerconfigjson", &[(".dockerconfigjson", 420)]),
    ("Opaque", &[("keystore.p12", 5_200), ("truststore.p12", 1_400), ("password", 32)]),
];

pub(super) struct Secrets(pub(super) usize);

impl Objects for Secrets {
    fn len(&self) -> usize {
        self.0
    }

    fn write(&self, out: &mut String, number: usize) {
        let mut dice = Rng::with_seed(0x5EC2_E700_0000_0000 | number as u64);
        let (kind, values) = one(&mut dice, SHAPES);
        let name = format!("{}-{}-{number}", one(&mut dice, NOUNS), letters(&mut dice, 5));
        let namespace = format!("{}-{}", one(&mut dice, TEAMS), one(&mut dice, STAGES));
        let (uid, version) = (uid(&mut dice), (FIRST_VERSION + number).to_string());
        let created = time(EPOCH + number as i64 * 41 + dice.i64(0..40));
        let mut data = String::new();
        let mut bytes = Vec::new();
        for (position, (key, length)) in values.iter().enumerate() {
            bytes.resize(*length, 0);
            dice.fill(&mut bytes);
            data.push_str(if position == 0 { "\"" } else { ",\"" });
            data.push_str(key);
            data.push_str("\":\"");
            STANDARD.encode_string(&bytes, &mut data);
            data.push('"');
        }
        fill(out, TEMPLATE, |slot| match slot {
            "name" => &name,
            "namespace" => &namespace,
            "uid" => &uid,
            "version" => &version,
            "created" => &created,
            "data" => &data,
            _ => kind,
        });
    }
}

const TEMPLATE: &str = r#""metadata":{"name":"<name>","namespace":"<namespace>","uid":"<uid>","resourceVersion":"<version>",
    "creationTimestamp":"<created>","labels":{"app.kubernetes.io/managed-by":"Helm"},
    "managedFields":[{"manager":"helm","operation":"Update","apiVersion":"v1","time":"<created>","fieldsType":"FieldsV1",
        "fieldsV1":{"f:data":{".":{}},"f:metadata":{"f:labels":{".":{},"f:app.kubernetes.io/managed-by":{}}},"f:type":{}}}]},
    "data":{<data>},"type":"<type>""#;
