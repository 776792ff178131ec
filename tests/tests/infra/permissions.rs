//! Permissions: what each role may do is what its code calls.

use std::collections::{BTreeMap, BTreeSet};

use punctual_tests::stack::FUNCTIONS;
use serde_json::{Value, json};

use crate::reading::{CALLS, RUNS, SECRETS, document, list, log_streams, reference, resource, resources_of, strings, written};

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
fn no_action_and_no_resource_is_a_wildcard_but_the_three_named_ones() {
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
    let named = FUNCTIONS.into_iter().map(log_streams).chain([SECRETS.to_owned(), RUNS.to_owned()]).collect();
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
        let of_schedules = ["TickRole", "MonitorTickRole", "SliceRole"].contains(&name.as_str());
        let service = if of_schedules { "scheduler.amazonaws.com" } else { "lambda.amazonaws.com" };
        assert_eq!(trust[0]["Principal"], json!({ "Service": service }), "{name}");
        assert_eq!(trust[0]["Action"], "sts:AssumeRole", "{name}");
    }
    for role in ["TickRole", "MonitorTickRole", "SliceRole"] {
        let condition = &resource(&document, role)["Properties"]["AssumeRolePolicyDocument"]["Statement"][0]["Condition"];
        assert_eq!(condition["StringEquals"]["aws:SourceAccount"], reference("AWS::AccountId"), "{role}");
        let group = condition["StringEquals"]["aws:SourceArn"]["Fn::Sub"].as_str().unwrap();
        assert!(group.ends_with(":schedule-group/punctual-${Stage}"), "{role}: {group}");
    }
}

/// Whoever may hand a role over could hand it to a service of his choice.
#[test]
fn a_role_is_handed_over_to_the_scheduler_alone() {
    let document = document();
    let mut conditions = 0;
    for (role, statement) in statements(&document) {
        if statement.get("Condition").is_some() || strings(&statement["Action"]).iter().any(|action| action == "iam:PassRole") {
            conditions += 1;
            assert_eq!(strings(&statement["Action"]), ["iam:PassRole"], "{role}");
            let expected = json!({"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}});
            assert_eq!(statement["Condition"], expected, "{role}");
        }
    }
    // Operate keeps the tick's role, redrive gives its slices theirs.
    assert_eq!(conditions, 2);
}

/// All statements of all roles, with the role's name.
pub(crate) fn statements(document: &Value) -> Vec<(String, Value)> {
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
