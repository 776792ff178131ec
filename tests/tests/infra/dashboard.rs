//! The dashboard and the saved queries: what they show is written.

use std::collections::BTreeSet;
use std::fs;

use punctual_adapters::telemetry::{DIMENSIONS, NAMESPACE, metric};
use punctual_tests::stack::{FUNCTIONS, root};
use serde_json::Value;

use crate::alarms::written_by;
use crate::reading::{list, observability, resources_of, sub};

/// Metrics that no graph shows, and why: none.
const NOT_SHOWN: [&str; 0] = [];

fn widgets() -> Vec<Value> {
    let dashboards = resources_of(&observability(), "AWS::CloudWatch::Dashboard");
    let body = sub(&dashboards["Dashboard"]["Properties"]["DashboardBody"])
        .replace("${Stage}", "dev")
        .replace("${AWS::Region}", "eu-central-1");
    let body: Value = serde_json::from_str(&body).unwrap();
    list(&body["widgets"])
}

#[test]
fn a_dashboard_shows_every_metric_and_none_that_is_not_written() {
    let mut shown = BTreeSet::new();
    for widget in widgets().iter().filter(|widget| widget["type"] == "metric") {
        assert_eq!(widget["properties"]["region"], "eu-central-1");
        for line in list(&widget["properties"]["metrics"]) {
            let line = list(&line);
            if line[0].get("expression").is_some() {
                continue;
            }
            let texts: Vec<&str> = line.iter().filter_map(Value::as_str).collect();
            match texts.as_slice() {
                [NAMESPACE, name, stage, "dev", by, function] => {
                    assert_eq!([*stage, *by], DIMENSIONS);
                    assert!(written_by(function).contains(name), "{function} does not write {name}");
                    shown.insert((*name).to_owned());
                }
                ["AWS/Lambda", _, "FunctionName", function] => {
                    assert!(FUNCTIONS.iter().any(|name| *function == format!("punctual-dev-{name}")), "{function}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
    let written: BTreeSet<String> = FUNCTIONS.iter().flat_map(|function| written_by(function)).map(str::to_owned).collect();
    let hidden: BTreeSet<&str> = written.difference(&shown).map(String::as_str).collect();
    assert_eq!(hidden, NOT_SHOWN.into());
    assert!(shown.contains(metric::PROJECTED_LATE));
}

#[test]
fn it_reads_from_the_risk_of_a_deadline_down_to_the_queue() {
    let mut row = 0;
    for widget in widgets() {
        let (x, y, width) = (widget["x"].as_u64().unwrap(), widget["y"].as_u64().unwrap(), widget["width"].as_u64().unwrap());
        assert!(x + width <= 24 && y >= row, "{widget}");
        row = y;
    }
    let titles: Vec<String> =
        widgets().iter().filter_map(|widget| widget["properties"]["markdown"].as_str().map(str::to_owned)).collect();
    assert!(titles.first().is_some_and(|title| title.starts_with("## Deadlines")), "{titles:?}");
    assert!(titles.last().is_some_and(|title| title.starts_with("## Queue")), "{titles:?}");
}

/// All sources of a function and of what it is made of.
fn sources(function: &str) -> String {
    let mut text = String::new();
    for folder in [format!("functions/{function}/src"), "shared/flows/src".to_owned(), "shared/core/src".to_owned()] {
        collect(&root().join(folder), &mut text);
    }
    text
}

fn collect(folder: &std::path::Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, text);
        } else {
            text.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn a_saved_query_asks_for_lines_that_are_written() {
    let queries = resources_of(&observability(), "AWS::Logs::QueryDefinition");
    assert!(queries.len() >= 6);
    for (name, query) in queries {
        let properties = &query["Properties"];
        let text = properties["QueryString"].as_str().unwrap();
        let functions: Vec<String> = list(&properties["LogGroupNames"])
            .iter()
            .map(|group| sub(group).strip_prefix("/aws/lambda/punctual-${Stage}-").unwrap().to_owned())
            .collect();
        let code: String = functions.iter().map(|function| sources(function)).collect();
        assert!(functions.iter().all(|function| FUNCTIONS.contains(&function.as_str())), "{name}");
        assert!(sub(&properties["Name"]).starts_with("punctual-${Stage}/"), "{name}");
        // Every message that is asked for is one of theirs.
        for line in text.lines().filter(|line| line.contains("filter message")) {
            for message in line.split('"').skip(1).step_by(2) {
                assert!(code.contains(&format!("\"{message}\"")), "{name}: nobody says {message:?}");
            }
        }
        // And every field is one that a line has.
        for field in text.lines().filter_map(|line| line.strip_prefix("fields ")).flat_map(|line| line.split(", ")) {
            let known = field.starts_with('@') || ["level", "message"].contains(&field);
            let written = [format!("{field} = "), format!(" {field},"), format!("({field},")];
            assert!(known || written.iter().any(|form| code.contains(form)), "{name}: no line has {field}");
        }
    }
}
