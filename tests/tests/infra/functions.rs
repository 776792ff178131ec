//! Functions: logs, roles, runtime, environment.

use std::collections::{BTreeMap, BTreeSet};

use punctual_adapters::config;
use serde_json::{Value, json};

use crate::reading::{
    ENVIRONMENT, SHARED, document, functions, of_the_tick, parameter, readme, reference, resource, resources_of, seconds, sub,
};

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

/// A destination is promoted once no run with the old mode can claim for it any more.
#[test]
fn a_promotion_waits_out_every_run_that_claims() {
    let document = document();
    let longest = ["dispatch", "schedule"].map(|name| functions(&document)[name]["Timeout"].as_u64().unwrap()).into_iter().max();
    let waits = punctual_operate::destination::CLAIMS_END.as_secs();
    // A slice of a redrive looks at the destination again, however long it lasts.
    assert!(punctual_redrive::slice::FRESH.as_secs() * 2 < waits);
    assert!(
        longest.is_some_and(|longest| longest + 2 <= waits),
        "{longest:?} s and the bound on clocks; a promotion waits {waits} s"
    );
}
