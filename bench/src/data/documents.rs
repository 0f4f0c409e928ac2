//! A custom resource with large objects: rules with conditions and prose, 100 KB each.

use fastrand::Rng;

use super::{EPOCH, FIRST_VERSION, NOUNS, Objects, ROLES, STAGES, TEAMS, fill, hex, letters, one, time, uid};

const SIZE: usize = 100_000;

pub(super) struct Documents(pub(super) usize);

impl Objects for Documents {
    fn len(&self) -> usize {
        self.0
    }

    fn write(&self, out: &mut String, number: usize) {
        let mut dice = Rng::with_seed(0xD0C5_0000_0000 | number as u64);
        let name = format!("{}-{}-{number}", one(&mut dice, NOUNS), one(&mut dice, ROLES));
        let namespace = format!("{}-{}", one(&mut dice, TEAMS), one(&mut dice, STAGES));
        let (uid, version) = (uid(&mut dice), (FIRST_VERSION + number).to_string());
        let created = time(EPOCH + number as i64 * 311);
        let begin = out.len();
        fill(out, TEMPLATE, |slot| match slot {
            "name" => &name,
            "namespace" => &namespace,
            "uid" => &uid,
            "version" => &version,
            _ => &created,
        });
        let mut rule = 0;
        while out.len() - begin < SIZE {
            out.push_str(if rule == 0 { "" } else { "," });
            let words: Vec<&str> = (0..dice.usize(4..24)).map(|_| one(&mut dice, NOUNS)).collect();
            let (id, digest, words) = (letters(&mut dice, 8), hex(&mut dice, 40), words.join(" "));
            let (weight, port) = (dice.u32(0..10_000).to_string(), dice.u32(1_024..65_000).to_string());
            let (from, to) = (one(&mut dice, ROLES), one(&mut dice, TEAMS));
            fill(out, RULE, |slot| match slot {
                "id" => &id,
                "digest" => &digest,
                "words" => &words,
                "weight" => &weight,
                "port" => &port,
                "from" => from,
                _ => to,
            });
            rule += 1;
        }
        out.push_str("]}");
    }
}

const TEMPLATE: &str = r#""metadata":{"name":"<name>","namespace":"<namespace>","uid":"<uid>","resourceVersion":"<version>",
    "generation":1,"creationTimestamp":"<created>"},"spec":{"paused":false,"rules":["#;

const RULE: &str = r#"{"id":"<id>","from":[{"role":"<from>","port":<port>}],"to":{"team":"<to>","optional":true},
    "weight":<weight>,"digest":"sha1:<digest>","description":"<words>"}"#;
