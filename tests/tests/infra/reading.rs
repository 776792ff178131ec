//! I read the template as plain JSON and find my way in it.

use std::collections::BTreeMap;
use std::fs;

use punctual_tests::alarms::document;
use punctual_tests::stack::{FUNCTIONS, root, template};
use serde_json::{Map, Value, json};
use serde_norway::Value as Yaml;

/// The environment of each function: exactly what it needs, and nothing else. Every function has [`SHARED`] too.
pub(crate) const ENVIRONMENT: [(&str, &[&str]); 7] = [
    (
        "dispatch",
        &[
            "DEAD_LETTER_QUEUE_URL",
            "DISPATCH_LEASE_SECONDS",
            "HANDOFF_THRESHOLD_SECONDS",
            "HORIZON_SECONDS",
            "QUEUE_URL",
            "SAFETY_MARGIN_SECONDS",
            "TICK_SECONDS",
        ],
    ),
    (
        "deliver",
        &["ALLOW_LOCAL_ENDPOINTS", "DEAD_LETTER_QUEUE_URL", "PRODUCTION", "QUEUE_URL", "SAFETY_MARGIN_SECONDS", "SECRET_PREFIX"],
    ),
    ("schedule", &["DISPATCH_LEASE_SECONDS", "HORIZON_SECONDS", "QUEUE_URL", "SAFETY_MARGIN_SECONDS", "TICK_SECONDS"]),
    ("inspect", &["DEAD_LETTER_QUEUE_URL", "SAFETY_MARGIN_SECONDS", "TICK_SECONDS"]),
    (
        "operate",
        &["ALLOW_LOCAL_ENDPOINTS", "PRODUCTION", "SAFETY_MARGIN_SECONDS", "SCHEDULE_GROUP", "SECRET_PREFIX", "TICK_SCHEDULE"],
    ),
    (
        "redrive",
        &[
            "DEAD_LETTER_QUEUE_URL",
            "DISPATCH_LEASE_SECONDS",
            "HORIZON_SECONDS",
            "QUEUE_URL",
            "SAFETY_MARGIN_SECONDS",
            "SCHEDULE_GROUP",
            "SLICE_ROLE_ARN",
            "SLICE_SECONDS",
            "TICK_SECONDS",
        ],
    ),
    ("monitor", &["DEAD_LETTER_QUEUE_URL", "QUEUE_URL", "SAFETY_MARGIN_SECONDS", "TICK_SECONDS"]),
];

/// The environment that all functions have.
pub(crate) const SHARED: [&str; 4] = ["CONTROL_TABLE", "LEDGER_TABLE", "LOG_LEVEL", "STAGE"];

/// The calls each role may make: (role, resource as the template writes it, actions).
pub(crate) const CALLS: &[(&str, &str, &[&str])] = &[
    ("Dispatch", "LedgerTable.Arn", &["dynamodb:BatchGetItem", "dynamodb:UpdateItem"]),
    ("Dispatch", "${LedgerTable.Arn}/index/attention", &["dynamodb:Query"]),
    ("Dispatch", "${LedgerTable.Arn}/index/wake", &["dynamodb:Query"]),
    ("Dispatch", "ControlTable.Arn", &["dynamodb:BatchGetItem", "dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:Query"]),
    ("Dispatch", "DeliveryQueue.Arn", &["sqs:SendMessage"]),
    ("Dispatch", "DeadLetterQueue.Arn", &["sqs:SendMessage"]),
    ("Deliver", "LedgerTable.Arn", &["dynamodb:GetItem", "dynamodb:UpdateItem"]),
    ("Deliver", "ControlTable.Arn", &["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]),
    (
        "Deliver",
        "DeliveryQueue.Arn",
        &["sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"],
    ),
    ("Deliver", "DeadLetterQueue.Arn", &["sqs:SendMessage"]),
    ("Deliver", SECRETS, &["secretsmanager:GetSecretValue"]),
    ("Schedule", "LedgerTable.Arn", &["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem"]),
    ("Schedule", "ControlTable.Arn", &["dynamodb:BatchGetItem"]),
    ("Schedule", "DeliveryQueue.Arn", &["sqs:SendMessage"]),
    ("Inspect", "LedgerTable.Arn", &["dynamodb:BatchGetItem", "dynamodb:Query"]),
    ("Inspect", "${LedgerTable.Arn}/index/attention", &["dynamodb:Query"]),
    ("Inspect", "${LedgerTable.Arn}/index/reference", &["dynamodb:Query"]),
    ("Inspect", "${LedgerTable.Arn}/index/wake", &["dynamodb:Query"]),
    ("Inspect", "ControlTable.Arn", &["dynamodb:BatchGetItem", "dynamodb:Query"]),
    ("Inspect", "DeadLetterQueue.Arn", &["sqs:ChangeMessageVisibility", "sqs:ReceiveMessage"]),
    ("Operate", "LedgerTable.Arn", &["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:UpdateItem"]),
    ("Operate", "ControlTable.Arn", &["dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]),
    ("Operate", TICK_SCHEDULE, &["scheduler:GetSchedule", "scheduler:UpdateSchedule"]),
    ("Operate", "TickRole.Arn", &["iam:PassRole"]),
    ("Redrive", "LedgerTable.Arn", &["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:UpdateItem"]),
    ("Redrive", "${LedgerTable.Arn}/index/attention", &["dynamodb:Query"]),
    ("Redrive", "${LedgerTable.Arn}/index/run", &["dynamodb:Query"]),
    ("Redrive", "${LedgerTable.Arn}/index/wake", &["dynamodb:Query"]),
    (
        "Redrive",
        "ControlTable.Arn",
        &[
            "dynamodb:BatchGetItem",
            "dynamodb:DeleteItem",
            "dynamodb:GetItem",
            "dynamodb:PutItem",
            "dynamodb:Query",
            "dynamodb:UpdateItem",
        ],
    ),
    ("Redrive", "DeliveryQueue.Arn", &["sqs:SendMessage"]),
    ("Redrive", "DeadLetterQueue.Arn", &["sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:ReceiveMessage"]),
    ("Redrive", RUNS, &["scheduler:CreateSchedule"]),
    ("Redrive", "SliceRole.Arn", &["iam:PassRole"]),
    ("Slice", REDRIVE, &["lambda:InvokeFunction"]),
    ("Monitor", "LedgerTable.Arn", &["dynamodb:BatchGetItem"]),
    ("Monitor", "${LedgerTable.Arn}/index/attention", &["dynamodb:Query"]),
    ("Monitor", "${LedgerTable.Arn}/index/wake", &["dynamodb:Query"]),
    ("Monitor", "ControlTable.Arn", &["dynamodb:BatchGetItem", "dynamodb:Query"]),
    ("Monitor", "DeliveryQueue.Arn", &["sqs:GetQueueAttributes"]),
    ("Monitor", "DeadLetterQueue.Arn", &["sqs:GetQueueAttributes"]),
    ("Tick", "DispatchFunction.Arn", &["lambda:InvokeFunction"]),
    ("MonitorTick", "MonitorFunction.Arn", &["lambda:InvokeFunction"]),
];

/// The schedules of the stage's own group that a redrive run's slices have.
pub(crate) const RUNS: &str =
    "arn:${AWS::Partition}:scheduler:${AWS::Region}:${AWS::AccountId}:schedule/punctual-${Stage}/punctual-${Stage}-run_*";

/// The redrive function, by name.
const REDRIVE: &str = "arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:punctual-${Stage}-redrive";

/// Dispatch's schedule.
pub(crate) const TICK_SCHEDULE: &str =
    "arn:${AWS::Partition}:scheduler:${AWS::Region}:${AWS::AccountId}:schedule/punctual-${Stage}/punctual-${Stage}-tick";

/// The first of three resources with a `*`, [`RUNS`] being the third: the secrets below the stage's own path.
pub(crate) const SECRETS: &str =
    "arn:${AWS::Partition}:secretsmanager:${AWS::Region}:${AWS::AccountId}:secret:punctual/${Stage}/*";

/// The second of them: the streams of the function's own log group.
pub(crate) fn log_streams(function: &str) -> String {
    format!(
        "arn:${{AWS::Partition}}:logs:${{AWS::Region}}:${{AWS::AccountId}}:log-group:/aws/lambda/punctual-${{Stage}}-{function}:*"
    )
}

/// The template as JSON, its short tags written out (`!Ref x` → `{"Ref": "x"}`).
pub(crate) fn document() -> Value {
    plain(serde_norway::from_str(&template::read().unwrap()).unwrap())
}

pub(crate) fn plain(yaml: Yaml) -> Value {
    document::plain(yaml).unwrap()
}

/// The alarms' template as JSON.
pub(crate) fn observability() -> Value {
    document::read().unwrap()
}

pub(crate) fn resources_of(document: &Value, kind: &str) -> BTreeMap<String, Value> {
    document["Resources"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(_, resource)| resource["Type"] == kind)
        .map(|(name, resource)| (name.clone(), resource.clone()))
        .collect()
}

/// A resource of which there must be one by this name.
pub(crate) fn resource<'a>(document: &'a Value, name: &str) -> &'a Value {
    document["Resources"].get(name).unwrap_or_else(|| panic!("no resource {name}"))
}

/// The functions' properties by binary name, those from `Globals` included.
pub(crate) fn functions(document: &Value) -> BTreeMap<String, Value> {
    let globals = document["Globals"]["Function"].as_object().unwrap();
    let functions: BTreeMap<_, _> = resources_of(document, "AWS::Serverless::Function")
        .into_values()
        .map(|function| {
            let mut properties = globals.clone();
            for (name, value) in function["Properties"].as_object().unwrap() {
                merge(&mut properties, name, value);
            }
            let name = sub(&properties["FunctionName"]).strip_prefix("punctual-${Stage}-").unwrap().to_owned();
            (name, Value::Object(properties))
        })
        .collect();
    assert!(functions.keys().map(String::as_str).eq(sorted(FUNCTIONS)), "functions: {:?}", functions.keys());
    functions
}

pub(crate) fn merge(into: &mut Map<String, Value>, name: &str, value: &Value) {
    match (into.get_mut(name), value) {
        (Some(Value::Object(there)), Value::Object(new)) => {
            for (name, value) in new {
                merge(there, name, value);
            }
        }
        _ => {
            into.insert(name.to_owned(), value.clone());
        }
    }
}

pub(crate) fn sorted<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_unstable();
    names
}

pub(crate) fn sub(value: &Value) -> &str {
    value["Fn::Sub"].as_str().unwrap_or_else(|| panic!("not a !Sub: {value}"))
}

pub(crate) fn reference(name: &str) -> Value {
    json!({ "Ref": name })
}

pub(crate) fn attribute(resource: &str, name: &str) -> Value {
    json!({ "Fn::GetAtt": [resource, name] })
}

/// One string or a list of strings.
pub(crate) fn strings(value: &Value) -> Vec<String> {
    list(value).iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

pub(crate) fn list(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items.clone(),
        one => vec![one.clone()],
    }
}

/// A resource of a policy statement as the template writes it.
pub(crate) fn written(resource: &Value) -> String {
    if let Some(path) = resource["Fn::GetAtt"].as_array() {
        return path.iter().map(|part| part.as_str().unwrap()).collect::<Vec<_>>().join(".");
    }
    resource.as_str().unwrap_or_else(|| sub(resource)).to_owned()
}

pub(crate) fn seconds(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("not a number: {value}"))
}

/// The event sources of a function.
pub(crate) fn queue_sources(function: &Value) -> Vec<Value> {
    function["Events"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(_, event)| event)
        .filter(|event| event["Type"] == "SQS")
        .map(|event| event["Properties"].clone())
        .collect()
}

/// The parameter that a value refers to.
pub(crate) fn parameter<'a>(document: &'a Value, value: &Value) -> &'a Value {
    let name = value["Ref"].as_str().unwrap_or_else(|| panic!("not a !Ref: {value}"));
    document["Parameters"].get(name).unwrap_or_else(|| panic!("no parameter {name}"))
}

pub(crate) fn readme() -> String {
    fs::read_to_string(root().join("infra").join("README.md")).unwrap()
}

/// What a value is for each length of a tick, by minutes, if it is derived from it.
pub(crate) fn of_the_tick(document: &Value, value: &Value) -> Option<BTreeMap<u64, u64>> {
    let [map, minutes, name] = value.get("Fn::FindInMap")?.as_array()?.as_slice() else { return None };
    assert_eq!((map, minutes), (&json!("TickEvery"), &reference("TickMinutes")));
    let map = document["Mappings"]["TickEvery"].as_object().unwrap();
    let name = name.as_str().unwrap();
    Some(map.iter().map(|(minutes, entry)| (minutes.parse().unwrap(), entry[name].as_str().unwrap().parse().unwrap())).collect())
}
