//! The rules that `infra/template.yaml` keeps. Most of them are not checked by any linter, and AWS reports a violation
//! of some of them only by losing messages.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use punctual_adapters::config;
use punctual_adapters::telemetry::{DIMENSIONS, NAMESPACE, metric};
use punctual_tests::stack::{FUNCTIONS, default_parameters, root, template};
use serde_json::{Map, Value, json};
use serde_norway::Value as Yaml;

/// The environment of each function: exactly what it needs, and nothing else. Every function has [`SHARED`] too.
const ENVIRONMENT: [(&str, &[&str]); 5] = [
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
    ("inspect", &["SAFETY_MARGIN_SECONDS"]),
    ("operate", &["ALLOW_LOCAL_ENDPOINTS", "PRODUCTION", "SAFETY_MARGIN_SECONDS", "SECRET_PREFIX"]),
];

/// The environment that all functions have.
const SHARED: [&str; 4] = ["CONTROL_TABLE", "LEDGER_TABLE", "LOG_LEVEL", "STAGE"];

/// The calls each role may make: (role, resource as the template writes it, actions).
const CALLS: &[(&str, &str, &[&str])] = &[
    ("Dispatch", "LedgerTable.Arn", &["dynamodb:BatchGetItem", "dynamodb:UpdateItem"]),
    ("Dispatch", "${LedgerTable.Arn}/index/attention", &["dynamodb:Query"]),
    ("Dispatch", "${LedgerTable.Arn}/index/wake", &["dynamodb:Query"]),
    ("Dispatch", "ControlTable.Arn", &["dynamodb:BatchGetItem", "dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:Query"]),
    ("Dispatch", "DeliveryQueue.Arn", &["sqs:SendMessage"]),
    ("Dispatch", "DeadLetterQueue.Arn", &["sqs:SendMessage"]),
    ("Deliver", "LedgerTable.Arn", &["dynamodb:GetItem", "dynamodb:UpdateItem"]),
    ("Deliver", "ControlTable.Arn", &["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:PutItem"]),
    (
        "Deliver",
        "DeliveryQueue.Arn",
        &["sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"],
    ),
    ("Deliver", "DeadLetterQueue.Arn", &["sqs:SendMessage"]),
    ("Deliver", SECRETS, &["secretsmanager:GetSecretValue"]),
    ("Schedule", "LedgerTable.Arn", &["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]),
    ("Schedule", "ControlTable.Arn", &["dynamodb:BatchGetItem"]),
    ("Schedule", "DeliveryQueue.Arn", &["sqs:SendMessage"]),
    ("Inspect", "LedgerTable.Arn", &["dynamodb:Query"]),
    ("Inspect", "${LedgerTable.Arn}/index/reference", &["dynamodb:Query"]),
    ("Inspect", "ControlTable.Arn", &["dynamodb:BatchGetItem"]),
    ("Operate", "LedgerTable.Arn", &["dynamodb:BatchGetItem", "dynamodb:UpdateItem"]),
    ("Operate", "ControlTable.Arn", &["dynamodb:BatchGetItem", "dynamodb:PutItem"]),
    ("Tick", "DispatchFunction.Arn", &["lambda:InvokeFunction"]),
];

/// The first of two resources with a `*`: the secrets below the stage's own path.
const SECRETS: &str = "arn:${AWS::Partition}:secretsmanager:${AWS::Region}:${AWS::AccountId}:secret:punctual/${Stage}/*";

/// The second of two resources with a `*`: the streams of the function's own log group.
fn log_streams(function: &str) -> String {
    format!(
        "arn:${{AWS::Partition}}:logs:${{AWS::Region}}:${{AWS::AccountId}}:log-group:/aws/lambda/punctual-${{Stage}}-{function}:*"
    )
}

/// Metrics that the alarms read: (alarm, namespace, metric, the functions that write it). In the code's own namespace
/// every metric has exactly the code's dimensions.
const EXPECTED_METRICS: [(&str, &str, &str, &[&str]); 5] = [
    ("OldestOverdueAlarm", NAMESPACE, metric::OLDEST_OVERDUE_SECONDS, &["dispatch"]),
    ("DispatchHeartbeatAlarm", NAMESPACE, metric::DISPATCH_HEARTBEAT, &["dispatch"]),
    ("ExpiredAlarm", NAMESPACE, metric::EXPIRED, &["deliver", "dispatch"]),
    ("DeadLettersAlarm", "AWS/SQS", "ApproximateNumberOfMessagesVisible", &[]),
    ("DeadReachableAlarm", NAMESPACE, metric::DEAD_REACHABLE, &["dispatch"]),
];

// ------------------------------------------------------------------------------------------------ reading the template

/// The template as JSON, its short tags written out (`!Ref x` → `{"Ref": "x"}`).
fn document() -> Value {
    plain(serde_norway::from_str(&template::read().unwrap()).unwrap())
}

fn plain(yaml: Yaml) -> Value {
    match yaml {
        Yaml::Null => Value::Null,
        Yaml::Bool(value) => value.into(),
        Yaml::Number(number) => serde_json::to_value(number).unwrap(),
        Yaml::String(text) => text.into(),
        Yaml::Sequence(items) => items.into_iter().map(plain).collect(),
        Yaml::Mapping(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(key, value)| {
                    let key = plain(key);
                    (key.as_str().map_or_else(|| key.to_string(), str::to_owned), plain(value))
                })
                .collect(),
        ),
        Yaml::Tagged(tagged) => {
            let tag = tagged.tag.to_string();
            let name = tag.trim_start_matches('!');
            let mut value = plain(tagged.value);
            if name == "GetAtt" {
                value = value.as_str().map(|path| path.split('.').collect::<Vec<_>>().into()).unwrap_or(value);
            }
            let name = if matches!(name, "Ref" | "Condition") { name.to_owned() } else { format!("Fn::{name}") };
            json!({ name: value })
        }
    }
}

fn resources_of(document: &Value, kind: &str) -> BTreeMap<String, Value> {
    document["Resources"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(_, resource)| resource["Type"] == kind)
        .map(|(name, resource)| (name.clone(), resource.clone()))
        .collect()
}

/// A resource of which there must be one by this name.
fn resource<'a>(document: &'a Value, name: &str) -> &'a Value {
    document["Resources"].get(name).unwrap_or_else(|| panic!("no resource {name}"))
}

/// The functions' properties by binary name, those from `Globals` included.
fn functions(document: &Value) -> BTreeMap<String, Value> {
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

fn merge(into: &mut Map<String, Value>, name: &str, value: &Value) {
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

fn sorted<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_unstable();
    names
}

fn sub(value: &Value) -> &str {
    value["Fn::Sub"].as_str().unwrap_or_else(|| panic!("not a !Sub: {value}"))
}

fn reference(name: &str) -> Value {
    json!({ "Ref": name })
}

fn attribute(resource: &str, name: &str) -> Value {
    json!({ "Fn::GetAtt": [resource, name] })
}

/// One string or a list of strings.
fn strings(value: &Value) -> Vec<String> {
    list(value).iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

fn list(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items.clone(),
        one => vec![one.clone()],
    }
}

/// A resource of a policy statement as the template writes it.
fn written(resource: &Value) -> String {
    if let Some(path) = resource["Fn::GetAtt"].as_array() {
        return path.iter().map(|part| part.as_str().unwrap()).collect::<Vec<_>>().join(".");
    }
    resource.as_str().unwrap_or_else(|| sub(resource)).to_owned()
}

fn seconds(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("not a number: {value}"))
}

/// The event sources of a function.
fn queue_sources(function: &Value) -> Vec<Value> {
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
fn parameter<'a>(document: &'a Value, value: &Value) -> &'a Value {
    let name = value["Ref"].as_str().unwrap_or_else(|| panic!("not a !Ref: {value}"));
    document["Parameters"].get(name).unwrap_or_else(|| panic!("no parameter {name}"))
}

// ---------------------------------------------------------------------------------------------------------- functions

#[test]
fn every_function_writes_to_a_log_group_of_its_own_with_a_retention() {
    let document = document();
    let mut groups = BTreeSet::new();
    for (name, function) in functions(&document) {
        let group = function["LoggingConfig"]["LogGroup"]["Ref"].as_str().unwrap().to_owned();
        let properties = &resource(&document, &group)["Properties"];
        assert_eq!(sub(&properties["LogGroupName"]), format!("/aws/lambda/punctual-${{Stage}}-{name}"));
        assert_eq!(properties["RetentionInDays"], reference("LogRetentionDays"), "{group}");
        assert_eq!(function["LoggingConfig"]["LogFormat"], "JSON", "{name}");
        // Lambda would take the metrics' line, which has no level, for INFO and drop it at any level above.
        assert_eq!(function["LoggingConfig"]["ApplicationLogLevel"], "TRACE", "{name}");
        assert_eq!(function["Environment"]["Variables"]["LOG_LEVEL"], reference("LogLevel"), "{name}");
        assert!(groups.insert(group), "{name} shares its log group");
    }
    assert_eq!(resources_of(&document, "AWS::Logs::LogGroup").len(), groups.len(), "a log group nobody writes to");
}

#[test]
fn every_function_has_a_role_of_its_own() {
    let document = document();
    let mut roles = BTreeSet::new();
    for (name, function) in functions(&document) {
        let role = function["Role"]["Fn::GetAtt"][0].as_str().unwrap_or_else(|| panic!("{name} has no role")).to_owned();
        assert_eq!(resource(&document, &role)["Type"], "AWS::IAM::Role");
        assert!(function.get("Policies").is_none(), "{name} has policies besides its role");
        assert!(roles.insert(role), "{name} shares its role");
    }
}

#[test]
fn every_function_is_a_custom_runtime_for_the_chosen_architecture() {
    let document = document();
    for (name, function) in functions(&document) {
        assert_eq!(function["Runtime"], "provided.al2023", "{name}");
        assert_eq!(function["Handler"], "bootstrap", "{name}");
        assert_eq!(function["Architectures"], json!([reference("Architecture")]), "{name}");
        assert_eq!(function["CodeUri"], format!("../target/lambda/{name}/"), "{name}");
    }
}

#[test]
fn every_function_has_exactly_the_environment_it_needs() {
    let document = document();
    let functions = functions(&document);
    assert_eq!(functions.len(), ENVIRONMENT.len());
    for (name, own) in ENVIRONMENT {
        let variables = functions[name]["Environment"]["Variables"].as_object().unwrap();
        let expected: BTreeSet<&str> = SHARED.into_iter().chain(own.iter().copied()).collect();
        let given: BTreeSet<&str> = variables.keys().map(String::as_str).collect();
        assert_eq!(given, expected, "{name}");
    }
}

#[test]
fn a_variable_means_the_same_in_every_function() {
    let document = document();
    let mut meanings: BTreeMap<String, Value> = BTreeMap::new();
    for (name, function) in functions(&document) {
        for (variable, value) in function["Environment"]["Variables"].as_object().unwrap() {
            let known = meanings.entry(variable.clone()).or_insert_with(|| value.clone());
            assert_eq!(known, value, "{variable} of {name}");
        }
    }
    assert_eq!(meanings["QUEUE_URL"], reference("DeliveryQueue"));
    assert_eq!(meanings["DEAD_LETTER_QUEUE_URL"], reference("DeadLetterQueue"));
    // The functions refuse the second while the first is true, whatever the stage is called.
    assert_eq!(meanings["PRODUCTION"], reference("Production"));
    assert_eq!(meanings["ALLOW_LOCAL_ENDPOINTS"], reference("AllowLocalEndpoints"));
    assert_eq!(meanings["LEDGER_TABLE"], reference("LedgerTable"));
    assert_eq!(meanings["CONTROL_TABLE"], reference("ControlTable"));
    assert_eq!(sub(&meanings["SECRET_PREFIX"]), "punctual/${Stage}/");
}

#[test]
fn a_parameter_of_seconds_takes_what_the_functions_take() {
    let document = document();
    let readme = readme();
    let mut met = BTreeSet::new();
    for (function, properties) in functions(&document) {
        for (variable, value) in properties["Environment"]["Variables"].as_object().unwrap() {
            if !variable.ends_with("_SECONDS") {
                continue;
            }
            let bounds = config::SECONDS.into_iter().find(|one| one.variable == variable);
            let config::Seconds { min, max, .. } = bounds.unwrap_or_else(|| panic!("{function} does not read {variable}"));
            met.insert(variable.clone());
            if let Some(derived) = of_the_tick(&document, value) {
                assert!(derived.values().all(|one| (min..=max).contains(one)), "{variable}: {derived:?}");
                continue;
            }
            let parameter = parameter(&document, value);
            assert_eq!((seconds(&parameter["MinValue"]), seconds(&parameter["MaxValue"])), (min, max), "{variable}");
            assert!((min..=max).contains(&seconds(&parameter["Default"])), "{variable}");
            let name = value["Ref"].as_str().unwrap();
            let row = readme.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).unwrap();
            assert!(row.replace(',', "").ends_with(&format!("; {min} to {max}. |")), "infra/README.md: {row}");
        }
    }
    assert!(config::SECONDS.iter().all(|one| met.contains(one.variable)), "the template sets {met:?} only");
}

// --------------------------------------------------------------------------------------------------------- permissions

#[test]
fn roles_permit_the_calls_that_are_made_and_nothing_else() {
    let document = document();
    let mut expected: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for (role, resource, actions) in CALLS {
        let actions = actions.iter().map(|action| (*action).to_owned()).collect();
        expected.insert((format!("{role}Role"), (*resource).to_owned()), actions);
    }
    for function in FUNCTIONS {
        let role = format!("{}{}Role", function[..1].to_uppercase(), &function[1..]);
        let actions = ["logs:CreateLogStream", "logs:PutLogEvents"].map(str::to_owned).into();
        expected.insert((role, log_streams(function)), actions);
    }
    let mut given: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for (role, statement) in statements(&document) {
        assert_eq!(statement["Effect"], "Allow", "{role}");
        assert!(statement.get("NotAction").is_none() && statement.get("NotResource").is_none(), "{role}");
        for resource in list(&statement["Resource"]) {
            given.entry((role.clone(), written(&resource))).or_default().extend(strings(&statement["Action"]));
        }
    }
    assert_eq!(given, expected);
}

#[test]
fn no_action_and_no_resource_is_a_wildcard_but_the_two_named_ones() {
    let document = document();
    let mut exceptions = BTreeSet::new();
    let mut seen = 0;
    for (role, statement) in statements(&document) {
        for action in strings(&statement["Action"]) {
            assert!(!action.contains('*'), "{role}: {action}");
        }
        for resource in list(&statement["Resource"]) {
            seen += 1;
            let resource = written(&resource);
            if resource.contains('*') {
                exceptions.insert(resource);
            }
        }
    }
    let named = FUNCTIONS.into_iter().map(log_streams).chain([SECRETS.to_owned()]).collect();
    assert_eq!(exceptions, named);
    assert!(seen > exceptions.len());
    for (name, role) in resources_of(&document, "AWS::IAM::Role") {
        assert!(role["Properties"].get("ManagedPolicyArns").is_none(), "{name} has managed policies");
    }
}

#[test]
fn a_role_is_assumed_by_the_service_that_needs_it() {
    let document = document();
    for (name, role) in resources_of(&document, "AWS::IAM::Role") {
        let trust = list(&role["Properties"]["AssumeRolePolicyDocument"]["Statement"]);
        assert_eq!(trust.len(), 1, "{name}");
        let service = if name == "TickRole" { "scheduler.amazonaws.com" } else { "lambda.amazonaws.com" };
        assert_eq!(trust[0]["Principal"], json!({ "Service": service }), "{name}");
        assert_eq!(trust[0]["Action"], "sts:AssumeRole", "{name}");
    }
    let condition = &resource(&document, "TickRole")["Properties"]["AssumeRolePolicyDocument"]["Statement"][0]["Condition"];
    assert_eq!(condition["StringEquals"]["aws:SourceAccount"], reference("AWS::AccountId"));
}

/// All statements of all roles, with the role's name.
fn statements(document: &Value) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for (name, role) in resources_of(document, "AWS::IAM::Role") {
        for policy in list(&role["Properties"]["Policies"]) {
            for statement in list(&policy["PolicyDocument"]["Statement"]) {
                all.push((name.clone(), statement));
            }
        }
    }
    all
}

// -------------------------------------------------------------------------------------------------------------- queues

#[test]
fn a_queue_source_reports_partial_failures_without_a_window_and_within_a_concurrency() {
    let document = document();
    let mut sources = 0;
    for (name, function) in functions(&document) {
        for source in queue_sources(&function) {
            sources += 1;
            assert_eq!(source["FunctionResponseTypes"], json!(["ReportBatchItemFailures"]), "{name}");
            assert_eq!(source["MaximumBatchingWindowInSeconds"], 0, "{name}");
            assert_eq!(source["BatchSize"], 10, "{name}");
            assert_eq!(source["Queue"], attribute("DeliveryQueue", "Arn"), "{name}");
            let concurrency = &source["ScalingConfig"]["MaximumConcurrency"];
            let parameter = parameter(&document, concurrency);
            assert_eq!(parameter["MinValue"], 2);
            assert_eq!(parameter["MaxValue"], 1000);
            assert!((2..=1000).contains(&seconds(&parameter["Default"])));
            // A reservation below the maximum would throttle: it can only be the maximum itself, or none.
            let none = reference("AWS::NoValue");
            let reservation = json!({ "Fn::If": ["ReservesDeliverConcurrency", concurrency, none] });
            assert_eq!(function["ReservedConcurrentExecutions"], reservation, "{name}");
        }
    }
    assert_eq!(sources, 1);
    assert!(resources_of(&document, "AWS::Lambda::EventSourceMapping").is_empty(), "a source that this test overlooks");
}

#[test]
fn a_message_stays_hidden_for_six_times_its_consumers_timeout() {
    let document = document();
    let queue = &resource(&document, "DeliveryQueue")["Properties"];
    for (name, function) in functions(&document) {
        for source in queue_sources(&function) {
            let window = seconds(&source["MaximumBatchingWindowInSeconds"]);
            let least = 6 * seconds(&function["Timeout"]) + window;
            assert!(seconds(&queue["VisibilityTimeout"]) >= least, "{name} needs {least} s");
        }
    }
}

#[test]
fn dead_letters_are_kept_for_fourteen_days_and_longer_than_the_queue_keeps_its_messages() {
    let document = document();
    let queue = &resource(&document, "DeliveryQueue")["Properties"];
    let dead = &resource(&document, "DeadLetterQueue")["Properties"];
    assert_eq!(seconds(&dead["MessageRetentionPeriod"]), 14 * 24 * 3600);
    assert_eq!(seconds(&queue["MessageRetentionPeriod"]), 4 * 24 * 3600);
    assert!(seconds(&dead["MessageRetentionPeriod"]) > seconds(&queue["MessageRetentionPeriod"]));
    assert_eq!(queue["RedrivePolicy"]["maxReceiveCount"], 1000);
    assert_eq!(queue["RedrivePolicy"]["deadLetterTargetArn"], attribute("DeadLetterQueue", "Arn"));
    assert_eq!(dead["RedriveAllowPolicy"]["redrivePermission"], "byQueue");
    let sources = list(&dead["RedriveAllowPolicy"]["sourceQueueArns"]);
    assert_eq!(sources.len(), 1);
    // The source is named by hand, because two references would be a circle: it must be the queue's real name.
    assert!(sub(&sources[0]).ends_with(&format!(":{}", sub(&queue["QueueName"]))));
}

#[test]
fn queues_are_encrypted_at_rest_and_in_transit() {
    let document = document();
    let queues = resources_of(&document, "AWS::SQS::Queue");
    for (name, queue) in &queues {
        assert_eq!(queue["Properties"]["SqsManagedSseEnabled"], true, "{name}");
    }
    let policies = resources_of(&document, "AWS::SQS::QueuePolicy");
    let policy = &policies.values().next().unwrap()["Properties"];
    let covered: BTreeSet<_> = list(&policy["Queues"]).iter().map(|queue| queue["Ref"].as_str().unwrap().to_owned()).collect();
    assert!(queues.keys().eq(&covered), "{covered:?}");
    let statement = &policy["PolicyDocument"]["Statement"][0];
    assert_eq!(statement["Effect"], "Deny");
    assert_eq!(statement["Condition"], json!({ "Bool": { "aws:SecureTransport": "false" } }));
    let arns: BTreeSet<_> = list(&statement["Resource"]).iter().map(written).collect();
    assert_eq!(arns, queues.keys().map(|name| format!("{name}.Arn")).collect());
}

// -------------------------------------------------------------------------------------------------------------- tables

#[test]
fn tables_are_on_demand_recoverable_encrypted_and_protected() {
    let document = document();
    let tables = resources_of(&document, "AWS::DynamoDB::Table");
    assert_eq!(tables.keys().map(String::as_str).collect::<Vec<_>>(), ["ControlTable", "LedgerTable"]);
    for (name, table) in tables {
        assert_eq!(table["DeletionPolicy"], "Retain", "{name}");
        assert_eq!(table["UpdateReplacePolicy"], "Retain", "{name}");
        let properties = &table["Properties"];
        assert_eq!(properties["BillingMode"], "PAY_PER_REQUEST", "{name}");
        assert_eq!(properties["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"], true, "{name}");
        assert_eq!(properties["SSESpecification"]["SSEEnabled"], true, "{name}");
        assert_eq!(properties["DeletionProtectionEnabled"], true, "{name}");
    }
}

#[test]
fn the_ledger_has_the_keys_and_indexes_of_the_contract() {
    let document = document();
    let ledger = &resource(&document, "LedgerTable")["Properties"];
    assert_eq!(keys(ledger), ["delivery_id", "item"]);
    assert_eq!(keys(&resource(&document, "ControlTable")["Properties"]), ["kind", "id"]);
    let indexes: BTreeMap<String, Value> = list(&ledger["GlobalSecondaryIndexes"])
        .into_iter()
        .map(|index| (index["IndexName"].as_str().unwrap().to_owned(), index))
        .collect();
    assert_eq!(indexes.keys().map(String::as_str).collect::<Vec<_>>(), ["attention", "reference", "wake"]);
    assert_eq!(keys(&indexes["wake"]), ["lane", "wake_at"]);
    assert_eq!(keys(&indexes["attention"]), ["attention", "deliver_by"]);
    assert_eq!(keys(&indexes["reference"]), ["reference"]);
    let projection = |index: &str, names: Value| assert_eq!(indexes[index]["Projection"]["NonKeyAttributes"], names, "{index}");
    // Anything else here that changes with a step costs a write unit at each step.
    projection("wake", json!(["held_until", "deliver_by"]));
    projection("attention", json!(["reason", "death", "dlq_sent", "destination_id"]));
    projection("reference", Value::Null);
    for index in ["wake", "attention"] {
        assert_eq!(indexes[index]["Projection"]["ProjectionType"], "INCLUDE");
    }
    assert_eq!(indexes["reference"]["Projection"]["ProjectionType"], "KEYS_ONLY");
}

fn keys(of: &Value) -> Vec<String> {
    let schema = list(&of["KeySchema"]);
    let kinds: Vec<_> = schema.iter().map(|key| key["KeyType"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["HASH", "RANGE"][..kinds.len()]);
    schema.iter().map(|key| key["AttributeName"].as_str().unwrap().to_owned()).collect()
}

// ------------------------------------------------------------------------------------------------------------ schedule

#[test]
fn the_tick_has_an_input_no_retries_and_a_short_life() {
    let document = document();
    let schedules = resources_of(&document, "AWS::Scheduler::Schedule");
    assert_eq!(schedules.len(), 1);
    let tick = &schedules["Tick"]["Properties"];
    assert_eq!(tick["GroupName"], reference("ScheduleGroup"));
    assert_eq!(tick["FlexibleTimeWindow"], json!({ "Mode": "OFF" }));
    assert_eq!(tick["State"], reference("TickState"));
    assert_eq!(document["Parameters"]["TickState"]["Default"], "ENABLED");
    let target = &tick["Target"];
    assert_eq!(target["Arn"], attribute("DispatchFunction", "Arn"));
    assert_eq!(target["RoleArn"], attribute("TickRole", "Arn"));
    assert_eq!(target["RetryPolicy"]["MaximumRetryAttempts"], 0);
    // Never so long that a tick arrives after the one that follows it.
    assert_eq!(target["RetryPolicy"]["MaximumEventAgeInSeconds"], 60);
    let input: Value = serde_json::from_str(target["Input"].as_str().unwrap()).unwrap();
    let expected = json!({"tick": {
        "scheduled_at": "<aws.scheduler.scheduled-time>",
        "execution_id": "<aws.scheduler.execution-id>",
    }});
    assert_eq!(input, expected);
}

#[test]
fn every_permitted_interval_has_a_valid_rate_and_period() {
    let document = document();
    let tick = &resource(&document, "Tick")["Properties"];
    assert_eq!(tick["ScheduleExpression"], json!({ "Fn::FindInMap": ["TickEvery", reference("TickMinutes"), "Rate"] }));
    let permitted: Vec<u64> = list(&document["Parameters"]["TickMinutes"]["AllowedValues"]).iter().map(seconds).collect();
    assert!(permitted.contains(&1) && permitted.len() > 1);
    let map = document["Mappings"]["TickEvery"].as_object().unwrap();
    assert_eq!(map.len(), permitted.len());
    for minutes in permitted {
        let entry = &map[&minutes.to_string()];
        // Scheduler refuses "1 minutes" and "2 minute".
        let unit = if minutes == 1 { "minute" } else { "minutes" };
        assert_eq!(entry["Rate"], format!("rate({minutes} {unit})"));
        assert_eq!(entry["PeriodSeconds"], (60 * minutes).to_string());
    }
}

/// What a value is for each length of a tick, by minutes, if it is derived from it.
fn of_the_tick(document: &Value, value: &Value) -> Option<BTreeMap<u64, u64>> {
    let [map, minutes, name] = value.get("Fn::FindInMap")?.as_array()?.as_slice() else { return None };
    assert_eq!((map, minutes), (&json!("TickEvery"), &reference("TickMinutes")));
    let map = document["Mappings"]["TickEvery"].as_object().unwrap();
    let name = name.as_str().unwrap();
    Some(map.iter().map(|(minutes, entry)| (minutes.parse().unwrap(), entry[name].as_str().unwrap().parse().unwrap())).collect())
}

#[test]
fn the_horizon_is_two_and_a_half_ticks_and_fits_the_queues_longest_delay() {
    let document = document();
    for function in ["dispatch", "schedule"] {
        let variables = &functions(&document)[function]["Environment"]["Variables"];
        let ticks = of_the_tick(&document, &variables["TICK_SECONDS"]).unwrap();
        let horizons = of_the_tick(&document, &variables["HORIZON_SECONDS"]).unwrap();
        assert!(!ticks.is_empty());
        for (minutes, tick) in ticks {
            assert_eq!(tick, 60 * minutes, "{function}");
            assert_eq!(2 * horizons[&minutes], 5 * tick, "{function}");
            assert!(horizons[&minutes] < 900, "{function}");
        }
    }
}

#[test]
fn a_dispatch_lease_is_no_longer_than_a_deliver_lease() {
    let document = document();
    let parameters = &document["Parameters"];
    // Dispatch looks at a row again when the lease of its own claim has ended: not after the row's deliver lease could end.
    let timeout = seconds(&functions(&document)["deliver"]["Timeout"]);
    assert!(seconds(&parameters["DispatchLeaseSeconds"]["Default"]) <= timeout);
}

#[test]
fn dispatch_is_not_retried_when_it_fails() {
    let document = document();
    let functions = functions(&document);
    let config = &functions["dispatch"]["EventInvokeConfig"];
    assert_eq!(config["MaximumRetryAttempts"], 0);
    assert_eq!(config["MaximumEventAgeInSeconds"], 60);
}

// ---------------------------------------------------------------------------------------------------------- parameters

#[test]
fn local_endpoints_are_off_by_default_and_refused_for_production() {
    let document = document();
    assert_eq!(document["Parameters"]["AllowLocalEndpoints"]["Default"], "false");
    assert_eq!(document["Parameters"]["Production"]["Default"], "true");
    let live = json!({ "Fn::Not": [{ "Fn::Contains": [["prod", "production", "live"], reference("Stage")] }] });
    let rule = &document["Rules"]["LocalEndpointsNeverInProduction"];
    assert_eq!(rule["RuleCondition"], json!({ "Fn::Equals": [reference("AllowLocalEndpoints"), "true"] }));
    let asserted: Vec<_> = list(&rule["Assertions"]).iter().map(|one| one["Assert"].clone()).collect();
    assert_eq!(asserted, [json!({ "Fn::Equals": [reference("Production"), "false"] }), live.clone()]);
    let rule = &document["Rules"]["ProductionStagesSayWhatTheyAre"];
    assert_eq!(rule["RuleCondition"], json!({ "Fn::Equals": [reference("Production"), "false"] }));
    assert_eq!(rule["Assertions"][0]["Assert"], live);
}

#[test]
fn every_parameter_says_what_it_is_for_and_is_in_the_readme() {
    let document = document();
    let readme = readme();
    for (name, parameter) in document["Parameters"].as_object().unwrap() {
        assert!(parameter["Description"].as_str().is_some_and(|text| text.ends_with('.')), "{name}");
        assert!(readme.contains(&format!("| `{name}` |")), "infra/README.md has no row for {name}");
    }
    for name in readme.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |")) {
        let known = document["Parameters"].get(name.0).is_some() || document["Resources"].get(name.0).is_some();
        assert!(known, "infra/README.md tells of {}, which the template does not have", name.0);
    }
}

// -------------------------------------------------------------------------------------------------------------- alarms

/// The metrics that the code of a function writes.
fn written_by(function: &str) -> &'static [&'static str] {
    match function {
        "dispatch" => metric::OF_DISPATCH,
        "deliver" => metric::OF_DELIVER,
        _ => &[],
    }
}

#[test]
fn there_are_five_alarms_each_on_a_metric_that_is_written() {
    let document = document();
    let alarms = resources_of(&document, "AWS::CloudWatch::Alarm");
    assert!(alarms.keys().map(String::as_str).eq(sorted(EXPECTED_METRICS.map(|(alarm, ..)| alarm))));
    for (alarm, namespace, metric, functions) in EXPECTED_METRICS {
        let properties = &alarms[alarm]["Properties"];
        let mut read = Vec::new();
        if let Some(metrics) = properties["Metrics"].as_array() {
            read.extend(metrics.iter().map(|one| one["MetricStat"]["Metric"].clone()).filter(|one| !one.is_null()));
        } else {
            read.push(properties.clone());
        }
        let mut writers = Vec::new();
        for one in &read {
            assert_eq!(one["Namespace"], namespace, "{alarm}");
            assert_eq!(one["MetricName"], metric, "{alarm}");
            let dimensions = list(&one["Dimensions"]);
            if namespace == NAMESPACE {
                let names: Vec<_> = dimensions.iter().map(|one| one["Name"].as_str().unwrap()).collect();
                assert_eq!(names, DIMENSIONS, "{alarm}");
                assert_eq!(dimensions[0]["Value"], reference("Stage"), "{alarm}");
                writers.push(dimensions[1]["Value"].as_str().unwrap().to_owned());
            }
        }
        writers.sort_unstable();
        assert_eq!(writers, functions, "{alarm}");
        // Both functions may write it: each of those that the alarm reads must.
        for function in functions {
            assert!(written_by(function).contains(&metric), "{function} does not write {metric}, which {alarm} reads");
        }
    }
}

#[test]
fn an_alarm_tells_its_meaning_and_the_first_action_and_is_in_the_runbook() {
    let document = document();
    let readme = readme();
    for (name, alarm) in resources_of(&document, "AWS::CloudWatch::Alarm") {
        let properties = &alarm["Properties"];
        let text = properties["AlarmDescription"].as_str().unwrap();
        let (meaning, action) = text.split_once(" First action: ").unwrap_or_else(|| panic!("{name}: {text}"));
        let meaning = meaning.strip_prefix("Meaning: ").unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(meaning.len() > 20 && action.len() > 20, "{name}: {text}");
        assert!(text.len() <= 1024, "{name}: CloudWatch cuts at 1,024 characters");
        assert!(readme.contains(&format!("| `{name}` |")), "infra/README.md has no row for {name}");
        let topic = json!({ "Fn::If": ["HasAlarmTopic", [reference("AlarmTopicArn")], reference("AWS::NoValue")] });
        assert_eq!(properties["AlarmActions"], topic, "{name}");
    }
}

#[test]
fn an_alarm_states_what_missing_data_means() {
    let document = document();
    for (name, alarm) in resources_of(&document, "AWS::CloudWatch::Alarm") {
        let stated = alarm["Properties"]["TreatMissingData"].as_str();
        let expected = match name.as_str() {
            "DispatchHeartbeatAlarm" => "breaching",
            "OldestOverdueAlarm" | "DeadReachableAlarm" => "ignore",
            _ => "notBreaching",
        };
        assert_eq!(stated, Some(expected), "{name}");
    }
}

#[test]
fn thresholds_are_as_the_contract_says() {
    let document = document();
    let of = |name: &str| resource(&document, name)["Properties"].clone();
    let heartbeat = of("DispatchHeartbeatAlarm");
    assert_eq!(heartbeat["ComparisonOperator"], "LessThanThreshold");
    assert_eq!((&heartbeat["Threshold"], &heartbeat["Statistic"]), (&json!(1), &json!("Sum")));
    assert_eq!((&heartbeat["EvaluationPeriods"], &heartbeat["DatapointsToAlarm"]), (&json!(3), &json!(3)));
    let period = json!({ "Fn::FindInMap": ["TickEvery", reference("TickMinutes"), "PeriodSeconds"] });
    assert_eq!(heartbeat["Period"], period);
    for name in ["ExpiredAlarm", "DeadLettersAlarm", "DeadReachableAlarm"] {
        assert_eq!(of(name)["ComparisonOperator"], "GreaterThanThreshold", "{name}");
        assert_eq!(of(name)["Threshold"], 0, "{name}");
    }
    for name in ["OldestOverdueAlarm", "DeadReachableAlarm", "DeadLettersAlarm"] {
        assert_eq!(of(name)["Statistic"], "Maximum", "{name}");
    }
    let expired = of("ExpiredAlarm");
    let metrics = list(&expired["Metrics"]);
    let returned: Vec<_> = metrics.iter().filter(|one| one["ReturnData"] == true).collect();
    assert_eq!(returned.len(), 1);
    // Either function alone must raise it: a plain sum has no value while one of the two is silent.
    assert_eq!(returned[0]["Expression"], "FILL(dispatch, 0) + FILL(deliver, 0)");
    assert!(metrics.iter().filter(|one| one["ReturnData"] == false).all(|one| one["MetricStat"]["Stat"] == "Sum"));
}

#[test]
fn the_dead_letter_alarm_watches_the_dead_letter_queue() {
    let document = document();
    let dimensions = &resource(&document, "DeadLettersAlarm")["Properties"]["Dimensions"];
    let expected = json!([{ "Name": "QueueName", "Value": attribute("DeadLetterQueue", "QueueName") }]);
    assert_eq!(*dimensions, expected);
}

fn readme() -> String {
    fs::read_to_string(root().join("infra").join("README.md")).unwrap()
}

// ------------------------------------------------------------------------------------------------------------ the file

#[test]
fn outputs_name_everything_a_client_needs() {
    let document = document();
    let outputs: Vec<&str> = document["Outputs"].as_object().unwrap().keys().map(String::as_str).collect();
    let expected = sorted([
        "DispatchFunctionName",
        "DeliverFunctionName",
        "ScheduleFunctionName",
        "InspectFunctionName",
        "OperateFunctionName",
        "LedgerTableName",
        "ControlTableName",
        "DeliveryQueueUrl",
        "DeadLetterQueueUrl",
        "ScheduleGroupName",
        "TickScheduleName",
    ]);
    assert_eq!(sorted(outputs), expected);
}

#[test]
fn the_file_is_small_enough_to_be_sent_and_has_no_aliases() {
    let text = template::read().unwrap();
    // CloudFormation's limit for a template in the request; it does not read YAML aliases.
    assert!(text.len() <= 51_200, "{} bytes", text.len());
    for line in text.lines() {
        let value = line.split_once(": ").map_or("", |(_, value)| value);
        assert!(!value.starts_with(['&', '*']), "{line}");
    }
}

#[test]
fn the_local_template_differs_from_the_file_in_the_listed_places_only() {
    let file = template::read().unwrap();
    let local = template::localise(&file, &default_parameters()).unwrap();
    let left: BTreeSet<&str> = file.lines().collect();
    let added: Vec<&str> = local.lines().filter(|line| !left.contains(line)).map(str::trim).collect();
    let mut expected: Vec<String> = vec![
        "ScalingConfig: {MaximumConcurrency: 10}".to_owned(),
        // For dispatch and for schedule.
        "Action: [sqs:SendMessage, sqs:SendMessageBatch]".to_owned(),
        "Action: [sqs:SendMessage, sqs:SendMessageBatch]".to_owned(),
    ];
    expected.extend(FUNCTIONS.map(|name| format!("CodeUri: s3://{}/{name}.zip", template::BUCKET)));
    assert_eq!(sorted(added), sorted(expected.iter().map(String::as_str)));
    let names = |text: &str| -> BTreeSet<String> {
        let document = plain(serde_norway::from_str(text).unwrap());
        document["Resources"].as_object().unwrap().keys().cloned().collect()
    };
    let removed: Vec<String> = names(&file).difference(&names(&local)).cloned().collect();
    assert_eq!(removed, template::NOT_EMULATED.map(|(name, _)| name));
    let block = |name: &str| {
        let (_, rest) = file.split_once(&format!("\n  {name}:\n")).unwrap();
        1 + rest.lines().take_while(|line| line.is_empty() || line.starts_with("   ")).count()
    };
    let removed_lines: usize = template::NOT_EMULATED.iter().map(|(name, _)| block(name)).sum();
    assert_eq!(file.lines().count() - local.lines().count(), removed_lines);
}

#[test]
fn the_linter_finds_nothing() {
    let linter = root().join(".venv").join("bin").join("cfn-lint");
    assert!(linter.exists(), "cfn-lint is not installed in .venv: run `make venv`");
    let output = Command::new(linter).arg(template::path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
