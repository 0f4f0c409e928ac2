//! Quantities as JSON, and as k8s-openapi's.

use std::fmt;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

use super::{ExactQuantity, QuantityError};

impl TryFrom<&Quantity> for ExactQuantity {
    type Error = QuantityError;

    fn try_from(quantity: &Quantity) -> Result<Self, QuantityError> {
        quantity.0.trim().parse()
    }
}

impl TryFrom<Quantity> for ExactQuantity {
    type Error = QuantityError;

    fn try_from(quantity: Quantity) -> Result<Self, QuantityError> {
        ExactQuantity::try_from(&quantity)
    }
}

impl From<&ExactQuantity> for Quantity {
    fn from(quantity: &ExactQuantity) -> Self {
        Quantity(quantity.to_string())
    }
}

impl From<ExactQuantity> for Quantity {
    fn from(quantity: ExactQuantity) -> Self {
        Quantity::from(&quantity)
    }
}

impl Serialize for ExactQuantity {
    /// Writes the canonical form as a string.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ExactQuantity {
    /// Reads a string or a number, without white space around it; `null` is zero.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = ExactQuantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity: a string or a number")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ExactQuantity, E> {
        text.trim().parse().map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<ExactQuantity, E> {
        Ok(number.into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<ExactQuantity, E> {
        number.to_string().parse().map_err(E::custom)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<ExactQuantity, E> {
        let number = serde_json::Number::from_f64(number).ok_or_else(|| E::custom(QuantityError::Number))?;
        number.to_string().parse().map_err(E::custom)
    }

    fn visit_unit<E: Error>(self) -> Result<ExactQuantity, E> {
        Ok(ExactQuantity::default())
    }

    fn visit_none<E: Error>(self) -> Result<ExactQuantity, E> {
        Ok(ExactQuantity::default())
    }
}
