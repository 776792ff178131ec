//! I read templates as plain JSON, and alarms from them.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::{Value, json};
use serde_norway::Value as Yaml;

use super::math::Expression;
use super::state::{Alarm, Comparison, Judged, Missing};
use super::stream::{Metric, Statistic};
use crate::stack::root;

/// The path of the alarms' template.
#[must_use]
pub fn path() -> std::path::PathBuf {
    root().join("infra").join("observability.yaml")
}

/// The alarms' template as JSON, its short tags written out (`!Ref x` → `{"Ref": "x"}`).
///
/// # Errors
/// If the file cannot be read.
pub fn read() -> Result<Value> {
    let text = fs::read_to_string(path()).context("cannot read infra/observability.yaml")?;
    plain(serde_norway::from_str(&text).context("infra/observability.yaml is no YAML")?)
}

/// YAML as JSON, its short tags written out.
///
/// # Errors
/// If it holds something that JSON has no word for.
pub fn plain(yaml: Yaml) -> Result<Value> {
    Ok(match yaml {
        Yaml::Null => Value::Null,
        Yaml::Bool(value) => value.into(),
        Yaml::Number(number) => serde_json::to_value(number)?,
        Yaml::String(text) => text.into(),
        Yaml::Sequence(items) => items.into_iter().map(plain).collect::<Result<Vec<_>>>()?.into(),
        Yaml::Mapping(fields) => {
            let field = |(key, value)| {
                let key = plain(key)?;
                Ok((key.as_str().map_or_else(|| key.to_string(), str::to_owned), plain(value)?))
            };
            Value::Object(fields.into_iter().map(field).collect::<Result<_>>()?)
        }
        Yaml::Tagged(tagged) => {
            let tag = tagged.tag.to_string();
            let name = tag.trim_start_matches('!');
            let mut value = plain(tagged.value)?;
            if name == "GetAtt" {
                value = value.as_str().map(|path| path.split('.').collect::<Vec<_>>().into()).unwrap_or(value);
            }
            let name = if matches!(name, "Ref" | "Condition") { name.to_owned() } else { format!("Fn::{name}") };
            json!({ name: value })
        }
    })
}

/// The alarms of the file for this stage, by their names in the file, with the defaults of all other parameters.
///
/// # Errors
/// If the file uses something of CloudWatch's that is not known here.
pub fn alarms(stage: &str) -> Result<BTreeMap<String, Alarm>> {
    let template = Template { document: read()?, stage: stage.to_owned() };
    let resources = template.document.get("Resources").and_then(Value::as_object).context("no resources")?;
    let alarms = resources.iter().filter(|(_, resource)| field(resource, "Type") == "AWS::CloudWatch::Alarm");
    alarms
        .map(|(name, alarm)| {
            let alarm = alarm.get("Properties").context("no properties").and_then(|properties| template.alarm(properties));
            Ok((name.clone(), alarm.with_context(|| name.clone())?))
        })
        .collect()
}

fn field<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

struct Template {
    document: Value,
    stage: String,
}

impl Template {
    fn at(&self, path: &[&str]) -> Result<&Value> {
        let found = path.iter().try_fold(&self.document, |value, name| value.get(name));
        found.ok_or_else(|| anyhow!("the file has no {}", path.join(".")))
    }

    /// A value with its references resolved.
    fn resolved(&self, value: &Value) -> Result<Value> {
        if let Some(name) = value.get("Ref").and_then(Value::as_str) {
            return if name == "Stage" {
                Ok(self.stage.clone().into())
            } else {
                self.at(&["Parameters", name, "Default"]).cloned()
            };
        }
        if let Some(parts) = value.get("Fn::FindInMap").and_then(Value::as_array) {
            let parts: Vec<String> = parts.iter().map(|part| Ok(shown(&self.resolved(part)?))).collect::<Result<_>>()?;
            let path: Vec<&str> = std::iter::once("Mappings").chain(parts.iter().map(String::as_str)).collect();
            return self.at(&path).cloned();
        }
        if let Some(text) = value.get("Fn::Sub").and_then(Value::as_str) {
            return Ok(text.replace("${Stage}", &self.stage).into());
        }
        Ok(value.clone())
    }

    fn text(&self, of: &Value, name: &str) -> Result<String> {
        Ok(shown(&self.resolved(of.get(name).with_context(|| format!("no {name}"))?)?))
    }

    fn number(&self, of: &Value, name: &str) -> Result<f64> {
        let text = self.text(of, name)?;
        text.parse().with_context(|| format!("{name} is {text:?}"))
    }

    fn seconds(&self, of: &Value, name: &str) -> Result<Duration> {
        let text = self.text(of, name)?;
        Ok(Duration::from_secs(text.parse().with_context(|| format!("{name} is {text:?}"))?))
    }

    fn metric(&self, of: &Value) -> Result<Metric> {
        let dimensions = of.get("Dimensions").and_then(Value::as_array).context("no dimensions")?;
        let dimension = |one: &Value| Ok((self.text(one, "Name")?, self.text(one, "Value")?));
        Ok(Metric {
            namespace: self.text(of, "Namespace")?,
            name: self.text(of, "MetricName")?,
            dimensions: dimensions.iter().map(dimension).collect::<Result<_>>()?,
        })
    }

    fn alarm(&self, properties: &Value) -> Result<Alarm> {
        let count = |name| Ok::<_, anyhow::Error>(usize::try_from(self.seconds(properties, name)?.as_secs())?);
        let (judged, period) = match properties.get("Metrics").and_then(Value::as_array) {
            None => {
                let statistic = Statistic::named(&self.text(properties, "Statistic")?)?;
                let inputs = BTreeMap::from([("it".to_owned(), (self.metric(properties)?, statistic))]);
                (Judged { expression: Expression::parse("it")?, inputs }, self.seconds(properties, "Period")?)
            }
            Some(metrics) => self.judged(metrics)?,
        };
        let evaluation_periods = count("EvaluationPeriods")?;
        Ok(Alarm {
            judged,
            period,
            evaluation_periods,
            datapoints_to_alarm: count("DatapointsToAlarm").unwrap_or(evaluation_periods),
            comparison: Comparison::named(&self.text(properties, "ComparisonOperator")?)?,
            threshold: self.number(properties, "Threshold")?,
            missing: Missing::named(&self.text(properties, "TreatMissingData")?)?,
        })
    }

    fn judged(&self, metrics: &[Value]) -> Result<(Judged, Duration)> {
        let (mut inputs, mut expressions, mut periods) = (BTreeMap::new(), Vec::new(), Vec::new());
        for one in metrics {
            if let Some(of) = one.get("MetricStat") {
                let statistic = Statistic::named(&self.text(of, "Stat")?)?;
                inputs.insert(self.text(one, "Id")?, (self.metric(of.get("Metric").context("no metric")?)?, statistic));
                periods.push(self.seconds(of, "Period")?);
            } else if one.get("ReturnData") == Some(&Value::Bool(true)) {
                expressions.push(Expression::parse(field(one, "Expression"))?);
            }
        }
        periods.dedup();
        let ([expression], [period]) = (expressions.as_slice(), periods.as_slice()) else {
            bail!("one expression and one period; got {} and {}", expressions.len(), periods.len());
        };
        Ok((Judged { expression: expression.clone(), inputs }, *period))
    }
}

/// A scalar as text.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
