//! I am metric math, as far as it is used: numbers, metrics, `+ - * /`, comparisons, `AND` and `OR`, `FILL` with a number, `IF`.
//!
//! As documented: where one of two series has a value, a missing one of the other counts as zero; where neither has, there is
//! none. A number beside a series makes no value. `FILL` replaces a missing value; whether it does so for a metric that has none
//! at all is not documented, so that no alarm should depend on it.

use anyhow::{Result, bail, ensure};

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// A number.
    Number(f64),
    /// A metric, by its id.
    Metric(String),
    /// Two operands and what stands between them.
    Binary(Box<Expression>, Operator, Box<Expression>),
    /// The first, or the number where it is missing.
    Fill(Box<Expression>, f64),
    /// The second where the first is not zero, else the third.
    If(Box<[Expression; 3]>),
}

/// What stands between two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `OR`
    Or,
    /// `AND`
    And,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    More,
    /// `>=`
    AtLeast,
    /// `==`
    Equal,
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Times,
    /// `/`
    Over,
}

/// Operators by how strongly they bind, the weakest first.
const LEVELS: [&[(&str, Operator)]; 5] = [
    &[("OR", Operator::Or)],
    &[("AND", Operator::And)],
    &[("<=", Operator::AtMost), (">=", Operator::AtLeast), ("==", Operator::Equal), ("<", Operator::Less), (">", Operator::More)],
    &[("+", Operator::Plus), ("-", Operator::Minus)],
    &[("*", Operator::Times), ("/", Operator::Over)],
];

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    /// If it has something that is not known here.
    pub fn parse(text: &str) -> Result<Self> {
        let tokens = tokens(text)?;
        let mut parser = Parser { tokens: &tokens };
        let expression = parser.level(0)?;
        ensure!(parser.tokens.is_empty(), "{text:?}: {:?} is left over", parser.tokens);
        Ok(expression)
    }

    /// Its value in a period, given those of its metrics; none if it has none there.
    pub fn value(&self, metric: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
        match self.of(metric) {
            Value::Series(value) => value,
            // CloudWatch refuses an alarm whose expression is a number.
            Value::Number(_) => None,
        }
    }

    fn of(&self, metric: &dyn Fn(&str) -> Option<f64>) -> Value {
        match self {
            Self::Number(number) => Value::Number(*number),
            Self::Metric(id) => Value::Series(metric(id)),
            Self::Fill(of, number) => match of.of(metric) {
                Value::Series(value) => Value::Series(Some(value.unwrap_or(*number))),
                number @ Value::Number(_) => number,
            },
            Self::If(parts) => {
                let [condition, then, otherwise] = parts.as_ref();
                let chosen = |truth: f64| if truth == 0.0 { otherwise.of(metric) } else { then.of(metric) };
                match condition.of(metric) {
                    Value::Number(truth) => chosen(truth),
                    Value::Series(None) => Value::Series(None),
                    Value::Series(Some(truth)) => match chosen(truth) {
                        Value::Number(number) => Value::Series(Some(number)),
                        series @ Value::Series(_) => series,
                    },
                }
            }
            Self::Binary(a, operator, b) => match (a.of(metric), b.of(metric)) {
                (Value::Number(a), Value::Number(b)) => operator.of(a, b).map_or(Value::Series(None), Value::Number),
                (Value::Series(None), Value::Series(None) | Value::Number(_)) | (Value::Number(_), Value::Series(None)) => {
                    Value::Series(None)
                }
                (a, b) => Value::Series(operator.of(a.or_zero(), b.or_zero())),
            },
        }
    }
}

/// What a part of an expression is in one period.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Value {
    /// A number, whatever the period.
    Number(f64),
    /// A metric, or what was made of one.
    Series(Option<f64>),
}

impl Value {
    fn or_zero(self) -> f64 {
        match self {
            Self::Number(number) => number,
            Self::Series(value) => value.unwrap_or(0.0),
        }
    }
}

impl Operator {
    fn of(self, a: f64, b: f64) -> Option<f64> {
        let truth = |is: bool| f64::from(u8::from(is));
        Some(match self {
            Self::Or => truth(a != 0.0 || b != 0.0),
            Self::And => truth(a != 0.0 && b != 0.0),
            Self::Less => truth(a < b),
            Self::AtMost => truth(a <= b),
            Self::More => truth(a > b),
            Self::AtLeast => truth(a >= b),
            Self::Equal => truth(a == b),
            Self::Plus => a + b,
            Self::Minus => a - b,
            Self::Times => a * b,
            // CloudWatch drops the value.
            Self::Over if b == 0.0 => return None,
            Self::Over => a / b,
        })
    }
}

fn tokens(text: &str) -> Result<Vec<String>> {
    let mut tokens: Vec<String> = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let length = match first {
            _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            '<' | '>' | '=' if rest.get(1..2) == Some("=") => 2,
            '<' | '>' | '+' | '-' | '*' | '/' | '(' | ')' | ',' => 1,
            other => bail!("{text:?}: {other:?} is not known here"),
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token.to_owned());
        rest = after.trim_start();
    }
    Ok(tokens)
}

struct Parser<'t> {
    tokens: &'t [String],
}

impl Parser<'_> {
    fn next(&mut self) -> Result<&str> {
        let Some((first, rest)) = self.tokens.split_first() else { bail!("the expression ends too early") };
        self.tokens = rest;
        Ok(first)
    }

    fn expect(&mut self, wanted: &str) -> Result<()> {
        let token = self.next()?;
        ensure!(token == wanted, "{wanted:?} is expected, not {token:?}");
        Ok(())
    }

    fn level(&mut self, level: usize) -> Result<Expression> {
        let Some(operators) = LEVELS.get(level) else { return self.operand() };
        let mut left = self.level(level + 1)?;
        while let Some((_, operator)) = self.tokens.first().and_then(|token| operators.iter().find(|(text, _)| text == token)) {
            self.next()?;
            left = Expression::Binary(Box::new(left), *operator, Box::new(self.level(level + 1)?));
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<Expression> {
        let token = self.next()?.to_owned();
        match token.as_str() {
            "(" => {
                let inner = self.level(0)?;
                self.expect(")")?;
                Ok(inner)
            }
            "FILL" => {
                self.expect("(")?;
                let of = self.level(0)?;
                self.expect(",")?;
                let number = self.next()?.to_owned();
                self.expect(")")?;
                // Of FILL's other forms (REPEAT, LINEAR, another metric) none is used.
                Ok(Expression::Fill(Box::new(of), number.parse()?))
            }
            "IF" => {
                self.expect("(")?;
                let condition = self.level(0)?;
                self.expect(",")?;
                let then = self.level(0)?;
                self.expect(",")?;
                let otherwise = self.level(0)?;
                self.expect(")")?;
                Ok(Expression::If(Box::new([condition, then, otherwise])))
            }
            _ if self.tokens.first().is_some_and(|next| next == "(") => bail!("the function {token} is not known here"),
            _ => {
                let first = token.chars().next().unwrap_or(' ');
                if first.is_ascii_digit() {
                    Ok(Expression::Number(token.parse()?))
                } else {
                    ensure!(first.is_ascii_lowercase(), "a metric's id begins with a small letter, not {token:?}");
                    Ok(Expression::Metric(token))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<f64> {
        let metric = |id: &str| match id {
            "one" => Some(1.0),
            "ten" => Some(10.0),
            _ => None,
        };
        Expression::parse(text).expect("an expression").value(&metric)
    }

    #[test]
    fn values() {
        for (text, expected) in [
            ("7", None),
            ("one + 2 * ten - 3", Some(18.0)),
            ("(one + 2) * ten / 3", Some(10.0)),
            ("ten / 0", None),
            ("none", None),
            ("none + 1", None),
            ("none + none", None),
            ("one + none", Some(1.0)),
            ("none < one", Some(1.0)),
            ("none < 1", None),
            ("none + 0 * one < 1", Some(1.0)),
            ("FILL(none, 4) + one", Some(5.0)),
            ("FILL(one, 4)", Some(1.0)),
            ("one > 0 AND ten < 10 OR ten >= 10", Some(1.0)),
            ("one == 1 AND ten <= 9", Some(0.0)),
            ("IF(one > 0 AND (none + 0 * one) < 1, 3, 4)", Some(3.0)),
            ("IF(none > 0, 1, 2)", None),
            ("IF(one, one + 1, none)", Some(2.0)),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for text in ["", "one +", "SUM(one)", "FILL(one, REPEAT)", "IF(one, 2)", "one two", "(one", "one ^ 2", "One"] {
            assert!(Expression::parse(text).is_err(), "{text}");
        }
    }
}
