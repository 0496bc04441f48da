//! Words the errors of deserialization: names the nearest known key or variant, and how to write it.

use conche_proto::cc::parameters::nearest;

/// Rewords the error of a value at a key path, empty for the whole file.
pub(super) fn reworded(path: &str, message: &str) -> String {
    if let Some(key) = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        let table = if path.is_empty() { "the scenario".to_owned() } else { format!("`{path}`") };
        return format!("{table} has no `{key}`; write it as {}", example_of(path, key));
    }
    if message.starts_with("unknown field `") || message.starts_with("unknown variant `") {
        return with_nearest(message);
    }
    if message == "invalid type: unit variant, expected struct variant"
        || message == "invalid type: unit variant, expected newtype variant"
    {
        return match variant_of(path) {
            Some(example) => format!("it takes parameters: write it as {example}"),
            None => "it takes parameters: write it as a table, as in { poisson = { interval = \"5s\" } }".to_owned(),
        };
    }
    if message.starts_with("expected table, found ") || message == "expected empty table" {
        "it takes no parameters: write its name alone, as a string".to_owned()
    } else if message.starts_with("wanted exactly 1 element") {
        "write one key, the name of the variant".to_owned()
    } else {
        message.to_owned()
    }
}

/// Adds the nearest of the expected names.
fn with_nearest(message: &str) -> String {
    let Some((found, expected)) = message.split_once(", expected ") else { return message.to_owned() };
    let wrong = found.split('`').nth(1).unwrap_or_default();
    let known = expected.split('`').skip(1).step_by(2);
    match nearest(wrong, known) {
        Some(meant) => format!("{found}; did you mean `{meant}`? Expected {expected}"),
        None => message.to_owned(),
    }
}

/// Returns how to write a required key of the table at a path.
fn example_of(path: &str, key: &str) -> String {
    let value = match key {
        "schema" | "seed" => "1",
        "replications" => "10",
        "name" => "\"uplink\"",
        "title" => "\"Meters behind a modem\"",
        "schemes" => return "[[schemes]], with `name` and `controller`".to_owned(),
        "controller" => "\"default\"",
        "column" => "\"loss_percent\"",
        "metric" => "\"loss\"",
        "at" if path.rsplit('.').nth(1) == Some("nats") => "\"router\", a node or group of [[nodes]]",
        "from" | "inside" => "\"client\", a node or group of [[nodes]]",
        "to" => "\"server\", a node or group of [[nodes]]",
        "interval" | "window" | "for" | "lasts" | "at" | "on" | "off" => "\"5s\"",
        "share" => "0.8",
        "event" => "{ fail = { link = \"uplink\", for = \"20s\" } }",
        "stations" => "[\"mote\"]",
        "mac" => "{ preset = \"contiki31\" }",
        _ => return format!("`{key} = …`"),
    };
    format!("{key} = {value}")
}

/// Returns how to write the variant with parameters at the end of a path.
fn variant_of(path: &str) -> Option<&'static str> {
    Some(match path.rsplit('.').next()? {
        "every" => "{ every = { interval = \"5s\" } }",
        "poisson" => "{ poisson = { interval = \"5s\" } }",
        "bursts" => "{ bursts = { interval = \"60s\", exchanges = 5 } }",
        "on-off" => "{ on-off = { interval = \"4s\", on = \"360s\", off = \"360s\" } }",
        "at" => "{ at = [\"1s\", \"10s\"] }",
        "phases" => "{ phases = [\"80s\", \"5s\"] }",
        "percentile" => "{ percentile = 95 }",
        "sum-of" => "{ sum-of = 20 }",
        "settling" => "{ settling = { share = 0.8 } }",
        "done" => "{ done = { window = \"10s\" } }",
        "done-until" => "{ done-until = { stretches = 15 } }",
        "rto-over-time" => "{ rto-over-time = { stretches = 15 } }",
        "classes" => "{ classes = { of = \"rto\", from = [0, 1], names = [\"short\", \"long\"] } }",
        "received" => "{ received = \"goodput\" }",
        "observed" => "{ observed = \"age\" }",
        "handshake" => "{ handshake = \"time\" }",
        "standing-queue" => "{ standing-queue = { link = \"uplink\", above = \"2s\" } }",
        "line" => "{ line = { spacing_m = 10 } }",
        "grid" => "{ grid = { columns = 5, spacing_m = 10 } }",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_of_the_known_names_is_named_if_one_is_near() {
        let message = "unknown variant `copys`, expected one of `copies`, `loss`";
        let expected = "unknown variant `copys`; did you mean `copies`? Expected one of `copies`, `loss`";
        assert_eq!(reworded("values.x.metric", message), expected);
        let far = "unknown field `colour`, expected `window` or `stretches`";
        assert_eq!(reworded("", far), far);
    }
}
