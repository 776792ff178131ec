//! I read and write single attributes, strictly, and know how DynamoDB counts an item's bytes.
//!
//! A problem names the item and the attribute, never the value.

use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;

use aws_sdk_dynamodb::types::AttributeValue;
use punctual_core::ports::PortError;

/// An item as the SDK has it.
pub(crate) type Item = HashMap<String, AttributeValue>;

pub(crate) fn text(value: impl Display) -> AttributeValue {
    AttributeValue::S(value.to_string())
}

pub(crate) fn number(value: impl Into<u64>) -> AttributeValue {
    AttributeValue::N(value.into().to_string())
}

pub(crate) fn texts<T: Display>(values: &[T]) -> AttributeValue {
    AttributeValue::L(values.iter().map(text).collect())
}

/// Reads one item's attributes.
pub(crate) struct Reader<'a> {
    item: &'a Item,
    name: String,
}

impl<'a> Reader<'a> {
    /// `name` is what an error calls the item.
    pub(crate) fn new(item: &'a Item, name: String) -> Self {
        Self { item, name }
    }

    pub(crate) fn corrupt(&self, problem: impl Into<String>) -> PortError {
        PortError::Corrupt { item: self.name.clone(), problem: problem.into() }
    }

    fn wrong(&self, attribute: &str) -> PortError {
        self.corrupt(format!("attribute {attribute} is not readable"))
    }

    fn missing(&self, attribute: &str) -> PortError {
        self.corrupt(format!("attribute {attribute} is missing"))
    }

    /// A text attribute, read by `parse`; `None` if it is absent.
    pub(crate) fn optional<T, E>(
        &self,
        attribute: &str,
        parse: impl Fn(&'a str) -> Result<T, E>,
    ) -> Result<Option<T>, PortError> {
        let Some(value) = self.item.get(attribute) else { return Ok(None) };
        let text = value.as_s().map_err(|_| self.wrong(attribute))?;
        parse(text).map(Some).map_err(|_| self.wrong(attribute))
    }

    /// A text attribute that must be there.
    pub(crate) fn required<T, E>(&self, attribute: &str, parse: impl Fn(&'a str) -> Result<T, E>) -> Result<T, PortError> {
        self.optional(attribute, parse)?.ok_or_else(|| self.missing(attribute))
    }

    /// A whole number; `None` if it is absent.
    pub(crate) fn optional_number<T: FromStr>(&self, attribute: &str) -> Result<Option<T>, PortError> {
        let Some(value) = self.item.get(attribute) else { return Ok(None) };
        let digits = value.as_n().map_err(|_| self.wrong(attribute))?;
        digits.parse().map(Some).map_err(|_| self.wrong(attribute))
    }

    /// A whole number that must be there.
    pub(crate) fn required_number<T: FromStr>(&self, attribute: &str) -> Result<T, PortError> {
        self.optional_number(attribute)?.ok_or_else(|| self.missing(attribute))
    }

    /// A flag; false if it is absent.
    pub(crate) fn flag(&self, attribute: &str) -> Result<bool, PortError> {
        let Some(value) = self.item.get(attribute) else { return Ok(false) };
        value.as_bool().copied().map_err(|_| self.wrong(attribute))
    }

    /// A list of texts; empty if it is absent.
    pub(crate) fn list<T: FromStr>(&self, attribute: &str) -> Result<Vec<T>, PortError> {
        let Some(value) = self.item.get(attribute) else { return Ok(Vec::new()) };
        let elements = value.as_l().map_err(|_| self.wrong(attribute))?;
        elements
            .iter()
            .map(|element| element.as_s().ok().and_then(|text| text.parse().ok()).ok_or_else(|| self.wrong(attribute)))
            .collect()
    }

    /// A map; `None` if it is absent.
    pub(crate) fn map(&self, attribute: &str) -> Result<Option<Reader<'a>>, PortError> {
        let Some(value) = self.item.get(attribute) else { return Ok(None) };
        let map = value.as_m().map_err(|_| self.wrong(attribute))?;
        Ok(Some(Reader { item: map, name: self.name.clone() }))
    }

    /// Bytes that must be there.
    pub(crate) fn bytes(&self, attribute: &str) -> Result<Vec<u8>, PortError> {
        let value = self.item.get(attribute).ok_or_else(|| self.missing(attribute))?;
        value.as_b().map(|blob| blob.as_ref().to_vec()).map_err(|_| self.wrong(attribute))
    }
}

/// Any text.
pub(crate) fn as_is(text: &str) -> Result<String, std::convert::Infallible> {
    Ok(text.to_owned())
}

/// The size that an item is billed by, in bytes: names, values, and what lists and maps add.
pub(crate) fn item_bytes(item: &Item) -> usize {
    item.iter().map(|(name, value)| name.len() + value_bytes(value)).sum()
}

fn value_bytes(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        // About one byte for two significant digits, and one more.
        AttributeValue::N(digits) => digits.len().div_ceil(2) + 1,
        AttributeValue::B(blob) => blob.as_ref().len(),
        AttributeValue::L(list) => 3 + list.iter().map(|element| 1 + value_bytes(element)).sum::<usize>(),
        AttributeValue::M(map) => 3 + map.iter().map(|(name, value)| 1 + name.len() + value_bytes(value)).sum::<usize>(),
        _ => 1,
    }
}
