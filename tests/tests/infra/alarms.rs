//! Alarms: metrics that are written, words that help.

use punctual_adapters::telemetry::{DIMENSIONS, NAMESPACE, metric};
use serde_json::json;

use crate::reading::{EXPECTED_METRICS, attribute, document, list, readme, reference, resource, resources_of, sorted};

/// The metrics that the code of a function writes.
pub(crate) fn written_by(function: &str) -> &'static [&'static str] {
    match function {
        "dispatch" => metric::OF_DISPATCH,
        "deliver" => metric::OF_DELIVER,
        _ => &[],
    }
}

#[test]
fn there_are_seven_alarms_each_on_a_metric_that_is_written() {
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
    for name in ["ExpiredAlarm", "DeadLettersAlarm", "DeadReachableAlarm", "DestinationPausedAlarm", "BreakerOpenedAlarm"] {
        assert_eq!(of(name)["ComparisonOperator"], "GreaterThanThreshold", "{name}");
        assert_eq!(of(name)["Threshold"], 0, "{name}");
    }
    for name in ["OldestOverdueAlarm", "DeadReachableAlarm", "DeadLettersAlarm"] {
        assert_eq!(of(name)["Statistic"], "Maximum", "{name}");
    }
    // Each pause and each opening is written once: a sum pages for a single one.
    for name in ["DestinationPausedAlarm", "BreakerOpenedAlarm"] {
        assert_eq!(of(name)["Statistic"], "Sum", "{name}");
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
