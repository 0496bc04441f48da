//! Values of a scenario by path, such as `links.downlink.wire.rate`.
//!
//! A step is a key or, in an array of tables, a table's `name`.

use toml::{Table, Value};

use super::ScenarioError;

/// More steps lead nowhere in a scenario; thousands of nested tables would overflow the stack.
const MOST_STEPS: usize = 32;

/// Sets a value; reading the scenario checks the last key.
///
/// # Errors
/// If a step does not exist, or there are too many.
pub(super) fn set(table: &mut Table, path: &str, value: Value) -> Result<(), ScenarioError> {
    let refuse = |problem: String| Err(ScenarioError::new(path, problem));
    if path.split('.').count() > MOST_STEPS {
        let problem = format!("a path has at most {MOST_STEPS} steps, as in `nodes.client.count`");
        return Err(ScenarioError::of_whole(problem));
    }
    let mut steps = path.split('.');
    let mut step = steps.next().unwrap_or_default();
    let mut at = table;
    loop {
        let Some(next) = steps.next() else {
            at.insert(step.to_owned(), value);
            return Ok(());
        };
        at = match at.entry(step).or_insert_with(|| Value::Table(Table::new())) {
            Value::Table(inner) => {
                step = next;
                inner
            }
            Value::Array(elements) => {
                let known: Vec<String> = elements.iter().filter_map(name_of).map(str::to_owned).collect();
                let named = elements.iter_mut().find(|element| name_of(element) == Some(next));
                let Some(Value::Table(inner)) = named else {
                    return refuse(format!("`{step}` has no `{next}`; it has {}", listed(&known)));
                };
                let Some(key) = steps.next() else {
                    return refuse(format!("it ends at all of `{next}`; name one of its values"));
                };
                step = key;
                inner
            }
            controller @ Value::String(_) if step == "controller" && controller.as_str() == Some(next) => {
                let parameters = Table::from_iter([(next.to_owned(), Value::Table(Table::new()))]);
                *controller = Value::Table(parameters);
                let Value::Table(inner) = controller else { unreachable!("just made to match") };
                step = next;
                inner
            }
            Value::String(name) if step == "controller" => {
                return refuse(format!("the controller is `{name}`, not `{next}`"));
            }
            _ => return refuse(format!("`{step}` is a value and has no `{next}`")),
        };
    }
}

/// Reads TOML or a string: `8ms` for `"8ms"`.
pub(super) fn value(text: &str) -> Value {
    let read = format!("value = {text}").parse::<Table>().ok();
    let alone = read.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
    // Scenarios contain no dates.
    alone.filter(|value| !value.is_datetime()).unwrap_or_else(|| text.into())
}

pub(super) fn complete_changes(table: &mut Table) {
    let links = table.get("links").and_then(Value::as_array).cloned().unwrap_or_default();
    let changes = table.get_mut("changes").and_then(Value::as_array_mut);
    for change in changes.into_iter().flatten() {
        let Some(link) = change.get_mut("event").and_then(|event| event.get_mut("link")) else { continue };
        let known = links.iter().find(|known| name_of(known).is_some() && name_of(known) == name_of(link));
        let (Some(before), Some(wire)) =
            (known.and_then(|known| known.get("wire")?.as_table()), link.get_mut("wire").and_then(Value::as_table_mut))
        else {
            continue;
        };
        for (key, value) in before {
            wire.entry(key.as_str()).or_insert_with(|| value.clone());
        }
    }
}

pub(super) fn name_of(element: &Value) -> Option<&str> {
    element.get("name")?.as_str()
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "nothing that has a name".to_owned(),
        names => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        toml::toml! {
            seed = 1
            [endpoint]
            nstart = 1
            [[links]]
            name = "up"
            [links.wire]
            rate = "1kbit/s"
            [[links]]
            name = "down"
        }
    }

    #[test]
    fn a_path_leads_through_tables_and_by_name_through_arrays() {
        let mut changed = table();
        set(&mut changed, "seed", 2.into()).expect("a key");
        set(&mut changed, "endpoint.nstart", 4.into()).expect("a key of a table");
        set(&mut changed, "links.up.wire.rate", "2kbit/s".into()).expect("a key of an element's table");
        set(&mut changed, "links.down.wire.loss", 0.1.into()).expect("a table that was not there");
        let expected = toml::toml! {
            seed = 2
            [endpoint]
            nstart = 4
            [[links]]
            name = "up"
            [links.wire]
            rate = "2kbit/s"
            [[links]]
            name = "down"
            [links.wire]
            loss = 0.1
        };
        assert_eq!(changed, expected);
    }

    #[test]
    fn a_path_of_any_length_overflows_no_stack() {
        let mut changed = table();
        let error = set(&mut changed, &vec!["a"; 100_000].join("."), 1.into()).expect_err("it leads nowhere");
        assert!(error.to_string().contains("at most 32 steps"), "{error}");
        assert_eq!(changed, table());
    }

    #[test]
    fn a_path_into_a_controller_given_by_name_sets_its_parameter() {
        let mut changed = toml::toml! {
            [[schemes]]
            name = "mine"
            controller = "cocoa"
        };
        set(&mut changed, "schemes.mine.controller.cocoa.weak_k", 2.into()).expect("a parameter");
        set(&mut changed, "schemes.mine.controller.cocoa.max_rto", "9s".into()).expect("another");
        let expected = toml::toml! {
            [[schemes]]
            name = "mine"
            controller = { cocoa = { weak_k = 2, max_rto = "9s" } }
        };
        assert_eq!(changed, expected);

        let mut other = toml::toml! {
            schemes = [{ name = "mine", controller = "cocoa" }]
        };
        let error = set(&mut other, "schemes.mine.controller.basic.max_rto", "9s".into()).expect_err("another one");
        assert_eq!(error.to_string(), "schemes.mine.controller.basic.max_rto: the controller is `cocoa`, not `basic`");
    }

    #[test]
    fn a_value_is_toml_or_the_text_that_it_is() {
        for (text, expected) in [
            ("8", Value::from(8)),
            ("[1, 2]", vec![1, 2].into()),
            ("\"8\"", "8".into()),
            ("8ms", "8ms".into()),
            ("1\nseed = 2", "1\nseed = 2".into()),
            ("default", "default".into()),
            ("1979-05-27", "1979-05-27".into()),
        ] {
            assert_eq!(value(text), expected);
        }
    }

    #[test]
    fn a_path_error_names_the_valid_keys() {
        for (path, expected) in [
            ("links.side.wire.rate", "links.side.wire.rate: `links` has no `side`; it has up, down"),
            ("links.up", "links.up: it ends at all of `up`; name one of its values"),
            ("seed.x", "seed.x: `seed` is a value and has no `x`"),
        ] {
            assert_eq!(set(&mut table(), path, 1.into()).expect_err(path).to_string(), expected);
        }
    }
}
