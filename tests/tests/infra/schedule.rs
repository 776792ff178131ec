//! The schedule: its ticks, its horizon, its lease.

use serde_json::{Value, json};

use crate::reading::{attribute, document, functions, list, of_the_tick, reference, resource, resources_of, seconds};

#[test]
fn the_tick_has_an_input_no_retries_and_a_short_life() {
    let document = document();
    let schedules = resources_of(&document, "AWS::Scheduler::Schedule");
    assert_eq!(schedules.len(), 2);
    for (name, state, function, role) in [
        ("Tick", "TickState", "DispatchFunction", "TickRole"),
        ("MonitorTick", "MonitorState", "MonitorFunction", "MonitorTickRole"),
    ] {
        let tick = &schedules[name]["Properties"];
        assert_eq!(tick["GroupName"], reference("ScheduleGroup"), "{name}");
        assert_eq!(tick["FlexibleTimeWindow"], json!({ "Mode": "OFF" }), "{name}");
        assert_eq!(tick["State"], reference(state), "{name}");
        assert_eq!(document["Parameters"][state]["Default"], "ENABLED", "{name}");
        let target = &tick["Target"];
        assert_eq!(target["Arn"], attribute(function, "Arn"), "{name}");
        assert_eq!(target["RoleArn"], attribute(role, "Arn"), "{name}");
        assert_eq!(target["RetryPolicy"]["MaximumRetryAttempts"], 0, "{name}");
        // Never so long that a tick arrives after the one that follows it.
        assert_eq!(target["RetryPolicy"]["MaximumEventAgeInSeconds"], 60, "{name}");
        let input: Value = serde_json::from_str(target["Input"].as_str().unwrap()).unwrap();
        let expected = json!({"tick": {
            "scheduled_at": "<aws.scheduler.scheduled-time>",
            "execution_id": "<aws.scheduler.execution-id>",
        }});
        assert_eq!(input, expected, "{name}");
    }
}

#[test]
fn monitor_runs_every_minute_and_one_run_at_a_time() {
    let document = document();
    assert_eq!(resource(&document, "MonitorTick")["Properties"]["ScheduleExpression"], "rate(1 minute)");
    assert!(seconds(&functions(&document)["monitor"]["Timeout"]) < 60);
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

#[test]
fn the_horizon_is_two_and_a_half_ticks_and_fits_the_queues_longest_delay() {
    let document = document();
    for function in ["dispatch", "schedule", "redrive"] {
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
fn what_a_schedule_starts_is_not_retried_when_it_fails() {
    let document = document();
    let functions = functions(&document);
    for name in ["dispatch", "monitor"] {
        let config = &functions[name]["EventInvokeConfig"];
        assert_eq!(config["MaximumRetryAttempts"], 0, "{name}");
        assert_eq!(config["MaximumEventAgeInSeconds"], 60, "{name}");
    }
}

#[test]
fn a_slice_that_dies_comes_again_and_fits_the_schedules_names() {
    let document = document();
    let redrive = &functions(&document)["redrive"];
    assert_eq!(redrive["EventInvokeConfig"]["MaximumRetryAttempts"], 2);
    assert_eq!(redrive["Environment"]["Variables"]["SCHEDULE_GROUP"], reference("ScheduleGroup"));
    assert_eq!(redrive["Environment"]["Variables"]["SLICE_ROLE_ARN"], attribute("SliceRole", "Arn"));
}
