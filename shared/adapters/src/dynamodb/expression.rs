//! I collect the names and values of a condition and an update, so that no text of a row is ever part of one.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

/// The placeholders of one request.
#[derive(Debug, Default)]
pub(crate) struct Placeholders {
    names: HashMap<String, String>,
    values: HashMap<String, AttributeValue>,
}

impl Placeholders {
    /// The placeholder of an attribute name.
    pub(crate) fn name(&mut self, attribute: &str) -> String {
        let placeholder = format!("#{attribute}");
        self.names.insert(placeholder.clone(), attribute.to_owned());
        placeholder
    }

    /// The placeholder of a value.
    pub(crate) fn value(&mut self, value: AttributeValue) -> String {
        let placeholder = format!(":v{}", self.values.len());
        self.values.insert(placeholder.clone(), value);
        placeholder
    }

    /// `#attribute <operator> :value`.
    pub(crate) fn compare(&mut self, attribute: &str, operator: &str, value: AttributeValue) -> String {
        format!("{} {operator} {}", self.name(attribute), self.value(value))
    }

    /// `function(#attribute)`.
    pub(crate) fn call(&mut self, function: &str, attribute: &str) -> String {
        format!("{function}({})", self.name(attribute))
    }

    /// An assignment that appends to a list.
    pub(crate) fn append(&mut self, attribute: &str, list: AttributeValue) -> String {
        let (name, value) = (self.name(attribute), self.value(list));
        format!("{name} = list_append({name}, {value})")
    }

    /// The names, as the SDK wants them; none if there are none.
    pub(crate) fn names(&self) -> Option<HashMap<String, String>> {
        (!self.names.is_empty()).then(|| self.names.clone())
    }

    /// The values, as the SDK wants them; none if there are none.
    pub(crate) fn values(&self) -> Option<HashMap<String, AttributeValue>> {
        (!self.values.is_empty()).then(|| self.values.clone())
    }
}

/// A conditional update of one item.
#[derive(Debug)]
pub(crate) struct Update {
    /// When it applies.
    pub(crate) condition: String,
    /// What it does; none if nothing differs.
    pub(crate) update: Option<String>,
    /// The names and values of both.
    pub(crate) placeholders: Placeholders,
}
