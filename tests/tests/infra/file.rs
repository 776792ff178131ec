//! The file as a whole: outputs, size, what the local stack changes, the linter.

use std::collections::BTreeSet;
use std::process::Command;

use punctual_tests::alarms;
use punctual_tests::stack::{FUNCTIONS, default_parameters, root, template};

use crate::reading::{document, plain, sorted};

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
        "RedriveFunctionName",
        "MonitorFunctionName",
        "LedgerTableName",
        "ControlTableName",
        "DeliveryQueueUrl",
        "DeadLetterQueueUrl",
        "ScheduleGroupName",
        "TickScheduleName",
        "MonitorScheduleName",
    ]);
    assert_eq!(sorted(outputs), expected);
}

#[test]
fn the_file_is_small_enough_to_be_sent_and_has_no_aliases() {
    for path in [template::path(), alarms::document::path()] {
        let text = std::fs::read_to_string(&path).unwrap();
        // CloudFormation's limit for a template in the request; it does not read YAML aliases.
        assert!(text.len() <= 51_200, "{}: {} bytes", path.display(), text.len());
        for line in text.lines() {
            let value = line.split_once(": ").map_or("", |(_, value)| value);
            assert!(!value.starts_with(['&', '*']), "{line}");
        }
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
        // For dispatch, for schedule and for redrive.
        "Action: [sqs:SendMessage, sqs:SendMessageBatch]".to_owned(),
        "Action: [sqs:SendMessage, sqs:SendMessageBatch]".to_owned(),
        "Action: [sqs:SendMessage, sqs:SendMessageBatch]".to_owned(),
    ];
    let hidden = "sqs:ChangeMessageVisibility, sqs:ChangeMessageVisibilityBatch";
    expected.push(format!("Action: [{hidden}, sqs:DeleteMessage, sqs:DeleteMessageBatch, sqs:ReceiveMessage]"));
    expected.push(format!("Action: [{hidden}, sqs:ReceiveMessage]"));
    let schedules = "arn:${AWS::Partition}:scheduler:${AWS::Region}:${AWS::AccountId}:schedule";
    expected.push(format!("Resource: !Sub {schedules}/default/punctual-${{Stage}}-run_*"));
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
    let output = Command::new(linter).arg(template::path()).arg(alarms::document::path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
