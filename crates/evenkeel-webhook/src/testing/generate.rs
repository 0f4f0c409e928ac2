//! [`Generator`]: objects from structural schemas.

use serde_json::{Map, Value, json};

/// Generates values. Equal seeds generate equal values.
pub(super) struct Generator(u64);

impl Generator {
    pub(super) fn new(seed: u64) -> Self {
        Generator(seed)
    }

    /// Returns an object without its names.
    pub(super) fn object(&mut self, schema: &Value) -> Result<Value, String> {
        let mut object = self.members(schema, "")?;
        for name in ["apiVersion", "kind", "metadata"] {
            object.remove(name);
        }
        Ok(Value::Object(object))
    }

    /// SplitMix64: small, and good enough for tests.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from `low` to `high`, both included.
    fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = i128::from(high.max(low)) - i128::from(low) + 1;
        let offset = i128::from(self.next()) % span;
        i64::try_from(i128::from(low) + offset).unwrap_or(low)
    }

    /// Returns a number from the lower limit of a schema to a few above it.
    fn count(&mut self, schema: &Value, least: &str, most: &str, extra: i64) -> i64 {
        let least = schema[least].as_i64().unwrap_or(0);
        let most = schema[most].as_i64().unwrap_or(i64::MAX);
        self.between(least, most.min(least.saturating_add(extra)))
    }

    fn members(&mut self, schema: &Value, path: &str) -> Result<Map<String, Value>, String> {
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut members = Map::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let is_required = required.contains(&&**name);
            if !is_required && self.next().is_multiple_of(4) {
                continue;
            }
            let path = format!("{path}.{name}");
            match self.value(property, &path)? {
                Some(value) => _ = members.insert(name.clone(), value),
                None if is_required => {
                    return Err(format!("{path} is required and has a pattern, but neither a default nor an example"));
                }
                None => {}
            }
        }
        if schema["additionalProperties"].is_object() {
            for number in 0..self.count(schema, "minProperties", "maxProperties", 2) {
                let value = self.value(&schema["additionalProperties"], path)?;
                members.extend(value.map(|value| (format!("key-{number}"), value)));
            }
        }
        Ok(members)
    }

    /// Returns a value; `None` if no value is known that fits.
    fn value(&mut self, schema: &Value, path: &str) -> Result<Option<Value>, String> {
        if let Some(values) = schema["enum"].as_array().filter(|values| !values.is_empty()) {
            let index = usize::try_from(self.next()).unwrap_or(0) % values.len();
            return Ok(values.get(index).cloned());
        }
        if schema["x-kubernetes-int-or-string"] == true {
            let number = self.between(0, 100);
            // The one of quantities has a pattern.
            let unit = if schema["pattern"].is_string() { "m" } else { "%" };
            return Ok(Some(if number % 2 == 0 { json!(number) } else { json!(format!("{number}{unit}")) }));
        }
        Ok(Some(match schema["type"].as_str().unwrap_or_default() {
            "boolean" => json!(self.next().is_multiple_of(2)),
            "integer" => json!(self.integer(schema)),
            // Halves: no rounding in whatever way they are written.
            "number" => json!(self.between(-1000, 1000) as f64 / 2.0),
            "string" => return Ok(self.text(schema)),
            "array" => {
                let count = self.count(schema, "minItems", "maxItems", 2);
                let items = (0..count).map(|_| self.value(&schema["items"], path)).collect::<Result<Vec<_>, _>>()?;
                items.into_iter().flatten().collect()
            }
            "object" if schema["properties"].is_object() || schema["additionalProperties"].is_object() => {
                Value::Object(self.members(schema, path)?)
            }
            "object" => json!({"key": self.next() % 10}),
            _ => json!(format!("text-{}", self.next() % 10)),
        }))
    }

    fn integer(&mut self, schema: &Value) -> i64 {
        let (least, most) = match schema["format"].as_str() {
            Some("int32") => (i64::from(i32::MIN), i64::from(i32::MAX)),
            // Larger numbers are no integers for programs that read JSON as floating point.
            _ => (-(1 << 53), 1 << 53),
        };
        let least = schema["minimum"].as_i64().unwrap_or(least).max(least);
        let most = schema["maximum"].as_i64().unwrap_or(most).min(most);
        let number = match self.next() % 4 {
            0 => least,
            1 => most,
            _ => self.between(least.max(-100).min(most), most.min(100).max(least)),
        };
        match schema["multipleOf"].as_i64() {
            Some(step) if step > 0 => number / step * step,
            _ => number,
        }
    }

    fn text(&mut self, schema: &Value) -> Option<Value> {
        let number = self.between(0, 59);
        let known = match schema["format"].as_str().unwrap_or_default() {
            "date-time" | "datetime" => Some(format!("2026-01-01T00:00:{number:02}Z")),
            "date" => Some("2026-01-01".to_owned()),
            "byte" => Some("YWJj".to_owned()),
            "duration" => Some(format!("{number}s")),
            "ipv4" => Some(format!("10.0.0.{number}")),
            "ipv6" => Some(format!("::{number}")),
            "cidr" => Some(format!("10.0.{number}.0/24")),
            "uri" => Some(format!("https://example.com/{number}")),
            "email" => Some("a@example.com".to_owned()),
            "hostname" | "k8s-short-name" | "k8s-long-name" => Some(format!("host-{number}")),
            "uuid" | "uuid4" => Some(format!("6ba7b810-9dad-41d1-80b4-00c04fd430{number:02}")),
            _ => None,
        };
        if let Some(known) = known {
            return Some(known.into());
        }
        if schema["pattern"].is_string() {
            return ["default", "example"].into_iter().map(|key| &schema[key]).find(|value| value.is_string()).cloned();
        }
        let length = self.count(schema, "minLength", "maxLength", 8);
        let letters = ['a', 'b', 'z', '0', '-', 'é'];
        let mut text = String::new();
        for _ in 0..length.min(10_000) {
            text.push(letters[usize::try_from(self.next() % 6).unwrap_or(0)]);
        }
        Some(text.into())
    }
}
