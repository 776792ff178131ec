//! Parameters: bounds, production, documentation.

use serde_json::json;

use crate::reading::{document, list, observability, readme, reference};

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
    let documents = [document(), observability()];
    let readme = readme();
    for (name, parameter) in documents.iter().flat_map(|document| document["Parameters"].as_object().unwrap()) {
        assert!(parameter["Description"].as_str().is_some_and(|text| text.ends_with('.')), "{name}");
        assert!(readme.contains(&format!("| `{name}` |")), "infra/README.md has no row for {name}");
    }
    for name in readme.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |")) {
        let has = |document: &serde_json::Value| {
            document["Parameters"].get(name.0).is_some() || document["Resources"].get(name.0).is_some()
        };
        assert!(documents.iter().any(has), "infra/README.md tells of {}, which no template has", name.0);
    }
}
