//! The JSON Schemas beside the events are those of the types that read them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test may fail loudly")]

use std::collections::{BTreeMap, BTreeSet};

use punctual_tests::schema;
use punctual_tests::stack::root;
use serde_json::Value;

#[test]
fn the_files_are_current() {
    let folder = root().join("events/schema");
    let stored: BTreeMap<String, String> = std::fs::read_dir(&folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry"))
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read_to_string(entry.path()).unwrap()))
        .collect();
    let made = schema::files().unwrap();
    assert_eq!(stored.keys().collect::<Vec<_>>(), made.keys().collect::<Vec<_>>());
    for (name, text) in made {
        assert!(stored[&name] == text, "events/schema/{name} is not what its types say: make schema");
    }
}

/// What a schema says of an object, followed to where it is said.
fn followed<'s>(whole: &'s Value, schema: &'s Value) -> &'s Value {
    match schema["$ref"].as_str() {
        Some(path) => whole.pointer(path.trim_start_matches('#')).expect("a definition"),
        None => schema["anyOf"].as_array().map_or(schema, |any| followed(whole, &any[0])),
    }
}

/// Every field of the value is one that the schema knows, every field that it wants is there, and so on within.
fn agrees(whole: &Value, schema: &Value, value: &Value, path: &str) {
    let schema = followed(whole, schema);
    match value {
        Value::Object(fields) if schema["properties"].is_object() => {
            assert_eq!(schema["additionalProperties"], false, "{path} takes any field");
            let known: BTreeSet<&String> = schema["properties"].as_object().unwrap().keys().collect();
            for (name, field) in fields {
                assert!(known.contains(name), "{path}.{name} is not in the schema");
                agrees(whole, &schema["properties"][name], field, &format!("{path}.{name}"));
            }
            let wanted = schema["required"].as_array().into_iter().flatten();
            wanted.for_each(|name| assert!(fields.contains_key(name.as_str().unwrap()), "{path} lacks {name}"));
        }
        Value::Array(items) if schema["items"].is_object() => {
            items.iter().for_each(|item| agrees(whole, &schema["items"], item, path));
        }
        Value::String(text) if schema["enum"].is_array() => {
            assert!(schema["enum"].as_array().unwrap().iter().any(|word| word == text), "{path} is {text}");
        }
        _ => {}
    }
}

#[test]
fn every_event_agrees_with_its_schema() {
    let schemas = schema::files().unwrap();
    let mut judged = 0;
    for entry in std::fs::read_dir(root().join("events")).expect("the folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Some((function, _)) = name.split_once('.').filter(|_| name.ends_with(".json")) else { continue };
        let event: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).expect("JSON");
        let action = event["action"].as_str().unwrap_or_default().replace("preview", "schedule");
        let Some(schema) = schemas.get(&format!("{function}.{action}.json")) else {
            assert_ne!(function, "schedule", "{name} has no schema");
            continue;
        };
        let schema: Value = serde_json::from_str(schema).unwrap();
        agrees(&schema, &schema, &event, &name);
        judged += 1;
    }
    assert!(judged >= 9, "only {judged} events");
}
